"""Counting outcomes, and the reports that are made of them."""

from __future__ import annotations

import math

import pytest

from aioproducer._callers.owners import Told
from aioproducer._state.buckets import Buckets
from aioproducer._state.delivery import tally as tally_of_producer
from aioproducer._state.delivery import topic_counts
from aioproducer._state.delivery.found import Doubt, Found
from aioproducer._state.delivery.tally import KEPT_FAILURES, Tally
from aioproducer._state.queues.flush import FIRST_ERRORS, Flush
from aioproducer.errors import BrokerError, DeliveryError, DeliveryTimeoutError, KafkaError, error_name
from aioproducer.outcome import Outcome
from aioproducer.records import FlushReport, Resolution
from tests.state.machines import LINGER, Machines

DENIED = 29


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


def resolve(m: Machines, count: int, code: int) -> None:
    """So many records that end with this answer."""
    m.fill(*(b"v",) * count)
    m.answer(m.only(), code, 5 if not code else -1)


class Reader:
    """An owner of reports, which begin here, or at the start."""

    def __init__(self, tally: Tally, *, from_the_start: bool = True) -> None:
        self.tally = tally
        self.told = Told() if from_the_start else tally.told_now()

    def begin(self, m: Machines | None = None) -> Flush:
        """The state of a flush at the beginning of `flush()`."""
        flush = Flush() if m is None else m.accumulator.flush(m.now)
        flush.began = self.tally.told_now()
        return flush

    def end(self, flush: Flush) -> FlushReport:
        """The report at the end of `flush()`."""
        report, self.told = self.tally.report(flush, self.told)
        return report

    def report(self) -> FlushReport:
        """Of a flush that finds everything resolved."""
        return self.end(self.begin())


def numbers(report: FlushReport) -> tuple[int, int, int]:
    return report.acked, report.not_written, report.unknown


def texts(report: FlushReport) -> list[str]:
    return [str(error).split(" (")[0] for error in report.first_errors]


def test_a_report_counts_records_by_their_outcome(m: Machines) -> None:
    """Acknowledged, refused and unknown records of all that ended since the last report."""
    resolve(m, 3, 0)
    resolve(m, 2, DENIED)
    resolve(m, 1, -1)
    report = Reader(m.tally).report()
    assert (report.acked, report.not_written, report.unknown) == (3, 2, 1)
    assert [type(error) for error in report.first_errors] == [BrokerError, BrokerError]


def test_owners_share_their_state_until_a_count_changes(m: Machines) -> None:
    """Each outcome makes a new one; a thousand tasks that begin in between have one object."""
    tally, states = m.tally, [m.tally.told_now()]
    for code in (0, DENIED, -1):
        resolve(m, 1, code)
        states.append(tally.told_now())
        assert tally.told_now() is states[-1]
    assert [told[:4] for told in states] == [(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 1), (1, 1, 1, 2)]


def test_a_report_begins_where_the_last_one_ended(m: Machines) -> None:
    """No report has a record twice."""
    reader = Reader(m.tally)
    resolve(m, 3, DENIED)
    reader.report()
    resolve(m, 1, 0)
    report = reader.report()
    assert (report.acked, report.not_written, report.unknown, report.first_errors) == (1, 0, 0, ())


def test_only_the_first_errors_are_kept() -> None:
    """A report of a million failures holds a few of them; the count is exact."""
    tally = Tally()
    errors = [DeliveryError(str(number)) for number in range(1000)]
    for error in errors:
        tally.failed("t", 1, error, 0.0)
    report = Reader(tally).report()
    assert report.not_written == 1000
    kept = errors[-KEPT_FAILURES:]
    assert list(map(str, report.first_errors)) == list(map(str, kept[:FIRST_ERRORS]))
    assert report.first_errors_dropped


