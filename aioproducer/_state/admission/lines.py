"""Admission: the calls that cannot be accepted at once, each keeping its place.

A call waits in the line of its topic (for serializers, metadata, a partition to exist). When its partition is chosen,
it waits in the line of its broker's memory. No call passes another call of the same topic, nor, for memory, of the same
share. Freed memory goes directly to the first call of the line.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from aioproducer._core import (
    APPENDED,
    BATCH_OVERHEAD,
    NO_ROOM_NOW,
    PARTITION_UNKNOWN,
    RECORD_TOO_LARGE,
    MemoryShare,
    record_size,
)
from aioproducer._state.admission.topic_errors import no_such_partition, said_of_topic, still_unknown
from aioproducer._state.admission.waits import Waits
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.deadlines import Deadlines
from aioproducer._state.effects import event
from aioproducer._state.queues.flushing import placed
from aioproducer.errors import BufferFullError, MetadataTimeoutError, RecordError, RecordTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import Delivery
    from aioproducer._state.admission.bulk import BulkWaiting
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.cluster.metadata import MetadataView
    from aioproducer._state.delivery.losses import Losses
    from aioproducer._state.queues.flush import Flush
    from aioproducer._state.queues.partition_queue import PartitionQueue, TopicQueues
    from aioproducer.errors import KafkaError

    PlainHeaders = tuple[tuple[str, bytes | None], ...] | None

# All brokers know an added partition within this time; an earlier answer may lack it.
PROPAGATION = 0.1
# A lingering batch has no backoff, and only a backoff would need the time.
ANY_TIME = 0.0


class Appender(Protocol):
    """The part of the send path that appends checked records."""

    def _append_checked(
        self,
        topic: TopicQueues,
        key: bytes | None,
        value: bytes | None,
        headers: PlainHeaders,
        timestamp: int | None,
        partition: int,
        deadline: float,
        in_line: bool,
    ) -> list[Any]: ...


@attrs.frozen
class ReadyRecord:
    """A record in the form that is appended."""

    key: bytes | None
    value: bytes | None
    headers: PlainHeaders
    timestamp: int | None
    partition: int | None


@attrs.define(eq=False)
class Waiting:
    """One call that waits. `record` is None while its serializers run.

    The call waits in the line of its topic until its partition is chosen (`queue`), then in the line for memory.
    """

    topic: str
    record: ReadyRecord | None
    asked_at: float
    give_up_at: float
    record_deadline: float
    on_accepted: Callable[[Delivery], None]
    on_refused: Callable[[KafkaError], None]
    # The user's partitioner, called when the topic is known; it may leave the choice to the default.
    choose: Callable[[ReadyRecord, TopicQueues], int | None] | None = None
    queue: PartitionQueue | None = None
    share: MemoryShare | None = None
    # The choice of the user's partitioner.
    chosen: int | None = None
    # Its place in the order of all calls.
    number: int = 0
    held: int = 0
    # Already accepted for its caller: `send_nowait` returned a delivery. Flushes wait for it.
    queued: bool = False
    flushes: tuple[Flush, ...] = ()
    ended: bool = False
    # A record of the call is being appended; a finalizer may have interrupted the append.
    placing: bool = False
    # The caller has gone away: records that are not accepted yet have no owner.
    left: bool = False
    # In the heap of deadlines, which may keep the call for a while after its end.
    watched: bool = False
    # The time since which it waits for metadata, or for memory; None while it does not wait.
    without_metadata_since: float | None = None
    without_memory_since: float | None = None
    # Cancels the coroutine serializers that still prepare its records.
    stop_preparing: Callable[[], None] | None = None

    def forget(self) -> None:
        """Drop the references to the user's objects."""
        self.record = None
        self.choose = None
        self.on_accepted = _ignore
        self.on_refused = _ignore

    @property
    def prepared(self) -> bool:
        """True when the record needs only a place to be appended."""
        return self.record is not None

    @property
    def wanted_partition(self) -> int | None:
        """The partition that the caller or its partitioner chose for the next record."""
        explicit = None if self.record is None else self.record.partition
        return self.chosen if explicit is None else explicit

    def part_in_line(self) -> Waiting | None:
        """The record of a bulk call that waits for memory separately."""
        return None

    @property
    def is_being_placed(self) -> bool:
        """True in the middle of an append, whose result is not known yet."""
        part = self.part_in_line()
        return self.placing or (part is not None and part.placing)

    def not_placed(self, admission: Admission) -> bool:
        """The append gave the record no place; True: the caller went away meanwhile, which ends the call."""
        if self.left:
            admission.leave(self)
        return self.ended

    def choose_again(self, admission: Admission) -> None:
        """The partition is gone: choose one of the present partitions of the topic."""
        admission.back_to_topic_line(self)

    def expire(self, admission: Admission, error: KafkaError, now: float) -> None:
        """The call has reached its time limit."""
        del now
        admission.refuse(self, error)

    def place(self, admission: Admission, queues: TopicQueues, now: float) -> bool:
        """Append the record, or move it to the line for memory; False: it stays the first of its topic."""
        return admission.place(self, queues, now)


