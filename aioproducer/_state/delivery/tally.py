"""Counts of accepted, written and lost records, for reports and statistics."""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from aioproducer._callers.owners import NO_PART, NOTHING, Part, Told
from aioproducer._core import OrdinaryTally
from aioproducer._state.buckets import Buckets
from aioproducer._state.delivery.found import NOTHING_FOUND, Doubt, Found
from aioproducer._state.delivery.topic_counts import MOST_TOPICS, CountsByTopic
from aioproducer._state.queues.flush import FIRST_ERRORS, Failure
from aioproducer.config.names import topic_problem
from aioproducer.errors import error_name
from aioproducer.outcome import Outcome
from aioproducer.records import FlushReport
from aioproducer.stats import BYTES_BOUNDS, OTHER_TOPICS, RATIO_BOUNDS, RECORDS_BOUNDS, SECONDS_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Flush
    from aioproducer.errors import KafkaError

# Errors that are kept for owners of reports whose reports did not include them yet.
KEPT_FAILURES = 100
# Failures of unknown outcome whose batches are kept, so that a flush may look for their records: five of each of a thousand
# partitions, the most that a broken connection leaves.
KEPT_IN_DOUBT = 5_000
# Kinds of failures (topic, error, outcome) with counts of their own.
MOST_KINDS = MOST_TOPICS


@attrs.frozen
class Totals:
    """The number of records with each outcome."""

    acked: int = 0
    not_written: int = 0
    unknown: int = 0


