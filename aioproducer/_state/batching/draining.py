"""Draining: the batches of the next request to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.effects import event
from aioproducer._state.queues.rewriting import without_settled

if TYPE_CHECKING:
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import NodeQueue, PartitionQueue


class Drainer:
    """Takes batches out of the ready queue of a broker."""

    def __init__(self, accumulator: Accumulator) -> None:
        self.accumulator = accumulator
        self.effects = accumulator.effects
        self.sequences = accumulator.sequences
        self._budget = accumulator.cluster.budget
        self.limits = accumulator.limits
        # True while the batches of a request are chosen: no record can be withdrawn, not by a finalizer or a signal handler either.
        self.is_draining = False

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
            if size > self.limits.max_request_size:
                return
            if self.accumulator.is_sendable(queue, now):
                batch = queue.queue[0]
                size += batch.size
                if not batch.sealed:
                    self.accumulator.detach(queue, batch)
                    self.accumulator.close(batch)

    def drain(self, node: NodeQueue, now: float) -> list[QueuedBatch]:
        """The batches of one request: one per ready partition, in turn, up to `max_request_size`."""
        used = self._budget.used
        self.is_draining = True
        try:
            taken = self._drained(node, now)
        finally:
            self.is_draining = False
        node.waiting_since = now
        if self._budget.used < used:
            # Withdrawn records were left out only now.
            self.effects.room(node.share)
        return taken

    def _drained(self, node: NodeQueue, now: float) -> list[QueuedBatch]:
        taken: list[QueuedBatch] = []
        size, ready = 0, node.ready
        for _ in range(len(ready)):
            queue = ready[0]
            batch = self._head_to_send(queue, now)
            if batch is not None:
                size += batch.size
                if taken and size > self.limits.max_request_size:
                    break
                self._take(queue, batch, now)
                taken.append(batch)
            # The same as `_unready()`, without two calls for each batch.
            ready.popleft()
            queue.is_ready = False
            if queue.queue:
                self.accumulator.update_readiness(queue, now)
        return taken

    def _head_to_send(self, queue: PartitionQueue, now: float) -> QueuedBatch | None:
        if not self.accumulator.is_sendable(queue, now):
            return None
        batch = queue.queue[0]
        if not batch.sealed:
            self.accumulator.detach(queue, batch)
            self.accumulator.close(batch)
            if batch.sealing:
                return None
        if batch.has_individual and not batch.attempts:
            batch = self._rewritten(queue, batch)
        return batch

    def _rewritten(self, queue: PartitionQueue, batch: QueuedBatch) -> QueuedBatch:
        replacement = without_settled(batch, self.accumulator.maker.replacement)
        replacement.sealed = True
        replacement.plain_size = replacement.size
        queue.queue[0] = replacement
        self.accumulator.deadlines.watch_rest(replacement)
        self.accumulator.retire(batch, to=[replacement])
        return replacement

    def _take(self, queue: PartitionQueue, batch: QueuedBatch, now: float) -> None:
        accumulator = self.accumulator
        queue.queue.popleft()
        accumulator.lingering.pop(queue, None)
        self.sequences.give(queue, batch)
        batch.attempts += 1
        batch.in_flight = True
        accumulator.records_in_flight += batch.pending
        accumulator.bytes_in_flight += batch.charged
        # Set here and not when it fails: the answer may name the next leader, which is tried at once.
        batch.retry_leader = queue.node.node_id
        queue.in_flight += 1
        if batch.drained_at != batch.drained_at:  # NaN: drained for the first time
            batch.drained_at = now
            batch.anchor = queue.anchor