def test_each_owner_is_told_by_itself(m: Machines) -> None:
    """A report to one owner does not change those of others; an owner that begins late gets nothing from before."""
    first, second = Reader(m.tally), Reader(m.tally)
    resolve(m, 2, DENIED)
    late = Reader(m.tally, from_the_start=False)
    assert numbers(first.report()) == (0, 2, 0)
    resolve(m, 1, 0)
    assert (numbers(second.report()), len(second.report().first_errors)) == ((1, 2, 0), 0)
    assert numbers(first.report()) == numbers(late.report()) == (1, 0, 0)


def test_what_came_after_the_call_is_told_by_the_next(m: Machines) -> None:
    """A batch that was open at the call took more records: their failure is counted by the report after this one."""
    reader = Reader(m.tally)
    m.append(b"a")
    m.append(b"b")
    flush = reader.begin(m)
    m.append(b"c")
    m.answer(m.only(), DENIED, -1)
    report = reader.end(flush)
    assert (numbers(report), len(report.first_errors)) == ((0, 2, 0), 1)
    report = reader.report()
    assert (numbers(report), len(report.first_errors)) == ((0, 1, 0), 1)
    assert reader.report() == FlushReport()


def test_an_error_is_told_once(m: Machines) -> None:
    """A failure that a flush waited for is no news for the next one, which has failures of its own."""
    reader = Reader(m.tally)
    m.fill(b"a")
    flush = reader.begin(m)
    m.tally.failed("t", 1, DeliveryError("another"), 0.0)
    m.answer(m.only(), DENIED, -1)
    assert (numbers(report := reader.end(flush)), len(report.first_errors)) == ((0, 1, 0), 1)
    assert "another" not in texts(report)[0]
    report = reader.report()
    assert (numbers(report), texts(report)) == ((0, 1, 0), ["another"])


def test_flushes_that_end_in_the_other_order(m: Machines) -> None:
    """Two tasks of one scope flush: the one that began last tells everything, the other nothing again."""
    reader = Reader(m.tally)
    resolve(m, 1, DENIED)
    m.append(b"a")
    first = reader.begin(m)
    m.append(b"b")
    second = reader.begin(m)
    m.answer(m.only(), DENIED, -1)
    assert numbers(reader.end(second)) == (0, 3, 0)
    assert reader.end(first) == FlushReport()
    assert reader.report() == FlushReport()


def test_dropped_errors_that_were_told_are_not_missed() -> None:
    """Only an owner without these errors in its reports learns that errors are not kept any more."""
    tally = Tally()
    early, late = Reader(tally), Reader(tally)
    tally.failed("t", 1, DeliveryError("first"), 0.0)
    assert not early.report().first_errors_dropped
    for number in range(KEPT_FAILURES):
        tally.failed("t", 1, DeliveryError(str(number)), 0.0)
    assert not (report := early.report()).first_errors_dropped
    assert texts(report)[0] == "0"
    report = late.report()
    assert report.first_errors_dropped
    assert report.not_written == 1 + KEPT_FAILURES


def test_losses_are_counted_by_error_and_topic() -> None:
    """Kafka's name of the error where the broker gave one, else the class."""
    tally = Tally()
    tally.failed("a", 2, BrokerError("no", code=29, name="TOPIC_AUTHORIZATION_FAILED"), 0.0)
    tally.failed("b", 1, DeliveryTimeoutError(outcome=Outcome.UNKNOWN), 0.0)
    assert tally.failed_by_kind == {
        ("a", "TOPIC_AUTHORIZATION_FAILED", Outcome.NOT_WRITTEN): 2,
        ("b", "DeliveryTimeoutError", Outcome.UNKNOWN): 1,
    }
    assert {topic: counts.failed for topic, counts in tally.topics.items()} == {"a": 2, "b": 1}
    assert tally.unknown == 1


