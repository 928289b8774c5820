"""The open batch: its bytes, its growth, and that lent bytes never change."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._core import BATCH_OVERHEAD, Batch, BatchSettings, record_size
from aioproducer.errors import DeliveryError
from tests.state.machines import read_batch

NOW = 1_700_000_000_000

data = st.none() | st.binary(max_size=200)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=10), data), min_size=1, max_size=4).map(tuple)
timestamps = st.integers(0, 2**62)
records = st.lists(st.tuples(timestamps, data, data, header_lists), min_size=1, max_size=30)


def open_batch(**settings: Any) -> Batch:
    return Batch("t", 3, 1 << 20, BatchSettings(**settings))


def batch_of(*values: bytes) -> Batch:
    batch = open_batch()
    for value in values:
        batch.append(None, value, None, NOW)
    return batch


# -- bytes


def test_the_header_says_what_the_batch_is() -> None:
    """Every field of the header of a RecordBatch v2, at its place."""
    batch = open_batch()
    for timestamp in (NOW, NOW - 5, NOW + 7):
        batch.append(None, b"v", None, timestamp)
    batch.stamp(0x0102030405060708, 9, 10, crc32c)
    fields = struct.unpack_from(">qiibIhiqqqhii", bytes(batch))
    expected_crc = crc32c(bytes(batch)[21:])
    length = batch.size - 12
    assert fields == (
        0, length, -1, 2, expected_crc, 0, 2, NOW, NOW + 7, 0x0102030405060708, 9, 10, 3,
    )  # fmt: skip


def test_a_batch_without_identity_has_minus_one_everywhere() -> None:
    """Producer id, epoch and sequence of a producer without idempotence."""
    batch = batch_of(b"v")
    batch.stamp(-1, -1, -1, crc32c)
    written = read_batch(bytes(batch))
    assert (written.producer_id, written.epoch, written.sequence) == (-1, -1, -1)


def test_the_compression_is_in_the_attributes() -> None:
    """The codec's number stands in the low bits, and the payload behind the header."""
    batch = batch_of(b"v")
    batch.replace_records(b"compressed", 4)
    batch.stamp(1, 0, 0, crc32c)
    assert bytes(batch)[21:23] == b"\x00\x04"
    assert bytes(batch)[BATCH_OVERHEAD:] == b"compressed"
    assert struct.unpack_from(">i", bytes(batch), 8) == (BATCH_OVERHEAD + len(b"compressed") - 12,)


@given(records)
def test_what_went_in_comes_out(
    written: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None]],
) -> None:
    """Whatever the fields, and however often the memory grew, a batch reads back as it was filled."""
    batch = open_batch()
    for timestamp, key, value, headers in written:
        batch.append(key, value, headers, timestamp)
    assert batch.read_records(batch.plain_records()) == written
    batch.stamp(1, 2, 3, crc32c)
    assert read_batch(bytes(batch)).values == tuple(value for _, _, value, _ in written)


@given(data, data, header_lists)
def test_the_size_of_a_first_record_is_exact(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] | None
) -> None:
    """The charge for a record equals its size."""
    batch = open_batch()
    batch.append(key, value, headers, NOW)
    assert batch.size == BATCH_OVERHEAD + record_size(key, value, headers)


@pytest.mark.parametrize("size", [0, 1, 450, 451, 511, 512, 513, 70_000])
def test_memory_grows_to_any_size(size: int) -> None:
    """The bytes are right on both sides of every step of the growth."""
    batch = batch_of(b"first", bytes(size), b"last")
    assert [value for _, _, value, _ in batch.read_records(batch.plain_records())] == [
        b"first",
        bytes(size),
        b"last",
    ]


def test_a_closed_batch_takes_nothing() -> None:
    """Its number of records may already stand in a header."""
    batch = batch_of(b"v")
    batch.close()
    with pytest.raises(ValueError, match="closed"):
        batch.append(None, b"v", None, NOW)
    assert batch.record_count == 1


# -- bytes that are lent out


def test_lent_bytes_cannot_be_written() -> None:
    """A view of a batch is for reading."""
    batch = batch_of(b"v")
    with pytest.raises(TypeError):
        batch.view()[0] = 1


def test_stamping_again_moves_away_from_lent_bytes() -> None:
    """A transport that still holds the first attempt sends just that; the batch goes on with a copy (KAFKA-19012)."""
    batch = batch_of(b"v" * 100)
    batch.stamp(1, 0, 0, crc32c)
    lent = batch.view()
    before = bytes(lent)
    batch.stamp(1, 1, 5, crc32c)
    assert bytes(lent) == before
    assert read_batch(bytes(batch)).epoch == 1
    assert read_batch(bytes(lent)).epoch == 0


