"""The beginning of an audited value: `source:sequence:crc32 of the rest:rest`; sequences count from 0 for each source."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Marks", "marked", "marks_of"]

NO_SOURCE: Final = ""
LENGTH_OF_A_CHECK: Final = 8


class Marks(NamedTuple):
    """The marks of the values of one Arrow batch; a value without marks has the source '' and the sequence -1."""

    sources: pa.Array
    sequences: Any
    # Whether the rest is unchanged.
    intact: Any


def marked(source: str, sequence: str, rest: str) -> Column:
    """The value of an audited record, made of three SQL expressions."""
    from pyspark.sql import functions  # noqa: PLC0415  # not in tasks, which read only

    return functions.expr(
        f"concat(cast({source} as string), ':', cast({sequence} as string), ':', "
        f"lpad(lower(hex(crc32(cast({rest} as binary)))), 8, '0'), ':', cast({rest} as string))"
    )


def marks_of(values: pa.Array) -> Marks:
    """The marks of these values."""
    parts = pc.split_pattern(values.fill_null(b""), b":", max_splits=3)
    if len(values) and (np.asarray(pc.list_value_length(parts)) == 4).all():
        try:
            return _at_once(parts)
        except ValueError:
            pass
    return _one_by_one(values.to_pylist())


def _at_once(parts: pa.Array) -> Marks:
    """The marks of valid values; ValueError if one of them is invalid."""
    fields = parts.flatten()
    sources, numbers, checks, rests = (
        fields.take(pa.array(np.arange(at, len(fields), 4))) for at in range(4)
    )
    texts = numbers.cast(pa.string())
    if not pc.all(pc.ascii_is_decimal(texts)).as_py():
        raise ValueError("a sequence is not a number")
    if not pc.all(pc.equal(pc.binary_length(checks), LENGTH_OF_A_CHECK)).as_py():
        raise ValueError("a checksum does not have 8 digits")
    crcs = np.fromiter(map(zlib.crc32, rests.to_pylist()), ">u4", len(rests))
    # Eight digits are compared as one number.
    found = np.frombuffer(crcs.tobytes().hex().encode(), np.uint64)
    told = np.frombuffer(b"".join(checks.to_pylist()), np.uint64)
    return Marks(sources.cast(pa.string()), np.asarray(texts.cast(pa.int64())), found == told)


def _one_by_one(values: list[bytes | None]) -> Marks:
    sources, sequences, intact = [], [], []
    for value in values:
        parts = (value or b"").split(b":", 3)
        good = len(parts) == 4 and parts[1].isdigit() and len(parts[1]) < 19
        sources.append(parts[0].decode(errors="replace") if good else NO_SOURCE)
        sequences.append(int(parts[1]) if good else -1)
        intact.append(good and b"%08x" % zlib.crc32(parts[3]) == parts[2])
    return Marks(pa.array(sources, pa.string()), np.array(sequences, np.int64), np.array(intact, bool))