def test_topics_are_counted_by_name_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later topics are counted together; a producer may send to ever new topics, and lose their records."""
    monkeypatch.setattr(topic_counts, "MOST_TOPICS", 2)
    tally = Tally()
    for topic in ("a", "b", "c", "d", "a"):
        tally.failed(topic, 1, DeliveryError("late"), 0.0)
    assert {topic: counts.failed for topic, counts in tally.topics.items()} == {"a": 2, "b": 1, "_other": 2}
    assert {topic: count for (topic, _, _), count in tally.failed_by_kind.items()} == {
        "a": 2,
        "b": 1,
        "_other": 2,
    }


def test_kinds_of_failures_are_counted_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later kinds are counted without the name of their topic."""
    monkeypatch.setattr(tally_of_producer, "MOST_KINDS", 1)
    tally = Tally()
    for topic in ("a", "b", "c", "a"):
        tally.failed(topic, 1, DeliveryError("late"), 0.0)
    assert {topic: count for (topic, _, _), count in tally.failed_by_kind.items()} == {"a": 2, "_other": 2}


def test_no_record_no_count() -> None:
    """A batch whose records had all ended before leaves no trace when it fails itself."""
    tally = Tally()
    tally.failed("t", 0, DeliveryError("late"), 0.0)
    assert tally.last_error is None
    assert Reader(tally).report().first_errors == ()


def test_the_records_of_a_partly_expired_batch_are_counted_once(m: Machines) -> None:
    """A record that ended alone is not counted again with the rest of its batch."""
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
    """A returned snapshot stays unchanged."""
    buckets = Buckets((1.0,))
    before = buckets.snapshot()
    buckets.add(0.5)
    assert before.counts == (0, 0)


def test_the_name_of_an_error() -> None:
    """Of the class where there is no code."""
    assert error_name(KafkaError("x")) == "KafkaError"


def found_as(doubts: list[Doubt], outcome: Outcome, reason: str = "") -> Found:
    """All of these records have this outcome in the log."""
    failures = [doubt.failure for doubt in doubts]
    return Found(failures, {failure.number: Resolution(outcome, -1, reason) for failure in failures})


def test_records_that_were_found_count_once(m: Machines) -> None:
    """Of a batch in doubt, one flush covers two records and the next the third."""
    reader = Reader(m.tally)
    m.append(b"a")
    m.append(b"b")
    flush = reader.begin(m)
    m.append(b"c")
    m.answer(m.only(), -1, -1)
    doubts = m.tally.in_doubt(flush, reader.told)
    report, reader.told = m.tally.report(flush, reader.told, found_as(doubts, Outcome.ACKED))
    assert report == FlushReport(acked=2, resolved_acked=2)
    flush = reader.begin()
    doubts = m.tally.in_doubt(flush, reader.told)
    report, reader.told = m.tally.report(flush, reader.told, found_as(doubts, Outcome.UNKNOWN, "so"))
    assert (numbers(report), report.unknown_reasons, len(report.first_errors)) == ((0, 0, 1), {"so": 1}, 1)
    assert m.tally.in_doubt(reader.begin(), reader.told) == []
    assert reader.report() == FlushReport()


def test_errors_behind_those_of_found_records(m: Machines) -> None:
    """The first errors of a report are those of records that are not in the log."""
    for _ in range(FIRST_ERRORS):
        resolve(m, 1, -1)
    flush = Reader(m.tally).begin()
    found = found_as(m.tally.in_doubt(flush, Told()), Outcome.ACKED)
    resolve(m, 1, DENIED)
    flush.began = m.tally.told_now()
    report, _ = m.tally.report(flush, Told(), found)
    assert numbers(report) == (FIRST_ERRORS, 1, 0)
    assert [type(error) for error in report.first_errors] == [BrokerError]
    assert "TOPIC_AUTHORIZATION_FAILED" in texts(report)[0]


def test_the_end_of_the_producer_forgets_batches(m: Machines) -> None:
    """They refer to its memory and its loop."""
    resolve(m, 1, -1)
    assert m.tally.in_doubt(Reader(m.tally).begin(), Told())
    m.tally.forget_batches()
    assert m.tally.in_doubt(Reader(m.tally).begin(), Told()) == []
