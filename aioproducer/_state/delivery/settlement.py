"""Settlement: the consequences of a broker's answer for a batch, or of its lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._core import OrdinarySettlement
from aioproducer._state.backoff import REPLACED, SOON, Backoff
from aioproducer._state.delivery.former_topic import lost_with_its_topic, may_be_in_the_former_topic
from aioproducer._state.delivery.refusals import broker_error
from aioproducer._state.delivery.verdicts import Kind, verdict
from aioproducer._state.effects import Retried
from aioproducer._state.queues import rewriting
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import DeliveryError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.backoff import Uniform
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.delivery.outcomes import Outcomes
    from aioproducer._state.delivery.refusals import Refusals
    from aioproducer._state.queues.batches import PartitionAnswer, QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer.errors import KafkaError

REFUSED_IDS = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
# The end of the previous transaction takes milliseconds.
BUSY = Backoff(0.02, 1.0)


class Settlement(OrdinarySettlement):
    """Judges the answer or the loss of a request for each of its batches: written, sent again, split, or refused."""

    outcomes: Outcomes
    accumulator: Accumulator

    def __init__(self, refusals: Refusals, *, retries: int, backoff: Backoff, rng: Uniform) -> None:
        super().__init__(refusals.losses.outcomes)
        self.refusals = refusals
        self.losses = refusals.losses
        self.effects = self.outcomes.effects
        self.sequences = self.outcomes.sequences
        self.tally = self.outcomes.tally
        self.retries = retries
        self.backoff = backoff
        self.rng = rng

    def answered(self, batch: QueuedBatch, answer: PartitionAnswer, now: float) -> None:
        """The broker answered for this batch."""
        if not answer.code:
            self.written(batch, answer.base_offset, answer.log_append_time, now)
            return
        queue = batch.queue
        ahead = queue.ahead is batch
        self._landed(queue, batch, now)
        if not batch.settled:
            if ahead and verdict(answer.code).kind is Kind.ACK:
                self._acknowledge_older(queue, batch, answer.base_offset, now)
            self._judge(queue, batch, answer, now)
        batch.judged = True
        self.accumulator.update_readiness(queue, now)

    def _judge(self, queue: PartitionQueue, batch: QueuedBatch, answer: PartitionAnswer, now: float) -> None:
        decided = verdict(answer.code, answer.base_offset)
        if answer.code in REFUSED_IDS:
            self.effects.refused_ids.append((batch.topic, batch.sent_to))
        if decided.refresh_metadata:
            self.effects.stale[batch.topic] = None
        if decided.kind is Kind.ACK:
            at = self._append_time(batch, answer.log_append_time)
            self.outcomes.acknowledge(batch, answer.base_offset, at, now)
        elif batch.gap is not None and decided.proves_not_appended and not batch.dirty:
            self.outcomes.conclude(batch, batch.gap.error(batch, now), now)
        elif decided.kind is Kind.SPLIT and batch.record_count > 1:
            self._split(batch, now)
        elif decided.kind is Kind.NEW_IDENTITY and self.sequences.ends_with(queue, batch, answer.code):
            self.refusals.refuse(batch, answer, decided, now)
        elif decided.kind in (Kind.RETRY, Kind.NEW_IDENTITY):
            if decided.kind is Kind.NEW_IDENTITY and not batch.dirty:
                self.sequences.refused(queue, batch)
            self._retry(
                batch,
                broker_error(batch, answer, decided, now),
                now,
                proven=decided.proves_not_appended,
                code=answer.code,
            )
            if answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.dirty:
                self._ask_for_newer(queue, batch)
        else:
            self.refusals.refuse(batch, answer, decided, now)

    def lost(self, batch: QueuedBatch, error: KafkaError, now: float, *, written: bool) -> None:
        """The connection ended, or the request timed out, before an answer came."""
        queue = batch.queue
        self._landed(queue, batch, now)
        if not batch.settled:
            self.effects.stale[batch.topic] = None
            self._retry(batch, error, now, proven=not written)
        batch.judged = True
        self.accumulator.update_readiness(queue, now)

    # -- earlier and later batches of the partition

    def _ask_for_newer(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        newer = self.sequences.newer_in_doubt(queue, batch)
        if newer is not None and not queue.in_flight and batch.gap is None:
            queue.ask_ahead(newer)

    def _acknowledge_older(
        self, queue: PartitionQueue, batch: QueuedBatch, base_offset: int, now: float
    ) -> None:
        """The leader has this batch and takes batches in order: earlier batches are in the log too, at unknown offsets.

        The exception is a new log, which takes any first number: it has no room for the earlier batches.
        """
        before = queue.sent[: queue.sent.index(batch)]
        if 0 <= base_offset < queue.end_offset + sum(older.record_count for older in before):
            return
        for older in before:
            self.outcomes.leave_queue(older)
            self.outcomes.acknowledge(older, -1, -1, now)

    # -- another attempt

    def _retry(
        self,
        batch: QueuedBatch,
        error: KafkaError,
        now: float,
        *,
        proven: bool,
        code: int = 0,
    ) -> None:
        if not proven:
            batch.dirty = True
        batch.last_error = error
        if self.outcomes.is_given_up(batch, now):
            return
        if batch.gap is not None and not batch.dirty:
            self.outcomes.conclude(batch, batch.gap.error(batch, now), now)
            return
        if may_be_in_the_former_topic(batch):
            self.losses.fail(batch, lost_with_its_topic(batch, now), now)
            return
        if batch.attempts > self.retries:
            self.losses.fail(batch, self._without_retries(batch, now), now)
            return
        self.tally.sent_again(batch)
        self.effects.reports.append(Retried(batch, error, now))
        batch.retry_at = now + self._wait_after(batch.attempts - 1, code)
        batch.queue.put_back(batch)
        self.effects.wake_by(batch.retry_at)
        self.accumulator.deadlines.heap.add(batch.retry_at, batch.queue)

    def _wait_after(self, repetitions: int, code: int) -> float:
        if code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return BUSY.after(repetitions, self.rng)
        if code == ErrorCode.NOT_ENOUGH_REPLICAS and self.sequences.transactional:
            # Few `retries` are kept for replicas that are missing for longer.
            soon = max(0, min(SOON, self.retries - SOON))
            if repetitions < soon:
                return REPLACED.after(repetitions, self.rng)
            repetitions -= soon
        return self.backoff.after(repetitions, self.rng)

    def _without_retries(self, batch: QueuedBatch, now: float) -> DeliveryError:
        return DeliveryError(
            "all attempts failed, and `retries` is exhausted",
            outcome=Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN,
            cause=batch.last_error,
            retriable=True,
            **batch.facts(now),
        )

    def _split(self, batch: QueuedBatch, now: float) -> None:
        """MESSAGE_TOO_LARGE: go on with smaller batches, in the same place and the same range of numbers."""
        if self.outcomes.is_given_up(batch, now):
            return
        if may_be_in_the_former_topic(batch):
            # An earlier attempt got no clear answer, and the parts would go to the present topic.
            self.losses.fail(batch, lost_with_its_topic(batch, now), now)
            return
        limit = self.accumulator.limits.batch_size
        if batch.parts or batch.plain_size <= limit:
            # A part that is still too large is halved; otherwise a batch_size above the broker's limit would loop.
            limit = max(rewriting.largest_record(batch), rewriting.half_of(batch))
        self.tally.batches_split += 1
        self.accumulator.ratios.split(batch.topic, self.accumulator.limits.codec)
        children = rewriting.split(batch, self.accumulator.maker.replacement, limit)
        queue = batch.queue
        for child in children:
            child.sealed = True
            child.plain_size = child.size
            self.accumulator.deadlines.watch_rest(child)
        self.sequences.replace(queue, batch, children)
        self.accumulator.replace(batch, children)
        self.effects.room(batch.share)
        for child in reversed(children):
            queue.put_back(child)

    @staticmethod
    def _append_time(batch: QueuedBatch, answered: int) -> int:
        """The broker's time of the append, -1 where the records keep their own.

        For a batch that is already in the log, Kafka 4.3.1 returns the latest timestamp of the batch in this field, also
        for a topic with CreateTime.
        """
        repeated = batch.attempts > 1 and answered == batch.max_timestamp
        return -1 if repeated else answered
