"""A producer for unit tests of the code that sends: the real one, with brokers in memory that do what a test says."""

from __future__ import annotations

import asyncio
import weakref
from asyncio.events import _get_running_loop
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from aioproducer._core import APPENDED
from aioproducer._net.cluster.metadata_task import request_for
from aioproducer.config import ProducerConfig, checked_transactional_ids, topic_problem
from aioproducer.producer import Producer
from aioproducer.testing.broker.faults import FaultRules
from aioproducer.testing.broker.pipes import Pipes
from aioproducer.testing.mock.brokers import NODE_ID, MockBroker, MockCluster
from aioproducer.testing.mock.controls import MockControls, hold
from aioproducer.testing.mock.intake import MockIntake
from aioproducer.testing.mock.ledger import Entry, Ledger, MockRecord
from aioproducer.testing.mock.orders import Orders
from aioproducer.testing.mock.transactions import MockTransaction, MockTransactionControls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import TypeVar, Unpack

    from aioproducer._net.runtime.engine import Engine
    from aioproducer.config import BootstrapServers, Settings
    from aioproducer.records import BytesLike
    from aioproducer.serializers import Serializer
    from aioproducer.transaction import Transaction

    # As of Producer.
    K_contra = TypeVar("K_contra", default=BytesLike, contravariant=True)
    V_contra = TypeVar("V_contra", default=BytesLike, contravariant=True)
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
else:
    from typing import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)

__all__ = ["MockProducer", "MockRecord"]


