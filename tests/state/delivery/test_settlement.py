"""The outcomes of records after an answer, a lost connection or a deadline; memory comes back on every way."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer._codecs import compress
from aioproducer._core import Delivery
from aioproducer._state.batching.limits import Limits
from aioproducer._state.queues.batches import Anchor, QueuedBatch
from aioproducer.errors import (
    BrokerError,
    DeliveryError,
    DeliveryTimeoutError,
    RecordTooLargeError,
)
from aioproducer.outcome import Outcome
from tests.state.machines import DELIVERY_TIMEOUT, IDENTITY, LINGER, LOST, Machines, read_batch, values_of

TOO_LARGE, DUPLICATE, INVALID_RECORD, DENIED, NOT_ENOUGH, AFTER_APPEND, UNKNOWN_ERROR, NOT_LEADER = (
    10, 46, 87, 29, 19, 20, -1, 6,
)  # fmt: skip


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1, 1)


def send(
    m: Machines, *values: bytes, timeouts: tuple[float | None, ...] = ()
) -> tuple[QueuedBatch, list[Delivery]]:
    """One batch of these records, on its way."""
    times = timeouts or (None,) * len(values)
    deliveries = [m.append(value, timeout=timeout) for value, timeout in zip(values, times, strict=True)]
    m.close()
    return m.only(), deliveries


def resend(m: Machines) -> QueuedBatch:
    m.wait_for_retry()
    return m.only()


def outcomes(deliveries: list[Delivery]) -> list[Outcome]:
    return [delivery.outcome for delivery in deliveries]


def error_of(delivery: Delivery) -> Any:
    return delivery.exception()


# -- success


def test_offsets_follow_the_base_offset(m: Machines) -> None:
    """Record i of a batch has the offset base + i."""
    batch, deliveries = send(m, b"a", b"b")
    m.answer(batch, 0, 40)
    assert [delivery.result().offset for delivery in deliveries] == [40, 41]
    assert m.is_clean()


def test_duplicate_is_success(m: Machines) -> None:
    """DUPLICATE_SEQUENCE_NUMBER: an earlier attempt is in the log, at an offset the broker has forgotten."""
    batch, (delivery,) = send(m, b"a")
    m.lose(batch)
    m.answer(resend(m), DUPLICATE)
    assert delivery.outcome is Outcome.ACKED
    assert delivery.result().offset == -1


def test_log_append_time_is_the_timestamp(m: Machines) -> None:
    """Where the topic stamps records, the answer's time is the record's."""
    batch, (delivery,) = send(m, b"a")
    m.answer(batch, 0, 1, log_append_time=1234)
    assert delivery.result().timestamp == 1234


def test_the_newest_record_in_the_log_is_the_anchor(m: Machines) -> None:
    """A batch knows the record that was acknowledged last before its first attempt."""
    batch, _ = send(m, b"a", b"b")
    assert batch.anchor is None
    m.answer(batch, 0, 40)
    behind, _ = send(m, b"c")
    assert behind.anchor == Anchor(41, IDENTITY, 1)


# -- failures


@pytest.mark.parametrize("code", [17, 21, 29, 32, 43, 44, 76])
def test_a_refusal_is_final_and_proven(m: Machines, code: int) -> None:
    """A batch that the broker refuses before it touches its log is not written, and is not retried."""
    batch, (delivery,) = send(m, b"a")
    m.answer(batch, code, message="no", broker=7)
    error = error_of(delivery)
    assert isinstance(error, BrokerError)
    assert (delivery.outcome, error.code, error.attempts) == (Outcome.NOT_WRITTEN, code, 1)
    assert m.is_clean()


def test_a_refusal_after_a_lost_attempt_proves_nothing(m: Machines) -> None:
    """The lost attempt may be in the log, whatever is said of the second one."""
    batch, (delivery,) = send(m, b"a")
    m.lose(batch)
    m.answer(resend(m), DENIED)
    assert delivery.outcome is Outcome.UNKNOWN


def test_an_unexplained_error_is_final_and_unknown(m: Machines) -> None:
    """UNKNOWN_SERVER_ERROR may have happened after the append."""
    batch, (delivery,) = send(m, b"a")
    m.answer(batch, UNKNOWN_ERROR)
    assert delivery.outcome is Outcome.UNKNOWN


def test_one_bad_partition_does_not_hold_up_the_other(m: Machines) -> None:
    """Answers are settled per partition: error, success, error on alternating partitions (C16)."""
    bad, good = m.append(partition=0), m.append(partition=1)
    m.later(LINGER)
    first, second = m.drain()
    m.answer(first, NOT_LEADER)
    m.acknowledge(second)
    more = m.append(partition=1)
    m.later(LINGER)
    m.acknowledge(m.only())
    assert (bad.outcome, good.outcome, more.outcome) == (Outcome.PENDING, Outcome.ACKED, Outcome.ACKED)


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 89, 100])
def test_a_passing_trouble_is_retried(m: Machines, code: int) -> None:
    """The batch is sent again after its backoff, and its success is a success."""
    batch, (delivery,) = send(m, b"a")
    m.answer(batch, code)
    assert outcomes([delivery]) == [Outcome.PENDING]
    m.acknowledge(resend(m))
    assert outcomes([delivery]) == [Outcome.ACKED]


def test_stale_metadata_is_reported(m: Machines) -> None:
    """NOT_LEADER_OR_FOLLOWER asks for new metadata of the topic."""
    batch, _ = send(m, b"a")
    m.answer(batch, NOT_LEADER)
    assert m.stale == ["t"]


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (lambda m, batch: m.answer(batch, NOT_ENOUGH), Outcome.NOT_WRITTEN),
        (lambda m, batch: m.answer(batch, AFTER_APPEND), Outcome.UNKNOWN),
        (lambda m, batch: m.lose(batch), Outcome.UNKNOWN),
        (lambda m, batch: m.lose(batch, written=False), Outcome.NOT_WRITTEN),
    ],
)
def test_when_the_retries_are_used_up(
    trouble: Callable[[Machines, QueuedBatch], None], expected: Outcome
) -> None:
    """The outcome says whether one of the attempts may be in the log; the error says how many there were."""
    m = Machines(retries=1).introduced(1)
    batch, (delivery,) = send(m, b"a")
    trouble(m, batch)
    trouble(m, resend(m))
    error = error_of(delivery)
    assert type(error) is DeliveryError
    assert (delivery.outcome, error.attempts) == (expected, 2)
    assert error.cause is not None
    assert m.is_clean()


# -- KIP-467


def test_only_named_records_get_their_own_message(m: Machines) -> None:
    """INVALID_RECORD with record errors: the errors of the other records say that they may be sent again."""
    batch, deliveries = send(m, b"a", b"bad", b"c")
    m.answer(batch, INVALID_RECORD, record_errors=((1, "no key"),))
    assert outcomes(deliveries) == [Outcome.NOT_WRITTEN] * 3
    assert "no key" in str(error_of(deliveries[1]))
    assert not error_of(deliveries[1]).retriable
    for other in (deliveries[0], deliveries[2]):
        assert "no key" not in str(error_of(other))
        assert error_of(other).retriable
    assert m.tally.not_written == 3


def test_a_record_error_beyond_the_batch_is_ignored(m: Machines) -> None:
    """A broker that names a record that was not sent does no harm."""
    batch, deliveries = send(m, b"a")
    m.answer(batch, INVALID_RECORD, record_errors=((5, "?"), (-1, "?")))
    assert outcomes(deliveries) == [Outcome.NOT_WRITTEN]


# -- deadlines


def test_never_sent_means_not_written(m: Machines) -> None:
    """A record whose time passes before any attempt is certainly not in the log."""
    m.lead(m.queue(), -1)
    delivery = m.append()
    m.later(DELIVERY_TIMEOUT)
    assert delivery.outcome is Outcome.NOT_WRITTEN
    assert isinstance(error_of(delivery), DeliveryTimeoutError)
    assert m.is_clean()


def test_the_deadline_is_exact(m: Machines) -> None:
    """Pending a moment before the delivery timeout, ended at it."""
    m.lead(m.queue(), -1)
    delivery = m.append()
    m.later(DELIVERY_TIMEOUT - 0.01)
    assert outcomes([delivery]) == [Outcome.PENDING]
    m.later(0.01)
    assert outcomes([delivery]) == [Outcome.NOT_WRITTEN]


def test_on_its_way_means_unknown(m: Machines) -> None:
    """A record whose time passes while it is on its way may be in the log."""
    batch, (delivery,) = send(m, b"a")
    m.later(DELIVERY_TIMEOUT)
    assert delivery.outcome is Outcome.UNKNOWN
    assert m.is_clean()
    m.lose(batch)
    assert m.queue().in_flight == 0


def test_refused_attempts_mean_not_written(m: Machines) -> None:
    """Every attempt was answered by an error that proves that nothing was appended."""
    batch, (delivery,) = send(m, b"a")
    m.answer(batch, NOT_ENOUGH)
    m.later(DELIVERY_TIMEOUT)
    assert delivery.outcome is Outcome.NOT_WRITTEN


def test_a_lost_attempt_means_unknown(m: Machines) -> None:
    """An attempt without an answer may be in the log, though no other is on its way."""
    batch, (delivery,) = send(m, b"a")
    m.lose(batch)
    m.later(DELIVERY_TIMEOUT)
    assert delivery.outcome is Outcome.UNKNOWN


def test_nothing_reached_the_transport(m: Machines) -> None:
    """A batch that was drained but never written is as clean as before."""
    batch, (delivery,) = send(m, b"a")
    m.lose(batch, written=False)
    m.later(DELIVERY_TIMEOUT)
    assert delivery.outcome is Outcome.NOT_WRITTEN


def test_records_of_one_batch_have_their_own_time(m: Machines) -> None:
    """A record accepted later ends later, though it shares its batch."""
    m = Machines(
        Limits(linger=0.5, batch_size=1000, max_request_size=4000, delivery_timeout=DELIVERY_TIMEOUT)
    )
    m.learn(-1)
    early = m.append(b"early")
    m.later(0.4)
    late = m.append(b"late")
    m.later(DELIVERY_TIMEOUT - 0.4)
    assert outcomes([early, late]) == [Outcome.NOT_WRITTEN, Outcome.PENDING]
    m.later(0.4)
    assert late.outcome is Outcome.NOT_WRITTEN


def test_a_record_with_a_timeout_ends_alone(m: Machines) -> None:
    """Its deadline does not shorten the lives of those it shares the batch with."""
    m.lead(m.queue(), -1)
    long, short = m.append(b"long"), m.append(b"short", timeout=1.0)
    m.later(1.0)
    assert outcomes([long, short]) == [Outcome.PENDING, Outcome.NOT_WRITTEN]


def test_a_record_that_comes_behind_longer_ones_ends_in_its_time(m: Machines) -> None:
    """Accepted when the batch is only watched for one with more time: its own end, which is earlier, is not missed."""
    m = Machines(
        Limits(linger=2.0, batch_size=1000, max_request_size=4000, delivery_timeout=DELIVERY_TIMEOUT)
    )
    m.learn(-1)
    short, long = m.append(b"short", timeout=1.0), m.append(b"long", timeout=DELIVERY_TIMEOUT * 2)
    m.later(1.0)
    late = m.append(b"late")
    assert m.next_alarm() == pytest.approx(m.now + 1.0), "the end of the linger"
    m.later(1.0)
    due = m.next_alarm()
    assert due is not None
    assert due <= m.now + DELIVERY_TIMEOUT - 1.0
    m.later(DELIVERY_TIMEOUT - 1.0)
    assert outcomes([short, long, late]) == [Outcome.NOT_WRITTEN, Outcome.PENDING, Outcome.NOT_WRITTEN]


def test_a_longer_timeout_outlives_the_batch(m: Machines) -> None:
    """A record may have more time than the delivery timeout; the alarm is set for the time that is left."""
    m.lead(m.queue(), -1)
    short, long = m.append(b"short"), m.append(b"long", timeout=DELIVERY_TIMEOUT * 2)
    m.later(DELIVERY_TIMEOUT)
    assert outcomes([short, long]) == [Outcome.NOT_WRITTEN, Outcome.PENDING]
    assert m.next_alarm() == pytest.approx(1000.0 + DELIVERY_TIMEOUT * 2)
    m.later(DELIVERY_TIMEOUT)
    assert long.outcome is Outcome.NOT_WRITTEN


def test_an_expired_record_is_left_out_of_the_first_request(m: Machines) -> None:
    """A record that ended before its batch was sent is NOT_WRITTEN; the batch is written without it, and offsets fit."""
    m.lead(m.queue(), -1)
    first, gone, last = m.append(b"first"), m.append(b"gone", timeout=1.0), m.append(b"last")
    m.later(1.0)
    m.lead(m.queue(), 1)
    batch = m.only()
    assert values_of(batch) == (b"first", b"last")
    m.answer(batch, 0, 40)
    assert [first.result().offset, last.result().offset] == [40, 41]
    assert gone.outcome is Outcome.NOT_WRITTEN
    assert m.is_clean()


def test_a_record_that_expires_after_the_first_request_stays_in_the_batch(m: Machines) -> None:
    """A numbered batch is never re-encoded: the expired record is UNKNOWN, and travels on."""
    batch, (long, short) = send(m, b"long", b"short", timeouts=(None, 1.0))
    before = bytes(batch)
    m.answer(batch, NOT_ENOUGH)
    m.later(1.0)
    assert outcomes([long, short]) == [Outcome.PENDING, Outcome.UNKNOWN]
    assert bytes(resend(m)) == before
    m.acknowledge(batch)
    assert outcomes([long, short]) == [Outcome.ACKED, Outcome.UNKNOWN]


def test_an_older_batch_does_not_wait_for_the_parts_of_a_younger_one(m: Machines) -> None:
    """The parts of a split batch do not hide the deadline of batches that were opened before it."""
    m.lead(m.queue(1), -1)
    older = m.append(partition=1)
    m.later(30.0)
    batch, _ = send(m, b"a", b"b")
    m.answer(batch, TOO_LARGE)
    m.later(30.0)
    assert older.outcome is Outcome.NOT_WRITTEN


def test_deadlines_of_records_do_not_pile_up(m: Machines) -> None:
    """A thousand records with a timeout in one batch need one entry in the heap."""
    for _ in range(40):
        m.append(timeout=30.0)
    assert len(m.accumulator.deadlines.heap) == 1


def test_a_scan_for_old_batches_stops_at_the_first_young_one(m: Machines) -> None:
    """The next deadline is found without looking at records."""
    m.lead(m.queue(), -1)
    for number in range(50):
        m.fill(b"%d" % number)
    oldest = m.queue().queue[0]
    m.later(LINGER)
    assert m.accumulator.deadlines.next_deadline() == oldest.opened_at + DELIVERY_TIMEOUT
    assert m.accumulator.deadlines.aging.overdue(m.now) == []


# -- splitting


def big(m: Machines) -> tuple[QueuedBatch, list[Delivery]]:
    return send(m, *(b"%d" % number * 200 for number in range(4)))


def test_a_batch_that_is_too_large_is_split(m: Machines) -> None:
    """Its records go on in smaller batches, in order, under the same range of numbers, and have their offsets."""
    batch, deliveries = big(m)
    m.answer(batch, TOO_LARGE)
    sent, offset = [], 70
    while m.accumulator.live:
        part = resend(m)
        sent.append(read_batch(bytes(part)))
        m.answer(part, 0, offset)
        offset += part.record_count
    assert [value for part in sent for value in part.values] == [b"%d" % number * 200 for number in range(4)]
    assert [part.sequence for part in sent] == [0, 2]
    assert [delivery.result().offset for delivery in deliveries] == [70, 71, 72, 73]
    assert m.is_clean()


def test_parts_that_are_still_too_large_are_split_to_the_last_record(m: Machines) -> None:
    """A broker whose limit takes one record gets one record at a time."""
    batch, deliveries = big(m)
    parts = []
    m.answer(batch, TOO_LARGE)
    while m.accumulator.live:
        part = resend(m)
        if part.record_count > 1:
            m.answer(part, TOO_LARGE)
        else:
            parts.append(part.sequence)
            m.acknowledge(part)
    assert parts == [0, 1, 2, 3]
    assert outcomes(deliveries) == [Outcome.ACKED] * 4


def test_a_single_record_that_is_too_large_fails(m: Machines) -> None:
    """Not written; the error names the limit; the batches behind it go on without a gap in their numbers."""
    batch, (delivery,) = send(m, b"x" * 500)
    m.answer(batch, TOO_LARGE)
    assert delivery.outcome is Outcome.NOT_WRITTEN
    assert isinstance(error_of(delivery), RecordTooLargeError)
    following, (after,) = send(m, b"next")
    assert following.sequence == 0
    m.acknowledge(following)
    assert after.outcome is Outcome.ACKED


@pytest.mark.parametrize(("code", "setting"), [(10, "max.message.bytes"), (18, "segment.bytes")])
def test_a_single_record_that_is_too_large_names_the_setting(m: Machines, code: int, setting: str) -> None:
    """The one of the topic that would have to be raised, with the broker's code and the size that it saw."""
    batch, (delivery,) = send(m, b"x" * 500)
    size = batch.size
    m.answer(batch, code)
    error = error_of(delivery)
    assert isinstance(error, RecordTooLargeError)
    assert (error.setting, error.size, error.limit) == (setting, size, None)
    assert setting in str(error)


