"""What tells rows that come again from other rows: how many they are, and the sum of their hashes, whatever their order.

Spark may hand the rows of a task out in another order, and in other Arrow batches, when it repeats it.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final

import attrs
import mmh3
import pyarrow as pa

from aioproducer.spark.shipping.columns import PARTS, Layout

__all__ = ["Fingerprint"]

# No text of a user is likely to be this; and a null must not be the same as an empty text.
NULL: Final = b"\xff\xfe\x00aioproducer\x00null"
MODULUS: Final = 1 << 64


@attrs.define
class Fingerprint:
    """Of all rows that were added so far."""

    rows: int = 0
    total: int = 0

    def add(self, batch: Any, layout: Layout) -> None:
        """Add the rows of an Arrow batch: each is one hash of all parts that are written of it."""
        seeds: Any = repeat(0)
        for name in PARTS:
            column = layout.column(batch, name)
            if column is not None:
                # One part's hash is the seed of the next: what belongs together must stay together.
                seeds = map(mmh3.hash, _items(column), seeds, repeat(False))
        self.rows += len(batch)
        self.total = (self.total + sum(seeds)) % MODULUS

    def __str__(self) -> str:
        return f"{self.rows}:{self.total:016x}"


def _items(column: Any) -> list[Any]:
    """Bytes or text of each row, whatever type the column has."""
    if pa.types.is_timestamp(column.type):
        # The moment itself: as datetimes they depend on the session's time zone, in which some are out of range.
        column = column.cast(pa.int64())
    kind = str(column.type)
    if kind.endswith(("binary", "string")):
        filler = NULL if kind.endswith("binary") else NULL.decode("latin-1")
        items: list[Any] = (column.fill_null(filler) if column.null_count else column).to_pylist()
        return items
    return [repr(item) for item in column.to_pylist()]
