"""The producer: the calls that it passes on to its parts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, overload

# First: a second interpreter refuses the compiled core, and then has not imported `datetime`, with which CPython 3.12.1
# and 3.13.0 end the process when both interpreters have it.
import aioproducer._core  # noqa: F401

# isort: split
from aioproducer._callers.owners import Owner, Scope
from aioproducer._callers.refusals import THROUGH, refusal_of
from aioproducer._callers.threads import run_in_loop
from aioproducer._calls.credentials import CredentialCalls
from aioproducer._calls.lifecycle import K_contra, Lifecycle, V_contra, ended
from aioproducer._calls.outlets import OutletCalls
from aioproducer._calls.telemetry import TelemetryCalls
from aioproducer._calls.transactions import TransactionCalls
from aioproducer._core import BatchDelivery, Delivery, Sending, sending_of
from aioproducer._deferred import deferred
from aioproducer._net.accepting.pending import Pending
from aioproducer._net.accepting.stream import Letters
from aioproducer._net.observing.not_running import FORKED, LOOP_CLOSED, health_without_engine
from aioproducer._state.admission.checking import checked_topic
from aioproducer.config import BootstrapServers, ConfigProvider, ProducerConfig, Settings
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import (
    BufferFullError,
    KafkaError,
    StateError,
)
from aioproducer.records import (
    BatchResult,
    BytesLike,
    FlushReport,
    Headers,
    PartitionInfo,
    Record,
    RecordMetadata,
    Timestamp,
)
from aioproducer.serializers import Serializer
from aioproducer.stats import Health, Stats

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from aioproducer._callers.owners import Told
    from aioproducer._calls import running
    from aioproducer._net.transactions.transactions import Transactions

    # A serializer without annotations, such as a lambda, accepts any type. The bound lets type checkers infer that.
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
    T = TypeVar("T")
else:
    running = deferred("aioproducer._calls.running")


class Producer(
    Lifecycle[K_contra, V_contra],
    TransactionCalls,
    CredentialCalls,
    TelemetryCalls,
    OutletCalls,
    Generic[K_contra, V_contra],
):
    """An asyncio-native Kafka producer.

    ```python
    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"2 apples", key=b"alice")
        metadata = await delivery
    ```

    Settings are Kafka's producer properties with dots turned into underscores; `ProducerConfig` lists them. Constructing
    touches no event loop, network, file or thread.
    """

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
            del bootstrap_servers, key_serializer, value_serializer
        self._set_up(config)

    @classmethod
    def from_config(cls, config: ProducerConfig) -> Self:
        """Make a producer of a configuration that was checked before."""
        producer = cls.__new__(cls)
        try:
            producer._set_up(config)  # noqa: SLF001  # a constructor
        finally:
            # No frame of a traceback keeps a mapping of settings.
            del config
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
            del properties, providers
        return cls.from_config(config)

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
        done: int,
        wants_metadata: bool,
    ) -> Any:
        try:
            self._usable()
        except KafkaError as error:
            if done:
                self._tell_interceptors(error)
            return sending_of(refused(error), wants_metadata)
        assert self._intake is not None  # noqa: S101  # made by start()
        call = running.Call(topic, value, key, partition, timestamp, headers, timeout, max_block, done)
        return self._intake.take(call, wants_metadata)

    def _refuse(self, error: BaseException, topic: object, wants_metadata: bool) -> Any:
        """Called by the fast path, with the exception of a serializer."""
        if isinstance(error, THROUGH):
            raise error
        refusal = refusal_of(error, topic)
        self._tell_interceptors(refusal)
        self._fail_transaction(refusal)
        return sending_of(refused(refusal), wants_metadata)

    def _tell_interceptors(self, error: BaseException) -> None:
        """Report a record that they have seen, and that the fast path or the state of the producer refuses."""
        if self._intake is not None:
            self._intake.tell(error)

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
        done: int,
    ) -> Delivery:
        try:
            self._usable()
        except KafkaError as error:
            if done:
                self._tell_interceptors(error)
            raise
        assert self._intake is not None  # noqa: S101  # made by start()
        try:
            return self._intake.take_now(
                running.Call(topic, value, key, partition, timestamp, headers, timeout, done=done)
            )
        except KafkaError as error:
            # Of a call that does not wait, a record that only comes too early may be sent again.
            if not isinstance(error, BufferFullError) and not running.is_being_prepared(error):
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
        dead_letters: Letters | None = None,
    ) -> BatchResult:
        """Send every `Record` of an iterable or async iterable with bounded memory, and wait for all of them.

        `on_progress` is called now and then with the number of records that have their outcome. The result has counts
        and, by index, the errors; offsets and partitions are not kept. `dead_letters` (of `aioproducer.outlets`) set
        records aside that can never be written.
        """
        engine = self._usable()
        if dead_letters is not None:
            self._check_letters(dead_letters)
        result = await running.send_stream(self, records, on_progress, dead_letters)
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

    async def _flush(
        self, owner: Owner | asyncio.Task[Any] | None, timeout: float | None, resolve: bool
    ) -> FlushReport:
        engine = self._running()
        timeout = checked_timeout("timeout", timeout)
        running.check_resolve(self.config, resolve)
        began = engine.loop.time()
        told_to = owner if isinstance(owner, Owner) else self._owners.of(owner or asyncio.current_task())
        assert self._intake is not None  # noqa: S101  # made with the engine
        flush = await running.resolved(engine, self._intake, timeout)
        if not flush.done:
            raise ended(self._cause or engine.supervisor.crashed)
        found = None
        if resolve:
            left = None if timeout is None else max(0.0, timeout - (engine.loop.time() - began))
            found = await running.searched(engine, flush, told_to.told, left)
        engine.machines.losses.gaps_seen(flush)
        report, told_to.told = engine.tally.report(flush, told_to.told, found)
        return report

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic; waits at most `timeout` seconds (default: `max_block_ms`) for its metadata."""
        engine = self._running()
        name = checked_topic(topic)
        return await running.known_partitions(engine, name, self._timeout(timeout), self._running)

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
        return running.stats_of(engine, self._intake, self._accepted_records, self._accepted_bytes)

    def health(self) -> Health:
        """A small snapshot for probes, without I/O, at any time and from any thread."""
        engine = self._engine
        if engine is None:
            return health_without_engine(self._state)
        assert self._intake is not None  # noqa: S101  # made with the engine
        unusable = None if self._same_process() else FORKED
        if engine.loop.is_closed():
            unusable = unusable or LOOP_CLOSED
        return running.health_of(engine, self._intake, self._state, self._cause, unusable)

    def __repr__(self) -> str:
        if not hasattr(
            self, "config"
        ):  # a debugger or a traceback shows an object whose settings were refused
            return f"<{type(self).__name__}, refused>"
        engine = self._engine
        if engine is None:
            return f"<{type(self).__name__} {self._state}>"
        assert self._intake is not None  # noqa: S101  # made with the engine
        buffered, flying = running.loads(engine, self._intake, self._accepted_records)
        return (
            f"<{type(self).__name__} {self._state}: {running.counted(running.connected_brokers(engine), 'broker')} connected, "
            f"{running.counted(buffered.records, 'record')} buffered, {flying.records} in flight>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a producer cannot be pickled; producer.config can")


def refused(error: KafkaError) -> Pending:
    """A call that is refused at once; the error is raised when it is awaited."""
    pending = Pending(None, bool)
    pending.refuse(error)
    return pending
