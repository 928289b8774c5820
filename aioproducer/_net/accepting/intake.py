"""The slow path into the accumulator: interceptors, serializers and checks, then a place in the line.

It takes every call that the compiled fast path leaves to Python, and ends in the same append.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from aioproducer._callers.refusals import Reading, refusal_of
from aioproducer._callers.threads import require_loop
from aioproducer._core import (
    APPENDED,
    INTERCEPTED,
    NO_ROOM_NOW,
    SERIALIZED,
    Batch,
    BatchSettings,
    observe,
    queued_delivery,
    sending_of,
    settle_into,
)
from aioproducer._net.accepting.contexts import Contexts
from aioproducer._net.accepting.pending import Pending
from aioproducer._net.accepting.reports import Reports
from aioproducer._net.accepting.serializing import Serializing, Unready, headers_of
from aioproducer._net.runtime.first_step import Suspended
from aioproducer._state.admission.checking import checked_seconds, checked_topic
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer._state.admission.waiting import Waiting
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer._state.queues.flushing import not_placed
from aioproducer.errors import (
    BufferFullError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    StateError,
)
from aioproducer.interceptors import run_close, run_on_acknowledgement, run_on_send
from aioproducer.partitioners import bind as bind_partitioner
from aioproducer.partitioners import choose
from aioproducer.records import Record

if TYPE_CHECKING:
    from aioproducer._core import Delivery, Sending
    from aioproducer._net.accepting.contexts import CallContext, Follower, RecordTrace
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.queues.partition_queue import TopicQueues
    from aioproducer.records import RecordMetadata


class Call(NamedTuple):
    """The arguments of one `send`, from the user."""

    topic: Any
    value: Any
    key: Any
    partition: Any
    timestamp: Any
    headers: Any
    timeout: Any
    max_block: Any = None
    # What the fast path has done with it: nothing, INTERCEPTED, or SERIALIZED, after which it needs neither.
    done: int = 0
    follower: Follower | None = None


def times_of_call(now: float, max_block: float, timeout: float | None) -> tuple[float, float, float]:
    """The time of a call, the end of its wait, and the deadline of its records; `timeout`: its own delivery time."""
    if timeout is None:
        return now, now + max_block, 0.0
    return now, now + min(max_block, timeout), now + timeout


class PlaceholderOwner:
    """Takes the place of the partition for a record of `send_nowait` that waits for its topic."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        # Ends the record with this text, and returns whether it did; None once the record has a place, or has ended.
        self.take_back: Callable[[str], bool] | None = None
        self.call: Waiting | None = None

    def on_awaited(self, batch: Batch) -> None:
        """Nothing to hurry: the record's topic is requested already."""

    def withdraw(self, batch: Batch, index: int) -> bool:
        """`try_cancel()`."""
        return self.take_back is not None and self.take_back("withdrawn by try_cancel()")


class WaitingSend(Pending):
    """A waiting `send()`: its result goes to the awaiting task and to the interceptors."""

    __slots__ = ("_follower", "_intake", "_record", "_trace", "_waiting")

    def __init__(self, intake: Intake, follower: Follower | None = None) -> None:
        super().__init__(intake.loop, intake.pace, intake.log)
        self._intake = intake
        self._follower = follower
        self._record: Record[Any, Any] | None = None
        self._waiting: Waiting | None = None
        self._trace: RecordTrace | None = None

    def trace_by(self, trace: RecordTrace | None) -> None:
        """The span of the record."""
        self._trace = trace

    def seen_as(self, record: Record[Any, Any]) -> None:
        """Keep the record as the interceptors left it, for their report if it is refused or withdrawn."""
        self._record = record

    def wait_as(self, waiting: Waiting) -> None:
        """The place in the line, which ends when the caller goes away."""
        self._waiting = waiting
        self.on_withdraw = self._leave

    def _leave(self) -> None:
        if self._waiting is None:
            return
        self._waiting.left = True
        # A record in the middle of its append may still be accepted, and is reported then.
        withdrawn = self._intake.admission.withdraw(self._waiting, self._intake.loop.time())
        self._intake.note_wait(self._waiting)
        if withdrawn and (self._record is not None or self._trace is not None):
            error = StateError(
                "send() was cancelled before its record was accepted", topic=self._waiting.topic
            )
            self._tell(error)

    def accept(self, delivery: Delivery) -> None:
        """The record has its place."""
        waiting, trace = self._waiting, self._trace
        # Without `super()`, which may need memory: the delivery must be set in any case.
        Pending.accept(self, delivery)
        self._intake.watch(delivery, trace)
        self._intake.note_wait(waiting)

    def refuse(self, error: BaseException) -> None:
        """The record will not be accepted."""
        try:
            self._tell(error)
            if self._follower is None or not self._follower.spares(error):
                self._intake.engine.refused(error)
            self._intake.note_wait(self._waiting)
        finally:
            # The caller waits for it in any case.
            Pending.refuse(self, error)

    def lost(self, error: BaseException) -> None:
        """The call ends with an exception that is no refusal. Without effect on a record that has its place."""
        if self._trace is not None:
            self._trace.end(None, error)

    def _tell(self, error: BaseException) -> None:
        """Report the end of a record that was not accepted."""
        if self._record is not None:
            run_on_acknowledgement(self._intake.interceptors, None, error, self._intake.log)
        if self._trace is not None:
            self._trace.end(None, error)

    def finish(self) -> None:
        """The wait is over: drop everything that was kept for it."""
        self._waiting = self._record = self._trace = self._follower = None
        Pending.finish(self)