def test_a_single_record_that_may_be_written_is_not_called_too_large(m: Machines) -> None:
    """A limit that fell after an attempt without an answer: a handler for large records would take it for not written."""
    batch, (delivery,) = send(m, b"x" * 500)
    m.lose(batch)
    m.answer(resend(m), TOO_LARGE)
    error = error_of(delivery)
    assert delivery.outcome is Outcome.UNKNOWN
    assert isinstance(error, BrokerError)
    assert not isinstance(error, RecordTooLargeError)


def test_parts_do_not_take_attempts(m: Machines) -> None:
    """A split is not a failure of the records: its parts have the attempts that their batch had."""
    batch, _ = big(m)
    m.answer(batch, TOO_LARGE)
    assert {part.attempts for part in m.queue().queue} == {1}


def test_a_flush_waits_for_the_parts(m: Machines) -> None:
    """flush() is done when the last part is."""
    m.append(b"a" * 200)
    m.append(b"b" * 200)
    flush = m.accumulator.flush(m.now)
    m.answer(m.only(), TOO_LARGE)
    m.acknowledge(resend(m))
    assert not flush.done
    m.acknowledge(resend(m))
    assert flush.done


def test_waiters_follow_to_the_parts(m: Machines) -> None:
    """The waiter for a record of a split batch wakes when its part is settled, in the order of the records."""
    told: list[Delivery] = []
    batch, deliveries = big(m)
    for delivery in reversed(deliveries):
        delivery.add_done_callback(told.append)
    m.answer(batch, TOO_LARGE)
    while m.accumulator.live:
        m.acknowledge(resend(m))
    m.loop.turn()
    assert told == deliveries


