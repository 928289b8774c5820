"""What an audited value begins with: `source:sequence:crc32 of the rest:rest`; sequences count from 0 for each source."""

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


class Marks(NamedTuple):
    """Of the values of one Arrow batch; a value without marks has the source '' and the sequence -1."""

    sources: pa.Array
    sequences: Any
    # Whether the rest is what was sent.
    intact: Any


def marked(source: str, sequence: str, rest: str) -> Column:
    """The value for records that are to be audited, of three SQL expressions."""
    from pyspark.sql import functions  # noqa: PLC0415  # not in tasks, which read only

    return functions.expr(
        f"concat(cast({source} as string), ':', cast({sequence} as string), ':', "
        f"lpad(lower(hex(crc32(cast({rest} as binary)))), 8, '0'), ':', cast({rest} as string))"
    )


def marks_of(values: pa.Array) -> Marks:
    """Taken off the values."""
    parts = pc.split_pattern(values.fill_null(b""), b":", max_splits=3)
    counts = np.asarray(pc.list_value_length(parts))
    if (counts == 4).all():
        return _of_parts(parts)
    return _one_by_one(values)


def _of_parts(parts: pa.Array) -> Marks:
    fields = parts.flatten()
    sources, sequences, checks, rests = (fields.take(pa.array(range(at, len(fields), 4))) for at in range(4))
    if not pc.all(pc.match_substring_regex(sequences, rb"^[0-9]{1,18}$")).as_py():
        return _joined([b":".join(part) for part in parts.to_pylist()])
    told = checks.to_pylist()
    intact = np.fromiter(
        (b"%08x" % zlib.crc32(rest) == one for rest, one in zip(rests.to_pylist(), told, strict=True)), bool
    )
    return Marks(sources.cast(pa.string()), np.asarray(sequences.cast(pa.string()).cast(pa.int64())), intact)


def _one_by_one(values: pa.Array) -> Marks:
    return _joined(values.to_pylist())


def _joined(values: list[bytes | None]) -> Marks:
    sources, sequences, intact = [], [], []
    for value in values:
        parts = (value or b"").split(b":", 3)
        good = len(parts) == 4 and parts[1].isdigit() and len(parts[1]) < 19
        sources.append(parts[0].decode(errors="replace") if good else NO_SOURCE)
        sequences.append(int(parts[1]) if good else -1)
        intact.append(good and b"%08x" % zlib.crc32(parts[3]) == parts[2])
    return Marks(pa.array(sources, pa.string()), np.array(sequences, np.int64), np.array(intact, bool))