class Tally(OrdinaryTally):
    """All counts of one producer."""

    topics: CountsByTopic
    queue_time: Buckets
    request_time: Buckets
    delivery_time: Buckets
    batch_records: Buckets
    batch_size: Buckets
    last_ack: float | None

    def __init__(self) -> None:
        super().__init__(
            CountsByTopic(),
            queue_time=Buckets(SECONDS_BOUNDS),
            request_time=Buckets(SECONDS_BOUNDS),
            delivery_time=Buckets(SECONDS_BOUNDS),
            batch_records=Buckets(RECORDS_BOUNDS),
            batch_size=Buckets(BYTES_BOUNDS),
        )
        self.compression_ratio = Buckets(RATIO_BOUNDS)
        self.not_written = 0
        self.unknown = 0
        self.retried = 0
        self.batches_split = 0
        self.suspected_losses = 0
        # Failed records of `send_nowait` that were never in a batch; `not_written` counts them too.
        self.never_placed = 0
        self.last_error: BaseException | None = None
        self.last_error_at: float | None = None
        # Failed records by topic, name of the error and outcome.
        self.failed_by_kind: Counter[tuple[str, str, Outcome]] = Counter()
        # Records that were set aside, by the topic that they were meant for.
        self.dead_letters: Counter[str] = Counter()
        self.failures = 0
        self._told = NOTHING
        self._kept: deque[Failure] = deque(maxlen=KEPT_FAILURES)
        self._in_doubt: deque[Doubt] = deque(maxlen=KEPT_IN_DOUBT)

    @property
    def totals(self) -> Totals:
        """The outcomes so far."""
        return Totals(self.acked, self.not_written, self.unknown)

    @property
    def ended(self) -> int:
        """The accepted records that have their outcome."""
        return self.acked + self.not_written + self.unknown - self.never_placed

    def begin_again(self) -> None:
        """The producer is started again: the counts go on."""
        self.last_ack = self.last_error = self.last_error_at = None

    def forget_batches(self) -> None:
        """The producer has ended: no log is searched any more."""
        self._in_doubt.clear()

    def ended_in_failure(self, batch: QueuedBatch, now: float) -> None:
        """A batch ended, and not all of its records were written."""
        self.delivery_time.add(now - batch.opened_at)
        self.batch_records.add(batch.record_count)

    def sent_again(self, batch: QueuedBatch) -> None:
        """The records of a batch wait for another attempt."""
        self.retried += batch.pending
        self.topics[batch.topic].retried += batch.pending

    def failed(
        self, topic: str, count: int, error: KafkaError, now: float, batch: QueuedBatch | None = None
    ) -> Failure | None:
        """So many records (of this batch) ended with this error."""
        if not count:
            return None
        # Together: `told_now` knows by the number of failures that the other counts have changed.
        self.failures += 1
        if error.outcome is Outcome.UNKNOWN:
            self.unknown += count
        else:
            self.not_written += count
        self.went_wrong(error, now)
        self.topics[topic].failed += count
        self.failed_by_kind[self._kind_of(topic, error)] += count
        failure = Failure(self.failures, error, count)
        self._kept.append(failure)
        if batch is not None and error.outcome is Outcome.UNKNOWN:
            self._in_doubt.append(Doubt(failure, batch))
        return failure

    def _kind_of(self, topic: str, error: KafkaError) -> tuple[str, str, Outcome]:
        kind = (self.topics.name_of(topic), error_name(error), error.outcome)
        is_counted = kind in self.failed_by_kind or len(self.failed_by_kind) < MOST_KINDS
        return kind if is_counted else (OTHER_TOPICS, *kind[1:])

    def set_aside(self, topic: str) -> None:
        """The dead letter of a record is written; `topic`: anything that its caller has passed as a name."""
        # Any other text may be a value, or have a lone surrogate, and a page of metrics with that one cannot be encoded.
        is_name = topic_problem(topic) is None
        is_counted = topic in self.dead_letters or len(self.dead_letters) < MOST_TOPICS
        self.dead_letters[topic if is_name and is_counted else OTHER_TOPICS] += 1

    def went_wrong(self, error: BaseException, now: float) -> None:
        """A record or a broker had an error."""
        self.last_error = error
        self.last_error_at = now

    # -- reports

    def told_now(self) -> Told:
        """The state of an owner whose reports include everything up to now; one object until a count changes."""
        told = self._told
        if told.acked != self.acked or told.failures != self.failures:
            told = self._told = Told(self.acked, self.not_written, self.unknown, self.failures)
        return told

    def in_doubt(self, flush: Flush, told: Told) -> list[Doubt]:
        """The records of unknown outcome that a report would include, as far as they are kept."""
        return [doubt for doubt in self._in_doubt if flush.records_of(doubt.failure, told)]

    def report(self, flush: Flush, told: Told, found: Found | None = None) -> tuple[FlushReport, Told]:
        """The report at the end of a flush, and the new state of its owner.

        `found` has the resolutions of the failures of unknown outcome; None: they were not looked for.
        """
        began = flush.began
        now = Told(
            began.acked + flush.acked,
            began.not_written + flush.not_written,
            began.unknown + flush.unknown,
            began.failures,
            _told_ahead(flush, told) if flush.failures or told.ahead else told.ahead,
        )
        acked, not_written = now.acked - told.acked, now.not_written - told.not_written
        unknown = now.unknown - told.unknown
        if acked + not_written + unknown < 0:
            # Two flushes of one scope ended in reverse order, and the later one has reported all of this.
            return FlushReport(), told
        report = FlushReport(acked, not_written, unknown)
        if found is not None:
            report = found.applied_to(report, flush, told)
        if report.not_written or report.unknown:
            report = attrs.evolve(
                report,
                first_errors=self._first_errors(flush, told, found or NOTHING_FOUND),
                first_errors_dropped=self._some_dropped(told, began.failures),
            )
        return report, now

    def _first_errors(self, flush: Flush, told: Told, found: Found) -> tuple[KafkaError, ...]:
        failures = {
            failure.number: failure
            for failure in (*self._kept, *flush.errors, *found.failures)
            if flush.knows_of(failure.number)
        }
        errors = (
            found.error_of(failures[number])
            for number in sorted(failures)
            if number > told.failures and not told.ahead.get(number, NO_PART).is_whole
        )
        return tuple(islice((error for error in errors if error is not None), FIRST_ERRORS))

    def _some_dropped(self, told: Told, until: int) -> bool:
        """Whether unreported errors up to a number are no longer kept."""
        dropped = min(until, self.failures - len(self._kept))
        reported = sum(number <= dropped and part.is_whole for number, part in told.ahead.items())
        return dropped - told.failures > reported


def _told_ahead(flush: Flush, told: Told) -> Mapping[int, Part]:
    """The failures after the begin of a flush that its report includes."""
    both = (*told.ahead.items(), *flush.failures.items())
    ahead: dict[int, Part] = {}
    for number, part in both:
        if number > flush.began.failures:
            ahead[number] = max(part, ahead.get(number, NO_PART))
    return ahead
