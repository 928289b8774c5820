"""Sequence numbers in transactions: only the coordinator gives an epoch, and a record leaves under the epoch of its transaction."""

from __future__ import annotations

import pytest

from aioproducer import KafkaError, Outcome
from aioproducer._state.identity.coordinated import CoordinatedIdentity
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.transactions.current import CurrentTransaction
from aioproducer._state.transactions.table import State
from tests.state.machines import Machines

FORMER_ID, NEW_ID = bytes([1]) * 16, bytes([2]) * 16
OUT_OF_ORDER, INVALID_EPOCH, UNKNOWN_PRODUCER, CONCURRENT, TOO_LARGE = 45, 47, 59, 51, 10
NOT_ENOUGH_REPLICAS = 19
TRANSACTIONAL = 0x10


@pytest.fixture
def m() -> Machines:
    """The machines of a transactional producer, with a leader that knows it."""
    return Machines(transactional=True).introduced(1)


@pytest.fixture
def lost(m: Machines) -> list[KafkaError]:
    """The losses that the transaction has seen."""
    return m.losses


def send(m: Machines, count: int) -> list[QueuedBatch]:
    """So many batches, in as many requests."""
    batches = []
    for number in range(count):
        m.fill(b"%d" % number)
        batches.append(m.only())
    return batches


def transaction(m: Machines) -> CurrentTransaction:
    """Its transaction."""
    assert m.machines.transaction is not None
    return m.machines.transaction


def give_up(m: Machines) -> None:
    """The transaction is given up."""
    m.machines.endings.end_all(transaction(m).give_up("given up"), m.now)


def test_batches_say_that_they_are_transactional(m: Machines) -> None:
    """In the attributes of their header, also where they were split."""
    (batch,) = send(m, 1)
    assert bytes(batch.view())[22] & TRANSACTIONAL


def test_those_of_others_do_not() -> None:
    """Of a producer without transactions."""
    (batch,) = send(Machines().introduced(1), 1)
    assert not bytes(batch.view())[22] & TRANSACTIONAL


def begin(m: Machines, added: set[tuple[str, int]] | None = None) -> None:
    """A transaction begins."""
    assert isinstance(m.sequences, CoordinatedIdentity)
    m.sequences.begin(added)


def test_nothing_leaves_before_its_partition_was_added(m: Machines) -> None:
    """On the older version of the protocol; then it leaves when its partition is considered again."""
    added: set[tuple[str, int]] = set()
    begin(m, added)
    m.fill(b"a")
    assert m.drain() == []
    added.add(("t", 0))
    m.accumulator.update_readiness(m.queue(), m.now)
    assert m.only().record_count == 1


def test_no_record_leaves_under_the_epoch_of_the_next_transaction(m: Machines) -> None:
    """The coordinator has ended its transaction and given the next epoch; neither a new batch nor a repetition is sent."""
    (repeated,) = send(m, 1)
    m.fill(b"b")
    m.answer(repeated, CONCURRENT)
    m.wait_for_retry()
    m.sequences.obtained(7000, 9)
    assert m.drain() == []
    give_up(m)
    assert m.is_clean()


@pytest.mark.parametrize("code", [OUT_OF_ORDER, INVALID_EPOCH, UNKNOWN_PRODUCER])
def test_a_broken_sequence_fails_the_batch(m: Machines, lost: list[KafkaError], code: int) -> None:
    """At once, certainly not written, and under the identity that it had: there is no other."""
    identity = m.sequences.identity
    (batch,) = send(m, 1)
    m.answer(batch, code)
    assert batch.settled
    assert [error.outcome for error in lost] == [Outcome.NOT_WRITTEN]
    assert m.sequences.identity == identity


def test_who_stands_behind_waits(m: Machines, lost: list[KafkaError]) -> None:
    """A batch is refused for its number because the one before it is sent again."""
    first, second = send(m, 2)
    m.answer(first, CONCURRENT)
    m.answer(second, OUT_OF_ORDER)
    assert not lost
    m.wait_for_retry()
    for batch in (first, second):
        assert m.only() is batch
        m.acknowledge(batch)
    assert m.is_clean()


def test_what_is_in_doubt_is_asked_for_again(m: Machines, lost: list[KafkaError]) -> None:
    """A number that was refused says nothing of a batch that may be in the log."""
    (batch,) = send(m, 1)
    m.lose(batch)
    m.wait_for_retry()
    m.answer(m.only(), OUT_OF_ORDER)
    assert not lost
    m.wait_for_retry()
    assert m.only() is batch


def test_a_new_identity_mends_everything(m: Machines, lost: list[KafkaError]) -> None:
    """After an abort: numbers begin at 0 under the epoch that the coordinator gave."""
    (batch,) = send(m, 1)
    m.answer(batch, OUT_OF_ORDER)
    m.fill(b"b")
    give_up(m)
    m.sequences.obtained(7000, 9)
    transaction(m).given_up = None
    begin(m)
    m.fill(b"c")
    batch = m.only()
    assert (batch.identity, batch.sequence) == ((7000, 9), 0)
    m.acknowledge(batch)
    assert m.is_clean()


def test_what_is_given_up_is_not_sent_again(m: Machines, lost: list[KafkaError]) -> None:
    """Waiting batches end now, batches in flight when they come back; neither changes the transaction."""
    flying, retried = send(m, 2)
    m.answer(retried, CONCURRENT)
    waiting = m.fill(b"x")
    give_up(m)
    assert (retried.settled, waiting.settled, flying.settled) == (True, True, False)
    m.lose(flying)
    assert flying.settled
    assert lost == []
    assert m.is_clean()


