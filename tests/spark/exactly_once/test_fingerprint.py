"""Fingerprints: the same for the same rows in any order and any batches, and other ones for other rows."""

from __future__ import annotations

import random
from typing import Any, Final

import pyarrow as pa
import pytest

from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.shipping.columns import Layout
from tests.formats.rows import as_text

LAST_SECOND: Final = 253_402_300_799_000_000
LAYOUT = Layout({"key": 0, "value": 1}, "topic")
ROWS: list[tuple[Any, Any]] = [("a", "1"), ("b", "2"), (None, "3"), ("", "4"), ("d", None), ("e", "")]


def fingerprint(rows: list[tuple[Any, Any]], size: int = 10, kind: Any = None) -> str:
    """The fingerprint of these rows, so many in a batch."""
    seen = Fingerprint()
    for at in range(0, len(rows), size):
        columns = [
            pa.array(column, kind or pa.string()) for column in zip(*rows[at : at + size], strict=True)
        ]
        seen.add(pa.record_batch(columns, names=["key", "value"]), LAYOUT)
    return str(seen)


@pytest.mark.parametrize("seed", range(5))
def test_order_and_batches_do_not_matter(seed: int) -> None:
    """Spark may repeat a task with another order and other batches."""
    shuffled = random.Random(seed).sample(ROWS, len(ROWS))
    assert fingerprint(shuffled, size=1 + seed) == fingerprint(ROWS)


@pytest.mark.parametrize("at", range(len(ROWS)))
@pytest.mark.parametrize("other", [("x", "y"), ("", "1"), (None, None), ("a", "2"), ("2", "a")])
def test_another_row_is_noticed(at: int, other: tuple[Any, Any]) -> None:
    """A fingerprint also changes where nulls become empty, or a key gets another's value."""
    changed = [*ROWS[:at], other, *ROWS[at + 1 :]]
    assert fingerprint(changed) != fingerprint(ROWS)


def test_values_that_change_their_keys_are_noticed() -> None:
    """The sets of keys and of values are the same."""
    assert fingerprint([("a", "1"), ("b", "2")]) != fingerprint([("a", "2"), ("b", "1")])


def test_doubled_and_missing_rows_are_noticed() -> None:
    """The fingerprint includes the number of rows."""
    assert len({fingerprint(ROWS), fingerprint(ROWS[1:]), fingerprint(ROWS + ROWS[:1])}) == 3


def test_text_that_is_not_utf_8() -> None:
    """Spark does not check text: it has the fingerprint of its bytes."""
    words = [b"a", b"\xff", b"\xed\xa0\x80"]
    found = []
    for column in (
        as_text(list(words)),
        as_text(list(words)).cast(pa.large_string(), safe=False),
        pa.array(words),
    ):
        seen = Fingerprint()
        seen.add(pa.record_batch([column, column], names=["key", "value"]), LAYOUT)
        found.append(str(seen))
    assert len(set(found)) == 1


def test_headers_that_are_not_utf_8() -> None:
    """Their rows have the same fingerprint in any batches, and other bytes have another one."""
    layout = Layout({"value": 0, "headers": 1}, "topic")

    def of(header: bytes, size: int) -> str:
        pairs = pa.StructArray.from_arrays([as_text([b"k", b"k"]), as_text([b"v", header])], ["key", "value"])
        headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs)
        batch = pa.record_batch([pa.array([b"a", b"b"]), headers], names=["value", "headers"])
        seen = Fingerprint()
        for at in range(0, 2, size):
            seen.add(batch.slice(at, size), layout)
        return str(seen)

    assert of(b"\xff", 1) == of(b"\xff", 2) != of(b"\xfe", 2)


def test_marks_of_every_version_are_found() -> None:
    """Another fingerprint of the same rows would refuse each repeated epoch after an upgrade."""
    assert fingerprint(ROWS) == "6:000000027bc1b5fc"


def test_text_and_bytes_are_the_same() -> None:
    """A column may be cast between two runs, as the written bytes are the same."""
    as_bytes = [
        tuple(None if part is None else part.encode() for part in row) for row in ROWS if None not in row
    ]
    assert fingerprint([row for row in ROWS if None not in row]) == fingerprint(as_bytes, kind=pa.binary())  # type: ignore[arg-type]


@pytest.mark.parametrize("moments", [[1_700_000_000_123_456, None], [LAST_SECOND]], ids=["now", "year 9999"])
def test_the_time_zone_of_the_session_does_not_matter(moments: list[int | None]) -> None:
    """The moments are the same; as dates they differ, and the last of all is out of range east of Greenwich."""
    found = set()
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        seen = Fingerprint()
        columns = [pa.array(["a"] * len(moments)), pa.array(moments, pa.timestamp("us", zone))]
        seen.add(
            pa.record_batch(columns, names=["value", "timestamp"]),
            Layout({"value": 0, "timestamp": 1}, "topic"),
        )
        found.add(str(seen))
    assert len(found) == 1


def test_another_moment_is_noticed() -> None:
    """A difference of a microsecond counts, and so does a missing timestamp."""
    found = set()
    for moment in (0, 1, None):
        seen = Fingerprint()
        columns = [pa.array(["a"]), pa.array([moment], pa.timestamp("us", "UTC"))]
        seen.add(
            pa.record_batch(columns, names=["value", "timestamp"]),
            Layout({"value": 0, "timestamp": 1}, "topic"),
        )
        found.add(str(seen))
    assert len(found) == 3