class Intake:
    """Prepares records and puts them into the lines of one running producer."""

    make_serializing: Callable[[Engine], Serializing] = Serializing

    def __init__(self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object]) -> None:
        config = engine.config
        self.engine = engine
        self.log = engine.log
        self.loop = engine.loop
        self.pace = pace
        # Raises where the producer takes no records: user code may have ended it while a record was read.
        self.usable = usable
        self.tasks = engine.preparing.tasks
        self.admission, self.calls = engine.admission, engine.admission.calls
        self.serializing = self.make_serializing(engine)
        self.partitioner = bind_partitioner(config.partitioner)
        self.interceptors = tuple(config.interceptors)
        self.reports = Reports(engine.loop, self._acknowledged)
        self.contexts = Contexts(engine.tracer, engine.log, engine.loop)
        self.max_block = config.max_block_ms / 1000
        self.delivery_timeout = config.delivery_timeout_ms / 1000
        # Records of send_nowait without a place, oldest first: flush() waits for them too.
        self.queued: dict[Delivery, PlaceholderOwner] = {}

    def without_user_code(self) -> Intake:
        """The same for records that are bytes: no interceptor, serializer or partitioner of the user's is called."""
        bare = copy.copy(self)
        bare.interceptors = ()
        bare.partitioner = None
        bare.reports = Reports(self.loop, bare._acknowledged)  # noqa: SLF001  # of this class
        bare.serializing = self.serializing.without_user_code()
        return bare

    @property
    def plain(self) -> bool:
        """True when a record needs no interceptor, serializer or partitioner before its append."""
        return self.serializing.key is None and self.serializing.value is None and not self.interceptors

    @property
    def watches_each(self) -> bool:
        """True when each accepted record must be reported."""
        return bool(self.interceptors) or (self.contexts.of_records and self.contexts.of_bulk)

    @property
    def answers_at_once(self) -> bool:
        """True when records only need serializers that are not awaited."""
        return not self.interceptors and not self.serializing.is_awaited and not self.contexts.of_records

    @property
    def intercepts_at_once(self) -> bool:
        """True when the fast path may call the interceptors, before serializers that are not awaited."""
        return bool(self.interceptors) and not self.serializing.is_awaited and not self.contexts.exist

    # -- send

    def take(self, call: Call, wants_metadata: bool) -> Sending[Any]:
        """Give a call its place; the result resolves when its record is accepted."""
        pending = WaitingSend(self, call.follower)
        # First: without memory for the result of the caller, there must be no record.
        sending: Sending[Any] = sending_of(pending, wants_metadata)
        try:
            self._take(call, pending)
        except BaseException:
            sending.close()
            pending.withdraw()
            raise
        return sending

    def _take(self, call: Call, pending: WaitingSend) -> None:
        now = self.loop.time()
        ready: ReadyRecord | Suspended[ReadyRecord] | None = None
        try:
            with Reading(call.topic):
                record = self.intercepted(call)
                if self.interceptors:
                    pending.seen_as(record)
                # First: a tracer receives a name, and no object of the user's.
                topic = checked_topic(record.topic)
                context = self.contexts.of_call(topic)
                if call.follower is not None:
                    context = self.contexts.followed(context, call.follower)
                if context is not None:
                    pending.trace_by(context.trace)
                timeout = checked_seconds("timeout", call.timeout)
                max_block = checked_seconds("max_block", call.max_block)
                waiting = self._waiting(topic, pending, now, timeout, max_block)
                ready = self._begun(call, record, context, waiting.give_up_at)
            self.usable()
        except KafkaError as error:
            self.drop(ready)
            pending.refuse(error)
            return
        except BaseException as error:
            self.drop(ready)
            pending.lost(error)
            raise
        self._join(waiting, ready, pending, now)

    def _begun(
        self, call: Call, record: Record[Any, Any], context: CallContext | None, until: float
    ) -> ReadyRecord | Suspended[ReadyRecord]:
        if call.done == SERIALIZED:
            headers = headers_of(record, context)
            taken = self.serializing.serialized(record, headers, record.key, record.value, context)
        else:
            taken = self.serializing.taken(record, context)
        return self.serializing.begun(taken, until) if isinstance(taken, Unready) else taken

    def _join(
        self,
        waiting: Waiting,
        ready: ReadyRecord | Suspended[ReadyRecord],
        pending: WaitingSend,
        now: float,
    ) -> None:
        pending.wait_as(waiting)
        try:
            if isinstance(ready, ReadyRecord):
                waiting.record = ready
            self.admission.join(waiting, now)
        except BaseException as error:
            self.drop(ready)
            pending.lost(error)
            raise
        if isinstance(ready, Suspended):
            self.tasks.go_on(ready, self._prepare_later(waiting, ready), waiting)

    def drop(self, ready: object) -> None:
        """The call is refused: its serializers are no longer needed."""
        if isinstance(ready, Suspended):
            self.tasks.drop(ready)

    def _waiting(
        self,
        topic: str,
        pending: WaitingSend,
        now: float,
        timeout: float | None,
        max_block: float | None,
    ) -> Waiting:
        asked_at, give_up_at, record_deadline = times_of_call(
            now, self.max_block if max_block is None else max_block, timeout
        )
        return Waiting(
            topic=topic,
            record=None,
            asked_at=asked_at,
            give_up_at=give_up_at,
            record_deadline=record_deadline,
            on_accepted=pending.accept,
            on_refused=pending.refuse,
            choose=self.choose if self.partitioner is not None else None,
        )

    async def _prepare_later(self, waiting: Waiting, rest: Suspended[ReadyRecord]) -> None:
        try:
            ready = await rest
        except BaseException as error:  # noqa: BLE001  # raised again where it must end more than the call
            self.not_prepared(waiting, error)
        else:
            waiting.stop_preparing = None
            if not waiting.ended:
                waiting.record = ready
        self.admission.advance(waiting.topic, self.loop.time())

    def not_prepared(self, waiting: Waiting, error: BaseException) -> None:
        """The serializers of a call failed, or were cancelled with it: their error ends this call only."""
        waiting.stop_preparing = None
        if self.loop.is_closed():
            # The task was destroyed with its loop; no caller is left.
            raise error
        self.calls.refuse(waiting, refusal_of(error, waiting.topic))
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error

    # -- send_nowait

    def take_now(self, call: Call) -> Delivery:
        """Accept a record at once, or queue it if its topic is not known yet."""
        if self.serializing.is_awaited:
            raise StateError(
                "send_nowait() cannot wait for a serializer that is a coroutine function: use send()"
            )
        with Reading(call.topic):
            timeout = checked_seconds("timeout", call.timeout)
            record = self.intercepted(call)
        trace: RecordTrace | None = None
        try:
            with Reading(record.topic):
                topic = checked_topic(record.topic)
            context = self.contexts.of_call(topic)
            if call.follower is not None:
                context = self.contexts.followed(context, call.follower)
            trace = None if context is None else context.trace
            delivery = self._taken_now(record, topic, context, timeout)
        except KafkaError as error:
            self.tell(error, trace)
            raise
        except BaseException as error:
            if trace is not None:
                trace.end(None, error)
            raise
        return self.watch(delivery, trace)

    def _taken_now(
        self, record: Record[Any, Any], topic: str, context: CallContext | None, timeout: float | None
    ) -> Delivery:
        with Reading(topic):
            ready = self.serializing.taken(record, context)
        self.usable()
        if isinstance(ready, Unready):
            raise self.serializing.prepare_for_later(ready)
        queues = self.engine.accumulator.cluster.topics.get(topic)
        if queues is not None and queues.partitions:
            delivery = self._append_now(ready, queues, timeout)
            if delivery is not None:
                return delivery
        return self._queue(topic, ready, timeout)

    def _append_now(self, ready: ReadyRecord, queues: TopicQueues, timeout: float | None) -> Delivery | None:
        self._pass_nobody(queues)
        chosen = ready.partition
        if chosen is None and self.partitioner is not None:
            chosen = self.choose(ready, queues)
            # The serializer is user code, which may have ended the producer.
            self.usable()
            self._pass_nobody(queues)
        deadline = 0.0 if timeout is None else self.loop.time() + timeout
        status, delivery, queue = self.calls.appender._append_checked(  # noqa: SLF001
            queues,
            ready.key,
            ready.value,
            ready.headers,
            ready.timestamp,
            -1 if chosen is None else chosen,
            deadline,
            False,  # positional, for the core
            ready.context,
        )
        if status == APPENDED and deadline:
            self.engine.accumulator.deadlines.watch(queue.open, deadline)
        if status == NO_ROOM_NOW:
            self.engine.note_reach()
            trouble = self.engine.accumulator.cluster.trouble_at(queue.node.node_id)
            raise BufferFullError(topic=queues.name, partition=queue.index, cause=trouble)
        made: Delivery | None = delivery
        return made

    def _pass_nobody(self, queues: TopicQueues) -> None:
        if queues.waiting:
            raise BufferFullError("other records of this topic wait ahead of this one", topic=queues.name)

    def _queue(self, topic: str, ready: ReadyRecord, timeout: float | None) -> Delivery:
        now = self.loop.time()
        owner = PlaceholderOwner(now)
        settings = BatchSettings(self.loop, unseen_log=self.engine.unseen.batches)
        placeholder_batch = Batch(topic, -1, 0, settings, now, owner)
        delivery = queued_delivery(placeholder_batch)
        give_up_at = now + (self.delivery_timeout if timeout is None else timeout)

        def leave() -> None:
            owner.take_back = None
            self.queued.pop(delivery, None)

        def accepted(placed: Delivery) -> None:
            leave()
            settle_into(delivery, placed)

        def failed(error: DeliveryError) -> None:
            leave()
            placeholder_batch.fail(error)
            self.engine.tally.never_placed += 1
            failure = self.engine.tally.failed(topic, 1, error, self.loop.time())
            assert failure is not None  # noqa: S101  # of one record
            self.engine.effects.flushed.extend(not_placed(waiting, failure))

        def take_back(text: str) -> bool:
            require_loop(self.loop)
            taken = self.admission.withdraw(waiting, self.loop.time())
            if taken:
                error = DeliveryError(text, topic=topic, elapsed=self.loop.time() - now)
                self.engine.effects.event(failed, error)
            return taken

        def refused(error: KafkaError) -> None:
            self.engine.refused(error)
            failed(no_place(error, self.loop.time() - now))

        waiting = Waiting(
            topic=topic,
            record=ready,
            asked_at=now,
            give_up_at=give_up_at,
            record_deadline=give_up_at,
            on_accepted=accepted,
            on_refused=refused,
            choose=self.choose if self.partitioner is not None else None,
            queued=True,
        )
        owner.take_back = take_back
        owner.call = waiting
        self.queued[delivery] = owner
        try:
            if not self.calls.hold_memory(waiting):
                raise BufferFullError(topic=topic)
            self.admission.join(waiting, now)
        except BaseException:
            self.calls.let_go(waiting)
            leave()
            raise
        return delivery

    def purge(self, topic: str | None) -> int:
        """Withdraw the records that wait for their topic (or this one); returns how many."""
        owners = [owner for delivery, owner in self.queued.items() if topic in (None, delivery.topic)]
        return sum(
            owner.take_back is not None and owner.take_back("withdrawn by purge()") for owner in owners
        )

    # -- preparing

    def intercepted(self, call: Call) -> Record[Any, Any]:
        """The record after the interceptors."""
        record = Record(
            call.topic,
            call.value,
            key=call.key,
            partition=call.partition,
            timestamp=call.timestamp,
            headers=call.headers,
        )
        return record if call.done >= INTERCEPTED else self.intercept(record)

    def intercept(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """The same for the record of a call."""
        return run_on_send(self.interceptors, record, self.log)

    def choose(self, record: ReadyRecord, queues: TopicQueues) -> int | None:
        """Call the user's partitioner."""
        return self._chosen(queues, record.key, record.value)

    def choose_now(self, topic: str, key: bytes | None, value: bytes | None) -> int | None:
        """The same for the fast path, which does it for topics with partitions."""
        return self._chosen(self.engine.accumulator.cluster.topics[topic], key, value)

    def _chosen(self, queues: TopicQueues, key: bytes | None, value: bytes | None) -> int | None:
        assert self.partitioner is not None  # noqa: S101  # set only with a partitioner
        everything = range(len(queues.partitions))
        return choose(self.partitioner, queues.name, key, value, everything, queues.available)

    # -- afterwards

    def note_wait(self, waiting: Waiting | None) -> None:
        """A call that may have waited for memory or metadata has ended."""
        if waiting is None or (
            waiting.without_memory_since is None and waiting.without_metadata_since is None
        ):
            return
        with contextlib.suppress(*OUT_OF_MEMORY):
            self.admission.waits.over(waiting, self.loop.time())

    def waiting_for_topics(self) -> list[Waiting]:
        """The records of `send_nowait` that have no place yet."""
        return [owner.call for owner in self.queued.values() if owner.call is not None]

    def close(self) -> None:
        """The producer has closed: close the user's objects."""
        # First: no outcome is reported to an interceptor that is closed.
        with contextlib.suppress(*OUT_OF_MEMORY):
            self.engine.accumulator.waker.finish()
            self.reports.make()
        run_close(self.interceptors, self.log)
        self.serializing.close()

    def watch(self, delivery: Delivery, trace: RecordTrace | None = None) -> Delivery:
        """Report the outcome of the record to the interceptors and to its span."""
        if self.interceptors or trace is not None:
            try:
                note = self.reports.note
                observe(delivery, note if trace is None else partial(note, trace=trace))
            except OUT_OF_MEMORY:
                # The record has its place: a missing report must not deny that.
                self.log.warning("the process has no memory to report the outcome of a record")
        return delivery

    def _acknowledged(
        self,
        delivery: Delivery,
        metadata: RecordMetadata | None,
        error: BaseException | None,
        trace: RecordTrace | None,
    ) -> None:
        run_on_acknowledgement(self.interceptors, metadata, error, self.log)
        if trace is not None:
            trace.end(metadata, error, self.engine.address_of(delivery.topic, delivery.partition))

    def tell(self, error: BaseException, trace: RecordTrace | None = None) -> None:
        """Report a record that was refused."""
        run_on_acknowledgement(self.interceptors, None, error, self.log)
        if trace is not None:
            trace.end(None, error)


def no_place(cause: KafkaError, elapsed: float) -> DeliveryError:
    """The error of a queued record that was refused a place."""
    if isinstance(cause, MetadataTimeoutError) and cause.partition_count is not None:
        return DeliveryTimeoutError(
            "the queued record was not accepted",
            topic=cause.topic,
            partition=cause.partition,
            elapsed=elapsed,
            cause=cause,
        )
    if isinstance(cause, (BufferFullError, MetadataTimeoutError)):
        # The record waited for its place until its own deadline. Unreachable brokers are the cause, where there are
        # any.
        return DeliveryTimeoutError(
            topic=cause.topic, partition=cause.partition, elapsed=elapsed, cause=cause.cause or cause
        )
    return DeliveryError(
        "the queued record was not accepted",
        topic=cause.topic,
        partition=cause.partition,
        elapsed=elapsed,
        cause=cause,
        retriable=cause.retriable,
    )
