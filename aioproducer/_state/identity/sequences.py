"""Sequence numbers: which batch may be sent next, which number it gets, and how a broken sequence goes on.

The identity rule: a dirty batch keeps its identity until it has an outcome, and its numbers are never given to other
records. A partition whose sequence has a gap waits until none of its sent batches is dirty or in flight, and then
goes on under another identity with all that is left stamped anew. Other partitions move to that identity only once
they have nothing unresolved.

Where identities come from is not decided here: `own.py` raises the epoch of an idempotent producer,
`coordinated.py` has the rules of a transactional one, whose coordinator alone gives epochs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from aioproducer._core import OrdinarySequences
from aioproducer._state.queues.partition_queue import NEVER
from aioproducer._wire.batches import checksum, stamp, stamp_anonymous

if TYPE_CHECKING:
    from collections.abc import Collection

    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer.errors import KafkaError

ANONYMOUS = (-1, -1)
# A leader knows this many of the newest batches of a producer again when they are sent twice.
REMEMBERED_BATCHES = 5
# A leader forgets a producer that wrote nothing to the partition for producer.id.expiration.ms: a day by default, and
# any shorter time an operator sets. After this many seconds of silence the leader may have forgotten.
CONFIRMED_FOR = 60.0


def to_remember(queue: PartitionQueue) -> int:
    """How many batches a leader has to remember to know the oldest without an outcome again, should that be repeated.

    With it count all that were numbered after it, also those that have their outcome: a second repetition may be needed.
    """
    return queue.numbered - queue.sent[0].nth + 1


def is_confirmed(queue: PartitionQueue, now: float) -> bool:
    """Whether the leader acknowledged a batch of this producer so recently that it certainly knows the next number.

    A leader without state takes any sequence number (KIP-360). If the first of two pipelined batches is refused there and
    the second is taken, the first could only come after it.
    """
    return now - queue.confirmed_at < CONFIRMED_FOR


class Sequences(OrdinarySequences, ABC):
    """The rules by which batches get their identity and their place in the sequence of their partition."""

    _identity: Identity | None

    def __init__(self) -> None:
        super().__init__(checksum)
        # The reason why the newest request gave no producer id.
        self.trouble: KafkaError | None = None

    @property
    def identity(self) -> Identity | None:
        """The producer id and the epoch under which new batches are sent; None: not known yet."""
        return self._identity

    def obtained(self, producer_id: int, epoch: int) -> None:
        """A broker gave this identity."""
        self._identity = (producer_id, epoch)
        self.trouble = None

    @property
    def wanted(self) -> bool:
        """True when a producer id has to be asked for (InitProducerId)."""
        return False

    def remade(self, queue: PartitionQueue) -> None:
        """The topic was deleted and created again: its leaders know nothing of this producer.

        Answers for batches that were numbered before may still come from the former topic.
        """
        queue.confirmed_at = NEVER
        queue.numbered_before = queue.numbered

    # -- differences between producers

    @property
    @abstractmethod
    def transactional(self) -> bool:
        """Whether batches are part of a transaction."""

    @abstractmethod
    def must_keep(self, queue: PartitionQueue) -> bool:
        """Whether the count of this partition must not be forgotten, because no other identity could replace it."""

    @abstractmethod
    def forgotten(self, queues: Collection[PartitionQueue]) -> None:
        """The counts of these partitions are dropped here. Their leaders still know them."""

    @abstractmethod
    def ends_with(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """Whether a refused identity is the end of the batch."""

    @abstractmethod
    def _has_another(self, queue: PartitionQueue) -> bool:
        """Whether there is, or can be made, an identity under which a broken partition can go on."""

    @abstractmethod
    def _change_identity(self, queue: PartitionQueue) -> None:
        """Provide that identity, where it is not there yet."""

    def _prepare_first(self, queue: PartitionQueue) -> None:
        """A batch is about to get the first number that is given in this partition."""
        del queue

    # -- permission to send

    def may_send(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        """Whether the head of the queue may leave now without breaking order or identity."""
        if self._identity is None:
            return False
        if queue.broken and self._mendable(queue):
            return True
        if batch.sequence >= 0:
            return self._may_repeat(queue, batch)
        if queue.broken or (queue.identity is None and not self._may_begin(queue)):
            return False
        return not queue.sent or (is_confirmed(queue, now) and to_remember(queue) < REMEMBERED_BATCHES)

    def _may_begin(self, queue: PartitionQueue) -> bool:
        """Whether the first number of this partition may be given now."""
        del queue
        return True

    def _may_repeat(self, queue: PartitionQueue, batch: QueuedBatch) -> bool:
        if queue.ahead is not None:
            return queue.ahead is batch
        # A batch that is sent again waits until it is the first without an outcome (RecordAccumulator's
        # shouldStopDrainBatchesForPartition): one in flight while a partition recovers.
        if queue.sent[0] is not batch:
            return False
        if not queue.broken or batch.dirty:
            return True
        # Batches in doubt behind it keep the sequence from being mended; this batch may still succeed.
        return not queue.in_flight and any(other.dirty for other in queue.sent)

    def newer_in_doubt(self, queue: PartitionQueue, batch: QueuedBatch) -> QueuedBatch | None:
        """The batch to send next when the leader expects another sequence than that of this batch, which may be in its log.

        A restarted leader knows only the newest batch of each producer, and does not recognize earlier batches as
        duplicates. But it accepts batches in order: a batch that it knows, or accepts, proves that all earlier ones are
        in its log. So the other batches in doubt are repeated one at a time, the newest first. None of them can get
        into the log out of order: the leader has just shown that it knows this producer.
        """
        if batch not in queue.sent:
            return None
        at = queue.sent.index(batch)
        candidates = queue.sent[1 : at or None]
        # One that was refused for a reason which the coordinator is asked for is not sent again.
        return next((other for other in reversed(candidates) if other.dirty and other in queue.queue), None)

    def _mendable(self, queue: PartitionQueue) -> bool:
        if not self._has_another(queue):
            return False
        return not queue.in_flight and not any(batch.dirty for batch in queue.sent)

    # -- numbers

    def give(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """Give the batch its place in the sequence, if it has none, and write its header."""
        if queue.broken and self._mendable(queue):
            self._mend(queue)
        if batch.sequence >= 0:
            return
        if queue.identity is None:
            self._prepare_first(queue)
        if queue.identity != self._identity and not queue.sent:
            self._adopt(queue)
        self._number_next(queue, batch)

    def _mend(self, queue: PartitionQueue) -> None:
        queue.in_order_again()
        self._change_identity(queue)
        self._adopt(queue)
        queue.broken = False
        for batch in queue.sent:
            self._number(queue, batch)

    def _adopt(self, queue: PartitionQueue) -> None:
        assert self._identity is not None  # noqa: S101  # may_send() refused before
        if queue.identity is None or queue.identity[0] != self._identity[0]:
            # No leader knows a new producer id.
            queue.confirmed_at = NEVER
        queue.identity = self._identity
        queue.next_sequence = 0

    # -- outcomes of batches

    @staticmethod
    def _runs_on(queue: PartitionQueue, batch: QueuedBatch) -> bool:
        """Whether every batch with a number follows the acknowledged one without a gap."""
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
        """The batch ended with an unknown outcome, so the next number is unknown too."""
        if self._forget(queue, batch):
            queue.broken = True

    def refused(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """The broker does not go on from the number of this batch (OUT_OF_ORDER, UNKNOWN_PRODUCER_ID, epoch)."""
        if batch.sequence >= 0 and queue.sent and queue.sent[0] is batch:
            queue.broken = True

    def replace(self, queue: PartitionQueue, batch: QueuedBatch, children: list[QueuedBatch]) -> None:
        """A batch was split: its parts take over its range of numbers, in order. Leaders remember each of them."""
        if batch.sequence < 0:
            return
        sequence = batch.sequence
        for nth, child in enumerate(children, batch.nth):
            child.identity, child.sequence, child.nth = batch.identity, sequence, nth
            sequence = child.next_sequence
            assert child.identity is not None  # noqa: S101  # copied from a numbered batch
            stamp(child, *child.identity, child.sequence, self.transactional)
        at = queue.sent.index(batch)
        queue.sent[at : at + 1] = children
        more = len(children) - 1
        for later in queue.sent[at + len(children) :]:
            later.nth += more
        queue.numbered += more
        if batch.nth <= queue.numbered_before:
            queue.numbered_before += more


class Unnumbered(Sequences):
    """No idempotence: batches have neither identity nor number."""

    transactional = False

    def __init__(self, *, one_at_a_time: bool) -> None:
        super().__init__()
        # Only one batch at a time keeps the order over retries, if that was asked for.
        self.one_at_a_time = one_at_a_time

    def may_send(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        """Whether the head of the queue may leave now without breaking the order."""
        del batch, now
        return not (self.one_at_a_time and queue.in_flight)

    def give(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        """Write the header, once per batch; also of one that was made of others after they had been sent."""
        del queue
        if batch.identity is None:
            batch.identity = ANONYMOUS
            stamp_anonymous(batch)

    def must_keep(self, queue: PartitionQueue) -> bool:
        """Nothing is counted."""
        del queue
        return False

    def forgotten(self, queues: Collection[PartitionQueue]) -> None:
        """Nothing is counted."""

    def ends_with(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """A refused identity is tried again: this producer has none."""
        del queue, batch, code
        return False

    def _has_another(self, queue: PartitionQueue) -> bool:
        del queue
        return False

    def _change_identity(self, queue: PartitionQueue) -> None:
        pass
