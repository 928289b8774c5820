"""The identity of an idempotent producer, which raises its epoch itself (KIP-360)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.identity.sequences import Sequences

if TYPE_CHECKING:
    from collections.abc import Collection

    from aioproducer._state.effects import Effects
    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue

LAST_EPOCH = 32767


class OwnIdentity(Sequences):
    """Sequences whose epoch is raised without a request; after the last epoch another producer id is requested."""

    transactional = False

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self.effects = effects
        self.exhausted = False
        # The identity of partitions whose counts were dropped.
        self._lost_count_of: Identity | None = None

    @property
    def wanted(self) -> bool:
        """True when a producer id has to be requested (InitProducerId)."""
        return self._identity is None or self.exhausted

    def obtained(self, producer_id: int, epoch: int) -> None:
        """A broker gave a producer id."""
        super().obtained(producer_id, epoch)
        self.exhausted = False

    def _next_epoch(self) -> None:
        assert self._identity is not None  # noqa: S101  # may_send() refused before
        producer_id, epoch = self._identity
        self._identity = (producer_id, epoch + 1)
        # The last epoch is in use: a new producer id is requested while this one still serves.
        self.exhausted = epoch + 1 >= LAST_EPOCH
        if self.exhausted:
            self.effects.identity_exhausted = True

    # -- dropped counts

    def must_keep(self, queue: PartitionQueue) -> bool:
        """Never: a newer epoch replaces any count."""
        del queue
        return False

    def forgotten(self, queues: Collection[PartitionQueue]) -> None:
        """The counts of these partitions are dropped here, but their leaders remember the producer for a day.

        A partition that comes back must not restart at 0 under the same epoch: its leader would take its records for
        duplicates.
        """
        if any(queue.identity == self._identity for queue in queues):
            self._lost_count_of = self._identity

    def _may_have_counted(self) -> bool:
        return self._lost_count_of == self._identity

    def _may_begin(self, queue: PartitionQueue) -> bool:
        del queue
        return not (self.exhausted and self._may_have_counted())

    def _prepare_first(self, queue: PartitionQueue) -> None:
        del queue
        if self._may_have_counted():
            self._next_epoch()

    # -- broken sequences

    def _has_another(self, queue: PartitionQueue) -> bool:
        # No epoch follows the last one: then a partition goes on under the requested producer id.
        return not (self.exhausted and queue.identity == self._identity)

    def _change_identity(self, queue: PartitionQueue) -> None:
        if queue.identity == self._identity:
            self._next_epoch()

    def ends_with(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """Never: the batch goes on under a newer epoch."""
        del queue, batch, code
        return False

    def remade(self, queue: PartitionQueue) -> None:
        """Restart at 0 under a newer epoch: a broker with the former topic may know the numbers of this epoch."""
        super().remade(queue)
        queue.broken = queue.identity is not None
