"""The producer: its lifecycle, and the calls that it passes on to its parts."""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import warnings
import weakref
from asyncio.events import _get_running_loop  # asyncio's own low-level form: None where no loop runs
from typing import TYPE_CHECKING, Any, Generic, Self, cast, overload

from aioproducer import _core
from aioproducer._callers.owners import Owner, Scope, TaskOwners
from aioproducer._callers.refusals import THROUGH, refusal_of
from aioproducer._callers.threads import run_in_loop
from aioproducer._core import Clock, SendPath, sending_of
from aioproducer._net.accepting.bulk_intake import BulkIntake
from aioproducer._net.accepting.ending import log_losses, log_waits, report_of_close, resolved
from aioproducer._net.accepting.intake import Call, Intake
from aioproducer._net.accepting.pending import Pending
from aioproducer._net.accepting.serializing import is_being_prepared
from aioproducer._net.accepting.stream import send_stream
from aioproducer._net.connecting.dialing import SOCKETS
from aioproducer._net.observing.closing import counted, waits_for
from aioproducer._net.observing.condition import health_of
from aioproducer._net.observing.snapshot import (
    connected_brokers,
    loads,
    stats_of,
)
from aioproducer._net.runtime.awaiting import first_answer, known_partitions
from aioproducer._net.runtime.engine import Engine, denied
from aioproducer._state.admission.checking import checked_timeout, checked_topic
from aioproducer._state.delivery.tally import Totals
from aioproducer._state.transactions.table import Event
from aioproducer._transaction_calls import TransactionCalls
from aioproducer.config import ProducerConfig, require_config
from aioproducer.errors import (
    BufferFullError,
    KafkaError,
    StateError,
)
from aioproducer.records import CloseReport, FlushReport, PartitionInfo
from aioproducer.stats import Health, Stats

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping
    from types import TracebackType

    from typing_extensions import TypeVar, Unpack

    from aioproducer._callers.owners import Told
    from aioproducer._core import BatchDelivery, Delivery, Sending
    from aioproducer._net.connecting.dialing import Network
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer.config import BootstrapServers, ConfigProvider, Settings
    from aioproducer.records import (
        BatchResult,
        BytesLike,
        Headers,
        Record,
        RecordMetadata,
        Timestamp,
    )
    from aioproducer.serializers import Serializer

    # Without serializers keys and values are bytes-like.
    K_contra = TypeVar("K_contra", default=BytesLike, contravariant=True)
    V_contra = TypeVar("V_contra", default=BytesLike, contravariant=True)
    # A serializer without annotations, such as a lambda, accepts any type. The bound lets type checkers infer that.
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
    T = TypeVar("T")
else:
    from typing import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)


SHORTLY = 0.2
# close() logs its remaining work after so many seconds.
WORTH_A_LINE = 1.0
STARTED_ONCE = (
    "the producer was closed, and can be started once only: create a new one where it is started, not at module level "
    "(Producer.from_config(producer.config) has the same settings)"
)
FORKED = "this process was forked after the producer was started: create a new one in the child"

os.register_at_fork(after_in_child=_core.forked) if hasattr(os, "register_at_fork") else None

# Running producers: those left at the end of the interpreter were never closed.
_running: weakref.WeakSet[Producer[Any, Any]] = weakref.WeakSet()


@atexit.register
def _tell_what_is_left() -> None:
    """Records that will never be sent are logged, with their count."""
    for producer in list(_running):
        producer._tell_losses("the program ended without close()")  # noqa: SLF001  # its own