def test_parts_keep_the_deadlines(m: Machines) -> None:
    """The time of a record goes on, and its own timeout stays with it."""
    batch, (short, long) = send(m, b"a" * 300, b"b" * 300, timeouts=(2.0, None))
    m.answer(batch, TOO_LARGE)
    m.later(2.0)
    assert outcomes([short, long]) == [Outcome.NOT_WRITTEN, Outcome.PENDING]
    m.later(DELIVERY_TIMEOUT - 2.0)
    assert long.outcome is Outcome.NOT_WRITTEN
    assert m.is_clean()


def test_a_part_without_a_waiting_record_is_sent_for_its_numbers(m: Machines) -> None:
    """All of its records had expired: it fills its place in the sequence, and delays no batch behind it."""
    batch, (gone, _) = send(m, b"a" * 300, b"b" * 300, timeouts=(1.0, None))
    m.later(1.0)
    m.answer(batch, TOO_LARGE)
    first = resend(m)
    assert (first.sequence, first.pending, gone.outcome) == (0, 0, Outcome.UNKNOWN)
    m.acknowledge(first)
    m.acknowledge(resend(m))
    assert m.is_clean()


def test_a_part_without_a_waiting_record_ends_at_the_deadline(m: Machines) -> None:
    """No flush waits for it any longer than for a record."""
    batch, _ = send(m, b"a" * 300, b"b" * 300, timeouts=(1.0, None))
    m.later(1.0)
    m.answer(batch, TOO_LARGE)
    flush = m.accumulator.flush(m.now)
    m.later(DELIVERY_TIMEOUT - 1.0)
    assert flush.done
    assert m.is_clean()


