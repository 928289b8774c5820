"""Producer id, epoch and sequence numbers: who may send next, and how a broken sequence is mended.

The identity rule: a dirty batch keeps its identity until it has an outcome, and its numbers are never given to other
records. A partition whose sequence has a gap waits until none of its sent batches is dirty or in flight, and then
goes on under a newer epoch with all that is left stamped anew. Other partitions move to the newer epoch only once
they have nothing unresolved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.facts import NO_TOPIC_ID
from aioproducer._wire.batches import stamp, stamp_anonymous

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.batches import QueuedBatch
    from aioproducer._state.queues import PartitionQueue, TopicQueues

LAST_EPOCH = 32767
OUT_OF_ORDER_SEQUENCE = 45
ANONYMOUS = (-1, -1)
# A leader knows this many of the newest batches of a producer again when they are sent twice.
REMEMBERED_BATCHES = 5


def to_remember(queue: PartitionQueue) -> int:
    """How many batches a leader has to remember to know the oldest without an outcome again, should that be repeated.

    With it count all that were numbered after it, also those that have their outcome: a second repetition may be needed.
    """
    return queue.numbered - queue.sent[0].nth + 1


def in_doubt(queue: PartitionQueue, batch: QueuedBatch) -> bool:
    """Whether the batch may be in the log, or may still get there.

    A request names the topic by its id: what was sent to a topic that was deleted since cannot get into the new one of the
    same name.
    """
    topic: TopicQueues = queue.topic  # type: ignore[assignment]
    return batch.dirty and (batch.sent_to == topic.topic_id or NO_TOPIC_ID in (batch.sent_to, topic.topic_id))


class Sequences:
    """The identity of an idempotent producer, and the rules by which batches are given theirs."""

    def __init__(self, *, idempotent: bool, one_at_a_time: bool, transactional: bool = False) -> None:
        self.idempotent = idempotent
        # The coordinator alone gives identities: what breaks a sequence breaks the transaction.
        self.transactional = transactional
        # Only these partitions may be sent to, where a transaction has to know them before.
        self.gate: set[tuple[str, int]] | None = None
        # Without idempotence only one batch at a time keeps the order over retries, if that was asked for.
        self.one_at_a_time = one_at_a_time
        self.identity: tuple[int, int] | None = None
        self.exhausted = False
        # Under this identity partitions have counted of which nobody knows any more how far.
        self.lost_count_of: tuple[int, int] | None = None
        # Effect, set by the network side: a new producer id is needed.
        self.on_exhausted: Callable[[], None] | None = None

    @property
    def wanted(self) -> bool:
        """True when an identity has to be asked for (InitProducerId)."""
        return self.idempotent and not self.transactional and (self.identity is None or self.exhausted)

    def obtained(self, producer_id: int, epoch: int) -> None:
        """The coordinator gave a producer id."""
        self.identity = (producer_id, epoch)
        self.exhausted = False

    def lost_count(self) -> None:
        """Partitions are forgotten here, but not by their leaders, which remember a producer for a day.

        If they come back they may not begin at 0 again under the same epoch: that would be taken for a repetition of
        what is in the log.
        """
        self.lost_count_of = self.identity

    def _may_have_counted(self, queue: PartitionQueue) -> bool:
        return queue.identity is None and self.lost_count_of == self.identity

    def may_send(self, queue: PartitionQueue, batch: QueuedBatch) -> bool:
        """Whether the head of the queue may leave now without breaking order or identity."""
        if not self.idempotent:
            return not (self.one_at_a_time and queue.in_flight)
        if self.identity is None or self._is_shut_out(queue):
            return False
        if queue.broken and self._mendable(queue):
            return True
        if batch.sequence >= 0:
            return self._may_repeat(queue, batch)
        if queue.broken or (self.exhausted and self._may_have_counted(queue)):
            return False
        return not queue.sent or (queue.introduced and to_remember(queue) < REMEMBERED_BATCHES)

    def _is_shut_out(self, queue: PartitionQueue) -> bool:
        return self.gate is not None and (queue.topic.name, queue.index) not in self.gate

    def _may_repeat(self, queue: PartitionQueue, batch: QueuedBatch) -> bool:
        if queue.ahead is not None:
            return queue.ahead is batch
        # A batch that is sent again waits until it is the first without an outcome (RecordAccumulator's
        # shouldStopDrainBatchesForPartition): one in flight while a partition recovers.
        if queue.sent[0] is not batch:
            return False
        if not queue.broken or in_doubt(queue, batch):
            return True
        # What is in doubt behind it keeps the sequence from being mended; perhaps it goes on all the same.
        return not queue.in_flight and any(in_doubt(queue, other) for other in queue.sent)

    def newer_in_doubt(self, queue: PartitionQueue, batch: QueuedBatch) -> QueuedBatch | None:
        """The leader goes on from another number than that of this batch, which may be in its log: what to ask for next.

        A leader that was restarted knows only the newest batch of each producer again, and refuses to take those before it
        for repetitions. But as it takes all in order, whoever finds one that it knows, or takes, knows of those before it
        too. So the others that are in doubt are repeated one at a time, the newest first. None of them can get into the log
        out of turn: the leader has just shown that it knows this producer.
        """
        if batch not in queue.sent:
            return None
        at = queue.sent.index(batch)
        candidates = queue.sent[1 : at or None]
        return next((other for other in reversed(candidates) if in_doubt(queue, other)), None)

    def _mendable(self, queue: PartitionQueue) -> bool:
        if (self.exhausted or self.transactional) and queue.identity == self.identity:
            # There is no epoch after the last: this partition goes on under the producer id that was asked for.
            return False
        return not queue.in_flight and not any(in_doubt(queue, batch) for batch in queue.sent)

    def give(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """Give the batch its place in the sequence, if it has none, and write its header."""
        if not self.idempotent:
            # Once per batch, and also for one that was made of others after they had been sent.
            if batch.identity is None:
                batch.identity = ANONYMOUS
                stamp_anonymous(batch)
            return
        if queue.broken and self._mendable(queue):
            self._mend(queue)
        if batch.sequence >= 0:
            return
        if self._may_have_counted(queue):
            self._next_epoch()
        if queue.identity != self.identity and not queue.sent:
            self._adopt(queue)
        self._number(queue, batch)
        queue.numbered += 1
        batch.nth = queue.numbered
        queue.sent.append(batch)

    def _number(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        assert queue.identity is not None  # noqa: S101  # may_send() refused before
        batch.identity = queue.identity
        batch.sequence = queue.next_sequence
        queue.next_sequence = batch.next_sequence
        stamp(batch, *queue.identity, batch.sequence, transactional=self.transactional)

    def _mend(self, queue: PartitionQueue) -> None:
        queue.in_order_again()
        if queue.identity == self.identity:
            self._next_epoch()
        self._adopt(queue)
        queue.broken = False
        for batch in queue.sent:
            # What may be in the log of a topic that was deleted is not in that of the new one.
            batch.dirty = False
            self._number(queue, batch)

    def _adopt(self, queue: PartitionQueue) -> None:
        assert self.identity is not None  # noqa: S101  # may_send() refused before
        if queue.identity is None or queue.identity[0] != self.identity[0]:
            # A leader that does not know a producer id takes any sequence number for its first. Were the first batch
            # refused and the second already on its way, that would be taken, and the first could only come after it.
            queue.introduced = False
        queue.identity = self.identity
        queue.next_sequence = 0

    def _next_epoch(self) -> None:
        assert self.identity is not None  # noqa: S101  # may_send() refused before
        producer_id, epoch = self.identity
        self.identity = (producer_id, epoch + 1)
        # The last epoch is used up: a new producer id is asked for while this one still serves.
        self.exhausted = epoch + 1 >= LAST_EPOCH
        if self.exhausted and self.on_exhausted is not None:
            self.on_exhausted()

    def remade(self, queue: PartitionQueue) -> None:
        """The topic was deleted and made again: its leaders know nothing of this producer, which begins at 0.

        Under a newer epoch, because there may still be somebody who knows the old topic.
        """
        queue.introduced = False
        if self.transactional and not queue.sent:
            queue.identity, queue.broken = None, False
        else:
            queue.broken = queue.identity is not None

    def acknowledged(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """The batch is in the log."""
        if self._forget(queue, batch) and batch.identity == queue.identity:
            queue.introduced = True
            queue.broken = queue.broken and not self._runs_on(queue, batch)

    @staticmethod
    def _runs_on(queue: PartitionQueue, batch: QueuedBatch) -> bool:
        """Whether everything that was given a number follows what was just acknowledged without a gap."""
        expected = batch.next_sequence
        for following in queue.sent:
            if following.sequence != expected:
                return False
            expected = following.next_sequence
        return expected == queue.next_sequence

    def not_appended(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """The batch ended, and no attempt of it was appended: its numbers are free, if it was the last."""
        if not self._forget(queue, batch):
            return
        if queue.next_sequence == batch.next_sequence and not queue.broken:
            queue.next_sequence = batch.sequence
        else:
            queue.broken = True

    def unknown(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """The batch ended, and nobody knows whether it was appended: nobody may guess the next number."""
        if self._forget(queue, batch):
            queue.broken = True

    def ends_with(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """Whether a refused identity is the end of the batch: in a transaction it can only be mended by an abort."""
        waits_for_another = code == OUT_OF_ORDER_SEQUENCE and (batch.dirty or queue.sent[0] is not batch)
        return self.transactional and not waits_for_another

    def refused(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """The broker does not go on from the number of this batch (OUT_OF_ORDER, UNKNOWN_PRODUCER_ID, epoch)."""
        if batch.sequence >= 0 and queue.sent and queue.sent[0] is batch:
            queue.broken = True

    def replace(self, queue: PartitionQueue, batch: QueuedBatch, children: list[QueuedBatch]) -> None:
        """A batch was split: its parts take over its range of numbers, in order."""
        if batch.sequence < 0:
            return
        sequence = batch.sequence
        for child in children:
            child.identity, child.sequence, child.nth = batch.identity, sequence, batch.nth
            sequence = child.next_sequence
            assert child.identity is not None  # noqa: S101  # copied from a numbered batch
            stamp(child, *child.identity, child.sequence, transactional=self.transactional)
        at = queue.sent.index(batch)
        queue.sent[at : at + 1] = children

    def _forget(self, queue: PartitionQueue, batch: QueuedBatch) -> bool:
        if batch.sequence < 0 or batch not in queue.sent:
            return False
        queue.sent.remove(batch)
        return True
