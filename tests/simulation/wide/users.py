"""The tasks that use a producer, in every way in which records can be sent, awaited, withdrawn and given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from aioproducer import Delivery, Producer, StateError
from aioproducer._callers.owners import Scope
from tests.simulation.wide.bounds import Bounds
from tests.simulation.wide.reports import Owner, Reports
from tests.simulation.wide.settings import THREADS
from tests.simulation.world import World

LONGEST: Final = 20.0
"""The longest timeout of a single record, in seconds."""


@attrs.define(eq=False)
class User:
    """One task with its own reports."""

    name: str
    world: World
    producer: Producer[Any, Any]
    topics: tuple[str, ...]
    reports: Reports
    bounds: Bounds
    owner: Owner = attrs.Factory(Owner)
    deliveries: list[Delivery] = attrs.Factory(list)
    over: bool = False
    """The producer was closed."""

    async def work(self, records: int, seconds: float) -> None:
        """Send so many records in about so much time."""
        rng, left = self.world.rng, records
        while left > 0 and not self.over:
            count = min(left, rng.choice((1, 1, 3, 10, 40)))
            left -= count
            await rng.choice(WAYS)(self, count)
            for waiting in rng.choice(PAUSES):
                await waiting(self)
            await asyncio.sleep(rng.choice((0.0, rng.uniform(0, 2 * seconds * count / records))))

    # -- records

    def _begins(self) -> None:
        self.reports.begin(self.owner)

    def _topic(self) -> str:
        return self.world.rng.choice(self.topics)

    def _arguments(self, topic: str) -> dict[str, Any]:
        rng = self.world.rng
        arguments: dict[str, Any] = {}
        if rng.random() < 0.4:
            arguments["key"] = b"key-%d" % rng.randrange(9)
        if rng.random() < 0.3:
            # Now and then the partition does not exist.
            arguments["partition"] = rng.randrange(self.world.kafka.topics[topic] + (rng.random() < 0.02))
        if rng.random() < 0.1:
            arguments["headers"] = (("name", b"value"), ("none", None))
        if rng.random() < 0.15:
            arguments["timeout"] = rng.choice((0.0, 0.01, 0.5, LONGEST))
        return arguments

    def _filling(self) -> bytes:
        rng = self.world.rng
        if rng.random() < 0.85:
            return rng.randbytes(rng.randrange(60))
        return rng.randbytes(rng.randrange(300)) + bytes(rng.choice((0, 0, 400, 2_000)))

    def _accept_limit(self, arguments: dict[str, Any]) -> float:
        """How long a call may wait to be accepted."""
        own: float = arguments.get("max_block", self.producer.config.max_block_ms / 1000)
        timeout: float = arguments.get("timeout", own)
        return min(own, timeout)

    def _delivery_limit(self, arguments: dict[str, Any]) -> float:
        """How long an accepted record may take."""
        return float(arguments.get("timeout", self.producer.config.delivery_timeout_ms / 1000))

    # -- ways to send

    async def _send_one(self) -> Delivery | None:
        topic = self._topic()
        arguments = self._arguments(topic)
        if self.world.rng.random() < 0.1:
            arguments["max_block"] = self.world.rng.choice((0.0, 0.05, 3.0))
        with self.bounds.within(f"send() of {self.name}", self._accept_limit(arguments)):
            delivery = await self.world.ledger.send(self.producer, topic, self._filling(), **arguments)
        if delivery is not None:
            self.deliveries.append(delivery)
        return delivery

    async def one_by_one(self, count: int) -> None:
        """`send()`, repeatedly; some records are withdrawn."""
        self._begins()
        for _ in range(count):
            delivery = await self._send_one()
            if delivery is not None and self.world.rng.random() < 0.05:
                delivery.try_cancel()

    async def at_once(self, count: int) -> None:
        """`send_nowait()`."""
        self._begins()
        for _ in range(count):
            topic = self._topic()
            delivery = self.world.ledger.send_nowait(
                self.producer, topic, self._filling(), **self._arguments(topic)
            )
            if delivery is not None:
                self.deliveries.append(delivery)
                if self.world.rng.random() < 0.03:
                    delivery.try_cancel()

    async def and_wait(self, count: int) -> None:
        """`send_and_wait()`, several at a time."""
        await self._together(count, self._and_wait)

    async def _and_wait(self) -> None:
        topic = self._topic()
        arguments = self._arguments(topic)
        with self.bounds.within(
            "send_and_wait()", self._accept_limit(arguments) + self._delivery_limit(arguments)
        ):
            await self.world.ledger.send_and_wait(self.producer, topic, self._filling(), **arguments)

    async def in_bulk(self, count: int) -> None:
        """`send_batch()`; some callers give up."""
        await self._together(1, lambda: self._in_bulk(count))

    async def _in_bulk(self, count: int) -> None:
        topic = self._topic()
        arguments = self._arguments(topic)
        fillings = [self._filling() for _ in range(count)]
        arguments.pop("key", None)
        arguments.pop("headers", None)
        with self.bounds.within(
            "send_batch()", count * self._accept_limit(arguments) + self._delivery_limit(arguments)
        ):
            await self.world.ledger.send_batch(self.producer, topic, fillings, **arguments)

    async def from_a_thread(self, count: int) -> None:
        """`send_threadsafe()`."""
        for _ in range(min(count, 3)):
            with contextlib.suppress(StateError):
                await self._from_a_thread()

    async def _from_a_thread(self) -> None:
        arguments = self._arguments(THREADS)
        with self.bounds.within(
            "send_threadsafe()", self._accept_limit(arguments) + self._delivery_limit(arguments)
        ):
            await self.world.ledger.send_threadsafe(self.producer, THREADS, self._filling(), **arguments)

    async def impatient(self, count: int) -> None:
        """Tasks that send, and are cancelled at any time."""
        await self._together(count, self._send_one)

    async def _together(self, count: int, call: Callable[[], Awaitable[object]]) -> None:
        """Tasks of their own, some of which are given up."""

        async def run() -> None:
            await call()

        rng = self.world.rng
        tasks = [asyncio.get_running_loop().create_task(run()) for _ in range(count)]
        if rng.random() < 0.5:
            await asyncio.wait(tasks, timeout=rng.choice((0.0, 0.0, 0.003, 0.1, 2.0)))
            for task in tasks:
                if rng.random() < 0.7:
                    task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def in_a_scope(self, count: int) -> None:
        """A scope that several tasks share."""
        rng, owner = self.world.rng, Owner()
        try:
            async with self.producer.scope() as scope:
                owner.reported = self.reports.now()
                flushing = [self._flush_a_scope(owner, scope) for _ in range(rng.randrange(3))]
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(count):
                        tasks.create_task(self._and_wait() if rng.random() < 0.2 else self._some())
                    for one in flushing:
                        tasks.create_task(one)
                await self._flush_a_scope(owner, scope)
        except StateError:
            # The producer was closed meanwhile.
            return

    async def _some(self) -> None:
        await self._send_one()

    async def _flush_a_scope(self, owner: Owner, scope: Scope) -> None:
        await asyncio.sleep(self.world.rng.choice((0.0, 0.0, 0.01, 0.5)))
        await self._flush_as("a scope", owner, scope.flush)

    # -- other calls

    async def flush(self) -> None:
        """The report of this task."""
        await self._flush_as(self.name, self.owner, self.producer.flush)

    async def _flush_as(self, who: str, owner: Owner, flushing: Callable[[float | None], Any]) -> None:
        timeout = self.world.rng.choice((None, None, 0.0, 0.02, 1.0))
        config = self.producer.config
        longest = max(LONGEST, (config.delivery_timeout_ms + config.max_block_ms) / 1000)
        with (
            self.bounds.within("flush()", longest if timeout is None else timeout),
            contextlib.suppress(StateError),
        ):
            await self.reports.flush(who, owner, flushing, timeout)

    async def wait_for_some(self) -> None:
        """Wait for records of this task, with and without timeout."""
        rng = self.world.rng
        waiting, self.deliveries = self.deliveries[-5:], []
        for delivery in waiting:
            timeout = rng.choice((None, 0.0, 0.1))
            longest = max(LONGEST, self.producer.config.delivery_timeout_ms / 1000) + 1
            with self.bounds.within("wait()", longest if timeout is None else timeout):
                await delivery.wait(timeout)

    async def purge(self) -> None:
        """Withdraw the buffered records, and count them."""
        rng = self.world.rng
        if rng.random() < 0.2:
            with contextlib.suppress(StateError):
                self.producer.purge(rng.choice((None, self._topic())))

    async def look(self) -> None:
        """Read snapshots, which never fails."""
        stats, config = self.producer.stats(), self.producer.config
        assert stats.bytes_buffered + stats.bytes_in_flight <= config.buffer_memory, stats
        self.producer.health()
        repr(self.producer)


Way = Callable[[User, int], Awaitable[None]]
WAYS: Final[tuple[Way, ...]] = (
    User.one_by_one, User.one_by_one, User.at_once, User.and_wait, User.in_bulk, User.from_a_thread, User.impatient,
    User.in_a_scope,
)  # fmt: skip
PAUSES: Final[tuple[tuple[Callable[[User], Awaitable[None]], ...], ...]] = (
    (), (), (User.flush,), (User.flush,), (User.wait_for_some,), (User.purge,), (User.look,), (User.purge, User.flush),
)  # fmt: skip
