"""The deadlines of batches: the common delivery time, the deadlines of single records, and the alarms of partitions."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

from aioproducer._core import OrdinaryDeadlines
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.deadlines import Deadlines
from aioproducer._state.effects import event
from aioproducer._state.queues.partition_queue import PartitionQueue

if TYPE_CHECKING:
    from collections import deque

    from aioproducer._state.effects import Effects
    from aioproducer._state.queues.batches import QueuedBatch

# While records have no outcome, the timekeeper wakes up this often: it sees then whether the loop was blocked.
PULSE = 0.25


def has_ended(thing: PartitionQueue | QueuedBatch) -> bool:
    """Whether an entry of the heap has no meaning any more."""
    return not isinstance(thing, PartitionQueue) and thing.settled


class BatchDeadlines(OrdinaryDeadlines):
    """The times at which a batch of `live` or a partition becomes due. `live`: all batches that have no outcome."""

    effects: Effects
    live: dict[QueuedBatch, None]
    replacements: dict[QueuedBatch, None]
    heap: Deadlines[PartitionQueue | QueuedBatch]
    lingers: deque[tuple[float, PartitionQueue]]

    def __init__(self, effects: Effects, live: dict[QueuedBatch, None]) -> None:
        super().__init__(effects, live, Deadlines())
        # A deadline could not be added to the heap for want of memory.
        self.unwatched = False

    def watch(self, batch: QueuedBatch, deadline: float) -> None:
        """A record in this batch has a deadline of its own.

        The record has its place: without memory for the alarm, `watch_again()` sets it.
        """
        if batch in self.aging or deadline < batch.watched_until:
            try:
                self._watch(batch, deadline)
            except OUT_OF_MEMORY:
                self.unwatched = True

    @event
    def _watch(self, batch: QueuedBatch, deadline: float) -> None:
        if self.aging.discard(batch):
            # From now on the heap has the earliest deadline of the batch.
            deadline = min(deadline, batch.opened_at + batch.delivery_timeout)
        if deadline < batch.watched_until:
            self.set_alarm(batch, deadline)

    def watch_again(self) -> None:
        """Watch the deadlines that could not be watched for want of memory. The timekeeper calls this at each pulse."""
        if self.unwatched:
            self.unwatched = False
            for batch in list(self.live):
                self.watch_rest(batch)
                # A record that is accepted later may be due before all remaining ones.
                self.watch(batch, batch.opened_at + batch.delivery_timeout)

    def set_alarm(self, batch: QueuedBatch, due: float) -> None:
        """Something of this batch becomes due."""
        self.effects.wake_by(due)
        self.heap.add(due, batch)
        batch.watched_until = due
        batch.alarms += 1

    def drop_alarms(self, batch: QueuedBatch) -> None:
        """The entries of this batch have no meaning any more."""
        self.heap.over(has_ended, batch.alarms)
        batch.alarms = 0

    def watch_rest(self, batch: QueuedBatch) -> None:
        """The remaining records of this batch have deadlines of their own; watch the next one."""
        self.aging.discard(batch)
        batch.watched_until = math.inf
        deadline = batch.next_deadline()
        # Without a pending record, the batch only keeps a place in the sequence.
        self.watch(batch, batch.opened_at + batch.delivery_timeout if deadline is None else deadline)

    def oldest_unacked(self) -> float | None:
        """The time at which the oldest record without an outcome was accepted. May raise RuntimeError in other threads."""
        oldest: float | None = None
        for batch in chain(self.replacements, self.live):
            if oldest is not None and batch.opened_at >= oldest and not batch.parts:
                # The batches behind this one are younger still.
                break
            since = batch.waiting_since()
            if since is not None and (oldest is None or since < oldest):
                oldest = since
        return oldest

    def next_deadline(self) -> float | None:
        """The time of the next linger, end of a backoff, or deadline of a record."""
        earliest = self.heap.earliest()
        if self.lingers and (earliest is None or self.lingers[0][0] < earliest):
            earliest = self.lingers[0][0]
        oldest: QueuedBatch | None = self.aging.oldest()
        if oldest is None:
            return earliest
        deadline = oldest.opened_at + oldest.delivery_timeout
        return deadline if earliest is None else min(earliest, deadline)
