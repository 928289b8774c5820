"""The identity of a transactional producer, which its coordinator alone gives and raises.

A client that raised the epoch by itself would be refused by every leader, and take the refusal for another producer that
has taken over. So nothing here can change an identity; what breaks a sequence breaks the transaction, and the next
transaction gets another epoch from the coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.batching.sequences import Sequences
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from aioproducer._state.batching.batches import QueuedBatch
    from aioproducer._state.batching.queues import PartitionQueue


class CoordinatedIdentity(Sequences):
    """Sequences whose identity changes with `obtained()` only."""

    transactional = True

    def __init__(self) -> None:
        super().__init__()
        # A transaction was begun under the present identity.
        self._begun = False
        # Only these partitions may be sent to, where the coordinator has to know the partitions of a transaction before.
        self._added: set[tuple[str, int]] | None = None

    def begin(self, added: set[tuple[str, int]] | None) -> None:
        """A transaction begins: its records are sent under the present identity, and only to `added` unless that is None."""
        self._begun, self._added = True, added

    def obtained(self, producer_id: int, epoch: int) -> None:
        """The coordinator gave this identity, and has ended what was open under the one before.

        Records that were accepted before are not sent any more: they would become part of the next transaction.
        """
        super().obtained(producer_id, epoch)
        self._begun = False

    def may_send(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        """Whether the head of the queue may leave now: in a transaction only, and to no partition that it does not have."""
        if not self._begun:
            return False
        if self._added is not None and (queue.topic.name, queue.index) not in self._added:
            return False
        return Sequences.may_send(self, queue, batch, now)

    def must_keep(self, queue: PartitionQueue) -> bool:
        """Whether the partition has numbers of the present epoch, which cannot be begun again at 0."""
        return self._identity is not None and queue.identity == self._identity

    def forgotten(self, queues: Collection[PartitionQueue]) -> None:
        """Nothing is lost: what is counted under the present epoch is kept (`must_keep`)."""

    def _has_another(self, queue: PartitionQueue) -> bool:
        return queue.identity != self._identity

    def _change_identity(self, queue: PartitionQueue) -> None:
        """The coordinator has given another identity already."""

    def ends_with(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """Whether only an abort goes on from here: the refusal says nothing about batches that were sent before."""
        return not (
            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (batch.dirty or queue.sent[0] is not batch)
        )

    def remade(self, queue: PartitionQueue) -> None:
        """Count on: a new log takes any first number, or refuses it, and then the transaction is aborted.

        To begin at 0 again would be wrong where the answer that told of the new topic came from a broker that lags behind: a
        leader that knows the numbers of this epoch would take records for a repetition, and acknowledge what it does not write.
        """
        super().remade(queue)
