"""The lines for memory: the calls that have a partition, and wait for the memory of its broker.

No call passes another call of the same share. Freed memory goes directly to the first call of the line.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aioproducer._core import APPENDED
from aioproducer._state.admission.ready import size_alone, without_memory
from aioproducer._state.admission.waiting import Line
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.effects import event

if TYPE_CHECKING:
    from aioproducer._core import MemoryShare
    from aioproducer._state.admission.waiting import Waiting, WaitingCalls
    from aioproducer._state.admission.waits import Waits
    from aioproducer._state.queues.partition_queue import PartitionQueue, TopicQueues

# A lingering batch has no backoff, and only a backoff would need the time.
ANY_TIME = 0.0


class MemoryLines:
    """A line for each memory share."""

    def __init__(self, calls: WaitingCalls, waits: Waits) -> None:
        self.calls = calls
        self.accumulator = calls.accumulator
        self.effects = calls.effects
        self.lines: dict[MemoryShare, Line] = {}
        self.waits = waits

    def wait(self, call: Waiting, queue: PartitionQueue, now: float) -> None:
        """Take the last place in the line for memory of the broker that leads this partition."""
        self.waits.metadata_came(call, now)
        call.without_memory_since = now
        self.lines.setdefault(queue.share, Line()).add(call)
        call.queue, call.share = queue, queue.share
        queue.waiting += 1
        queue.share.waiting += 1

    def join(self, call: Waiting, queue: PartitionQueue, now: float) -> None:
        """Take a place in a line for memory for a call that keeps its place in the line of its topic."""
        waiting = self.calls.waiting + 1
        self.wait(call, queue, now)
        self.calls.waiting = waiting
        try:
            self.calls.watch(call)
            self.free_memory_for_first(queue.share, now)
        except OUT_OF_MEMORY:
            self.calls.end(call)
            raise

    def free_memory_for_first(self, share: MemoryShare, now: float) -> None:
        """Make batches sendable for a call that has just joined as the first of its line."""
        if share.waiting == 1:
            self._free_memory_for(share, now)

    def _free_memory_for(self, share: MemoryShare, now: float) -> None:
        """Make the batches sendable that hold the memory for which the first call of this line waits."""
        line = self.lines.get(share)
        first = None if line is None else line.first()
        if first is not None and first.record is not None:
            self.accumulator.free_memory_for(share, size_alone(first.record), now)

    def serve(self) -> None:
        """Memory came back: give it to the first call of the share's line, then to the other lines.

        Called by the dispatcher and by `Machines.serve_room()`, between events: no line is served while one of its calls
        is placed.
        """
        effects = self.effects
        share, effects.room_of = effects.room_of, None
        effects.has_room = False
        if not self.lines:
            return
        try:
            if share is not None:
                self._serve(share)
            for other in list(self.lines):
                if other is not share:
                    self._serve(other)
        except BaseException:
            # The lines behind the failed one are served next time.
            effects.has_room = True
            raise

    def _serve(self, share: MemoryShare) -> None:
        line = self.lines.get(share)
        if line is not None:
            self._serve_line(line, share)

    def _serve_line(self, line: Line, share: MemoryShare) -> None:
        while True:
            call = line.first()
            if call is None:
                del self.lines[share]
                return
            assert call.queue is not None  # noqa: S101  # set on joining this line
            assert call.record is not None  # noqa: S101
            topic: TopicQueues = call.queue.topic  # type: ignore[assignment]
            try:
                status, delivery, queue = self.calls.append(call, call.record, topic, in_line=True)
            except OUT_OF_MEMORY as error:
                self.calls.refuse(call, without_memory(call.topic, error))
                continue
            if status == APPENDED:
                self.calls.accept(call, delivery, queue)
                continue
            if not call.not_placed(self.calls):
                # Records that arrived meanwhile for other brokers may linger, and hold the memory that this call needs.
                self._free_memory_for(share, ANY_TIME)
                return

    @event
    def moved(self, queue: PartitionQueue) -> None:
        """The partition has another leader: its waiting records move to that broker's line, in order."""
        if not queue.waiting:
            if self.lines:
                # Its bytes count for another broker now, so the former share may have room.
                self.effects.room(queue.share)
            return
        for share, line in list(self.lines.items()):
            moving = [call for call in line.calls if call.queue is queue and not call.ended]
            if share is queue.share or not moving:
                continue
            line.calls = deque(call for call in line.calls if call.queue is not queue)
            share.waiting -= len(moving)
            queue.share.waiting += len(moving)
            for call in moving:
                call.share = queue.share
            self.lines.setdefault(queue.share, Line()).calls.extend(moving)
        self._free_memory_for(queue.share, ANY_TIME)
        self.effects.room(queue.share)

    def take_out(self, queues: list[PartitionQueue]) -> list[Waiting]:
        """Take the calls that wait for memory of these partitions out of their lines, the last call first."""
        leaving: list[Waiting] = []
        for line in self.lines.values():
            leaving += [call for call in line.calls if call.queue in queues and not call.ended]
            line.calls = deque(call for call in line.calls if call.queue not in queues)
        return sorted(leaving, key=lambda call: call.number, reverse=True)
