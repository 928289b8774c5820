"""A producer for unit tests of code that sends: the real producer, with a broker in memory that the test controls."""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from asyncio.events import _get_running_loop
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, overload

from aioproducer._calls import running  # noqa: F401  # a test's clock may stand still while a thread would load them
from aioproducer._calls.lifecycle import K_contra, V_contra
from aioproducer._core import APPENDED, Clock, ManualClock
from aioproducer._net.securing import protocol  # noqa: F401
from aioproducer._net.transactions import transactions  # noqa: F401
from aioproducer._state.transactions import current, ownership  # noqa: F401
from aioproducer.config import (
    BootstrapServers,
    ProducerConfig,
    Settings,
    checked_transactional_ids,
    config_of_call,
)
from aioproducer.serializers import Serializer
from aioproducer.testing.broker.faults import FaultRules
from aioproducer.testing.broker.pipes import Pipes
from aioproducer.testing.mock.brokers import NODE_ID, MockBroker, MockCluster, MockTransaction, Partitions
from aioproducer.testing.mock.controls import Controls, Entry, MockRecord
from aioproducer.testing.mock.orders import Orders
from aioproducer.testing.mock.sending import MockIntake, SendingAtOnce, is_held

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine
    from aioproducer.producer import K, V
    from aioproducer.records import BytesLike

__all__ = ["MockProducer", "MockRecord"]


class MockProducer(Controls[K_contra, V_contra], Generic[K_contra, V_contra]):
    """A `Producer` for unit tests: its broker is in memory, answers at once, and follows the orders of the test.

    ```python
    async with MockProducer() as producer:
        await place_order(producer, "2 apples")
        assert [record.value for record in producer.history] == [b"2 apples"]
    ```

    It takes the settings of `Producer`, and any address. Every topic exists, with `partitions` partitions: a number, or a
    mapping by name (other topics have 1).

    With `auto_complete=False`, records stay pending until `complete_next`, `complete_all`, `fail_next` or `fail_all`, at
    most `timeout` or `delivery_timeout_ms`; then `close_timeout_ms` is 0 unless it is given. `retry_backoff_ms` is 1.
    """

    _transaction_type = MockTransaction

    @overload
    def __init__(
        self: MockProducer[BytesLike, BytesLike],
        bootstrap_servers: BootstrapServers = ...,
        *,
        auto_complete: bool = ...,
        partitions: Partitions = ...,
        key_serializer: None = None,
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[K, V],
        bootstrap_servers: BootstrapServers = ...,
        *,
        auto_complete: bool = ...,
        partitions: Partitions = ...,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Partitions = 1,
        **settings: Any,
    ) -> None:
        settings.setdefault("retry_backoff_ms", 1)
        if not auto_complete:
            settings.setdefault("close_timeout_ms", 0)
        self._set_up(config_of_call(bootstrap_servers, cast("Any", settings)), auto_complete, partitions)

    @classmethod
    def from_config(
        cls, config: ProducerConfig, *, auto_complete: bool = True, partitions: Partitions = 1
    ) -> Self:
        """Make a mock of a configuration that was checked before."""
        producer = cls.__new__(cls)
        producer._set_up(config, auto_complete, partitions)  # noqa: SLF001  # a constructor
        return producer

    def _set_up(self, config: ProducerConfig, auto_complete: bool = True, partitions: Partitions = 1) -> None:
        super()._set_up(config)
        self._auto_complete = auto_complete
        self._forget()
        self._loop_clock = ManualClock()
        self._orders = Orders()
        self._cluster = MockCluster.at(config.bootstrap_servers[0], partitions)
        me = weakref.proxy(self)
        refused = lambda error: me._fail_transaction(error)  # noqa: E731, PLW0108, SLF001
        broker = MockBroker(self._cluster, self._cluster.nodes[NODE_ID], FaultRules(), self._orders, refused)
        self._network = self._cluster.network = Pipes(broker)
        # The next partition of each topic for records without a key: in turn, not at random.
        self._next_sticky: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> Engine:
        engine = super()._begin(loop)
        self._sending = SendingAtOnce(engine, self._cluster)
        return engine

    def _clock_for(self, loop: asyncio.AbstractEventLoop) -> Clock:
        # The time of the loop may be virtual: no other clock agrees with it.
        self._loop_clock.monotonic = loop.time()
        return self._loop_clock

    def _pace(self) -> bool:
        # Calls that are refused take time as well.
        assert self._engine is not None  # noqa: S101  # it takes calls
        self._loop_clock.monotonic = self._engine.loop.time()
        return super()._pace()

    def _wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def _intake_of(
        self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object]
    ) -> MockIntake:
        intake = MockIntake(engine, pace, usable)
        intake.serializing.orders = self._orders
        return intake

    async def start(self, *, wait_ready: float | None = None) -> None:
        """See `Producer.start`. The broker is connected when it returns."""
        await super().start(wait_ready=wait_ready)
        try:
            await self.ready()
            engine = self._running()
            while not await engine.brokers.connect_early(NODE_ID) or engine.sequences.wanted:
                await asyncio.sleep(0)
                self._running()
            self._sending.start()
        except BaseException:
            await self._undo_start()
            raise

    async def fence(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """See `Producer.fence`; `fenced` lists these ids."""
        names = checked_transactional_ids(transactional_ids)
        await super().fence(names, timeout=timeout)
        self._fenced += names

    # -- records: each is sent within the call, or held

    def _send_slowly(self, *call: Any) -> Any:
        return self._send(super()._send_slowly, *call)

    def _send_now(self, *call: Any) -> Any:
        return self._send(super()._send_now, *call)

    def _send_many(self, *call: Any) -> Any:
        return self._send(super()._send_many, *call)

    def _send(self, send: Callable[..., Any], *call: Any) -> Any:
        engine = self._engine
        if engine is None or not self._same_thread() or engine.loop is not _get_running_loop():
            return send(*call)
        self._sending.learn(call[0])
        return engine.effects.event(send, *call)

    def _append_checked(
        self, topic: Any, key: Any, value: Any, headers: Any, timestamp: Any, *rest: Any, **more: Any
    ) -> list[Any]:
        engine = self._engine
        assert engine is not None  # noqa: S101  # it accepts records
        self._loop_clock.monotonic = engine.loop.time()
        held = not self._auto_complete or self._orders.next("delivery", topic.name) is not None
        for queue in topic.in_use:
            if queue.open is not None and (held or is_held(queue.open)):
                # A held record has a batch of its own.
                engine.accumulator.shut(queue.open, engine.loop.time())
        if topic.sticky is None:
            following = next(self._next_sticky[topic.name]) % len(topic.partitions)
            topic.sticky, topic.sticky_bytes = topic.queue(following), 0
        stamp = self._wall_ms() if timestamp is None else timestamp
        answer = super()._append_checked(topic, key, value, headers, stamp, *rest, **more)
        status, delivery, queue = answer
        if status == APPENDED:
            record = MockRecord(topic.name, queue.index, key, value, headers or (), stamp)
            self._add(Entry(record, delivery, queue.open))
            if held:
                self._sending.hold(queue.open, self._orders.take("delivery", topic.name))
            else:
                engine.accumulator.send_now(queue.open)
        return answer