class Line:
    """Calls in order; ended calls are skipped."""

    __slots__ = ("calls", "moving")

    def __init__(self) -> None:
        self.calls: deque[Waiting] = deque()
        # True while its first call is placed. A partitioner, interceptor or finalizer may re-enter meanwhile.
        self.moving = False

    def first(self) -> Waiting | None:
        """The first call that still waits."""
        while self.calls and self.calls[0].ended:
            self.calls.popleft()
        return self.calls[0] if self.calls else None


class Admission:
    """The lines of one producer."""

    def __init__(
        self, accumulator: Accumulator, losses: Losses, view: MetadataView, appender: Appender
    ) -> None:
        self.accumulator = accumulator
        self.losses = losses
        self.view = view
        self.effects = accumulator.effects
        self.appender = appender
        self.topic_lines: dict[str, Line] = {}
        self.memory_lines: dict[MemoryShare, Line] = {}
        self.deadlines: Deadlines[Waiting] = Deadlines()
        self.waiting = 0
        self.joined = 0
        self.waits = Waits()
        # Memory that queued records of `send_nowait` hold before they have a partition.
        self.unrouted_memory = MemoryShare(accumulator.budget)
        self._own_unrouted_memory = {
            name: MemoryShare(own) for name, own in accumulator.cluster.topic_budgets.items()
        }

    # -- joining

    @event
    def join(self, call: Waiting, now: float) -> None:
        """Take the last place in the line of the topic.

        Raises MemoryError if the call has no place in the line. Where memory is lacking later, the call is refused.
        """
        try:
            self._take_place(call)
        except OUT_OF_MEMORY:
            self.let_go(call)
            # The line may be empty now.
            self.advance(call.topic, now)
            raise
        try:
            self.advance(call.topic, now)
            if not call.ended:
                self._watch(call)
                if call.share is None and not self.knows(call.topic):
                    self.waits.metadata_is_missing(call, now)
        except OUT_OF_MEMORY as error:
            self.refuse(call, without_memory(call.topic, error))
            self.advance(call.topic, now)

    def _take_place(self, call: Waiting) -> None:
        waiting, number = self.waiting + 1, self.joined + 1
        line = self.topic_lines.setdefault(call.topic, Line())
        line.calls.append(call)
        try:
            self._count(call.topic, 1)
        except OUT_OF_MEMORY:
            line.calls.pop()
            raise
        self.waiting, self.joined, call.number = waiting, number, number

    def _watch(self, call: Waiting) -> None:
        self.effects.wake_by(call.give_up_at)
        self.deadlines.add(call.give_up_at, call)
        call.watched = True

    def hold_memory(self, call: Waiting) -> bool:
        """Charge the memory of a record that waits without a waiting caller; False: there is no room."""
        assert call.record is not None  # noqa: S101  # send_nowait refuses coroutine serializers
        record = call.record
        size = record_size(record.key, record.value, record.headers)
        unrouted_memory = self._unrouted_memory_of(call.topic)
        if not unrouted_memory.room_for(size):
            return False
        unrouted_memory.charge(size)
        call.held = size
        return True

    def _unrouted_memory_of(self, topic: str) -> MemoryShare:
        return self._own_unrouted_memory.get(topic, self.unrouted_memory)

    @property
    def bytes_held(self) -> int:
        """The bytes of records that have no partition yet."""
        return self.unrouted_memory.used + sum(share.used for share in self._own_unrouted_memory.values())

    def join_for_memory(self, call: Waiting, queue: PartitionQueue, now: float) -> None:
        """Take a place in a line for memory for a call that keeps its place in the line of its topic."""
        waiting = self.waiting + 1
        self._wait_for_memory(call, queue, now)
        self.waiting = waiting
        try:
            self._watch(call)
            self._free_memory_for_first(queue.share, now)
        except OUT_OF_MEMORY:
            self._end(call)
            raise

    def knows(self, topic: str) -> bool:
        """True when the topic has partitions."""
        queues = self.accumulator.cluster.topics.get(topic)
        return queues is not None and bool(queues.partitions)

    def topics(self) -> set[str]:
        """The topics of the waiting calls."""
        lines = self.memory_lines.values()
        return self.topic_lines.keys() | {
            call.topic for line in lines for call in line.calls if not call.ended
        }

    def has_line(self, topic: str) -> bool:
        """True when calls wait for this topic."""
        line = self.topic_lines.get(topic)
        return line is not None and line.first() is not None

    # -- progress

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
            self.refuse(call, without_memory(call.topic, error))
            return True

    def place(self, call: Waiting, queues: TopicQueues, now: float) -> bool:
        """Append the record of a call; False: its partition is not known."""
        try:
            record = self._with_partition(call, queues)
        except RecordError as error:
            self.refuse(call, error)
            self.effects.room()
            return True
        if call.ended:
            # The partitioner itself has ended the call.
            return True
        held = call.held
        status, delivery, queue = self._append(call, record, queues, in_line=False)
        if status == APPENDED:
            self.waits.metadata_came(call, now)
            self._accept(call, delivery, queue)
            return True
        if call.not_placed(self):
            self.effects.room()
            return True
        if status == NO_ROOM_NOW:
            self._wait_for_memory(call, queue, now)
            self._leave_topic_line(call)
            self.let_go(call)
            self._free_memory_for_first(queue.share, now)
            if held:
                # A call that waits for memory holds none: calls ahead of it may need these bytes.
                self.effects.room(queue.share)
        elif status == RECORD_TOO_LARGE:
            self.refuse(call, too_large(self.accumulator, call.topic, record))
        elif status == PARTITION_UNKNOWN:
            missing = self.missing_partition(call, queues, now)
            if missing is None:
                self.waits.metadata_is_missing(call, now)
                self.effects.wanted[call.topic] = None
                return False
            self.refuse(call, missing)
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

    def _append(self, call: Waiting, record: ReadyRecord, queues: TopicQueues, *, in_line: bool) -> list[Any]:
        held = call.held
        self.let_go(call)
        chosen = -1 if record.partition is None else record.partition
        if call.queue is not None:
            chosen = call.queue.index
        call.placing = True
        try:
            answer = self.appender._append_checked(  # noqa: SLF001  # the send path is built for this
                queues,
                record.key,
                record.value,
                record.headers,
                record.timestamp,
                chosen,
                call.record_deadline,
                in_line,
            )
        except BaseException:
            call.placing = False
            raise
        if answer[0] != APPENDED:
            call.placing = False
            self._unrouted_memory_of(call.topic).charge(held)
            call.held = held
        elif call.record_deadline:
            self.accumulator.deadlines.watch(answer[2].open, call.record_deadline)
        return answer

    def let_go(self, call: Waiting) -> None:
        """The call no longer holds memory."""
        self._unrouted_memory_of(call.topic).release(call.held)
        call.held = 0

    def _wait_for_memory(self, call: Waiting, queue: PartitionQueue, now: float) -> None:
        """Take the last place in the line for memory of the broker that leads this partition."""
        self.waits.metadata_came(call, now)
        call.without_memory_since = now
        self.memory_lines.setdefault(queue.share, Line()).calls.append(call)
        call.queue, call.share = queue, queue.share
        queue.waiting += 1
        queue.share.waiting += 1

    def _free_memory_for_first(self, share: MemoryShare, now: float) -> None:
        if share.waiting == 1:
            self._free_memory_for(share, now)

    def _free_memory_for(self, share: MemoryShare, now: float) -> None:
        """Make the batches sendable that hold the memory for which the first call of this line waits."""
        line = self.memory_lines.get(share)
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
        if not self.memory_lines:
            return
        try:
            if share is not None:
                self._serve(share)
            for other in list(self.memory_lines):
                if other is not share:
                    self._serve(other)
        except BaseException:
            # The lines behind the failed one are served next time.
            effects.has_room = True
            raise

    def _serve(self, share: MemoryShare) -> None:
        line = self.memory_lines.get(share)
        if line is not None:
            self._serve_line(line, share)

    def _serve_line(self, line: Line, share: MemoryShare) -> None:
        while True:
            call = line.first()
            if call is None:
                del self.memory_lines[share]
                return
            assert call.queue is not None  # noqa: S101  # set on joining this line
            assert call.record is not None  # noqa: S101
            topic: TopicQueues = call.queue.topic  # type: ignore[assignment]
            try:
                status, delivery, queue = self._append(call, call.record, topic, in_line=True)
            except OUT_OF_MEMORY as error:
                self.refuse(call, without_memory(call.topic, error))
                continue
            if status == APPENDED:
                self._accept(call, delivery, queue)
                continue
            if not call.not_placed(self):
                # Records that arrived meanwhile for other brokers may linger, and hold the memory that this call needs.
                self._free_memory_for(share, ANY_TIME)
                return

    @event
    def moved(self, queue: PartitionQueue) -> None:
        """The partition has another leader: its waiting records move to that broker's line, in order."""
        if not queue.waiting:
            if self.memory_lines:
                # Its bytes count for another broker now, so the former share may have room.
                self.effects.room(queue.share)
            return
        for share, line in list(self.memory_lines.items()):
            moving = [call for call in line.calls if call.queue is queue and not call.ended]
            if share is queue.share or not moving:
                continue
            line.calls = deque(call for call in line.calls if call.queue is not queue)
            share.waiting -= len(moving)
            queue.share.waiting += len(moving)
            for call in moving:
                call.share = queue.share
            self.memory_lines.setdefault(queue.share, Line()).calls.extend(moving)
        self._free_memory_for(queue.share, ANY_TIME)
        self.effects.room(queue.share)

    @event
    def vanished(self, name: str, queues: list[PartitionQueue], now: float) -> None:
        """The topic no longer has these partitions: calls that wait for memory there choose again, or wait for the
        partition.
        """
        leaving: list[Waiting] = []
        for line in self.memory_lines.values():
            leaving += [call for call in line.calls if call.queue in queues and not call.ended]
            line.calls = deque(call for call in line.calls if call.queue not in queues)
        # Each call goes to the head of the line, so the first call moves last.
        for call in sorted(leaving, key=lambda call: call.number, reverse=True):
            call.choose_again(self)
        # The calls behind them are the first of their lines now.
        self.effects.room()
        self.advance(name, now)

    def back_to_topic_line(self, call: Waiting) -> None:
        """A call that waited for memory waits for its topic again, ahead of all later calls."""
        self._leave_memory_line(call)
        call.queue = call.share = call.chosen = None
        self.topic_lines.setdefault(call.topic, Line()).calls.appendleft(call)
        self._count(call.topic, 1)

    def drop_part(self, part: Waiting) -> None:
        """A record of a bulk call no longer waits separately; the call has kept its place."""
        self._end(part)

    # -- leaving

    def _accept(self, call: Waiting, delivery: Delivery, queue: PartitionQueue) -> None:
        # First of all: the record has its place, and a later failure must not deny that.
        tell = call.on_accepted
        self._end(call)
        tell(delivery)
        if call.flushes:
            batch, index = queue.newest()
            try:
                placed(call, batch, index)
            except OUT_OF_MEMORY as error:
                for flush in call.flushes:
                    flush.error = error
                self.effects.flush_without_memory = True
            self.accumulator.send_now(batch)
        if call.asked_at < queue.lost_at:
            self.losses.fail_late_comer(*queue.newest())

    @event
    def done(self, call: BulkWaiting) -> None:
        """A bulk call has placed all of its records."""
        if not call.ended:
            tell = call.on_done
            self._end(call)
            tell()

    @event
    def refuse(self, call: Waiting, error: KafkaError) -> None:
        """The record is not accepted."""
        if not call.ended:
            tell = call.on_refused
            self._end(call)
            tell(error)

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
        self._end(call)
        if in_topic_line:
            self.advance(call.topic, now)
        if share is not None or held:
            self.effects.room(share)
        return True

    def leave(self, call: Waiting) -> None:
        """End a call that is the first of its line; the next call follows."""
        if not call.ended:
            self._end(call)

    def _end(self, call: Waiting) -> None:
        part = call.part_in_line()
        if part is not None and not part.ended:
            # A bulk call that has ended must not be appended in part later.
            self._end(part)
        call.ended = True
        if call.stop_preparing is not None:
            call.stop_preparing()
            call.stop_preparing = None
        call.forget()
        if call.watched:
            self.deadlines.over(_has_ended)
        self.waiting -= 1
        self.let_go(call)
        if call.share is None:
            self._count(call.topic, -1)
        else:
            self._leave_memory_line(call)
        if not self.waiting:
            self.effects.call_ended_last = True

    def _leave_memory_line(self, call: Waiting) -> None:
        assert call.queue is not None  # noqa: S101  # set together with the share
        assert call.share is not None  # noqa: S101  # asked for calls that wait for memory only
        call.share.waiting -= 1
        call.queue.waiting -= 1

    def _leave_topic_line(self, call: Waiting) -> None:
        self.topic_lines[call.topic].calls.popleft()
        self._count(call.topic, -1)

    def _count(self, name: str, change: int) -> None:
        topic = self.accumulator.cluster.topics.get(name)
        if topic is not None:
            topic.waiting += change

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
    def refuse_topic(self, name: str, error_for: Callable[[Waiting], KafkaError]) -> None:
        """The topic cannot be used (no permission, invalid name): all calls that wait for it are refused."""
        line = self.topic_lines.pop(name, None)
        for call in list(line.calls) if line is not None else ():
            self.refuse(call, error_for(call))
        self.effects.room()

    @event
    def refuse_all(self, error_for: Callable[[Waiting], KafkaError], *, but_queued: bool = False) -> None:
        """The producer ends: all waiting calls end, except for queued records where `but_queued` keeps them."""
        for line in [*self.topic_lines.values(), *self.memory_lines.values()]:
            for call in list(line.calls):
                if not (but_queued and call.queued):
                    self.refuse(call, error_for(call))

    @event
    def refuse_without_metadata(self, error_for: Callable[[Waiting], KafkaError]) -> None:
        """No broker accepts this client: calls for topics that are not known end, and later ones ask again."""
        for name, line in list(self.topic_lines.items()):
            for call in [] if self.knows(name) else list(line.calls):
                self.refuse(call, error_for(call))

    # -- time

    @event
    def expire(self, now: float) -> None:
        """Refuse the calls that have waited too long."""
        topics: dict[str, None] = {}
        # A call that is watched anew for this same time is due in the next pass.
        over: list[tuple[Waiting, KafkaError]] = []
        for call in list(self.deadlines.pop_due(now)):
            if call.give_up_at > now and not call.ended:
                self._watch(call)
            elif not call.ended:
                # All errors are made before the first refusal: the reason of one call may be another that is refused
                # with it.
                over.append((call, self._waited_too_long(call, now)))
        for call, error in over:
            if not call.ended:
                topics[call.topic] = None
                call.expire(self, error, now)
                if not call.ended:
                    self._watch(call)
        if topics:
            # The freed memory may be enough for the next call of a line.
            self.effects.room()
        for topic in topics:
            self.advance(topic, now)

    def trouble_with(self, topic: str) -> BaseException | None:
        """The reason why a topic is not known: no broker answers, or the error in their answers; None without such a
        reason.
        """
        reach = self.accumulator.cluster.reach
        if self.view.failing:
            return reach.last_error
        code = self.view.error_of(topic)
        if code is not None:
            return said_of_topic(code)
        # After a useless answer the client changes to another broker; meanwhile no connection is open.
        return None if self.view.topic(topic) is not None else reach.missing

    def _waited_too_long(self, call: Waiting, now: float) -> KafkaError:
        waited = now - call.asked_at
        if call.share is not None:
            queue = call.queue
            assert queue is not None  # noqa: S101  # set on joining the line
            trouble = self.accumulator.cluster.trouble_at(queue.node.node_id)
            return BufferFullError(topic=call.topic, partition=queue.index, waited=waited, cause=trouble)
        if not call.prepared:
            return BufferFullError("the serializer did not finish in time", topic=call.topic, waited=waited)
        partition, trouble = call.wanted_partition, self.trouble_with(call.topic)
        queues = self.accumulator.cluster.topics.get(call.topic)
        count = 0 if queues is None else len(queues.partitions)
        if trouble is None and partition is not None and 0 < count <= partition:
            confirmed = self.view.confirmed_at(call.topic) >= call.asked_at
            return no_such_partition(call.topic, partition, count, waited, confirmed=confirmed)
        if count and (partition is None or partition < count):
            return self._held_up(call, waited, trouble)
        return still_unknown(call.topic, waited, trouble, partition)

    def _held_up(self, call: Waiting, waited: float, trouble: BaseException | None) -> KafkaError:
        """The error of a call whose topic and partition are known: it waited for earlier calls."""
        line = self.topic_lines.get(call.topic)
        first = None if line is None else line.first()
        if first is not None and first is not call and first.prepared and first.part_in_line() is None:
            text = "an earlier record waits for its partition"
            return MetadataTimeoutError(text, topic=call.topic, waited=waited, cause=trouble)
        text = _held_by(None if first is call else first)
        return BufferFullError(text, topic=call.topic, waited=waited, cause=trouble)


