"""Draining: the batches of the next request to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._core import OrdinaryDrainer
from aioproducer._state.effects import event
from aioproducer._state.queues.rewriting import without_settled

if TYPE_CHECKING:
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.effects import Effects
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import NodeQueue, PartitionQueue


class Drainer(OrdinaryDrainer):
    """Takes batches out of the ready queue of a broker."""

    accumulator: Accumulator
    effects: Effects

    def __init__(self, accumulator: Accumulator) -> None:
        super().__init__(accumulator, accumulator.cluster.budget, accumulator.limits.max_request_size)

    def has_ready(self, node: NodeQueue, now: float) -> bool:
        """True when the broker has a batch to send. Partitions that are not ready any more leave the ready queue."""
        return bool(node.ready) and (
            self.accumulator.is_sendable(node.ready[0], now) or self._has_other_ready(node, now)
        )

    @event
    def _has_other_ready(self, node: NodeQueue, now: float) -> bool:
        while node.ready:
            queue = node.ready[0]
            if self.accumulator.is_sendable(queue, now):
                return True
            self._unready(queue, now)
        return False

    def _unready(self, queue: PartitionQueue, now: float) -> None:
        # The batch that made the queue ready may have ended, and the batch behind it may have to linger.
        queue.node.ready.popleft()
        queue.is_ready = False
        self.accumulator.update_readiness(queue, now)

    @event
    def close_ready(self, node: NodeQueue, now: float) -> None:
        """Have the open batches compressed that the next request takes."""
        size = 0
        for queue in node.ready:
            if size > self.max_request_size:
                return
            if self.accumulator.is_sendable(queue, now):
                batch = queue.queue[0]
                size += batch.size
                if not batch.sealed:
                    self.accumulator.detach(queue, batch)
                    self.accumulator.close(batch)

    def _rewritten(self, queue: PartitionQueue, batch: QueuedBatch) -> QueuedBatch:
        replacement = without_settled(batch, self.accumulator.maker.replacement)
        replacement.sealed = True
        replacement.plain_size = replacement.size
        queue.queue[0] = replacement
        self.accumulator.deadlines.watch_rest(replacement)
        self.accumulator.replace(batch, [replacement])
        return replacement
