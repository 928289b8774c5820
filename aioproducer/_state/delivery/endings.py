"""Endings: events outside of the delivery of a batch end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.delivery.former_topic import lost_with_its_topic, may_be_in_the_former_topic
from aioproducer._state.effects import event
from aioproducer.errors import DeliveryError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.delivery.refusals import Refusals
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import TopicQueues
    from aioproducer._state.transactions.giving_up import GivenUp


class Endings:
    """Ends batches that are withdrawn, given up with their transaction, left by their topic or by the producer."""

    def __init__(self, refusals: Refusals) -> None:
        self.refusals = refusals
        self.losses = refusals.losses
        self.outcomes = refusals.losses.outcomes
        self.effects = refusals.effects
        self.accumulator = refusals.losses.accumulator
        self.accumulator.withdraw = self._try_cancel

    @event
    def withdraw(self, batch: QueuedBatch, indexes: list[int], text: str, now: float) -> int:
        """Take records out of a batch that was never drained; returns how many."""
        if self.accumulator.drainer.is_draining or not indexes or batch.attempts or batch.settled:
            return 0
        error = DeliveryError(text, topic=batch.topic, partition=batch.partition)
        return self.outcomes.end_some(batch, indexes, error, now)

    def _try_cancel(self, batch: QueuedBatch, index: int) -> bool:
        # An undrained batch has no backoff, so its opening time is late enough for the check.
        return self.withdraw(batch, [index], "withdrawn by try_cancel()", batch.opened_at) == 1

    @event
    def purge(self, topic: str | None, now: float) -> int:
        """Withdraw everything that was never drained (of one topic)."""
        count = 0
        for batch in list(self.accumulator.live):
            if not batch.attempts and not batch.settled and topic in (None, batch.topic):
                count += self.withdraw(batch, batch.pending_indexes(), "withdrawn by purge()", now)
        return count

    @event
    def remade(self, topic: TopicQueues, now: float) -> None:
        """The topic was deleted and created again: batches that may be in the former topic are not sent to the new one."""
        for queue in topic.all_queues():
            # Without idempotence a batch that waits for a retry has no sequence number, and is in the queue only.
            for batch in dict.fromkeys((*queue.sent, *queue.queue)):
                if not batch.in_flight and may_be_in_the_former_topic(batch):
                    self.losses.fail(batch, lost_with_its_topic(batch, now), now)
            self.accumulator.update_readiness(queue, now)

    @event
    def end_all(self, given_up: GivenUp, now: float) -> None:
        """The transaction is given up: nothing more is sent, and batches that come back unwritten are not sent again."""
        assert self.outcomes.transaction is not None  # noqa: S101  # the caller has a transaction
        self.outcomes.transaction.given_up = given_up
        self.refusals.explain(None, now)
        for batch in self._in_order():
            if not batch.settled and not batch.in_flight and self.outcomes.is_given_up(batch, now):
                self.accumulator.update_readiness(batch.queue, now)

    @event
    def abandon(self, text: str, cause: BaseException | None, now: float) -> None:
        """The end of the producer: every record gets its outcome now."""
        self.refusals.explain(cause, now)
        for batch in self._in_order():
            if batch.settled:
                # An interrupt (Ctrl-C) can end the producer in the middle of a settlement.
                continue
            written = batch.in_flight or batch.dirty or not batch.judged
            error = DeliveryError(
                text,
                outcome=Outcome.UNKNOWN if written else Outcome.NOT_WRITTEN,
                cause=cause or self.outcomes.hindrance(batch),
                **batch.facts(now),
            )
            self.outcomes.conclude(batch, error, now)

    def _in_order(self) -> list[QueuedBatch]:
        # In the order of the records, and so of their callbacks: the parts of a split batch joined `live` late.
        return sorted(self.accumulator.live, key=lambda batch: batch.order)
