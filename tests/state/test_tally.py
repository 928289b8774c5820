"""Counting outcomes, and the reports that are made of them."""

from __future__ import annotations

import math

import pytest

from aioproducer._state.tally import FIRST_ERRORS, Buckets, Tally, error_name
from aioproducer.errors import BrokerError, DeliveryError, DeliveryTimeoutError, KafkaError
from aioproducer.outcome import Outcome
from tests.state.machines import LINGER, Machines

DENIED = 29


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


def resolve(m: Machines, count: int, code: int) -> None:
    """So many records that end with this answer."""
    m.fill(*(b"v",) * count)
    m.answer(m.only(), code, 5 if not code else -1)


def test_a_report_counts_records_by_their_outcome(m: Machines) -> None:
    """Acknowledged, refused and unknown records of all that ended since the last report."""
    resolve(m, 3, 0)
    resolve(m, 2, DENIED)
    resolve(m, 1, -1)
    report = m.tally.report()
    assert (report.acked, report.not_written, report.unknown) == (3, 2, 1)
    assert [type(error) for error in report.first_errors] == [BrokerError, BrokerError]


def test_a_report_begins_where_the_last_one_ended(m: Machines) -> None:
    """Nothing is told twice."""
    resolve(m, 3, DENIED)
    m.tally.report()
    resolve(m, 1, 0)
    report = m.tally.report()
    assert (report.acked, report.not_written, report.unknown, report.first_errors) == (1, 0, 0, ())


def test_only_the_first_errors_are_kept() -> None:
    """A report of a million failures holds a few of them; the count is exact."""
    tally = Tally()
    errors = [DeliveryError(str(number)) for number in range(1000)]
    for error in errors:
        tally.failed("t", 1, error)
    report = tally.report()
    assert report.not_written == 1000
    assert list(map(str, report.first_errors)) == list(map(str, errors[:FIRST_ERRORS]))


def test_losses_are_counted_by_error_and_topic() -> None:
    """Kafka's name of the error where the broker gave one, else the class."""
    tally = Tally()
    tally.failed("a", 2, BrokerError("no", code=29, name="TOPIC_AUTHORIZATION_FAILED"))
    tally.failed("b", 1, DeliveryTimeoutError(outcome=Outcome.UNKNOWN))
    assert tally.failed_by_error == {"TOPIC_AUTHORIZATION_FAILED": 2, "DeliveryTimeoutError": 1}
    assert tally.losses_by_topic == {"a": 2, "b": 1}
    assert tally.unknown == 1


def test_no_record_no_count() -> None:
    """A batch whose records had all ended before leaves no trace when it fails itself."""
    tally = Tally()
    tally.failed("t", 0, DeliveryError("late"))
    assert tally.last_error is None
    assert tally.report().first_errors == ()


def test_the_records_of_a_partly_expired_batch_are_counted_once(m: Machines) -> None:
    """What ended alone is not counted again with the rest of its batch."""
    m.append(timeout=1.0)
    m.append()
    m.close()
    batch = m.only()
    m.later(1.0)
    m.acknowledge(batch)
    assert (m.tally.acked, m.tally.unknown, m.tally.not_written) == (1, 1, 0)


def test_retries_count_records(m: Machines) -> None:
    """Each further attempt counts the records that are still pending."""
    m.fill(b"a", b"b")
    m.answer(m.only(), 6)
    m.wait_for_retry()
    m.acknowledge(m.only())
    assert m.tally.retried == 2


def test_times_of_a_batch(m: Machines) -> None:
    """Time in the queue, from the first record to the drain, and time on its way."""
    m.append()
    m.later(LINGER)
    batch = m.only()
    m.later(0.25)
    m.acknowledge(batch)
    assert m.tally.queue_time.total == pytest.approx(LINGER)
    assert m.tally.request_time.total == pytest.approx(0.25)
    assert m.tally.last_ack == m.now


def test_buckets_have_an_upper_bound_each() -> None:
    """A value that equals a bound belongs below it; one above all bounds is in the last bucket."""
    buckets = Buckets((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        buckets.add(value)
    snapshot = buckets.snapshot()
    assert snapshot.counts == (2, 2, 1)
    assert math.isclose(buckets.total, 104.0)


def test_a_snapshot_does_not_change() -> None:
    """What was handed out stays as it was."""
    buckets = Buckets((1.0,))
    before = buckets.snapshot()
    buckets.add(0.5)
    assert before.counts == (0, 0)


def test_the_name_of_an_error() -> None:
    """Of the class where there is no code."""
    assert error_name(KafkaError("x")) == "KafkaError"
