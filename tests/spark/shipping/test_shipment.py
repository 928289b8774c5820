"""The counts of written rows and bytes, made of Arrow's buffers and of the arrays of a result."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pytest

from aioproducer import BatchResult
from aioproducer.spark.shipping.shipment import rows_of_partitions, size_of

VALUES = [b"a", b"", b"bcd", None, b"ef"]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    "part", [slice(0, 5), slice(0, 3), slice(1, 3), slice(2, 4), slice(4, 5), slice(2, 2)], ids=str
)
def test_bytes_of_a_column(kind: Any, part: slice) -> None:
    """A slice counts its own values only, and a null has no bytes."""
    column = pa.array(VALUES, pa.binary()).cast(kind)[part]
    assert size_of(column) == sum(len(value or b"") for value in VALUES[part])


def test_bytes_below_a_null_do_not_count() -> None:
    """A producer of Arrow may leave bytes where a value is null."""
    offsets, data = pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"abcd")
    column = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x01"), offsets, data])
    assert column.to_pylist() == [b"ab", None]
    assert size_of(column) == 2


@pytest.mark.parametrize(
    "numbers", [array("q", [3, -1, 0, 3, 1 << 31]), [3, -1, 0, 3, 1 << 31], array("q")], ids=str
)
def test_rows_of_partitions(numbers: Any) -> None:
    """Rows that were not written have no partition."""
    expected = {3: 2, 0: 1, 1 << 31: 1} if numbers else {}
    assert rows_of_partitions(BatchResult([], numbers)) == expected
