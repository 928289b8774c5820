"""The waiting calls: each call that cannot be accepted at once, until it is accepted, refused or withdrawn."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from aioproducer._core import APPENDED, MemoryShare, record_size
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.deadlines import Deadlines
from aioproducer._state.effects import event
from aioproducer._state.queues.flushing import placed

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import Delivery
    from aioproducer._state.admission.lines import Admission
    from aioproducer._state.admission.ready import PlainHeaders, ReadyRecord
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.delivery.losses import Losses
    from aioproducer._state.queues.flush import Flush
    from aioproducer._state.queues.partition_queue import PartitionQueue, TopicQueues
    from aioproducer.errors import KafkaError


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
        context: object = None,
    ) -> list[Any]: ...


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

    def not_placed(self, calls: WaitingCalls) -> bool:
        """The append gave the record no place; True: the caller went away meanwhile, which ends the call."""
        if self.left:
            calls.leave(self)
        return self.ended

    def choose_again(self, admission: Admission) -> None:
        """The partition is gone: choose one of the present partitions of the topic."""
        admission.back_to_topic_line(self)

    def expire(self, calls: WaitingCalls, error: KafkaError, now: float) -> None:
        """The call has reached its time limit."""
        del now
        calls.refuse(self, error)

    def place(self, admission: Admission, queues: TopicQueues, now: float) -> bool:
        """Append the record, or move it to the line for memory; False: it stays the first of its topic."""
        return admission.place(self, queues, now)


# A shorter line may consist of ended calls.
TIDY_FROM = 64


class Line:
    """Calls in order; ended calls are skipped.

    Behind a call that waits for long, others come and end: the line holds at most about twice the calls that wait.
    """

    __slots__ = ("_tidy_at", "calls", "moving")

    def __init__(self) -> None:
        self.calls: deque[Waiting] = deque()
        self._tidy_at = TIDY_FROM
        # True while its first call is placed. A partitioner, interceptor or finalizer may re-enter meanwhile.
        self.moving = False

    def add(self, call: Waiting) -> None:
        """Take the last place."""
        self.calls.append(call)
        if len(self.calls) >= self._tidy_at:
            # Without memory for it, the next call tidies.
            with suppress(*OUT_OF_MEMORY):
                self.calls = deque(each for each in self.calls if not each.ended)
                self._tidy_at = max(TIDY_FROM, 2 * len(self.calls))

    def first(self) -> Waiting | None:
        """The first call that still waits."""
        while self.calls and self.calls[0].ended:
            self.calls.popleft()
        return self.calls[0] if self.calls else None


class WaitingCalls:
    """All waiting calls of one producer: their number, their time limits, the memory that they hold, and their ends."""

    def __init__(self, accumulator: Accumulator, losses: Losses, appender: Appender) -> None:
        self.accumulator = accumulator
        self.losses = losses
        self.effects = accumulator.effects
        self.appender = appender
        self.deadlines: Deadlines[Waiting] = Deadlines()
        self.waiting = 0
        # Memory that queued records of `send_nowait` hold before they have a partition.
        self.unrouted_memory = MemoryShare(accumulator.budget)
        self._own_unrouted_memory = {
            name: MemoryShare(own) for name, own in accumulator.cluster.topic_budgets.items()
        }

    def knows(self, topic: str) -> bool:
        """True when the topic has partitions."""
        queues = self.accumulator.cluster.topics.get(topic)
        return queues is not None and bool(queues.partitions)

    def hold_memory(self, call: Waiting) -> bool:
        """Charge the memory of a record that waits without a waiting caller; False: there is no room."""
        assert call.record is not None  # noqa: S101  # send_nowait refuses coroutine serializers
        record = call.record
        size = record_size(record.key, record.value, record.headers)
        unrouted_memory = self._unrouted_of(call.topic)
        if not unrouted_memory.room_for(size):
            return False
        unrouted_memory.charge(size)
        call.held = size
        return True

    def _unrouted_of(self, topic: str) -> MemoryShare:
        return self._own_unrouted_memory.get(topic, self.unrouted_memory)

    @property
    def bytes_held(self) -> int:
        """The bytes of records that have no partition yet."""
        return self.unrouted_memory.used + sum(share.used for share in self._own_unrouted_memory.values())

    def let_go(self, call: Waiting) -> None:
        """The call no longer holds memory."""
        self._unrouted_of(call.topic).release(call.held)
        call.held = 0

    def watch(self, call: Waiting) -> None:
        """The call has a time limit."""
        self.effects.wake_by(call.give_up_at)
        self.deadlines.add(call.give_up_at, call)
        call.watched = True

    def append(self, call: Waiting, record: ReadyRecord, queues: TopicQueues, *, in_line: bool) -> list[Any]:
        """Append the record of a call: the status, and for an accepted record its delivery and queue."""
        held = call.held
        if held:
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
                record.context,
            )
        except BaseException:
            call.placing = False
            raise
        if answer[0] != APPENDED:
            call.placing = False
            if held:
                self._unrouted_of(call.topic).charge(held)
                call.held = held
        elif call.record_deadline:
            self.accumulator.deadlines.watch(answer[2].open, call.record_deadline)
        return answer

    def accept(self, call: Waiting, delivery: Delivery, queue: PartitionQueue) -> None:
        """The record has its place."""
        # First of all: the record has its place, and a later failure must not deny that.
        tell = call.on_accepted
        self.end(call)
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
    def done(self, call: Waiting, tell: Callable[[], None]) -> None:
        """A bulk call has placed all of its records."""
        if not call.ended:
            self.end(call)
            tell()

    @event
    def refuse(self, call: Waiting, error: KafkaError) -> None:
        """The record is not accepted."""
        if not call.ended:
            tell = call.on_refused
            self.end(call)
            tell(error)

    def leave(self, call: Waiting) -> None:
        """End a call that is the first of its line; the next call follows."""
        if not call.ended:
            self.end(call)

    def end(self, call: Waiting) -> None:
        """The call no longer waits."""
        part = call.part_in_line()
        if part is not None and not part.ended:
            # A bulk call that has ended must not be appended in part later.
            self.end(part)
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
            self.count(call.topic, -1)
        else:
            self.leave_memory_line(call)
        if not self.waiting:
            self.effects.call_ended_last = True

    def leave_memory_line(self, call: Waiting) -> None:
        """The call no longer counts in the line for memory."""
        assert call.queue is not None  # noqa: S101  # set together with the share
        assert call.share is not None  # noqa: S101  # asked for calls that wait for memory only
        call.share.waiting -= 1
        call.queue.waiting -= 1

    def count(self, name: str, change: int) -> None:
        """So many more calls wait in the line of the topic: later records may not pass them."""
        topic = self.accumulator.cluster.topics.get(name)
        if topic is not None:
            topic.waiting += change


def _has_ended(call: Waiting) -> bool:
    return call.ended


def _ignore(_told: object) -> None:
    pass