class Producer(SendPath[K_contra, V_contra], TransactionCalls, Generic[K_contra, V_contra]):
    """An asyncio-native Kafka producer.

    ```python
    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"2 apples", key=b"alice")
        metadata = await delivery
    ```

    Settings are Kafka's producer properties with dots turned into underscores; `ProducerConfig` lists them. Constructing
    touches no event loop, network, file or thread.
    """

    config: ProducerConfig
    close_report: CloseReport | None
    # The network that connections are opened in.
    _network: Network = SOCKETS

    @overload
    def __init__(
        self: Producer[BytesLike, BytesLike],
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: None = None,
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[K, BytesLike],
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: Serializer[K],
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[BytesLike, V],
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: None = None,
        value_serializer: Serializer[V],
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: Producer[K, V],
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: Serializer[K],
        value_serializer: Serializer[V],
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        try:
            config = ProducerConfig(
                bootstrap_servers,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                **settings,
            )
        finally:
            # No frame of a traceback keeps a secret.
            cast("dict[str, Any]", settings).clear()
        self._set_up(config)

    @classmethod
    def from_config(cls, config: ProducerConfig) -> Self:
        """Make a producer of a configuration that was checked before."""
        producer = cls.__new__(cls)
        producer._set_up(config)  # noqa: SLF001  # a constructor
        return producer

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, object] | str | os.PathLike[str],
        *,
        providers: Mapping[str, ConfigProvider] | None = None,
        **overrides: Unpack[Settings],
    ) -> Self:
        """Make a producer of Kafka's dotted properties, or of a Java `.properties` file; `overrides` come on top.

        `providers` replace references such as `${file:/run/secrets/kafka.properties:password}`, by their names.
        """
        try:
            config = ProducerConfig.from_properties(properties, providers=providers, **overrides)
        finally:
            # No frame of a traceback keeps a secret.
            cast("dict[str, Any]", overrides).clear()
            del properties
        return cls.from_config(config)

    def _set_up(self, config: ProducerConfig) -> None:
        require_config(config)
        self.config = config
        self.close_report = None
        self._state = "new"
        self._engine: Engine | None = None
        self._intake: Intake | None = None
        self._bulk: BulkIntake | None = None
        self._cause: BaseException | None = None
        self._closing: asyncio.Future[None] | None = None
        self._before_close = Totals()
        self._losses_told = False
        self._owners = TaskOwners()

    # -- lifecycle

    async def start(self, *, wait_ready: float | None = None) -> None:
        """Bind to the running loop and start the background task; works with every broker down.

        With `wait_ready`, wait at most so many seconds until one broker has answered, or raise the reason.
        """
        if self._state in ("running", "closing"):
            if not self._same_process():
                raise StateError(FORKED)
            raise StateError(f"the producer is already {self._state}")
        if self._state == "closed":
            raise StateError(STARTED_ONCE)
        timeout = checked_timeout("wait_ready", wait_ready)
        engine = self._begin(asyncio.get_running_loop())
        try:
            await engine.supervisor.begun()
            if self._intake is not None:
                self._intake.serializing.warm(self.config.topics)
            if timeout is not None:
                await self.ready(timeout)
        except BaseException:
            await self._undo_start()
            raise

    def _begin(self, loop: asyncio.AbstractEventLoop) -> Engine:
        clock = self._clock_for(loop)
        # The tasks hold the producer weakly: one that is dropped without close() is noticed, and ends.
        me = weakref.proxy(self)
        rng = random.Random()  # noqa: S311  # jitter, not secrets
        engine = Engine(
            self.config,
            me,
            loop,
            rng,
            wall_ms=lambda: me._wall_ms(),  # noqa: PLW0108, SLF001
            network=self._network,
        )
        # Calls user code, such as `for_producer()` of a partitioner: its exception must not leave a partial state.
        intake = self._intake_of(engine, lambda: me._pace(), lambda: me._still_taking())  # noqa: PLW0108, SLF001
        self._bind(engine.accumulator.cluster.topics, clock, loop, _get_running_loop, self._largest_record())
        self._owners.entries.clear()
        self._follow_tasks(self._owners.entries, asyncio.current_task)
        engine.accepted_before = self._accepted_records
        # The intake first: another thread that finds an engine must find its intake.
        self._intake = intake
        self._engine = engine
        self._bulk = BulkIntake(self._intake, me)
        self._plain = self._intake.answers_at_once
        self._serialize_key = intake.serializing.key
        self._serialize_value = intake.serializing.value
        self._cause = None
        self._state = "running"
        _running.add(self)
        if engine.transactions is not None:
            engine.transactions.accepting_changed = lambda: me._update_accepting()  # noqa: PLW0108, SLF001
            engine.transactions.queued = lambda: list(me._intake.queued)  # noqa: SLF001
        self._update_accepting()
        engine.on_death = _weakly(self)
        for topic in self.config.topics:
            engine.cluster.want(topic)
        # Last: an eager task runs at once, as far as it gets.
        try:
            engine.supervisor.start()
        except BaseException:
            self._accepting = False
            self._state = "new"
            raise
        return engine

    def _clock_for(self, loop: asyncio.AbstractEventLoop) -> Clock:
        """The clock of the compiled core, which agrees with that of the loop."""
        del loop
        return Clock()

    def _intake_of(self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object]) -> Intake:
        """The object for the records that the fast path leaves."""
        return Intake(engine, pace, usable)

    def _update_accepting(self) -> None:
        """Records are taken while the producer runs, of a transactional one only within a transaction."""
        engine = self._engine
        transactions = None if engine is None else engine.transactions
        self._accepting = self._state == "running" and (transactions is None or transactions.table.is_open)

    def _largest_record(self) -> int:
        return min(self.config.max_request_size, self.config.buffer_memory)

    async def _undo_start(self) -> None:
        engine = self._engine
        assert engine is not None  # noqa: S101  # start() made it
        if self._state in ("running", "failed"):  # otherwise another call closes it
            self._accepting = False
            self._state = "new"
        engine.supervisor.stop()
        if engine.supervisor.task is not None:
            await asyncio.wait([engine.supervisor.task])

    async def ready(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` seconds until one broker has answered, or raise the reason.

        The topics of the setting `topics` are known then, if they exist.
        """
        engine = self._running()
        await first_answer(engine, checked_timeout("timeout", timeout), self._running)

    def _died(self, cause: BaseException) -> None:
        self._accepting = False
        if self._state != "closing" and self._engine is not None:
            # The report of close() begins here: records with an earlier outcome were not lost by the end.
            self._before_close = self._engine.tally.totals
        self._cause = cause
        self._state = "failed"

    def _running(self) -> Engine:
        """The engine, or the reason why there is none to be used from here."""
        engine = self._engine
        if engine is None or self._state in ("new", "closed", "failed"):
            raise self._not_running()
        if engine.supervisor.crashed is not None:
            raise _ended(engine.supervisor.crashed)
        if not self._same_process():
            raise StateError(FORKED)
        if not self._same_thread():
            raise StateError("the producer runs in another thread: use send_threadsafe() from here")
        if engine.loop is not _get_running_loop():
            raise StateError("the producer belongs to another event loop: create one per loop")
        return engine

    def _not_running(self) -> KafkaError:
        if self._state == "failed":
            return _ended(self._cause)
        if self._state == "closed":
            return StateError("the producer was closed")
        return StateError(
            "the producer was not started: use `async with producer:` or `await producer.start()`"
        )

    def _taking(self) -> Engine:
        engine = self._running()
        if self._state != "running":
            raise StateError("the producer is closing and accepts no more records")
        return engine

    def _still_taking(self) -> None:
        """The same check again, after user code ran in the middle of a call: the call stays in its thread and loop."""
        if not self._accepting or not self._same_process():
            self._taking()

    def _usable(self) -> Engine:
        engine = self._taking()
        if engine.transactions is not None:
            engine.transactions.table.check(Event.SEND)
        self._note_task()
        return engine

    async def close(self, timeout: float | None = None) -> CloseReport:
        """Stop accepting, send the buffered records, wait for answers; always returns within `timeout` seconds.

        The default is the setting `close_timeout_ms`. Every remaining delivery is resolved. A second call waits for the
        first, and shortens it if its own limit is shorter.
        """
        timeout = checked_timeout("timeout", timeout)
        if self._state == "new":
            self._state = "closed"
            self.close_report = CloseReport()
            if self._intake is not None:
                # A start that failed may have begun to prepare them.
                self._intake.serializing.close()
        if self._state in ("closed", "failed") and self._closing is None:
            report = self._closed_before()
            limit = self.config.close_timeout_ms / 1000 if timeout is None else timeout
            await self._serializers_closed(max(limit, SHORTLY))
            return report
        self._check_closable()
        timeout = self.config.close_timeout_ms / 1000 if timeout is None else timeout
        if self._closing is None:
            return await self._close(timeout)
        await asyncio.wait([self._closing], timeout=timeout)
        if not self._closing.done():
            self._finish("close() ran out of time")
        return self.close_report or CloseReport()

    def _check_closable(self) -> None:
        engine = self._engine
        assert engine is not None  # noqa: S101  # the producer was started
        if not self._same_process():
            raise StateError(
                "this process was forked after the producer was started: there is nothing to close here"
            )
        if not self._same_thread() or engine.loop is not _get_running_loop():
            raise StateError("call close() from the thread and event loop that called start()")

    def _closed_before(self) -> CloseReport:
        if self._state == "failed" and self.close_report is None:
            self._report_close(None)
        self._state = "closed"
        return self.close_report or CloseReport()

    async def _close(self, timeout: float) -> CloseReport:
        engine = self._engine
        assert engine is not None  # noqa: S101  # the producer was started
        assert self._intake is not None  # noqa: S101  # made with the engine
        self._closing = engine.loop.create_future()
        self._accepting = False
        self._state = "closing"
        self._before_close = engine.tally.totals
        until = engine.loop.time() + timeout
        engine.refuse_callers()
        long = engine.loop.call_later(WORTH_A_LINE, log_waits, engine, self._intake, until)
        try:
            if timeout > 0:
                async with asyncio.timeout(timeout):
                    if engine.transactions is not None:
                        await engine.transactions.wind_up(timeout)
                    engine.accumulator.drain_all(engine.loop.time())
                    await resolved(engine, self._intake)
                    if not engine.acks:
                        await engine.brokers.handed_over()
        except TimeoutError:
            pass
        finally:
            long.cancel()
            self._finish("close() ran out of time")
        # Both end at once, unless a serializer ignores its cancellation, or is slow to close.
        until = max(until, engine.loop.time() + SHORTLY)
        if engine.supervisor.task is not None:
            await asyncio.wait([engine.supervisor.task], timeout=until - engine.loop.time())
        await self._serializers_closed(until - engine.loop.time())
        return self.close_report or CloseReport()

    async def _serializers_closed(self, timeout: float) -> None:
        closing = None if self._engine is None else self._engine.preparing.closing
        if closing is not None and closing.get_loop() is _get_running_loop():
            await asyncio.wait([closing], timeout=timeout)

    def _finish(self, text: str) -> None:
        engine = self._engine
        if self._state == "closed" or engine is None:
            return
        assert self._intake is not None  # noqa: S101  # made with the engine
        left = waits_for(engine, self._intake)
        engine.give_up(text, None)
        engine.supervisor.stop()
        self._report_close(left)
        self._state = "closed"
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    def _report_close(self, waited_for: str | None) -> None:
        assert self._engine is not None  # noqa: S101  # the producer was started
        assert self._intake is not None  # noqa: S101  # made by start()
        self.close_report = report_of_close(self._engine, self._intake, self._before_close, waited_for)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is None or self._state not in ("running", "closing") or not self._same_process():
            return
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=1)
        self._tell_losses("the producer was garbage-collected without close()")
        gone = StateError("the producer was garbage-collected without close()")
        if not engine.loop.is_closed():
            engine.loop.call_soon_threadsafe(engine.crash, gone)
        elif self._same_thread():
            engine.settle_without_loop(gone)

    def _tell_losses(self, what: str) -> None:
        """Log the number of records that will not be sent, once."""
        engine = self._engine
        if engine is None or self._state not in ("running", "closing") or not self._same_process():
            return
        assert self._intake is not None  # noqa: S101  # made with the engine
        if not self._losses_told:
            self._losses_told = log_losses(engine, self._intake, what)

    # -- sending, the long way

    def _send_slowly(  # the arguments of send()
        self,
        topic: object,
        value: object,
        key: object,
        partition: object,
        timestamp: object,
        headers: object,
        timeout: object,
        max_block: object,
        serialized: bool,
        wants_metadata: bool,
    ) -> Any:
        try:
            self._usable()
        except KafkaError as error:
            return sending_of(refused(error), wants_metadata)
        assert self._intake is not None  # noqa: S101  # made by start()
        call = Call(topic, value, key, partition, timestamp, headers, timeout, max_block, serialized)
        return self._intake.take(call, wants_metadata)

    def _refuse(self, error: BaseException, topic: object, wants_metadata: bool) -> Any:
        """Called by the fast path, with the exception of a serializer."""
        if isinstance(error, THROUGH):
            raise error
        refusal = refusal_of(error, topic)
        self._fail_transaction(refusal)
        return sending_of(refused(refusal), wants_metadata)

    def _fail_transaction(self, error: KafkaError) -> None:
        if self._engine is not None:
            self._engine.refused(error)

    def _send_now(  # the arguments of send_nowait()
        self,
        topic: object,
        value: object,
        key: object,
        partition: object,
        timestamp: object,
        headers: object,
        timeout: object,
    ) -> Delivery:
        self._usable()
        assert self._intake is not None  # noqa: S101  # made by start()
        try:
            return self._intake.take_now(Call(topic, value, key, partition, timestamp, headers, timeout))
        except KafkaError as error:
            # Of a call that does not wait, a record that only comes too early may be sent again.
            if not isinstance(error, BufferFullError) and not is_being_prepared(error):
                self._fail_transaction(error)
            raise

    def send_threadsafe(
        self,
        topic: str,
        value: V_contra | None = None,
        *,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
        max_block: float | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Send one record from any other thread; the future returns its metadata, or raises its error."""
        engine = self._engine
        if engine is None or self._state != "running":
            raise self._not_running() if self._state != "closing" else StateError("the producer is closing")
        if not self._same_process():
            raise StateError(FORKED)
        if self._same_thread():
            raise StateError(
                "send_threadsafe() is for threads other than the producer's own: use send() here"
            )

        def send() -> Sending[RecordMetadata]:
            return self.send_and_wait(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp=timestamp,
                headers=headers,
                timeout=timeout,
                max_block=max_block,
            )

        return run_in_loop(engine.loop, send)

    def _send_many(  # the arguments of send_batch()
        self,
        topic: Any,
        values: Any,
        keys: Any,
        partition: Any,
        timestamps: Any,
        headers: Any,
        timeout: Any,
    ) -> Sending[BatchDelivery]:
        self._usable()
        assert self._bulk is not None  # noqa: S101  # made by start()
        try:
            return self._bulk.take(topic, values, keys, partition, timestamps, headers, timeout)
        except KafkaError as error:
            self._fail_transaction(error)
            raise

    async def send_all(
        self,
        records: Iterable[Record[Any, Any]] | AsyncIterable[Record[Any, Any]],
        *,
        on_progress: Callable[[int], object] | None = None,
    ) -> BatchResult:
        """Send every `Record` of an iterable or async iterable with bounded memory, and wait for all of them.

        `on_progress` is called now and then with the number of records that have their outcome. The result has counts
        and, by index, the errors; offsets and partitions are not kept.
        """
        engine = self._usable()
        result = await send_stream(self, records, on_progress)
        engine.machines.losses.gaps_seen()
        return result

    # -- transactions

    def _transactions(self) -> Transactions:
        engine = self._running()
        if engine.transactions is None:
            raise StateError("transactions require a transactional_id, which this producer does not have")
        if self._state != "running":
            raise StateError("the producer is closing")
        return engine.transactions

    # -- waiting and looking

    def scope(self) -> Scope:
        """Reports of their own: `async with producer.scope() as scope:`, and inside of it `await scope.flush()`.

        The first report counts from where the block is entered. Several tasks may share a scope. Leaving it ends it,
        and does not flush.
        """
        return Scope(self._flush, self._told_now)

    def _told_now(self) -> Told:
        return self._running().tally.told_now()

    async def _flush(self, owner: Owner | asyncio.Task[Any] | None, timeout: float | None) -> FlushReport:
        engine = self._running()
        timeout = checked_timeout("timeout", timeout)
        told_to = owner if isinstance(owner, Owner) else self._owners.of(owner or asyncio.current_task())
        assert self._intake is not None  # noqa: S101  # made with the engine
        if timeout is None:
            flush = await resolved(engine, self._intake)
        else:
            async with asyncio.timeout(timeout):
                flush = await resolved(engine, self._intake)
        if not flush.done:
            raise _ended(self._cause or engine.supervisor.crashed)
        engine.machines.losses.gaps_seen(flush)
        report, told_to.told = engine.tally.report(flush, told_to.told)
        return report

    def _first_send(self, task: asyncio.Task[Any]) -> None:
        """Called by the fast path: a task sends that has not sent before."""
        if self._engine is not None:
            self._owners.begin(task, self._engine.tally.told_now())

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic; waits at most `timeout` seconds (default: `max_block_ms`) for its metadata."""
        engine = self._running()
        name = checked_topic(topic)
        return await known_partitions(engine, name, self._timeout(timeout), self._running)

    def purge(self, topic: str | None = None) -> int:
        """Withdraw buffered records that are not drained yet (of one topic); returns their number."""
        engine = self._running()
        assert self._intake is not None  # noqa: S101  # made by start()
        name = None if topic is None else checked_topic(topic)
        return self._intake.purge(name) + engine.machines.endings.purge(name, engine.loop.time())

    def stats(self) -> Stats:
        """One snapshot of the counters and state, at any time and from any thread. Sending pays nothing for it."""
        engine = self._engine
        if engine is None:
            return Stats()
        assert self._intake is not None  # noqa: S101  # made with the engine
        return stats_of(engine, self._intake, self._accepted_records, self._accepted_bytes)

    def health(self) -> Health:
        """A small snapshot for probes, without I/O, at any time and from any thread."""
        engine = self._engine
        if engine is None:
            return Health(state=self._state)
        assert self._intake is not None  # noqa: S101  # made with the engine
        return health_of(engine, self._intake, self._state, self._cause)

    def __repr__(self) -> str:
        if not hasattr(
            self, "config"
        ):  # a debugger or a traceback shows an object whose settings were refused
            return f"<{type(self).__name__}, refused>"
        engine = self._engine
        if engine is None:
            return f"<{type(self).__name__} {self._state}>"
        assert self._intake is not None  # noqa: S101  # made with the engine
        buffered, flying = loads(engine, self._intake, self._accepted_records)
        return (
            f"<{type(self).__name__} {self._state}: {counted(connected_brokers(engine), 'broker')} connected, "
            f"{counted(buffered.records, 'record')} buffered, {flying.records} in flight>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a producer cannot be pickled; producer.config can")


def _weakly(producer: Producer[Any, Any]) -> Callable[[BaseException], None]:
    """Tell the producer of the death of its tasks, if it is still there."""
    reference = weakref.ref(producer)

    def died(cause: BaseException) -> None:
        found = reference()
        if found is not None:
            found._died(cause)  # noqa: SLF001  # its own news

    return died


def _ended(cause: BaseException | None) -> KafkaError:
    """The error of every call after the end of the background task, or shortly before it."""
    return denied(cause) or StateError(
        "the producer's background task has ended; close the producer and create a new one", cause=cause
    )


def refused(error: KafkaError) -> Pending:
    """A call that is refused at once; the error is raised when it is awaited."""
    pending = Pending(None, bool)
    pending.refuse(error)
    return pending