def test_parts_know_that_an_attempt_was_lost(m: Machines) -> None:
    """A dirty batch stays dirty in its parts: their end is UNKNOWN."""
    batch, deliveries = big(m)
    m.lose(batch)
    m.answer(resend(m), TOO_LARGE)
    m.later(DELIVERY_TIMEOUT)
    assert outcomes(deliveries) == [Outcome.UNKNOWN] * 4


def test_parts_have_their_header_without_idempotence(m: Machines) -> None:
    """Without numbers the parts are complete batches too."""
    m = Machines(idempotent=False)
    m.learn(1)
    batch, deliveries = big(m)
    m.answer(batch, TOO_LARGE)
    m.wait_for_retry()
    for _ in range(2):
        part = m.only()
        assert read_batch(bytes(part)).producer_id == -1
        m.acknowledge(part)
    assert outcomes(deliveries) == [Outcome.ACKED] * 4


def test_compressed_batches_are_split_by_their_plain_records() -> None:
    """The parts of a compressed batch hold its records, plain."""
    m = Machines(Limits(linger=LINGER, batch_size=1000, max_request_size=4000,
                        delivery_timeout=DELIVERY_TIMEOUT, codec=1)).introduced(1)  # fmt: skip
    m.compress = lambda batch: m.accumulator.compressed(batch, compress(batch.plain_records(), 1), m.now)
    batch, _ = big(m)
    assert batch.size < 300
    m.answer(batch, TOO_LARGE)
    assert values_of(resend(m)) == (b"0" * 200, b"1" * 200)