def test_what_is_given_up_is_not_split(m: Machines, lost: list[KafkaError]) -> None:
    """A batch that comes back as too large is not divided into unsendable parts: its records end, and a flush with them."""
    m.fill(b"a", b"b")
    flying = m.only()
    flush = m.accumulator.flush(m.now)
    give_up(m)
    m.answer(flying, TOO_LARGE)
    assert flying.settled
    assert flush.done
    assert lost == []
    assert m.is_clean()


def test_what_comes_back_written_is_acknowledged(m: Machines) -> None:
    """The caller gets the offset, though readers will never see the record."""
    (flying,) = send(m, 1)
    give_up(m)
    m.acknowledge(flying)
    assert flying.base_offset == 100


def test_a_transaction_before_is_waited_for_shortly(m: Machines) -> None:
    """CONCURRENT_TRANSACTIONS passes within milliseconds: its backoff begins at 20 of them."""
    (batch,) = send(m, 1)
    m.answer(batch, CONCURRENT)
    assert 0 < batch.retry_at - m.now < 0.03


def test_a_question_that_was_replaced_is_repeated_shortly(m: Machines) -> None:
    """A leader that asks the coordinator about a later request answers NOT_ENOUGH_REPLICAS to the earlier one, and takes it again.

    So three repetitions come within milliseconds; behind them, replicas are missing.
    """
    (batch,) = send(m, 1)
    waits = []
    for _ in range(5):
        m.answer(batch, NOT_ENOUGH_REPLICAS)
        waits.append(batch.retry_at - m.now)
        m.wait_for_retry()
        assert m.only() is batch
    assert max(waits[:3]) < 0.01
    assert 0.08 <= waits[3] < 0.13
    assert 0.16 <= waits[4] < 0.25


@pytest.mark.parametrize(("retries", "soon"), [(1, 0), (3, 0), (4, 1), (6, 3)])
def test_few_retries_are_kept_for_replicas_that_are_missing(retries: int, soon: int) -> None:
    """Repetitions within milliseconds would use all of them up."""
    m = Machines(transactional=True, retries=retries).introduced(1)
    (batch,) = send(m, 1)
    waits = []
    for _ in range(retries):
        m.answer(batch, NOT_ENOUGH_REPLICAS)
        waits.append(batch.retry_at - m.now)
        m.wait_for_retry()
        assert m.only() is batch
    assert sum(wait < 0.05 for wait in waits) == soon


def test_replicas_that_are_missing_are_waited_for_outside_of_transactions() -> None:
    """The setting `retry_backoff_ms` holds from the first repetition on."""
    m = Machines().introduced(1)
    (batch,) = send(m, 1)
    m.answer(batch, NOT_ENOUGH_REPLICAS)
    assert batch.retry_at - m.now >= 0.08


def test_a_topic_that_was_made_again_is_counted_on(m: Machines) -> None:
    """Its leaders know nothing of the producer and take any number; the report of a new topic may also be wrong."""
    m.learn(1, topic_id=FORMER_ID)
    (batch,) = send(m, 1)
    m.acknowledge(batch)
    m.learn(1, topic_id=NEW_ID)
    (batch,) = send(m, 1)
    assert (batch.identity, batch.sequence) == (m.sequences.identity, 1)


def test_no_event_but_the_coordinator_changes_the_identity(m: Machines, lost: list[KafkaError]) -> None:
    """Topics that are forgotten, remade, shrink and grow: the same epoch, and no number twice."""
    identity = m.sequences.identity
    given: set[tuple[int, int]] = set()
    for leaders, topic_id in ([1, 1], FORMER_ID), ([1], NEW_ID), ([1, 1, 1], NEW_ID), ([1, 1], FORMER_ID):
        m.accumulator.cluster.forget("t")
        m.learn(*leaders, topic_id=topic_id)
        m.learn(1, topic="looked at")
        m.accumulator.cluster.forget("looked at")
        for partition in range(len(leaders)):
            m.fill(b"a", b"b", partition=partition)
            batch = m.only()
            assert batch.identity == identity
            assert (partition, batch.sequence) not in given
            given.add((partition, batch.sequence))
            m.acknowledge(batch)
    assert not lost
    with pytest.raises(AttributeError):
        m.sequences.identity = (7000, 9)  # type: ignore[misc]  # it has no setter: that is the point


def test_topics_that_were_counted_on_are_kept(m: Machines) -> None:
    """As long as the epoch is the same: forgotten, they would begin at 0 again."""
    assert m.accumulator.cluster.counted_topics() == {"t"}
    m.sequences.obtained(7000, 9)
    assert m.accumulator.cluster.counted_topics() == set()


def test_a_gap_is_not_closed_under_the_same_epoch(m: Machines, lost: list[KafkaError]) -> None:
    """A producer without transactions would go on under its own next epoch: here that would tear the transaction."""
    identity = m.sequences.identity
    first, second = send(m, 2)
    m.answer(first, 29)
    m.answer(second, OUT_OF_ORDER)
    m.fill(b"x")
    assert m.drain() == []
    assert m.sequences.identity == identity


def test_what_the_coordinator_is_asked_about_is_not_asked_for_ahead(m: Machines) -> None:
    """A batch was refused for a reason that only the coordinator knows: until the coordinator answers it is not sent again."""
    transaction(m).table.state = State.IN_TRANSACTION
    first, second = send(m, 2)
    m.lose(first, second)
    m.wait_for_retry()
    m.answer(m.only(), OUT_OF_ORDER)
    assert m.only() is second
    m.answer(second, INVALID_EPOCH)
    m.wait_for_retry()
    m.answer(m.only(), OUT_OF_ORDER)
    m.wait_for_retry()
    assert m.only() is first
