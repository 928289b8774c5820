"""The identity of a transactional producer: only its coordinator assigns it and raises the epoch.

A client that raised the epoch itself would be refused by every leader, and would take the refusal for a takeover by
another producer. So nothing here can change an identity. A broken sequence breaks the transaction, and the next
transaction gets another epoch from the coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.sequences import Sequences
from aioproducer._wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue


class CoordinatedIdentity(Sequences):
    """Sequences whose identity changes with `obtained()` only."""

    transactional = True

    def __init__(self) -> None:
        super().__init__()
        # A transaction was begun under the present identity.
        self._begun = False
        # The partitions that may be sent to; None where the coordinator does not need the partitions in advance.
        self._added: set[tuple[str, int]] | None = None

    def begin(self, added: set[tuple[str, int]] | None) -> None:
        """A transaction begins: its records go out under the present identity, only to `added` unless that is None."""
        self._begun, self._added = True, added

    def obtained(self, producer_id: int, epoch: int) -> None:
        """The coordinator assigned this identity, and has ended the transaction of the previous one.

        Records that were accepted earlier are not sent any more: they would become part of the next transaction.
        """
        super().obtained(producer_id, epoch)
        self._begun = False

    def may_send(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        """Whether the head of the queue may be sent now: only in a transaction, and only to an added partition."""
        if not self._begun:
            return False
        if self._added is not None and (queue.topic.name, queue.index) not in self._added:
            return False
        return Sequences.may_send(self, queue, batch, now)

    def must_keep(self, queue: PartitionQueue) -> bool:
        """Whether the partition has numbers of the present epoch, which cannot restart at 0."""
        return self._identity is not None and queue.identity == self._identity

    def forgotten(self, queues: Collection[PartitionQueue]) -> None:
        """Nothing is lost: the counts of the present epoch are kept (`must_keep`)."""

    def _has_another(self, queue: PartitionQueue) -> bool:
        return queue.identity != self._identity

    def _change_identity(self, queue: PartitionQueue) -> None:
        """The coordinator has given another identity already."""

    def ends_with(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """Whether only an abort can follow: the refusal says nothing about earlier batches."""
        return not (
            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (batch.dirty or queue.sent[0] is not batch)
        )

    def remade(self, queue: PartitionQueue) -> None:
        """Keep counting: a new log takes any first number, or refuses it, and then the transaction is aborted.

        A restart at 0 would be wrong if the broker that reported the new topic lags behind: a leader that knows the
        numbers of this epoch would take the records for duplicates, and acknowledge records that it does not write.
        """
        super().remade(queue)