class MockProducer(
    MockControls, MockTransactionControls, Producer[K_contra, V_contra], Generic[K_contra, V_contra]
):
    """A `Producer` for unit tests: its brokers are in memory, answer at once, and do what the test says.

    ```python
    async with MockProducer() as producer:
        await place_order(producer, "2 apples")
        assert [record.value for record in producer.history] == [b"2 apples"]
    ```

    It takes the settings of `Producer`; any address will do. Every topic exists, with `partitions` partitions (a number,
    or a mapping by name; topics that are not named have 1).

    Records are acknowledged at once, with the next offset of their partition. With `auto_complete=False` they wait
    for `complete_next`, `complete_all`, `fail_next` or `fail_all`, at most `timeout` or `delivery_timeout_ms`; until
    then `try_cancel` and `purge` withdraw them. `fail_send` and `fail_delivery` order failures of records to come.

    With a `transactional_id` it has transactions; `committed` is what readers of committed records find. `fence_me`,
    `fail_commit`, `lose_commit_answer` and `fail_offsets` order what may happen to them.

    `close_timeout_ms` is 0 unless given, where records wait for the test: closing fails what is left at once. Repetitions
    begin after 1 ms (`retry_backoff_ms`).
    """

    @overload
    def __init__(
        self: MockProducer[BytesLike, BytesLike],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: None = None,
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[K, BytesLike],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: Serializer[K],
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[BytesLike, V],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: None = None,
        value_serializer: Serializer[V],
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[K, V],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: Serializer[K],
        value_serializer: Serializer[V],
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        settings.setdefault("retry_backoff_ms", 1)
        if not auto_complete:
            settings.setdefault("close_timeout_ms", 0)
        config = ProducerConfig(
            bootstrap_servers, key_serializer=key_serializer, value_serializer=value_serializer, **settings
        )
        self._set_up(config)
        self._set_up_brokers(auto_complete, partitions)

    @classmethod
    def from_config(
        cls,
        config: ProducerConfig,
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
    ) -> Self:
        """Make a mock of a configuration that was checked before."""
        producer = super().from_config(config)
        producer._set_up_brokers(auto_complete, partitions)  # noqa: SLF001  # a constructor
        return producer

    def _set_up_brokers(self, auto_complete: bool, partitions: Mapping[str, int] | int) -> None:
        self._auto_complete = auto_complete
        self._orders = Orders()
        self._cluster = MockCluster.at(self.config.bootstrap_servers[0], partitions)
        me = weakref.proxy(self)
        self._broker = MockBroker(
            self._cluster,
            self._cluster.nodes[NODE_ID],
            FaultRules(),
            self._orders,
            lambda error: me._fail_transaction(error),  # noqa: PLW0108, SLF001
        )
        self._pipes = Pipes(self._broker)
        self._ledger = Ledger(self._cluster, transactional=self.config.transactional_id is not None)
        self._fenced: list[str] = []
        self._accepted = asyncio.Event()
        # Accepted records that fail as ordered, and whether a record is on its way in or out just now.
        self._doomed: list[tuple[Entry, Exception]] = []
        self._busy = False
        self._following: dict[str, int] = {}

    # -- what differs from a producer on a network

    def _network(self) -> Pipes:
        return self._pipes

    def _intake_of(
        self, engine: Engine, pace: Callable[[], bool], usable: Callable[[], object]
    ) -> MockIntake:
        return MockIntake(engine, pace, usable, self._orders)

    async def start(self, *, wait_ready: float | None = None) -> None:
        """Bind to the running loop. The brokers are known, and connected, when it returns."""
        await super().start(wait_ready=wait_ready)
        try:
            await self.ready()
            engine = self._running()
            while not await engine.connect_early(NODE_ID) or engine.sequences.wanted:
                await asyncio.sleep(0)
                self._running()
            # Records may have been sent meanwhile, by other tasks.
            self._go_on(engine)
        except BaseException:
            await self._undo_start()
            raise

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """See `Producer.transaction`."""
        return MockTransaction(self._transactions, self._timeout(timeout), self._pipes)

    async def fence(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """See `Producer.fence`; `fenced` tells the test which ids these were."""
        names = checked_transactional_ids(transactional_ids)
        await super().fence(names, timeout=timeout)
        self._fenced += names

    def _send_slowly(self, *call: Any) -> Any:
        return self._answered(super()._send_slowly, *call)

    def _send_now(self, *call: Any) -> Any:
        return self._answered(super()._send_now, *call)

    def _send_many(self, *call: Any) -> Any:
        return self._answered(super()._send_many, *call)

    def _answered(self, send: Callable[..., Any], *call: Any) -> Any:
        """What a call of `send` gives, with the answers of the brokers to it."""
        engine = self._engine
        if engine is None or self._busy or not self._same_thread() or engine.loop is not _get_running_loop():
            return send(*call)
        self._busy = True
        try:
            self._have(engine, call[0])
            return send(*call)
        finally:
            self._busy = False
            self._go_on(engine)

    def _have(self, engine: Engine, topic: object) -> None:
        """Make a topic known, unless the brokers are just being asked for others, or were never asked yet."""
        if (
            not engine.cluster.known
            or not isinstance(topic, str)
            or topic in engine.accumulator.topics
            or topic_problem(topic) is not None
        ):
            return
        now = engine.loop.time()
        engine.view.want(topic, now)
        question = engine.view.due(now)
        if question is not None:
            engine.cluster.take_in(self._broker.answer_at_once(request_for(question)))

    # -- records that are accepted

    def _append_checked(  # the arguments of the core
        self,
        topic: Any,  # a TopicQueues
        key: Any,
        value: Any,
        headers: tuple[tuple[str, bytes | None], ...] | None,
        timestamp: int | None,
        partition: int,
        deadline: float,
        in_line: bool,
    ) -> list[Any]:
        engine = self._engine
        assert engine is not None  # noqa: S101  # who appends has one
        doomed = self._orders.failures.next_for(topic.name) is not None
        held = doomed or not self._auto_complete
        for queue in topic.queues():
            if queue.open is not None and (held or queue.open.retry_at):
                # One record is held in a batch of its own.
                engine.accumulator.shut(queue.open, engine.loop.time())
        if topic.sticky is None:
            # In turn, not by chance: a test is better off with the same each time.
            following = self._following.get(topic.name, 0) % len(topic.partitions)
            topic.sticky, topic.sticky_bytes = topic.partitions[following], 0
            self._following[topic.name] = following + 1
        stamp = self._wall_ms() if timestamp is None else timestamp
        answer = super()._append_checked(topic, key, value, headers, stamp, partition, deadline, in_line)
        status, delivery, queue = answer
        if status == APPENDED:
            record = MockRecord(
                topic=topic.name,
                partition=queue.index,
                key=None if key is None else bytes(key),
                value=None if value is None else bytes(value),
                headers=headers or (),
                timestamp=stamp,
            )
            if not held:
                engine.accumulator.send_now(queue.open)
            self._note(engine, Entry(record, delivery, queue.open if held else None))
        return answer

    def _note(self, engine: Engine, entry: Entry) -> None:
        self._ledger.accept(entry)
        self._accepted.set()
        if entry.held is not None:
            hold(entry.held)
            ordered = self._orders.failures.take(entry.record.topic)
            if ordered is not None:
                self._doomed.append((entry, ordered))
        if not self._busy:
            engine.loop.call_soon(self._go_on, engine)

    def _go_on(self, engine: Engine) -> None:
        """Have the brokers answer what is ready to be sent, and records fail as ordered."""
        if self._busy or engine.accumulator.is_draining:
            return
        self._busy = True
        try:
            self._send_at_once(engine)
            doomed, self._doomed = self._doomed, []
            for entry, error in doomed:
                if entry in self._held(None):
                    self._fail(entry, error)
            self._ledger.look()
        finally:
            self._busy = False

    def __repr__(self) -> str:
        accepted, pending = len(self.history), len(self.pending)
        return f"<MockProducer {self._state}: {accepted} records in its history, {pending} pending>"
