"""Gapless mode: records behind a lost record are not written, until a caller has seen the loss."""

from __future__ import annotations

import pytest

from aioproducer import Delivery
from aioproducer._core import peek
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.gapless import Gap
from aioproducer._state.queues.partition_queue import NO_LEADER
from aioproducer.errors import DeliveryError
from aioproducer.outcome import Outcome
from tests.state.machines import DELIVERY_TIMEOUT, LINGER, Machines, values_of

REFUSED, OUT_OF_ORDER, NOT_LEADER, TOO_LARGE = 87, 45, 6, 10
NOT_WRITTEN, ACKED, PENDING, UNKNOWN = Outcome.NOT_WRITTEN, Outcome.ACKED, Outcome.PENDING, Outcome.UNKNOWN


@pytest.fixture
def m() -> Machines:
    return Machines(gapless=True).introduced(1, 2)


def send(m: Machines, *names: bytes) -> list[Delivery]:
    """A closed batch for each."""
    deliveries = []
    for name in names:
        deliveries.append(m.append(name))
        m.close()
    return deliveries


def fates(*deliveries: Delivery) -> list[Outcome]:
    """The outcomes, without marking them as read."""
    return [peek(delivery)[0] for delivery in deliveries]


def lose_first(m: Machines) -> list[Delivery]:
    """Three records, of which the first is refused while the others are still queued."""
    deliveries = send(m, b"a", b"b", b"c")
    m.answer(m.only(), REFUSED)
    return deliveries


def turn(m: Machines) -> None:
    """The timekeeper takes its turn."""
    m.machines.expiry.expire(m.now)


def written(m: Machines) -> list[tuple[bytes | None, ...]]:
    """All that leaves now."""
    m.later(LINGER)
    found = []
    while batches := m.drain():
        found += [values_of(batch) for batch in batches]
        m.acknowledge(*batches)
    return found


def test_what_is_buffered_behind_a_loss_is_not_written(m: Machines) -> None:
    """The refused record and all behind it fail, each certainly not written."""
    assert fates(*lose_first(m)) == [NOT_WRITTEN] * 3
    assert m.used == 0
    assert m.drain() == []


def test_the_error_names_the_cause_and_what_to_do(m: Machines) -> None:
    """The error of a later record names the lost one."""
    first, second, _ = lose_first(m)
    error = second.exception()
    assert isinstance(error, DeliveryError)
    assert str(error.cause) == str(first.exception())
    assert error.retriable
    assert "an earlier record was lost" in str(error)


def test_other_partitions_go_on(m: Machines) -> None:
    """A gap is one of its partition."""
    lose_first(m)
    other = m.append(b"x", partition=1)
    m.later(LINGER)
    m.acknowledge(m.only(2))
    assert other.outcome is ACKED


def test_what_is_sent_before_anybody_looked_fails_too(m: Machines) -> None:
    """It was sent without knowing of the loss."""
    lose_first(m)
    late = m.append(b"d")
    assert fates(late) == [PENDING]
    turn(m)
    assert fates(late) == [NOT_WRITTEN]
    assert written(m) == []


def test_it_fails_though_somebody_looks_in_the_same_moment(m: Machines) -> None:
    """Reading closes the gap only for records that are sent afterwards."""
    first, *_ = lose_first(m)
    before = m.append(b"d")
    assert first.exception() is not None
    after = m.append(b"e")
    turn(m)
    assert fates(before, after) == [NOT_WRITTEN, PENDING]
    assert written(m) == [(b"e",)]


@pytest.mark.parametrize("which", range(3))
def test_looking_at_any_of_the_failures_closes_the_gap(m: Machines, which: int) -> None:
    """The first that failed or one behind it."""
    deliveries = lose_first(m)
    assert deliveries[which].outcome is NOT_WRITTEN
    send(m, b"a", b"b")
    assert written(m) == [(b"a",), (b"b",)]


def test_looking_at_a_later_failure_closes_the_gap(m: Machines) -> None:
    """The program has dropped the deliveries of all that failed before it, as one that sends and forgets does."""
    lose_first(m).clear()
    late = m.append(b"d")
    turn(m)
    assert late.outcome is NOT_WRITTEN
    send(m, b"e")
    assert written(m) == [(b"e",)]