# -- withdrawing


def test_try_cancel_withdraws_one_record(m: Machines) -> None:
    """The batch is written without it."""
    keep, gone = m.append(b"keep"), m.append(b"gone")
    assert gone.try_cancel()
    assert gone.outcome is Outcome.NOT_WRITTEN
    m.later(LINGER)
    batch = m.only()
    assert values_of(batch) == (b"keep",)
    m.acknowledge(batch)
    assert keep.outcome is Outcome.ACKED
    assert m.is_clean()


def test_try_cancel_of_the_only_record_ends_the_batch(m: Machines) -> None:
    """Nothing is sent, and the memory is free."""
    assert m.append().try_cancel()
    assert m.is_clean()
    m.later(LINGER)
    assert m.drain() == []


@pytest.mark.parametrize("resolved", [False, True])
def test_try_cancel_comes_too_late(m: Machines, resolved: bool) -> None:
    """A drained record cannot be withdrawn, nor one that has its outcome."""
    batch, (delivery,) = send(m, b"a")
    if resolved:
        m.acknowledge(batch)
    assert not delivery.try_cancel()
    assert delivery.outcome is (Outcome.ACKED if resolved else Outcome.PENDING)


def test_a_drained_batch_that_was_not_written_is_not_withdrawn(m: Machines) -> None:
    """Its numbers are given: it keeps its records."""
    batch, (delivery,) = send(m, b"a")
    m.lose(batch, written=False)
    assert not delivery.try_cancel()


