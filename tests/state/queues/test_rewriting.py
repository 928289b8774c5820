"""Batches are taken apart and written anew without a record losing anything."""

from __future__ import annotations

import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import Outcome
from aioproducer._codecs import compress
from aioproducer._core import BATCH_OVERHEAD
from aioproducer._state.queues import rewriting
from aioproducer._state.queues.batches import QueuedBatch
from tests.state.machines import LIMITS, LINGER, LOST, Machines

StoredRecord = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None]

RECORDS: list[StoredRecord] = [
    (1_700_000_000_000, b"key", b"value", (("h", b"1"), ("h", None))),
    (1_600_000_000_000, None, None, None),
    (1_800_000_000_000, b"", b"", (("", b""),)),
    (1_700_000_000_001, None, "ö".encode() * 50, (("ü", b"2"),)),
]


def batch_of(m: Machines, records: list[StoredRecord]) -> QueuedBatch:
    for timestamp, key, value, headers in records:
        topic = m.accumulator.cluster.topics["t"]
        m.path._append_checked(topic, key, value, headers, timestamp, 0, 0.0, False)
    return m.close()


def stored(batch: QueuedBatch) -> list[StoredRecord]:
    return batch.read_records(batch.plain_records())


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_split_keeps_every_field(m: Machines, codec: int) -> None:
    """Timestamps, keys, nulls, headers and order are those that were sent, from whatever codec."""
    batch = batch_of(m, RECORDS)
    if codec:
        batch.replace_records(compress(batch.plain_records(), codec), codec)
    parts = rewriting.split(batch, m.accumulator.maker.replacement, 150)
    assert len(parts) > 1
    assert [record for part in parts for record in stored(part)] == RECORDS


def test_parts_keep_to_the_limit(m: Machines) -> None:
    """A part has at most `limit` bytes, or one record."""
    batch = batch_of(m, RECORDS * 3)
    parts = rewriting.split(batch, m.accumulator.maker.replacement, 140)
    assert all(part.size <= 140 or part.record_count == 1 for part in parts)


def test_the_first_timestamp_of_a_part_is_its_base(m: Machines) -> None:
    """Timestamps are stored as distances from the first one: each part has its own."""
    batch = batch_of(m, RECORDS)
    parts = rewriting.split(batch, m.accumulator.maker.replacement, 1)
    m.sequences.give(m.queue(), parts[1])
    base, latest = struct.unpack_from(">qq", bytes(parts[1]), 27)
    assert base == latest == RECORDS[1][0]


@given(st.lists(st.integers(0, 400), min_size=2, max_size=12))
def test_halving_always_gets_on(sizes: list[int]) -> None:
    """A batch of several records has at least two parts, so splitting ends, with one record each at the latest."""
    m = Machines(attrs.evolve(LIMITS, batch_size=1 << 20)).introduced(1)
    batch = m.fill(*(bytes(size) for size in sizes))
    limit = max(rewriting.largest_record(batch), rewriting.half_of(batch))
    assert len(rewriting.split(batch, m.accumulator.maker.replacement, limit)) >= 2


def test_two_equal_halves(m: Machines) -> None:
    """Four records of one size are halved into two and two."""
    batch = m.fill(*(bytes(200),) * 4)
    parts = rewriting.split(batch, m.accumulator.maker.replacement, rewriting.half_of(batch))
    assert [part.record_count for part in parts] == [2, 2]


def test_settled_records_stay_behind(m: Machines) -> None:
    """Without those that ended; their outcome stays where it was told."""
    deliveries = [m.append(b"%d" % number) for number in range(3)]
    batch = m.close()
    batch.fail_some([1], LOST)
    replacement = rewriting.without_settled(batch, m.accumulator.maker.replacement)
    assert [value for _, _, value, _ in stored(replacement)] == [b"0", b"2"]
    assert batch.forwarded
    assert str(deliveries[1].exception()) == str(LOST)
    assert replacement.pending == 2


def test_a_split_takes_settled_records_along(m: Machines) -> None:
    """The numbers of a batch count all of its records, so all of them travel on; what ended stays ended."""
    deliveries = [m.append(b"%d" % number) for number in range(3)]
    m.later(LINGER)
    batch = m.only()
    batch.fail_some([1], LOST)
    parts = rewriting.split(batch, m.accumulator.maker.replacement, 1)
    assert [part.record_count for part in parts] == [1, 1, 1]
    assert [part.pending for part in parts] == [1, 0, 1]
    assert str(deliveries[1].exception()) == str(LOST)


def test_without_numbers_settled_records_stay_behind_in_a_split() -> None:
    """Where nothing is counted, what ended has no reason to travel on; a part of nothing else could not be written."""
    m = Machines(idempotent=False)
    m.learn(1)
    for number in range(3):
        m.append(b"%d" % number)
    m.later(LINGER)
    batch = m.only()
    batch.fail_some([1], LOST)
    parts = rewriting.split(batch, m.accumulator.maker.replacement, 1)
    assert [value for part in parts for _, _, value, _ in stored(part)] == [b"0", b"2"]


def test_the_largest_record(m: Machines) -> None:
    """A batch that holds just the largest record has the reported size."""
    batch = batch_of(m, RECORDS)
    alone = [batch_of(m, [record]).size for record in RECORDS]
    assert rewriting.largest_record(batch) == max(alone) > BATCH_OVERHEAD


def test_heirs_are_older_than_what_follows(m: Machines) -> None:
    """Their place in the queue is that of the batch they come from, in order."""
    batch = m.fill(*(bytes(200),) * 4)
    following = m.fill()
    parts = rewriting.split(batch, m.accumulator.maker.replacement, 300)
    assert batch.order < parts[0].order < parts[1].order < following.order


TIMES = st.sampled_from((1, 1_000_000, 1_700_000_000_000))


@given(st.lists(TIMES, max_size=4), TIMES, st.sets(st.integers(0, 4)))
def test_what_is_left_is_one_batch_whatever_its_size(first: list[int], usual: int, gone: set[int]) -> None:
    """Timestamps are written as distances from the first one: without that, the others may take more bytes than before."""
    m = Machines().introduced(1)
    deliveries = [m.append(timestamp=timestamp) for timestamp in (*first, usual)]
    full = m.queue().open
    while m.queue().open is full:
        deliveries.append(m.append(timestamp=usual))
    withdrawn = [delivery for at, delivery in enumerate(deliveries) if at in gone and delivery.try_cancel()]
    while batches := m.drain():
        m.acknowledge(*batches)
        m.later(LINGER)
    assert [delivery for delivery in deliveries if delivery.outcome is not Outcome.ACKED] == withdrawn
    assert m.is_clean()
