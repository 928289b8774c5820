"""Counts of accepted, written and lost records, for reports and statistics."""

from __future__ import annotations

from collections import Counter, deque
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from aioproducer._callers.owners import Told
from aioproducer._state.buckets import Buckets
from aioproducer._state.delivery.topic_counts import MOST_TOPICS, CountsByTopic
from aioproducer._state.queues.flush import FIRST_ERRORS, Failure
from aioproducer.errors import error_name
from aioproducer.outcome import Outcome
from aioproducer.records import FlushReport
from aioproducer.stats import BYTES_BOUNDS, OTHER_TOPICS, RATIO_BOUNDS, RECORDS_BOUNDS, SECONDS_BOUNDS

if TYPE_CHECKING:
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Flush
    from aioproducer.errors import KafkaError

# Errors that are kept for owners of reports whose reports did not include them yet.
KEPT_FAILURES = 100
# Kinds of failures (topic, error, outcome) with counts of their own.
MOST_KINDS = MOST_TOPICS


@attrs.frozen
class Totals:
    """The number of records with each outcome."""

    acked: int = 0
    not_written: int = 0
    unknown: int = 0


@attrs.define
class Tally:
    """All counts of one producer."""

    acked: int = 0
    acked_bytes: int = 0
    not_written: int = 0
    unknown: int = 0
    retried: int = 0
    batches: int = 0
    batches_split: int = 0
    requests: int = 0
    suspected_losses: int = 0
    # Failed records of `send_nowait` that were never in a batch; `not_written` counts them too.
    never_placed: int = 0
    last_ack: float | None = None
    last_error: BaseException | None = None
    last_error_at: float | None = None
    topics: CountsByTopic = attrs.Factory(CountsByTopic)
    # Failed records by topic, name of the error and outcome.
    failed_by_kind: Counter[tuple[str, str, Outcome]] = attrs.Factory(Counter)
    # Records that were set aside, by the topic that they were meant for.
    dead_letters: Counter[str] = attrs.Factory(Counter)
    queue_time: Buckets = attrs.Factory(lambda: Buckets(SECONDS_BOUNDS))
    request_time: Buckets = attrs.Factory(lambda: Buckets(SECONDS_BOUNDS))
    delivery_time: Buckets = attrs.Factory(lambda: Buckets(SECONDS_BOUNDS))
    batch_records: Buckets = attrs.Factory(lambda: Buckets(RECORDS_BOUNDS))
    batch_size: Buckets = attrs.Factory(lambda: Buckets(BYTES_BOUNDS))
    compression_ratio: Buckets = attrs.Factory(lambda: Buckets(RATIO_BOUNDS))
    failures: int = 0
    _kept: deque[Failure] = attrs.Factory(lambda: deque(maxlen=KEPT_FAILURES))

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

    def sent(self, batches: list[QueuedBatch]) -> None:
        """A request with these batches leaves."""
        self.requests += 1
        self.batches += len(batches)
        for batch in batches:
            self.batch_size.add(batch.size)
            self.topics[batch.topic].batches += 1

    def acknowledged(self, batch: QueuedBatch, count: int, size: int, now: float) -> None:
        """A batch was written."""
        opened_at = batch.opened_at
        topic = self.topics[batch.topic]
        topic.acked += count
        topic.acked_bytes += size
        self.acked += count
        self.acked_bytes += size
        self.last_ack = now
        self.queue_time.add(batch.drained_at - opened_at)
        self.request_time.add(now - batch.written_at)
        self.delivery_time.add(now - opened_at)
        self.batch_records.add(batch.record_count)

    def ended_in_failure(self, batch: QueuedBatch, now: float) -> None:
        """A batch ended, and not all of its records were written."""
        self.delivery_time.add(now - batch.opened_at)
        self.batch_records.add(batch.record_count)

    def sent_again(self, batch: QueuedBatch) -> None:
        """The records of a batch wait for another attempt."""
        self.retried += batch.pending
        self.topics[batch.topic].retried += batch.pending

    def failed(self, topic: str, count: int, error: KafkaError, now: float) -> Failure | None:
        """So many records ended with this error."""
        if not count:
            return None
        if error.outcome is Outcome.UNKNOWN:
            self.unknown += count
        else:
            self.not_written += count
        self.went_wrong(error, now)
        self.topics[topic].failed += count
        self.failed_by_kind[self._kind_of(topic, error)] += count
        self.failures += 1
        failure = Failure(self.failures, error)
        self._kept.append(failure)
        return failure

    def _kind_of(self, topic: str, error: KafkaError) -> tuple[str, str, Outcome]:
        kind = (self.topics.name_of(topic), error_name(error), error.outcome)
        is_counted = kind in self.failed_by_kind or len(self.failed_by_kind) < MOST_KINDS
        return kind if is_counted else (OTHER_TOPICS, *kind[1:])

    def set_aside(self, topic: str) -> None:
        """The dead letter of a record is written."""
        is_counted = topic in self.dead_letters or len(self.dead_letters) < MOST_TOPICS
        self.dead_letters[topic if is_counted else OTHER_TOPICS] += 1

    def went_wrong(self, error: BaseException, now: float) -> None:
        """A record or a broker had an error."""
        self.last_error = error
        self.last_error_at = now

    # -- reports

    def told_now(self) -> Told:
        """The state of an owner whose reports include everything up to now."""
        return Told(self.acked, self.not_written, self.unknown, self.failures)

    def report(self, flush: Flush, told: Told) -> tuple[FlushReport, Told]:
        """The report at the end of a flush, and the new state of its owner."""
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
        lost = not_written + unknown > 0
        report = FlushReport(
            acked,
            not_written,
            unknown,
            self._first_errors(flush, told) if lost else (),
            first_errors_dropped=lost and self._some_dropped(told, began.failures),
        )
        return report, now

    def _first_errors(self, flush: Flush, told: Told) -> tuple[KafkaError, ...]:
        before = self._failures_between(told, flush.began.failures)
        # Copies: the errors that batches refer to must not collect the frames of raises.
        return tuple(copy(error) for error in (*before, *flush.errors)[:FIRST_ERRORS])

    def _failures_between(self, told: Told, until: int) -> list[KafkaError]:
        """The first errors up to a number that were not reported to an owner, as far as they are kept."""
        found = (
            failure.error
            for failure in self._kept
            if told.failures < failure.number <= until and failure.number not in told.ahead
        )
        return list(islice(found, FIRST_ERRORS))

    def _some_dropped(self, told: Told, until: int) -> bool:
        """Whether unreported errors up to a number are no longer kept."""
        dropped = min(until, self.failures - len(self._kept))
        return dropped - told.failures > sum(number <= dropped for number in told.ahead)


def _told_ahead(flush: Flush, told: Told) -> frozenset[int]:
    """The failures after the begin of a flush that its report includes."""
    wholly = {number for number, is_whole in flush.failures.items() if is_whole}
    return frozenset(number for number in told.ahead | wholly if number > flush.began.failures)