def _held_by(first: Waiting | None) -> str:
    if first is None:
        return "earlier calls used all of its time"
    if first.part_in_line() is not None:
        return "an earlier send_batch() waits for memory"
    return "the serializer of an earlier record did not finish in time"


def check_size(accumulator: Accumulator, topic: str, record: ReadyRecord) -> None:
    """Raise for a record that can never fit, also before the topic is known; the core checks the same later."""
    if size_alone(record) > largest(accumulator, topic)[0]:
        raise too_large(accumulator, topic, record)


def size_alone(record: ReadyRecord) -> int:
    """The bytes of a record in a batch of its own, which the limits apply to."""
    return BATCH_OVERHEAD + record_size(record.key, record.value, record.headers)


def largest(accumulator: Accumulator, topic: str) -> tuple[int, str]:
    """The largest size of a record of the topic in a batch of its own, and the setting that limits it."""
    limits = [
        (accumulator.limits.max_request_size, "max_request_size"),
        (accumulator.budget.capacity, "buffer_memory"),
    ]
    if topic in accumulator.cluster.topic_budgets:
        limits.append((accumulator.cluster.topic_budgets[topic].capacity, "topic_buffer_limits"))
    return min(limits)


def too_large(accumulator: Accumulator, topic: str, record: ReadyRecord) -> RecordTooLargeError:
    """The error for a record that can never fit."""
    size = size_alone(record)
    limit, setting = largest(accumulator, topic)
    return RecordTooLargeError(
        topic=topic, partition=record.partition, size=size, limit=limit, setting=setting
    )


def without_memory(topic: str, cause: BaseException) -> BufferFullError:
    """The error for a waiting record for which the process had no memory."""
    return BufferFullError("the process has no memory for the record", topic=topic, cause=cause)


def _has_ended(call: Waiting) -> bool:
    return call.ended


def _ignore(_told: object) -> None:
    pass