def test_a_failure_that_was_read_before_the_loss_closes_no_gap(m: Machines) -> None:
    """One record of a batch in flight expires and is read, and the rest of it is refused later."""
    early, rest = m.append(b"a", timeout=1.0), m.append(b"b")
    m.close()
    batch = m.only()
    m.later(1.0)
    assert early.outcome is UNKNOWN
    m.answer(batch, REFUSED)
    late = m.append(b"c")
    turn(m)
    assert fates(rest, late) == [NOT_WRITTEN] * 2
    assert rest.outcome is NOT_WRITTEN
    send(m, b"d")
    assert written(m) == [(b"d",)]


def test_it_closes_no_gap_of_records_that_the_broker_names_either(m: Machines) -> None:
    """The same batch, and the broker refuses it because of the other record."""
    early, named = m.append(b"a", timeout=1.0), m.append(b"b")
    m.close()
    batch = m.only()
    m.later(1.0)
    assert early.outcome is UNKNOWN
    m.answer(batch, REFUSED, record_errors=((1, "it has no key"),))
    late = m.append(b"c")
    turn(m)
    assert fates(named, late) == [NOT_WRITTEN] * 2
    assert named.outcome is NOT_WRITTEN
    send(m, b"d")
    assert written(m) == [(b"d",)]


def test_a_withdrawal_that_was_read_before_the_loss_closes_no_gap(m: Machines) -> None:
    """Both were in one batch, and the loss is that of another record."""
    m.learn(-1, 2)
    withdrawn, expired = m.append(b"a"), m.append(b"b", timeout=1.0)
    assert withdrawn.try_cancel()
    assert withdrawn.outcome is NOT_WRITTEN
    m.later(1.0)
    late = m.append(b"c")
    turn(m)
    assert fates(expired, late) == [NOT_WRITTEN] * 2


def test_the_end_of_a_batch_whose_failures_were_read_leaves_no_gap(m: Machines) -> None:
    """All of its records had expired before, and only its place in the sequence was left."""
    early = m.append(b"a", timeout=1.0)
    m.close()
    m.lose(m.only())
    m.later(1.0)
    assert early.outcome is UNKNOWN
    m.later(DELIVERY_TIMEOUT)
    send(m, b"b")
    assert written(m) == [(b"b",)]


def test_a_topic_with_a_gap_is_not_forgotten(m: Machines) -> None:
    """However long it is idle: a record that is sent later would be written past the lost one."""
    first, *_ = lose_first(m)
    cluster = m.accumulator.cluster
    assert cluster.counted_topics() == {"t"}
    cluster.forget("t")
    late = m.append(b"d")
    turn(m)
    assert fates(late) == [NOT_WRITTEN]
    assert first.outcome is NOT_WRITTEN
    assert cluster.counted_topics() == set()
    cluster.forget("t")
    assert "t" not in cluster.topics


def test_a_flush_report_closes_the_gap(m: Machines) -> None:
    """It counts the lost records."""
    lose_first(m)
    m.machines.losses.gaps_seen()
    send(m, b"a")
    assert written(m) == [(b"a",)]


def test_a_second_loss_opens_a_second_gap(m: Machines) -> None:
    """A gap that was seen does not cover a later loss."""
    first, *_ = lose_first(m)
    assert first.outcome is NOT_WRITTEN
    assert fates(*lose_first(m)) == [NOT_WRITTEN] * 3
    send(m, b"x")
    assert written(m) == []


def in_flight(m: Machines, count: int) -> tuple[list[Delivery], list[QueuedBatch]]:
    deliveries = send(m, *(b"%d" % number for number in range(count)))
    return deliveries, [m.only() for _ in range(count)]


def test_what_was_in_flight_is_refused_by_the_broker_and_fails(m: Machines) -> None:
    """Its number does not follow: it is proven not written, and is not sent again under a new one."""
    deliveries, batches = in_flight(m, 3)
    m.answer(batches[0], REFUSED)
    assert fates(*deliveries) == [NOT_WRITTEN, PENDING, PENDING]
    m.answer(batches[1], OUT_OF_ORDER)
    m.answer(batches[2], OUT_OF_ORDER)
    assert fates(*deliveries) == [NOT_WRITTEN] * 3
    assert m.is_clean()


