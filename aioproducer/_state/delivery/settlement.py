"""Settlement: the one place that decides the outcome of a batch and returns its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.backoff import Backoff
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.delivery.slowness import SLOW
from aioproducer._state.delivery.verdicts import Kind, verdict
from aioproducer._state.effects import Ended, OffsetWentBack, Retried, Settled, event
from aioproducer._state.queues import rewriting
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.flushing import batch_written, records_failed
from aioproducer._state.queues.gapless import Gap, gap_of
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer._wire.error_codes import ERRORS, ErrorCode, describe
from aioproducer.errors import BrokerError, DeliveryError, DeliveryTimeoutError, RefusedAsTooLargeError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from aioproducer._state.backoff import Uniform
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.delivery.tally import Tally
    from aioproducer._state.delivery.verdicts import Verdict
    from aioproducer._state.queues.batches import PartitionAnswer
    from aioproducer._state.queues.flush import Flush
    from aioproducer._state.queues.partition_queue import TopicQueues
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.giving_up import GivenUp
    from aioproducer.errors import KafkaError

REFUSED_IDS = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
# The limits that keep a batch of one record out of the log; message.max.bytes is the default of the first.
SIZE_LIMITS: Mapping[int, tuple[str, str]] = {
    ErrorCode.MESSAGE_TOO_LARGE: ("max.message.bytes", "of the topic (or message.max.bytes of the brokers)"),
    ErrorCode.RECORD_LIST_TOO_LARGE: ("segment.bytes", "of the topic (or log.segment.bytes of the brokers)"),
}


# The end of the previous transaction takes milliseconds.
BUSY = Backoff(0.02, 1.0)


class Settlement:
    """Decides the consequences of an answer, a lost connection or a deadline for a batch, and carries them out."""

    def __init__(
        self,
        accumulator: Accumulator,
        tally: Tally,
        *,
        retries: int,
        backoff: Backoff,
        rng: Uniform,
        gapless: bool = False,
        transaction: CurrentTransaction | None = None,
    ) -> None:
        self.accumulator = accumulator
        self.effects = accumulator.effects
        self.sequences = accumulator.sequences
        self.tally = tally
        self.retries = retries
        self.backoff = backoff
        self.rng = rng
        # Of a transactional producer.
        self.transaction = transaction
        accumulator.withdraw = self._try_cancel
        self.gapless = gapless
        self.gaps: list[Gap] = []

    # -- facts

    def answered(self, batch: QueuedBatch, answer: PartitionAnswer, now: float) -> None:
        """The broker answered for this batch."""
        ahead = batch.queue.ahead is batch
        queue = self._landed(batch, now)
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
            self.acknowledge(batch, answer.base_offset, append_time(batch, answer), now)
        elif batch.gap is not None and decided.proves_not_appended and not batch.dirty:
            self._conclude(batch, batch.gap.error(batch, now), now)
        elif decided.kind is Kind.SPLIT and batch.record_count > 1:
            self._split(batch, now)
        elif decided.kind is Kind.NEW_IDENTITY and self.sequences.ends_with(queue, batch, answer.code):
            self._refuse(batch, answer, decided, now)
        elif decided.kind in (Kind.RETRY, Kind.NEW_IDENTITY):
            if decided.kind is Kind.NEW_IDENTITY and not batch.dirty:
                self.sequences.refused(queue, batch)
            self._retry(
                batch,
                self._broker_error(batch, answer, decided, now),
                now,
                proven=decided.proves_not_appended,
                backoff=BUSY if answer.code == ErrorCode.CONCURRENT_TRANSACTIONS else self.backoff,
            )
            if answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.dirty:
                self._ask_for_newer(queue, batch)
        else:
            self._refuse(batch, answer, decided, now)

    def lost(self, batch: QueuedBatch, error: KafkaError, now: float, *, written: bool) -> None:
        """The connection ended, or the request timed out, before an answer came."""
        queue = self._landed(batch, now)
        if not batch.settled:
            self.effects.stale[batch.topic] = None
            self._retry(batch, error, now, proven=not written)
        batch.judged = True
        self.accumulator.update_readiness(queue, now)

    @event
    def remade(self, topic: TopicQueues, now: float) -> None:
        """The topic was deleted and created again: batches that may be in the former topic are not sent to the new one."""
        for queue in topic.all_queues():
            # Without idempotence a batch that waits for a retry has no sequence number, and is in the queue only.
            for batch in dict.fromkeys((*queue.sent, *queue.queue)):
                if not batch.in_flight and _may_be_in_the_former_topic(batch):
                    self.fail(batch, self._lost_with_its_topic(batch, now), now)
            self.accumulator.update_readiness(queue, now)

    def _lost_with_its_topic(self, batch: QueuedBatch, now: float) -> DeliveryError:
        return DeliveryError(
            "the topic was deleted and created again after an attempt without a clear answer; the record may be in the former "
            "topic, and was not written to the present one",
            outcome=Outcome.UNKNOWN,
            cause=batch.last_error,
            **batch.facts(now),
        )

    def _landed(self, batch: QueuedBatch, now: float) -> PartitionQueue:
        queue = batch.queue
        batch.judged = False
        batch.answered_at = now
        self.accumulator.landed(batch)
        queue.in_flight -= 1
        if queue.ahead is batch:
            queue.ahead = None
        return queue

    # -- decisions

    def acknowledge(self, batch: QueuedBatch, base_offset: int, log_append_time: int, now: float) -> None:
        """Every record of the batch that has no outcome yet is written."""
        size = batch.size
        count = batch.acknowledge(base_offset, log_append_time)
        if batch.in_flight:
            self.accumulator.records_in_flight -= count
        self.sequences.acknowledged(batch.queue, batch, now)
        self.tally.acknowledged(batch, count, size, now)
        if count and self.transaction is not None:
            self.transaction.parts.opened = True
        flushed = batch_written(batch) if batch.flushes else ()
        self._note_offset(batch, base_offset, now)
        self._end(batch, None)
        self.effects.flushed.extend(flushed)
        if self.effects.reports_outcomes and count:
            self.effects.reports.append(Settled(batch, count, size, None, now))
        if batch.last_error is not None or now - batch.opened_at >= SLOW:
            self._report_the_end(batch, count, None, now)

    def _note_offset(self, batch: QueuedBatch, base_offset: int, now: float) -> None:
        queue = batch.queue
        if _was_sent_to_the_former_topic(batch):
            return
        # A batch may be written before earlier batches and acknowledged after them.
        if batch.order > queue.newest_acked:
            queue.newest_acked = batch.order
            expected = queue.end_offset
            if 0 <= base_offset < expected:
                self.tally.suspected_losses += 1
                queue.end_offset = base_offset
                self.effects.reports.append(OffsetWentBack(batch, base_offset, expected, now))
        end = base_offset + batch.record_count
        if end > queue.end_offset and base_offset >= 0:
            queue.end_offset = end

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
            self._leave_queue(older)
            self.acknowledge(older, -1, -1, now)

    @event
    def fail(self, batch: QueuedBatch, error: KafkaError, now: float) -> None:
        """The records of the batch that have no outcome yet are lost."""
        lost = batch.pending
        self._conclude(batch, error, now)
        number = self.tally.failures
        if lost:
            self.effects.losses.append(error)
        if self.gapless:
            self._open_gap(batch, error, now, number)

    def _conclude(self, batch: QueuedBatch, error: KafkaError, now: float) -> None:
        """Every record of the batch that has no outcome yet ends with this error."""
        self._leave_queue(batch)
        size = batch.size
        count = batch.fail(error)
        self.tally.ended_in_failure(batch, now)
        if error.outcome is Outcome.UNKNOWN:
            self.sequences.unknown(batch.queue, batch)
        else:
            self.sequences.not_appended(batch.queue, batch)
        flushed = self._failed(batch, error, count, now, size=size)
        self._end(batch, error)
        self.effects.flushed.extend(flushed)
        if batch.attempts:
            self._report_the_end(batch, count, error, now)

    def _failed(
        self,
        batch: QueuedBatch,
        error: KafkaError,
        count: int,
        now: float,
        indexes: Collection[int] | None = None,
        *,
        size: int,
    ) -> list[Flush]:
        """So many records of the batch (those at `indexes`, or all) failed; returns the flushes that this completes."""
        if batch.in_flight:
            self.accumulator.records_in_flight -= count
        failure = self.tally.failed(batch.topic, count, error, now)
        if failure is None:
            return []
        if self.effects.reports_outcomes:
            self.effects.reports.append(Settled(batch, count, size, error, now))
        return records_failed(batch, failure, count, indexes)

    def _refuse(self, batch: QueuedBatch, answer: PartitionAnswer, decided: Verdict, now: float) -> None:
        error = self._broker_error(batch, answer, decided, now)
        if self.transaction is not None:
            if self.transaction.is_in_doubt(answer.code):
                self.effects.in_doubt = True
                batch.last_error = error
                self.transaction.unexplained.append((batch, answer))
                return
            error.__cause__ = self.transaction.explanation_of(answer.code)
        if decided.kind is Kind.SPLIT and error.outcome is Outcome.NOT_WRITTEN:
            # An unknown outcome keeps the type BrokerError: a handler of RefusedAsTooLargeError assumes that nothing
            # was written.
            error = refused_as_too_large(error, batch.plain_size or batch.size)
        self._refuse_for_good(batch, answer, error, now)

    @event
    def explain(self, cause: BaseException | None, now: float) -> None:
        """The reason of refusals that only the coordinator knew is known."""
        if self.transaction is None:
            return
        unexplained, self.transaction.unexplained = self.transaction.unexplained, []
        for batch, answer in unexplained:
            if not batch.settled:
                decided = verdict(answer.code, answer.base_offset)
                error = self._broker_error(batch, answer, decided, now)
                error.__cause__ = cause
                self._refuse_for_good(batch, answer, error, now)
                self.accumulator.update_readiness(batch.queue, now)

    def _refuse_for_good(
        self, batch: QueuedBatch, answer: PartitionAnswer, error: KafkaError, now: float
    ) -> None:
        named = {index: text for index, text in answer.record_errors if 0 <= index < batch.record_count}
        if named:
            self._refuse_named(batch, answer, named, error, now)
        self.fail(batch, error if not named else self._bystander(batch, answer, error, now), now)

    def _refuse_named(
        self,
        batch: QueuedBatch,
        answer: PartitionAnswer,
        named: dict[int, str | None],
        error: KafkaError,
        now: float,
    ) -> None:
        # KIP-467: the records at fault have messages of their own; the user may send the other records again.
        for index, text in named.items():
            own = self._code_error(batch, answer, error.outcome, now, message=text or answer.message)
            count = batch.fail_some([index], own)
            self.effects.flushed.extend(self._failed(batch, own, count, now, [index], size=batch.size))
            self.effects.losses.append(own)

    def _bystander(
        self, batch: QueuedBatch, answer: PartitionAnswer, error: KafkaError, now: float
    ) -> KafkaError:
        text = "this record was part of a batch with invalid records; it may be sent again"
        return self._code_error(batch, answer, error.outcome, now, message=text, retriable=True)

    def _broker_error(
        self, batch: QueuedBatch, answer: PartitionAnswer, decided: Verdict, now: float
    ) -> BrokerError:
        clean = decided.proves_not_appended and not batch.dirty
        outcome = Outcome.NOT_WRITTEN if clean else Outcome.UNKNOWN
        return self._code_error(batch, answer, outcome, now, message=answer.message or decided.advice)

    def _code_error(
        self,
        batch: QueuedBatch,
        answer: PartitionAnswer,
        outcome: Outcome,
        now: float,
        *,
        message: str | None,
        retriable: bool | None = None,
    ) -> BrokerError:
        known = ERRORS.get(answer.code)
        return BrokerError(
            message,
            code=answer.code,
            name=describe(answer.code),
            broker=answer.broker,
            outcome=outcome,
            retriable=(known is not None and known.retriable) if retriable is None else retriable,
            **batch.facts(now),
        )

    # -- retries

    def _retry(
        self,
        batch: QueuedBatch,
        error: KafkaError,
        now: float,
        *,
        proven: bool,
        backoff: Backoff | None = None,
    ) -> None:
        if not proven:
            batch.dirty = True
        batch.last_error = error
        if self._is_given_up(batch, now):
            return
        if batch.gap is not None and not batch.dirty:
            self._conclude(batch, batch.gap.error(batch, now), now)
            return
        if _may_be_in_the_former_topic(batch):
            self.fail(batch, self._lost_with_its_topic(batch, now), now)
            return
        if batch.attempts > self.retries:
            self.fail(batch, self._without_retries(batch, now), now)
            return
        self.tally.sent_again(batch)
        self.effects.reports.append(Retried(batch, error, now))
        batch.retry_at = now + (backoff or self.backoff).after(batch.attempts - 1, self.rng)
        batch.queue.put_back(batch)
        self.effects.wake_by(batch.retry_at)
        self.accumulator.deadlines.heap.add(batch.retry_at, batch.queue)

    def _is_given_up(self, batch: QueuedBatch, now: float) -> bool:
        """Whether the transaction of the batch is given up: then the batch ends in place of another attempt."""
        error = None if self.transaction is None else self.transaction.end_of(batch)
        if error is not None:
            self._conclude(batch, error, now)
        return error is not None

    def _without_retries(self, batch: QueuedBatch, now: float) -> DeliveryError:
        return DeliveryError(
            "all attempts failed, and `retries` is exhausted",
            outcome=Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN,
            cause=batch.last_error,
            retriable=True,
            **batch.facts(now),
        )

    # -- splitting

    def _split(self, batch: QueuedBatch, now: float) -> None:
        """MESSAGE_TOO_LARGE: go on with smaller batches, in the same place and the same range of numbers."""
        if self._is_given_up(batch, now):
            return
        if _may_be_in_the_former_topic(batch):
            # An earlier attempt got no clear answer, and the parts would go to the present topic.
            self.fail(batch, self._lost_with_its_topic(batch, now), now)
            return
        limit = self.accumulator.limits.batch_size
        if len(batch.order) > 1 or batch.plain_size <= limit:
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
        self.accumulator.retire(batch, to=children)
        self.effects.room(batch.share)
        for child in reversed(children):
            queue.put_back(child)

    # -- the end of a batch

    def _leave_queue(self, batch: QueuedBatch) -> None:
        queue = batch.queue
        if not batch.in_flight and batch in queue.queue:
            queue.queue.remove(batch)
            if queue.ahead is batch:
                queue.ahead = None
        if queue.open is batch:
            queue.open = None
            self.accumulator.lingering.pop(queue, None)

    def _end(self, batch: QueuedBatch, error: KafkaError | None) -> None:
        if error is not None:
            # Wake the task that reports failures of unread deliveries.
            self.effects.wake_by(batch.opened_at)
        self.accumulator.retire(batch)
        # The same as `room()`, without a call for each batch.
        self.effects.has_room, self.effects.room_of = True, batch.share

    def _report_the_end(self, batch: QueuedBatch, count: int, error: KafkaError | None, now: float) -> None:
        others_wait = batch.queue.has_others_to_retry(batch)
        self.effects.reports.append(Ended(batch, count, error, now, others_wait))

    # -- time

    @event
    def expire(self, now: float) -> None:
        """Process all that is due: lingers, ends of backoffs, deadlines of records."""
        self.accumulator.deadlines.watch_again()
        for due in self.accumulator.deadlines.heap.pop_due(now):
            if isinstance(due, PartitionQueue):
                self.accumulator.on_timer(due, now)
                continue
            due.alarms -= 1
            if due.watched_until <= now and not due.settled:
                self._expire(due, now)
        for batch in self.accumulator.deadlines.old(now):
            # In gapless mode an earlier loss in this loop may have ended it.
            if not batch.settled:
                self._expire(batch, now)

    def _expire(self, batch: QueuedBatch, now: float) -> None:
        if batch.gap is not None and not batch.attempts:
            self._conclude(batch, batch.gap.error(batch, now), now)
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
        error = self._too_late(batch, now, written=written)
        if whole:
            self.fail(batch, error, now)
            self.accumulator.update_readiness(batch.queue, now)
            return
        self._end_some(batch, indexes, error, now)
        number = self.tally.failures
        self.effects.losses.append(error)
        # A batch that was written once goes on as a whole, including the records whose senders have given up.
        if self.gapless and not batch.attempts:
            self._open_gap(batch, error, now, number, after=indexes[0])

    def _too_late(self, batch: QueuedBatch, now: float, *, written: bool) -> DeliveryTimeoutError:
        return DeliveryTimeoutError(
            outcome=Outcome.UNKNOWN if written else Outcome.NOT_WRITTEN,
            cause=self._hindrance(batch),
            **batch.facts(now),
        )

    def _hindrance(self, batch: QueuedBatch) -> BaseException | None:
        """The known reason why the batch was not written, if any."""
        return batch.last_error or self.accumulator.cluster.trouble_with(batch.queue.node.node_id)

    def _end_some(self, batch: QueuedBatch, indexes: list[int], error: KafkaError, now: float) -> int:
        """End these records of the batch; the batch ends with its last record."""
        if len(indexes) == batch.pending:
            count = batch.pending
            self._conclude(batch, error, now)
        else:
            count = batch.fail_some(indexes, error)
            self.effects.flushed.extend(self._failed(batch, error, count, now, indexes, size=batch.size))
        self.accumulator.update_readiness(batch.queue, now)
        return count

    # -- withdrawing

    @event
    def withdraw(self, batch: QueuedBatch, indexes: list[int], text: str, now: float) -> int:
        """Take records out of a batch that was never drained; returns how many."""
        if self.accumulator.drainer.is_draining or not indexes or batch.attempts or batch.settled:
            return 0
        error = DeliveryError(text, topic=batch.topic, partition=batch.partition)
        return self._end_some(batch, indexes, error, now)

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
    def end_all(self, given_up: GivenUp, now: float) -> None:
        """The transaction is given up: nothing more is sent, and batches that come back unwritten are not sent again."""
        assert self.transaction is not None  # noqa: S101  # the caller has a transaction
        self.transaction.given_up = given_up
        self.explain(None, now)
        for batch in self._in_order():
            if not batch.settled and not batch.in_flight and self._is_given_up(batch, now):
                self.accumulator.update_readiness(batch.queue, now)

    @event
    def abandon(self, text: str, cause: BaseException | None, now: float) -> None:
        """The end of the producer: every record gets its outcome now."""
        self.explain(cause, now)
        for batch in self._in_order():
            if batch.settled:
                # An interrupt (Ctrl-C) can end the producer in the middle of a settlement.
                continue
            written = batch.in_flight or batch.dirty or not batch.judged
            error = DeliveryError(
                text,
                outcome=Outcome.UNKNOWN if written else Outcome.NOT_WRITTEN,
                cause=cause or self._hindrance(batch),
                **batch.facts(now),
            )
            self._conclude(batch, error, now)

    def _in_order(self) -> list[QueuedBatch]:
        # In the order of the records, and so of their callbacks: the parts of a split batch joined `live` late.
        return sorted(self.accumulator.live, key=lambda batch: batch.order)

    # -- gapless mode

    def _open_gap(
        self, batch: QueuedBatch, error: KafkaError, now: float, number: int, after: int = -1
    ) -> None:
        """A record was lost: later unwritten batches end now; batches in flight end when their fate is known."""
        queue = batch.queue
        gap = gap_of(queue)
        if gap is None:
            gap = queue.gap = Gap(error, now, number)
            self.gaps = [*(known for known in self.gaps if known.open), gap]
        queue.lost_at = self.accumulator.lost_at = now
        gap.batches.append(batch)
        if not batch.settled:
            rest = [index for index in batch.pending_indexes() if index > after]
            if rest:
                self._end_some(batch, rest, gap.error(batch, now), now)
        if not batch.settled and queue.open is batch:
            # Records that are accepted from now on are behind the loss.
            self.accumulator.shut(batch, now)
        behind = {other for other in (*queue.sent, *queue.queue) if other.order > batch.order}
        for other in sorted(behind, key=lambda other: other.order):
            self._end_behind(other, gap, now)

    def _end_behind(self, batch: QueuedBatch, gap: Gap, now: float) -> None:
        batch.gap = gap
        gap.batches.append(batch)
        if not batch.in_flight and not batch.dirty:
            self._conclude(batch, gap.error(batch, now), now)

    @event
    def fail_late_comer(self, batch: QueuedBatch, index: int) -> None:
        """The call came before its partition lost a record, and its record was placed after the loss."""
        gap = batch.queue.gap
        if gap is not None and batch.gap is None:
            self._end_some(batch, [index], gap.error(batch, batch.opened_at), batch.opened_at)

    def gaps_seen(self, flush: Flush | None = None) -> None:
        """All losses so far, or those that this flush covers, were reported."""
        if not self.gaps:
            return
        for gap in self.gaps:
            gap.seen = gap.seen or flush is None or flush.knows_of(gap.failure)
        self.gaps = [gap for gap in self.gaps if not gap.seen]


def refused_as_too_large(error: BrokerError, size: int) -> RefusedAsTooLargeError:
    """The error of a batch that cannot be split any more: one record."""
    setting, where = SIZE_LIMITS[error.code]
    return RefusedAsTooLargeError(
        f"raise {setting} {where}, compress the record, or split it",
        size=size,
        setting=setting,
        code=error.code,
        name=error.name,
        broker=error.broker,
        topic=error.topic,
        partition=error.partition,
        outcome=error.outcome,
        attempts=error.attempts,
        elapsed=error.elapsed,
        retriable=False,
    )


def _was_sent_to_the_former_topic(batch: QueuedBatch) -> bool:
    """Whether the newest attempt named a topic id that was replaced since; requests by name reach the present topic."""
    topic: TopicQueues = batch.queue.topic  # type: ignore[assignment]
    return batch.sent_to != topic.topic_id and NO_TOPIC_ID not in (batch.sent_to, topic.topic_id)


def _may_be_in_the_former_topic(batch: QueuedBatch) -> bool:
    return batch.dirty and _was_sent_to_the_former_topic(batch)


def append_time(batch: QueuedBatch, answer: PartitionAnswer) -> int:
    """The broker's time of the append, -1 where the records keep their own.

    For a batch that is already in the log, Kafka 4.3.1 returns the latest timestamp of the batch in this field, also
    for a topic with CreateTime.
    """
    repeated = batch.attempts > 1 and answer.log_append_time == batch.max_timestamp
    return -1 if repeated else answer.log_append_time
