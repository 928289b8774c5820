"""The compiled encoder of rows: it reads nothing outside of the buffers that it was given."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from aioproducer._core import KINDS, RowEncoder

OFFSETS = struct.pack("<4i", 0, 1, 2, 3)


def add(kind: str, **arguments: Any) -> int:
    return RowEncoder().add(KINDS[kind], **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("json integer", {"length": 2, "width": 8, "data": bytes(15)}),
        ("json integer", {"length": 1, "first": 1, "width": 8, "data": bytes(15)}),
        ("json integer", {"length": 1, "width": 3, "data": bytes(16)}),
        ("json integer", {"length": 1, "width": 8}),
        ("json integer", {"length": -1, "width": 8, "data": bytes(8)}),
        ("json integer", {"length": 1, "first": -1, "width": 8, "data": bytes(8)}),
        ("json integer", {"length": 1 << 62, "first": 1 << 62, "width": 8, "data": bytes(8)}),
        ("json integer", {"length": 9, "width": 1, "data": bytes(9), "validity": b"\xff"}),
        ("json boolean", {"length": 9, "data": b"\xff"}),
        ("boolean", {"length": 1, "first": 8, "data": b"\xff"}),
        ("avro decimal", {"length": 1, "data": bytes(15)}),
        ("number", {"length": 1, "width": 2, "data": bytes(16)}),
        ("json string", {"length": 3, "width": 4, "offsets": OFFSETS, "data": b"ab"}),
        ("json string", {"length": 4, "width": 4, "offsets": OFFSETS, "data": b"abc"}),
        ("json string", {"length": 3, "width": 2, "offsets": OFFSETS, "data": b"abc"}),
        ("json string", {"length": 1, "width": 4, "offsets": struct.pack("<2i", 2, 1), "data": b"abc"}),
        ("json string", {"length": 1, "width": 4, "offsets": struct.pack("<2i", -1, 1), "data": b"abc"}),
        ("json string", {"length": 1, "width": 4, "offsets": OFFSETS}),
        ("json array", {"length": 0, "width": 4}),
        ("record", {"length": 1, "children": (0,)}),
        ("constant", {"children": (-1,)}),
        ("number", {"divisor": 0}),
        ("number", {"factor": 0}),
    ],
)
def test_arrays_that_end_before_their_items(kind: str, arguments: dict[str, Any]) -> None:
    """They are refused when they are added."""
    with pytest.raises(ValueError, match=r"Arrow array|width|children|divisor"):
        add(kind, **arguments)


def test_children_with_too_few_items() -> None:
    """A struct has as many rows as each of its fields, and the offsets of a list end within its items."""
    encoder = RowEncoder()
    child = encoder.add(KINDS["number"], length=2, width=4, data=bytes(8))
    with pytest.raises(ValueError, match="fewer items than its struct"):
        encoder.add(KINDS["record"], length=3, children=(child,))
    with pytest.raises(ValueError, match="lead out of its data at 3"):
        encoder.add(KINDS["avro array"], length=3, width=4, offsets=OFFSETS, children=(child,))
    assert encoder.add(KINDS["record"], length=2, children=(child,)) == 1


@pytest.mark.parametrize("kind", [-1, len(KINDS), 1000])
def test_kinds_that_do_not_exist(kind: int) -> None:
    """They are refused."""
    with pytest.raises(ValueError, match="no kind of node"):
        RowEncoder().add(kind)


def test_rows_that_do_not_exist() -> None:
    """Neither more rows than the root has, nor another root."""
    encoder = RowEncoder()
    encoder.add(KINDS["number"], length=1, width=4, data=b"\1\2\3\4")
    for root, rows in ((1, 1), (-1, 1), (0, 2), (0, -1)):
        with pytest.raises(ValueError, match="no such node"):
            encoder.encode(root, rows, b"")
    offsets, data, unfit = encoder.encode(0, 1, b"\0")
    assert (struct.unpack("<2q", offsets), data, unfit) == ((0, 5), b"\0\1\2\3\4", [])


def test_a_factor_that_is_too_large() -> None:
    """The product of a number and a factor beyond 64 bits does not fit, and does not wrap around."""
    encoder = RowEncoder()
    numbers = struct.pack("<4q", 1 << 61, 1 << 60, -(1 << 61), -(1 << 62))
    root = encoder.add(KINDS["json integer"], length=4, width=8, data=numbers, factor=4)
    _, data, unfit = encoder.encode(root, 4, b",")
    assert data == f",{1 << 62},{-(1 << 63)}".encode()
    assert unfit == [(0, root, 2), (3, root, 2)]


def test_large_rows() -> None:
    """The output grows as it must."""
    encoder = RowEncoder()
    text = b"x" * 300_000
    root = encoder.add(
        KINDS["json string"], length=1, width=8, offsets=struct.pack("<2q", 0, len(text)), data=text
    )
    offsets, data, _ = encoder.encode(root, 1, b"")
    assert (len(data), struct.unpack("<2q", offsets)[1]) == (300_002, 300_002)
