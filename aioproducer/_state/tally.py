"""Counting: what was accepted, written and lost, for reports and statistics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from copy import copy
from typing import TYPE_CHECKING

import attrs

from aioproducer.outcome import Outcome
from aioproducer.records import FlushReport
from aioproducer.stats import BYTES_BOUNDS, RATIO_BOUNDS, SECONDS_BOUNDS, Histogram

if TYPE_CHECKING:
    from aioproducer._state.batches import QueuedBatch
    from aioproducer.errors import KafkaError

FIRST_ERRORS = 10


class Buckets:
    """A histogram while it grows."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def snapshot(self) -> Histogram:
        """What was counted so far."""
        return Histogram(self.bounds, tuple(self.counts), self.total)


@attrs.frozen
class Totals:
    """How many records ended in each outcome."""

    acked: int = 0
    not_written: int = 0
    unknown: int = 0


@attrs.define
class Tally:
    """Everything one producer has counted."""

    acked: int = 0
    acked_bytes: int = 0
    not_written: int = 0
    unknown: int = 0
    retried: int = 0
    batches: int = 0
    requests: int = 0
    suspected_losses: int = 0
    last_ack: float | None = None
    last_error: BaseException | None = None
    failed_by_error: Counter[str] = attrs.Factory(Counter)
    losses_by_topic: Counter[str] = attrs.Factory(Counter)
    queue_time: Buckets = attrs.Factory(lambda: Buckets(SECONDS_BOUNDS))
    request_time: Buckets = attrs.Factory(lambda: Buckets(SECONDS_BOUNDS))
    batch_size: Buckets = attrs.Factory(lambda: Buckets(BYTES_BOUNDS))
    compression_ratio: Buckets = attrs.Factory(lambda: Buckets(RATIO_BOUNDS))
    _first_errors: list[KafkaError] = attrs.Factory(list)
    _reported: Totals = Totals()

    @property
    def totals(self) -> Totals:
        """The outcomes so far."""
        return Totals(self.acked, self.not_written, self.unknown)

    def sent(self, batches: list[QueuedBatch]) -> None:
        """A request with these batches leaves."""
        self.requests += 1
        self.batches += len(batches)
        for batch in batches:
            self.batch_size.add(batch.size)

    def acknowledged(self, batch: QueuedBatch, count: int, size: int, now: float) -> None:
        """A batch was written."""
        self.acked += count
        self.acked_bytes += size
        self.last_ack = now
        self.queue_time.add(batch.drained_at - batch.opened_at)
        self.request_time.add(now - batch.written_at)

    def failed(self, topic: str, count: int, error: KafkaError) -> None:
        """So many records ended with this error."""
        if not count:
            return
        if error.outcome is Outcome.UNKNOWN:
            self.unknown += count
        else:
            self.not_written += count
        self.last_error = error
        self.failed_by_error[error_name(error)] += count
        self.losses_by_topic[topic] += count
        if len(self._first_errors) < FIRST_ERRORS:
            self._first_errors.append(error)

    def report(self) -> FlushReport:
        """What ended since the last report."""
        before, now = self._reported, self.totals
        # Copies: what a batch refers to shall not collect the frames of those who raise it.
        errors, self._first_errors = tuple(map(copy, self._first_errors)), []
        self._reported = now
        return FlushReport(
            acked=now.acked - before.acked,
            not_written=now.not_written - before.not_written,
            unknown=now.unknown - before.unknown,
            first_errors=errors,
        )


def error_name(error: BaseException) -> str:
    """How statistics call an error: Kafka's own name where the broker gave one."""
    return str(getattr(error, "name", type(error).__name__))