def test_purge_withdraws_what_was_never_drained(m: Machines) -> None:
    """Batches in flight and batches that wait for a retry go on."""
    flying, (sent,) = send(m, b"sent")
    m.answer(flying, NOT_LEADER)
    waiting = [m.append(b"a"), m.append(b"b", partition=1)]
    assert m.machines.endings.purge(None, m.now) == 2
    assert outcomes(waiting) == [Outcome.NOT_WRITTEN] * 2
    m.acknowledge(resend(m))
    assert sent.outcome is Outcome.ACKED
    assert m.is_clean()


def test_purge_of_one_topic(m: Machines) -> None:
    """Other topics are left alone."""
    m.learn(1, topic="other")
    kept, gone = m.append(), m.append(topic="other")
    assert m.machines.endings.purge("other", m.now) == 1
    assert outcomes([kept, gone]) == [Outcome.PENDING, Outcome.NOT_WRITTEN]


# -- the end


def test_abandon_gives_every_record_its_outcome(m: Machines) -> None:
    """On its way or lost: UNKNOWN; refused or never sent: NOT_WRITTEN. Nothing stays pending."""
    refused, (a,) = send(m, b"refused")
    m.answer(refused, NOT_LEADER)
    m.append(b"flying", partition=1).add_done_callback(print)
    flying = m.only()
    buffered = m.append(b"buffered")
    m.machines.endings.abandon("the producer was closed", LOST, m.now)
    assert outcomes([a, buffered]) == [Outcome.NOT_WRITTEN] * 2
    assert flying.fate(0)[0] == 3
    assert error_of(a).cause is LOST
    assert m.is_clean()


