"""A fingerprint of rows: their number, and the sum of their hashes, independent of their order.

Spark may pass the rows of a repeated task in another order, and in other Arrow batches.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final

import attrs
import mmh3
import pyarrow as pa

from aioproducer.spark.shipping.columns import PARTS, Layout, as_bytes

__all__ = ["Fingerprint"]

# An unlikely text; a null must not equal an empty text.
NULL: Final = b"\xff\xfe\x00aioproducer\x00null"
MODULUS: Final = 1 << 64


@attrs.define
class Fingerprint:
    """The fingerprint of all rows that were added so far."""

    rows: int = 0
    total: int = 0

    def add(self, batch: Any, layout: Layout) -> None:
        """Add the rows of an Arrow batch: one hash for each row, of all its written parts."""
        seeds: Any = repeat(0)
        for name in PARTS:
            column = layout.column(batch, name)
            if column is not None:
                # The hash of one part is the seed of the next: parts of one row must stay together.
                seeds = map(mmh3.hash, _items(column), seeds, repeat(False))
        self.rows += len(batch)
        self.total = (self.total + sum(seeds)) % MODULUS

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:016x}"


def _items(column: Any) -> list[Any]:
    """Bytes or text of each row, for any type of column."""
    if pa.types.is_timestamp(column.type):
        # The moment itself: datetimes depend on the session's time zone, and some are out of its range.
        column = column.cast(pa.int64())
    kind = str(column.type)
    if kind.endswith(("binary", "string")):
        filler = NULL if kind.endswith("binary") else NULL.decode("latin-1").encode()
        # Text of Spark may be no UTF-8; it has the hash of its bytes.
        column = as_bytes(column)
        items: list[Any] = (column.fill_null(filler) if column.null_count else column).to_pylist()
        return items
    try:
        return [repr(item) for item in column.to_pylist()]
    except UnicodeDecodeError:
        # Each row by itself: batches do not matter.
        return [_shown(column.slice(at, 1)) for at in range(len(column))]


def _shown(row: Any) -> str:
    """One row; one with text that is not UTF-8 has bytes in place of text."""
    try:
        return repr(row.to_pylist()[0])
    except UnicodeDecodeError:
        return repr(as_bytes(row).to_pylist()[0])
