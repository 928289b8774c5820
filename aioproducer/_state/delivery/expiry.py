"""Expiry: records end whose delivery time has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.effects import event
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.delivery.losses import Losses
    from aioproducer._state.queues.batches import QueuedBatch


class Expiry:
    """Processes the due lingers, retries and deadlines of batches."""

    def __init__(self, losses: Losses) -> None:
        self.losses = losses
        self.outcomes = losses.outcomes
        self.accumulator = losses.accumulator
        self.effects = losses.effects

    @event
    def expire(self, now: float) -> None:
        """Process all that is due: lingers, ends of backoffs, deadlines of records."""
        deadlines = self.accumulator.deadlines
        deadlines.watch_again()
        leaves = self.accumulator.end_lingers(now)
        for due in deadlines.heap.pop_due(now):
            if isinstance(due, PartitionQueue):
                leaves = self.accumulator.on_timer(due, now) or leaves
                continue
            due.alarms -= 1
            if due.watched_until <= now and not due.settled:
                self._expire(due, now)
        if leaves:
            self.accumulator.cut_lingers(now)
        for batch in deadlines.aging.overdue(now):
            # In gapless mode an earlier loss in this loop may have ended it.
            if not batch.settled:
                self._expire(batch, now)

    def _expire(self, batch: QueuedBatch, now: float) -> None:
        if batch.gap is not None and not batch.attempts:
            self.outcomes.conclude(batch, batch.gap.error(batch, now), now)
            self.accumulator.update_readiness(batch.queue, now)
            return
        indexes = batch.overdue(now)
        spent = not batch.pending and batch.opened_at + batch.delivery_timeout <= now
        if indexes or spent:
            self._end_overdue(batch, indexes, now)
        if not batch.settled:
            self.accumulator.deadlines.watch_rest(batch)
            if batch.queue.open is batch:
                # A record that is accepted later may be due before all remaining ones.
                self.accumulator.deadlines.watch(batch, now + batch.delivery_timeout)

    def _end_overdue(self, batch: QueuedBatch, indexes: list[int], now: float) -> None:
        whole = len(indexes) == batch.pending
        written = batch.in_flight or batch.dirty or (batch.attempts > 0 and not whole)
        error = DeliveryTimeoutError(
            outcome=Outcome.UNKNOWN if written else Outcome.NOT_WRITTEN,
            cause=self.outcomes.hindrance(batch),
            **batch.facts(now),
        )
        if whole:
            self.losses.fail(batch, error, now)
            self.accumulator.update_readiness(batch.queue, now)
        else:
            self.losses.fail_some(batch, indexes, error, now)