def test_abandon_tells_in_the_order_of_the_records(m: Machines) -> None:
    """Also where a batch was split."""
    told: list[Delivery] = []
    batch, deliveries = big(m)
    deliveries.append(m.append(b"behind"))
    for delivery in deliveries:
        delivery.add_done_callback(told.append)
    m.answer(batch, TOO_LARGE)
    m.machines.endings.abandon("closed", None, m.now)
    m.loop.turn()
    assert told == deliveries


def test_answers_after_the_end_change_nothing(m: Machines) -> None:
    """A request that was on its way when the producer ended may still be answered."""
    batch, (delivery,) = send(m, b"a")
    m.machines.endings.abandon("closed", None, m.now)
    m.acknowledge(batch)
    assert delivery.outcome is Outcome.UNKNOWN
    assert m.tally.acked == 0


def test_room_is_announced_by_each_end_of_a_batch(m: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits for memory is served when a batch ends, however it ends."""
    rooms: list[object] = []
    serve = m.admission.memory.serve

    def served() -> None:
        rooms.append(m.effects.room_of)
        serve()

    monkeypatch.setattr(m.admission.memory, "serve", served)
    for code in (0, DENIED):
        batch, _ = send(m, b"a")
        m.answer(batch, code)
    assert rooms == [m.node().share] * 2


@pytest.mark.parametrize("seed", range(5))
def test_memory_is_exact_whatever_happens(seed: int) -> None:
    """After any mix of ends every share and the budget are back at zero."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    m = Machines(seed=seed, retries=2).introduced(1, 1, 1)
    flying: list[QueuedBatch] = []
    for _ in range(150):
        m.append(bytes(rng.randrange(300)), partition=rng.randrange(3), timeout=rng.choice([None, 1.0]))
        if rng.random() < 0.5:
            flying += m.drain()
        if flying and rng.random() < 0.4:
            batch = flying.pop(rng.randrange(len(flying)))
            rng.choice(
                [m.acknowledge, m.lose, lambda batch: m.answer(batch, rng.choice([6, 10, 29, 45, 87]))]
            )(batch)
        m.later(rng.choice([0.0, LINGER, 0.3]))
        assert m.used == sum(batch.charged for batch in m.accumulator.live)
    m.machines.endings.abandon("closed", None, m.now)
    assert m.is_clean()