def test_what_was_in_flight_and_looked_at_meanwhile_fails_too(m: Machines) -> None:
    """The loss was seen and the record sent again, before the broker refused those behind: they are not written after it."""
    deliveries, batches = in_flight(m, 2)
    m.answer(batches[0], REFUSED)
    assert deliveries[0].outcome is NOT_WRITTEN
    send(m, b"0 again")
    m.answer(batches[1], OUT_OF_ORDER)
    assert fates(deliveries[1]) == [NOT_WRITTEN]
    assert written(m) == [(b"0 again",)]


def test_what_was_in_flight_and_is_written_stays_written(m: Machines) -> None:
    """Behind a record of unknown fate: the broker takes what follows only if that is there."""
    (first,) = send(m, b"1")
    m.only()
    m.later(1)
    (second,) = send(m, b"2")
    batch = m.only()
    m.later(DELIVERY_TIMEOUT - 1)
    assert fates(first, second) == [UNKNOWN, PENDING]
    m.acknowledge(batch)
    assert fates(second) == [ACKED]


def test_what_waits_for_its_retry_behind_a_loss_fails(m: Machines) -> None:
    """It was refused before, and is clean."""
    deliveries, batches = in_flight(m, 2)
    m.answer(batches[1], NOT_LEADER)
    m.answer(batches[0], REFUSED)
    assert fates(*deliveries) == [NOT_WRITTEN] * 2
    assert m.is_clean()


def test_what_waits_for_its_retry_before_a_loss_goes_on(m: Machines) -> None:
    """It is not behind the gap."""
    deliveries, batches = in_flight(m, 2)
    m.answer(batches[0], NOT_LEADER)
    m.answer(batches[1], REFUSED)
    assert fates(*deliveries) == [PENDING, NOT_WRITTEN]
    m.wait_for_retry()
    m.acknowledge(m.only())
    assert fates(deliveries[0]) == [ACKED]


def test_a_dirty_batch_behind_a_loss_keeps_its_identity(m: Machines) -> None:
    """It is unknown whether it was written: it is repeated under the same number, until its deadline."""
    deliveries, batches = in_flight(m, 2)
    m.lose(batches[1])
    m.answer(batches[0], REFUSED)
    assert fates(*deliveries) == [NOT_WRITTEN, PENDING]
    before = bytes(batches[1])
    m.wait_for_retry()
    again = m.only()
    assert bytes(again) == before
    m.answer(again, OUT_OF_ORDER)
    m.later(DELIVERY_TIMEOUT)
    assert fates(deliveries[1]) == [UNKNOWN]


def test_a_batch_too_large_behind_a_loss_is_not_split(m: Machines) -> None:
    """It is proven not written, and so it ends."""
    first = send(m, b"a")
    rest = [m.append(b"b"), m.append(b"c")]
    m.close()
    batches = [m.only(), m.only()]
    m.answer(batches[0], REFUSED)
    m.answer(batches[1], TOO_LARGE)
    assert fates(*first, *rest) == [NOT_WRITTEN] * 3
    assert m.is_clean()


def test_a_record_that_expires_takes_with_it_what_is_behind_in_its_batch(m: Machines) -> None:
    """Records before it are written; those behind it are not."""
    m.learn(-1, 2)
    before, expired, behind = (
        m.append(b"1"),
        m.append(b"2", timeout=1.0),
        m.append(b"3"),
    )
    later = send(m, b"4")
    m.later(1.0)
    assert fates(before, expired, behind, *later) == [PENDING, NOT_WRITTEN, NOT_WRITTEN, NOT_WRITTEN]
    m.learn(1, 2)
    assert written(m) == [(b"1",)]


def test_what_is_sent_after_a_record_expired_does_not_join_its_batch(m: Machines) -> None:
    """Records before it are written all the same."""
    m.learn(-1, 2)
    before, expired = m.append(b"1"), m.append(b"2", timeout=0.5)
    m.later(0.5)
    after = m.append(b"3")
    turn(m)
    assert fates(before, expired, after) == [PENDING, NOT_WRITTEN, NOT_WRITTEN]
    m.learn(1, 2)
    assert written(m) == [(b"1",)]


