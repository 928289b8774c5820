"""The rules by which a partition takes or refuses the batches of idempotent producers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.logs.producer_state import (
    REMEMBERED_BATCHES,
    SEQUENCE_LIMIT,
    Accepted,
    Duplicate,
    ProducedBatch,
    ProducerStates,
    Refused,
    last_sequence,
)

PID = 7


def _batch(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = PID) -> ProducedBatch:
    return ProducedBatch(producer_id, epoch, sequence, count)


class Partition:
    """Appends accepted batches, as a log does."""

    def __init__(self) -> None:
        self.states = ProducerStates(expiration=100.0)
        self.end = 0

    def send(self, batch: ProducedBatch, now: float = 0.0) -> int | ErrorCode:
        """The offset, or the error."""
        verdict = self.states.judge(batch)
        if isinstance(verdict, Accepted):
            offset, self.end = self.end, self.end + batch.count
            self.states.remember(batch, offset, 1000 + offset, now)
            return offset
        return verdict.offset if isinstance(verdict, Duplicate) else verdict.error


@pytest.mark.parametrize(
    ("base", "count", "last"),
    [(0, 1, 0), (5, 3, 7), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 2, 0), (2**31 - 2, 5, 2)],
)
def test_the_last_sequence_wraps(base: int, count: int, last: int) -> None:
    """Sequences count records and continue with 0 after 2^31-1."""
    assert last_sequence(base, count) == last


def test_judging_changes_nothing() -> None:
    """A batch may be judged any number of times before it is appended."""
    states = ProducerStates()
    assert [states.judge(_batch(3)) for _ in range(2)] == [Accepted(), Accepted()]
    assert PID not in states


def test_a_duplicate_has_offset_and_time_of_the_original() -> None:
    """A duplicate returns the offset and the time of the original batch."""
    states = ProducerStates()
    states.remember(_batch(0, 3), 40, 12345, 0.0)
    assert states.judge(_batch(0, 3)) == Duplicate(40, 12345)


def test_five_batches_are_remembered_and_no_sixth() -> None:
    """The oldest of six batches is out of order; the five after it are duplicates."""
    partition = Partition()
    for sequence in range(REMEMBERED_BATCHES + 1):
        partition.send(_batch(sequence))
    answers = [partition.send(_batch(sequence)) for sequence in range(REMEMBERED_BATCHES + 1)]
    assert answers == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1, 2, 3, 4, 5]


def test_a_refusal_says_what_was_expected() -> None:
    """The text has the producer, its epoch, the received sequence and the expected sequence."""
    states = ProducerStates()
    states.remember(_batch(0, 3), 0, 0, 0.0)
    verdict = states.judge(_batch(5))
    assert isinstance(verdict, Refused)
    assert verdict.message == (
        "Out of order sequence number of producer 7 epoch 0: 5 (incoming sequence number), 3 (expected)"
    )


def test_a_duplicate_of_an_old_epoch_is_fenced() -> None:
    """A new epoch forgets the batches of the old one."""
    partition = Partition()
    partition.send(_batch(0))
    partition.send(_batch(0, epoch=1))
    assert partition.send(_batch(0)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("sequence", "answer"), [(0, 1), (1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_a_new_epoch_begins_with_0(sequence: int, answer: int | ErrorCode) -> None:
    """A new epoch begins again with sequence 0."""
    partition = Partition()
    partition.send(_batch(0))
    assert partition.send(_batch(sequence, epoch=4)) == answer


def test_idle_producers_are_forgotten() -> None:
    """After the expiry any sequence is accepted; just before it a gap is refused."""
    partition = Partition()
    partition.send(_batch(0), now=0.0)
    partition.states.expire(99.9)
    assert partition.send(_batch(7)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.states.expire(100.0)
    assert partition.send(_batch(7)) == 1


def test_an_append_keeps_a_producer_alive() -> None:
    """The expiry counts from the newest append."""
    partition = Partition()
    partition.send(_batch(0), now=0.0)
    partition.send(_batch(1), now=60.0)
    partition.states.expire(159.0)
    assert PID in partition.states


def test_one_producer_or_all_can_be_forgotten() -> None:
    """Forgetting one producer leaves the others."""
    partition = Partition()
    for producer_id in (1, 2, 3):
        partition.send(_batch(0, producer_id=producer_id))
    partition.states.forget(2)
    assert [producer_id in partition.states for producer_id in (1, 2, 3)] == [True, False, True]
    partition.states.forget()
    assert len(partition.states) == 0


@given(
    start=st.integers(SEQUENCE_LIMIT - 50, SEQUENCE_LIMIT - 1),
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=12),
)
def test_a_run_of_batches_is_accepted_across_the_wrap(start: int, counts: list[int]) -> None:
    """Consecutive batches are appended wherever 2^31-1 falls among them, and the newest five are duplicates."""
    partition = Partition()
    batches, sequence = [], start
    for count in counts:
        batches.append(_batch(sequence, count))
        sequence = (sequence + count) % SEQUENCE_LIMIT
    offsets = [partition.send(batch) for batch in batches]
    assert offsets == [sum(counts[:i]) for i in range(len(counts))]
    assert [partition.send(batch) for batch in batches[-5:]] == offsets[-5:]
    assert partition.end == sum(counts)


class OneProducer(RuleBasedStateMachine):
    """A producer that sends, repeats, skips and bumps, against a plain list of all appended batches."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = Partition()
        self.appended: list[tuple[ProducedBatch, int]] = []
        self.epoch = 0

    def _of_this_epoch(self) -> list[tuple[ProducedBatch, int]]:
        return [(batch, offset) for batch, offset in self.appended if batch.epoch == self.epoch]

    def _next_sequence(self) -> int:
        known = self._of_this_epoch()
        return (known[-1][0].last_sequence + 1) % SEQUENCE_LIMIT if known else 0

    @rule(count=st.integers(1, 4))
    def send_the_next(self, count: int) -> None:
        """The next batch is always appended at the end."""
        batch, end = _batch(self._next_sequence(), count, self.epoch), self.partition.end
        assert self.partition.send(batch) == end
        self.appended.append((batch, end))

    @rule(back=st.integers(0, 9))
    def repeat(self, back: int) -> None:
        """A repeat of the newest five batches returns its offset; an older batch is refused."""
        known = self._of_this_epoch()
        if back < len(known):
            batch, offset = known[-1 - back]
            expected = offset if back < REMEMBERED_BATCHES else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert self.partition.send(batch) == expected

    @rule(gap=st.integers(1, 5))
    def skip(self, gap: int) -> None:
        """A gap is refused once the log remembers the producer."""
        if self.appended:
            answer = self.partition.send(_batch(self._next_sequence() + gap, epoch=self.epoch))
            assert answer == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def bump(self) -> None:
        """A new epoch begins with sequence 0 and fences the old."""
        old = self.epoch
        known = bool(self._of_this_epoch())
        if known:
            self.epoch += 1
            self.send_the_next(1)
            assert self.partition.send(_batch(0, epoch=old)) == ErrorCode.INVALID_PRODUCER_EPOCH

    @invariant()
    def nothing_else_was_appended(self) -> None:
        """The log has each accepted batch exactly once."""
        assert self.partition.end == sum(batch.count for batch, _ in self.appended)


TestOneProducer = OneProducer.TestCase