def test_bytes_that_a_checksum_keeps_do_not_change() -> None:
    """They are lent like all bytes of a batch: from the attributes on, for reading only."""
    batch = batch_of(b"v" * 100)
    kept: list[memoryview] = []

    def checksum(covered: Any) -> int:
        kept.append(memoryview(covered))
        return crc32c(covered)

    batch.stamp(1, 0, 0, checksum)
    before = bytes(kept[0])
    assert before == bytes(batch)[21:]
    assert kept[0].readonly
    batch.stamp(1, 1, 5, crc32c)
    assert bytes(kept[0]) == before
    assert read_batch(bytes(batch)).epoch == 1


def test_stamping_bytes_that_nobody_holds_copies_nothing() -> None:
    """The usual way: one memory from the first record to the socket."""
    batch = batch_of(b"v" * 100)
    batch.stamp(1, 0, 0, crc32c)
    before = pyarrow.py_buffer(batch.view()).address
    batch.stamp(1, 1, 5, crc32c)
    assert pyarrow.py_buffer(batch.view()).address == before


def test_lent_bytes_outlive_the_batch() -> None:
    """After the outcome the batch has no bytes any more, but views of them stay valid."""
    batch = batch_of(b"v" * 100)
    batch.stamp(1, 0, 0, crc32c)
    lent = batch.view()
    batch.acknowledge(0)
    assert batch.size == 0
    del batch
    assert read_batch(bytes(lent)).values == (b"v" * 100,)


def test_lent_bytes_do_not_grow() -> None:
    """Memory that is lent out is never moved under its holder."""
    batch = batch_of(b"v")
    lent = batch.view()
    with pytest.raises(BufferError, match="in use"):
        batch.append(None, bytes(10_000), None, NOW)
    assert len(lent) == batch.size
    assert batch.record_count == 1


# -- deadlines


def test_records_of_one_millisecond_share_a_deadline() -> None:
    """Deadlines are kept per run of records, a thousandth of a second each."""
    batch = open_batch(delivery_timeout=10.0)
    for now in (1.0, 1.0005, 1.0015):
        batch.append(None, b"v", None, NOW, now=now)
    assert batch.deadlines() == [11.0, 11.0, 11.0015]
    assert batch.next_deadline() == 11.0


def test_a_deadline_of_its_own() -> None:
    """Earlier or later than the others', it belongs to one record."""
    batch = open_batch(delivery_timeout=10.0)
    batch.append(None, b"a", None, NOW, now=1.0)
    batch.append(None, b"b", None, NOW, now=1.0, deadline=3.0)
    batch.append(None, b"c", None, NOW, now=1.0, deadline=99.0)
    assert batch.deadlines() == [11.0, 3.0, 99.0]
    assert batch.overdue(11.0) == [0, 1]


def test_what_ended_is_not_overdue_again() -> None:
    """The next deadline is that of a record without an outcome."""
    batch = open_batch(delivery_timeout=10.0)
    for now in (1.0, 2.0):
        batch.append(None, b"v", None, NOW, now=now)
    batch.fail_some([0], DeliveryError("late"))
    assert batch.overdue(20.0) == batch.pending_indexes() == [1]
    assert batch.next_deadline() == 12.0


# -- outcomes


def test_some_records_end_before_the_rest() -> None:
    """Their outcome stays when the batch is acknowledged."""
    error = DeliveryError("withdrawn")
    batch = batch_of(b"a", b"b", b"c")
    assert batch.fail_some([1], error) == 1
    assert batch.fail_some([1], DeliveryError("again")) == 0
    assert batch.acknowledge(7) == 2
    assert [batch.fate(index) for index in range(3)] == [(1, None), (2, error), (1, None)]


def test_a_batch_is_settled_once() -> None:
    """A second outcome is a bug, and says so."""
    batch = batch_of(b"v")
    batch.acknowledge(0)
    with pytest.raises(ValueError, match="settled already"):
        batch.fail(DeliveryError("late"))


def test_a_settled_batch_has_no_bytes_to_read_stamp_or_replace() -> None:
    """Its memory was given back: using its bytes is an error, and touches no memory."""
    batch = Batch("t", 0, 1000, BatchSettings())
    batch.append(b"k", b"v", None, 1)
    batch.fail(DeliveryError("refused", topic="t"))
    with pytest.raises(ValueError, match="settled"):
        batch.plain_records()
    with pytest.raises(ValueError, match="settled"):
        batch.stamp(1, 0, 0, crc32c)
    with pytest.raises(ValueError, match="settled"):
        batch.replace_records(b"compressed", 4)


def test_the_repr_tells_state() -> None:
    """Topic, partition, records, bytes, outcome."""
    assert repr(batch_of(b"v")) == "<Batch t-3: 1 records, 69 bytes, pending>"
