"""Columns of a bulk send: lists, and Arrow arrays read through their buffers."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from aioproducer._core import Column


def binary(array: Any) -> Column:
    """An Arrow binary or string array as a column."""
    width = 8 if pyarrow.types.is_large_binary(array.type) or pyarrow.types.is_large_string(array.type) else 4
    return Column.of_binary(len(array), array.offset, width, *array.buffers())


def values(column: Column) -> list[Any]:
    return [column.value_at(at) for at in range(column.length)]


WORDS = [b"a", None, b"", b"longer than that", b"\x00\xff"]


def test_a_list_is_read_as_it_is() -> None:
    """The objects of a list come out unchanged."""
    column = Column.of_items(list(WORDS))
    assert values(column) == WORDS


@pytest.mark.parametrize("kind", [pyarrow.binary(), pyarrow.large_binary()])
def test_arrow_binary(kind: Any) -> None:
    """Nulls, empty values and any byte, with 32-bit and 64-bit offsets."""
    assert values(binary(pyarrow.array(WORDS, kind))) == WORDS


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_arrow_strings_are_their_utf_8(kind: Any) -> None:
    """Text is sent as the bytes that Arrow holds."""
    assert values(binary(pyarrow.array(["ü", None, ""], kind))) == ["ü".encode(), None, b""]


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_a_slice_begins_at_its_offset(start: int) -> None:
    """A slice shares the buffers of its array, validity bits included."""
    array = pyarrow.array(WORDS * 3, pyarrow.binary())
    assert values(binary(array.slice(start, 7))) == (WORDS * 3)[start : start + 7]


def test_an_array_without_nulls_has_no_validity() -> None:
    """The missing buffer says that everything is there."""
    array = pyarrow.array([b"a", b"b"], pyarrow.binary())
    assert array.buffers()[0] is None
    assert values(binary(array)) == [b"a", b"b"]


def test_numbers() -> None:
    """64-bit integers, also in a slice."""
    array = pyarrow.array([5, 6, 7, 1 << 60], pyarrow.int64()).slice(1)
    column = Column.of_numbers(len(array), array.offset, *array.buffers())
    assert column is not None
    assert values(column) == [6, 7, 1 << 60]


def test_a_null_among_numbers_is_found() -> None:
    """Only within the slice that is sent."""
    array = pyarrow.array([None, 1, 2, None, 3], pyarrow.int64())
    for start, length, expected in ((0, 5, True), (1, 2, False), (1, 3, True), (4, 1, False)):
        part = array.slice(start, length)
        column = Column.of_numbers(len(part), part.offset, *part.buffers())
        assert (column is None) is expected


def test_a_column_keeps_its_buffers_alive() -> None:
    """The array may be gone before the records are appended."""
    array = pyarrow.array([b"x" * 100_000], pyarrow.binary())
    column = binary(array)
    del array
    assert values(column) == [b"x" * 100_000]