def test_what_stands_between_two_that_expire_is_not_written(m: Machines) -> None:
    """It is behind the first of them."""
    m.learn(-1, 2)
    deliveries = [m.append(b"1", timeout=1.0), m.append(b"2"), m.append(b"3", timeout=1.0)]
    m.later(1.0)
    assert fates(*deliveries) == [NOT_WRITTEN] * 3
    m.learn(1, 2)
    assert written(m) == []


def test_batches_that_expire_together_end_once(m: Machines) -> None:
    """The first that is late ends those behind it, which are late as well."""
    m.learn(-1, 2)
    deliveries = send(m, b"1", b"2", b"3")
    m.later(DELIVERY_TIMEOUT)
    assert fates(*deliveries) == [NOT_WRITTEN] * 3
    assert m.is_clean()


def test_without_numbers_a_record_that_expires_between_two_attempts_is_sent_again() -> None:
    """A batch that was written once goes on as a whole: without that record the others would be written past it."""
    m = Machines(gapless=True, idempotent=False, one_at_a_time=True)
    m.learn(1)
    expired, behind = m.append(b"1", timeout=0.5), m.append(b"2")
    m.later(LINGER)
    m.answer(m.only(), NOT_LEADER)
    m.later(0.5)
    assert fates(expired, behind) == [UNKNOWN, PENDING]
    assert written(m) == [(b"1", b"2")]


def test_withdrawing_is_no_loss(m: Machines) -> None:
    """The caller that withdraws a record knows that it is not written."""
    gone, stays = m.append(b"1"), m.append(b"2")
    assert gone.try_cancel()
    assert written(m) == [(b"2",)]
    assert stays.outcome is ACKED


def test_purging_is_no_loss(m: Machines) -> None:
    """Nor is it if all is taken back."""
    send(m, b"1")
    m.machines.endings.purge(None, m.now)
    send(m, b"2")
    assert written(m) == [(b"2",)]


def test_a_call_that_waited_for_a_serializer_while_a_record_was_lost_fails(m: Machines) -> None:
    """It was made before the loss was seen, though it is placed afterwards."""
    first = send(m, b"a")
    call = m.call(None, partition=0)
    m.clock.monotonic += 0.001
    m.answer(m.only(), REFUSED)
    assert first[0].outcome is NOT_WRITTEN
    assert call.waiting is not None
    call.waiting.record = ReadyRecord(None, b"late", None, None, 0)
    m.admission.advance("t", m.now)
    assert call.delivery is not None
    assert fates(call.delivery) == [NOT_WRITTEN]
    assert written(m) == []


def test_losses_of_many_partitions_do_not_look_at_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four thousand partitions that lose a record at once held the loop for a second."""
    looks = 0

    def is_open(gap: Gap) -> bool:
        nonlocal looks
        looks += 1
        return not gap.seen

    monkeypatch.setattr(Gap, "open", property(is_open))
    m = Machines(gapless=True)
    m.learn(*[NO_LEADER] * 1_000)
    deliveries = [m.append(partition=partition) for partition in range(1_000)]
    m.later(DELIVERY_TIMEOUT)
    assert fates(*deliveries) == [NOT_WRITTEN] * 1_000
    assert looks < 10_000
    assert len(m.machines.losses.gaps) == 1_000


def test_gaps_that_were_read_are_not_kept(m: Machines) -> None:
    """A program that reads each loss, and never flushes, keeps a bounded number of them."""
    for _ in range(1_000):
        (lost,) = send(m, b"a")
        m.answer(m.only(), REFUSED)
        assert lost.outcome is NOT_WRITTEN
    assert len(m.machines.losses.gaps) < 100


def test_without_gapless_the_others_are_written() -> None:
    """It is a choice: by default every record is for itself."""
    m = Machines().introduced(1, 2)
    assert fates(*lose_first(m)) == [NOT_WRITTEN, PENDING, PENDING]
    assert written(m) == [(b"b",), (b"c",)]
