"""Outcomes: the records of a batch end, and its memory returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._core import OrdinaryOutcomes
from aioproducer._state.delivery.former_topic import was_sent_to_the_former_topic
from aioproducer._state.delivery.slowness import SLOW
from aioproducer._state.delivery.verdicts import verdict
from aioproducer._state.effects import Ended, OffsetWentBack, Settled
from aioproducer._state.queues.flushing import records_failed
from aioproducer._state.queues.partition_queue import NO_LEADER
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer.errors import BrokerError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.delivery.tally import Tally
    from aioproducer._state.effects import Effects
    from aioproducer._state.identity.sequences import Sequences
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Flush
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer.errors import KafkaError


class Outcomes(OrdinaryOutcomes):
    """Gives the records of a batch their outcome, which other classes of this room decide, and frees its memory."""

    accumulator: Accumulator
    effects: Effects
    sequences: Sequences
    tally: Tally
    transaction: CurrentTransaction | None

    def __init__(
        self, accumulator: Accumulator, tally: Tally, transaction: CurrentTransaction | None
    ) -> None:
        super().__init__(accumulator, tally, transaction, SLOW)

    _was_sent_to_the_former_topic = staticmethod(was_sent_to_the_former_topic)

    def _report_outcome(
        self, batch: QueuedBatch, count: int, size: int, now: float, contexts: tuple[object, ...]
    ) -> None:
        self.effects.reports.append(Settled(batch, count, size, None, now, contexts))

    def _offset_went_back(self, batch: QueuedBatch, offset: int, expected: int, now: float) -> None:
        self.tally.suspected_losses += 1
        self.effects.reports.append(OffsetWentBack(batch, offset, expected, now))

    def conclude(self, batch: QueuedBatch, error: KafkaError, now: float) -> None:
        """Every record of the batch that has no outcome yet ends with this error."""
        self.leave_queue(batch)
        size = batch.size
        contexts = self._contexts_of(batch)
        count = batch.fail(error)
        self.tally.ended_in_failure(batch, now)
        if error.outcome is Outcome.UNKNOWN:
            self.sequences.unknown(batch.queue, batch)
        else:
            self.sequences.not_appended(batch.queue, batch)
        flushed = self._failed(batch, error, count, now, size=size, contexts=contexts)
        # Wake the task that reports failures of unread deliveries.
        self.effects.wake_by(batch.opened_at)
        self._end(batch)
        self.effects.flushed.extend(flushed)
        if batch.attempts:
            self._report_the_end(batch, count, error, now)

    def end_some(self, batch: QueuedBatch, indexes: list[int], error: KafkaError, now: float) -> int:
        """End these records of the batch; the batch ends with its last record."""
        if len(indexes) == batch.pending:
            count = batch.pending
            self.conclude(batch, error, now)
        else:
            count = self.fail_records(batch, indexes, error, now)
        self.accumulator.update_readiness(batch.queue, now)
        return count

    def fail_records(self, batch: QueuedBatch, indexes: list[int], error: KafkaError, now: float) -> int:
        """These records of the batch fail, and the batch goes on; returns how many had no outcome yet."""
        contexts = self._contexts_of(batch, indexes)
        count = batch.fail_some(indexes, error)
        flushed = self._failed(batch, error, count, now, indexes, size=batch.size, contexts=contexts)
        self.effects.flushed.extend(flushed)
        return count

    def _failed(
        self,
        batch: QueuedBatch,
        error: KafkaError,
        count: int,
        now: float,
        indexes: Collection[int] | None = None,
        *,
        size: int,
        contexts: tuple[object, ...],
    ) -> list[Flush]:
        """So many records of the batch (those at `indexes`, or all) failed; returns the flushes that this completes."""
        if batch.in_flight:
            self.accumulator.records_in_flight -= count
        failure = self.tally.failed(batch.topic, count, error, now, batch)
        if failure is None:
            return []
        if self.effects.reports_outcomes:
            self.effects.reports.append(Settled(batch, count, size, error, now, contexts))
        return records_failed(batch, failure, indexes)

    def _contexts_of(self, batch: QueuedBatch, indexes: Collection[int] | None = None) -> tuple[object, ...]:
        # Before the outcome: a batch with an outcome keeps no context.
        return batch.open_contexts(indexes) if self.effects.reports_outcomes else ()

    def is_given_up(self, batch: QueuedBatch, now: float) -> bool:
        """Whether the transaction of the batch is given up: then the batch ends in place of another attempt."""
        error = None if self.transaction is None else self.transaction.end_of(batch)
        if error is not None:
            self.conclude(batch, error, now)
        return error is not None

    def hindrance(self, batch: QueuedBatch) -> BaseException | None:
        """The known reason why the batch was not written, if any."""
        node_id = batch.queue.node.node_id
        known = batch.last_error or self.accumulator.cluster.trouble_with(node_id)
        if known is None and node_id == NO_LEADER:
            return _without_leader(batch.queue)
        # Without a producer id no request is made.
        return self.sequences.trouble if known is None and self.sequences.identity is None else known

    def leave_queue(self, batch: QueuedBatch) -> None:
        """The batch is not sent any more, and takes no more records."""
        queue = batch.queue
        if not batch.in_flight and batch in queue.queue:
            queue.queue.remove(batch)
            if queue.ahead is batch:
                queue.ahead = None
        if queue.open is batch:
            self.accumulator.detach(queue, batch)

    def _report_the_end(self, batch: QueuedBatch, count: int, error: KafkaError | None, now: float) -> None:
        others_wait = batch.queue.has_others_to_retry(batch)
        self.effects.reports.append(Ended(batch, count, error, now, others_wait))


def _without_leader(queue: PartitionQueue) -> BrokerError:
    """The answer of the brokers about a partition that no broker leads, or that the topic does not have any more."""
    is_gone = queue.index in queue.topic.gone  # type: ignore[attr-defined]  # a TopicQueues
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else ErrorCode.LEADER_NOT_AVAILABLE
    return BrokerError(verdict(code).advice, code=code, name=describe(code))
