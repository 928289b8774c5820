"""Admission: the lines of the topics, in which each call that cannot be accepted at once keeps its place.

A call waits in the line of its topic (for serializers, metadata, a partition to exist). When its partition is chosen,
it waits in the line of its broker's memory. No call passes another call of the same topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from aioproducer._core import APPENDED, NO_ROOM_NOW, PARTITION_UNKNOWN, RECORD_TOO_LARGE
from aioproducer._state.admission.memory_lines import MemoryLines
from aioproducer._state.admission.ready import too_large, without_memory
from aioproducer._state.admission.topic_errors import no_such_partition
from aioproducer._state.admission.waiting import Line, Waiting, WaitingCalls
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.effects import event
from aioproducer.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.admission.ready import ReadyRecord
    from aioproducer._state.admission.waits import Waits
    from aioproducer._state.cluster.metadata import MetadataView
    from aioproducer._state.queues.partition_queue import PartitionQueue, TopicQueues
    from aioproducer.errors import KafkaError

# All brokers know an added partition within this time; an earlier answer may lack it.
PROPAGATION = 0.1


class Admission:
    """The lines of one producer's topics; `memory` has the lines for memory, `calls` the calls of all lines."""

    def __init__(self, calls: WaitingCalls, view: MetadataView, waits: Waits) -> None:
        self.calls = calls
        self.memory = MemoryLines(calls, waits)
        self.waits = waits
        self.view = view
        self.accumulator = calls.accumulator
        self.effects = calls.effects
        self.topic_lines: dict[str, Line] = {}
        self.joined = 0

    @event
    def join(self, call: Waiting, now: float) -> None:
        """Take the last place in the line of the topic.

        Raises MemoryError if the call has no place in the line. Where memory is lacking later, the call is refused.
        """
        try:
            self._take_place(call)
        except OUT_OF_MEMORY:
            self.calls.let_go(call)
            # The line may be empty now.
            self.advance(call.topic, now)
            raise
        try:
            self.advance(call.topic, now)
            if not call.ended:
                self.calls.watch(call)
                if call.share is None and not self.calls.knows(call.topic):
                    self.waits.metadata_is_missing(call, now)
        except OUT_OF_MEMORY as error:
            self.calls.refuse(call, without_memory(call.topic, error))
            self.advance(call.topic, now)

    def _take_place(self, call: Waiting) -> None:
        waiting, number = self.calls.waiting + 1, self.joined + 1
        line = self.topic_lines.setdefault(call.topic, Line())
        line.add(call)
        try:
            self.calls.count(call.topic, 1)
        except OUT_OF_MEMORY:
            line.calls.pop()
            raise
        self.calls.waiting, self.joined, call.number = waiting, number, number

    def topics(self) -> set[str]:
        """The topics of the waiting calls."""
        lines = self.memory.lines.values()
        return self.topic_lines.keys() | {
            call.topic for line in lines for call in line.calls if not call.ended
        }

    def has_line(self, topic: str) -> bool:
        """True when calls wait for this topic."""
        line = self.topic_lines.get(topic)
        return line is not None and line.first() is not None

    @event
    def advance(self, topic: str, now: float) -> None:
        """Metadata or the result of a serializer may have arrived for this line."""
        line = self.topic_lines.get(topic)
        if line is None or line.moving:
            return
        line.moving = True
        try:
            self._move(line, topic, now)
        finally:
            line.moving = False

    def _move(self, line: Line, topic: str, now: float) -> None:
        while True:
            call = line.first()
            if call is None:
                # A callback may have re-entered, and the topic may have another line by now.
                if self.topic_lines.get(topic) is line:
                    del self.topic_lines[topic]
                    self._uncount(topic)
                return
            queues = self.accumulator.cluster.topics.get(topic)
            if not call.prepared:
                return
            if queues is None or not queues.partitions:
                self.effects.wanted[topic] = None
                return
            if not self._placed(call, queues, now):
                return

    def _placed(self, call: Waiting, queues: TopicQueues, now: float) -> bool:
        try:
            return call.place(self, queues, now)
        except OUT_OF_MEMORY as error:
            # Records that have their place keep it.
            self.calls.refuse(call, without_memory(call.topic, error))
            return True

    def place(self, call: Waiting, queues: TopicQueues, now: float) -> bool:
        """Append the record of a call; False: its partition is not known."""
        try:
            record = self._with_partition(call, queues)
        except RecordError as error:
            self.calls.refuse(call, error)
            self.effects.room()
            return True
        if call.ended:
            # The partitioner itself has ended the call.
            return True
        held = call.held
        status, delivery, queue = self.calls.append(call, record, queues, in_line=False)
        if status == APPENDED:
            self.waits.metadata_came(call, now)
            self.calls.accept(call, delivery, queue)
            return True
        if call.not_placed(self.calls):
            self.effects.room()
            return True
        if status == NO_ROOM_NOW:
            self.memory.wait(call, queue, now)
            self._leave_topic_line(call)
            self.calls.let_go(call)
            self.memory.free_memory_for_first(queue.share, now)
            if held:
                # A call that waits for memory holds none: calls ahead of it may need these bytes.
                self.effects.room(queue.share)
        elif status == RECORD_TOO_LARGE:
            self.calls.refuse(call, too_large(self.accumulator, call.topic, record))
        elif status == PARTITION_UNKNOWN:
            missing = self.missing_partition(call, queues, now)
            if missing is None:
                self.waits.metadata_is_missing(call, now)
                self.effects.wanted[call.topic] = None
                return False
            self.calls.refuse(call, missing)
            self.effects.room()
        return True

    def missing_partition(self, call: Waiting, queues: TopicQueues, now: float) -> KafkaError | None:
        """The error for a partition that the brokers did not list when they were asked for this call."""
        partition = call.wanted_partition
        if partition is None or self.view.confirmed_at(call.topic) < call.asked_at + PROPAGATION:
            return None
        return no_such_partition(call.topic, partition, len(queues.partitions), now - call.asked_at)

    def _with_partition(self, call: Waiting, queues: TopicQueues) -> ReadyRecord:
        record = call.record
        assert record is not None  # noqa: S101  # advance() passes prepared calls only
        if record.partition is not None or call.choose is None:
            return record
        if call.chosen is None:
            call.chosen = call.choose(record, queues)
        return attrs.evolve(record, partition=call.chosen)

    def _leave_topic_line(self, call: Waiting) -> None:
        self.topic_lines[call.topic].calls.popleft()
        self.calls.count(call.topic, -1)

    def _uncount(self, name: str) -> None:
        topic = self.accumulator.cluster.topics.get(name)
        if topic is not None:
            topic.waiting = 0

    @event
    def learned(self, name: str, now: float) -> None:
        """The topic is known now: its line advances."""
        line = self.topic_lines.get(name)
        topic = self.accumulator.cluster.topics.get(name)
        if line is not None and topic is not None:
            topic.waiting = sum(not call.ended for call in line.calls)
        self.advance(name, now)

    @event
    def vanished(self, name: str, queues: list[PartitionQueue], now: float) -> None:
        """The topic no longer has these partitions: calls that wait for memory there choose again, or wait for the
        partition.
        """
        # Each call goes to the head of the line, so the first call moves last.
        for call in self.memory.take_out(queues):
            call.choose_again(self)
        # The calls behind them are the first of their lines now.
        self.effects.room()
        self.advance(name, now)

    def back_to_topic_line(self, call: Waiting) -> None:
        """A call that waited for memory waits for its topic again, ahead of all later calls."""
        self.calls.leave_memory_line(call)
        call.queue = call.share = call.chosen = None
        self.topic_lines.setdefault(call.topic, Line()).calls.appendleft(call)
        self.calls.count(call.topic, 1)

    @event
    def withdraw(self, call: Waiting, now: float) -> bool:
        """The caller went away before acceptance; False: the record was accepted already, or has never had a place."""
        if call.ended or not call.number or call.is_being_placed:
            return False
        part = call.part_in_line()
        # A record of a bulk call may stand in a line for memory; a call behind it may fit.
        share = call.share if part is None else part.share
        held = call.held
        in_topic_line = call.share is None
        self.calls.end(call)
        if in_topic_line:
            self.advance(call.topic, now)
        if share is not None or held:
            self.effects.room(share)
        return True

    @event
    def refuse_topic(self, name: str, error_for: Callable[[Waiting], KafkaError]) -> None:
        """The topic cannot be used (no permission, invalid name): all calls that wait for it are refused."""
        line = self.topic_lines.pop(name, None)
        for call in list(line.calls) if line is not None else ():
            self.calls.refuse(call, error_for(call))
        self.effects.room()

    @event
    def refuse_all(self, error_for: Callable[[Waiting], KafkaError], *, but_queued: bool = False) -> None:
        """The producer ends: all waiting calls end, except for queued records where `but_queued` keeps them."""
        for line in [*self.topic_lines.values(), *self.memory.lines.values()]:
            for call in list(line.calls):
                if not (but_queued and call.queued):
                    self.calls.refuse(call, error_for(call))

    @event
    def refuse_without_metadata(self, error_for: Callable[[Waiting], KafkaError]) -> None:
        """No broker accepts this client: calls for topics that are not known end, and later ones ask again."""
        for name, line in list(self.topic_lines.items()):
            for call in [] if self.calls.knows(name) else list(line.calls):
                self.calls.refuse(call, error_for(call))
