"""Users of one producer, each with another way of sending; all of them pause on request."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from aioproducer import BatchDelivery, Delivery, Producer
from aioproducer.errors import KafkaError, MetadataTimeoutError
from tests.judge.history import Headers
from tests.simulation.fault_schedule import TOPIC
from tests.soak.access import Access
from tests.soak.judging.ledger import Ledger

PURGED: Final = "purged"
THREADS: Final = "threads"
VISITS: Final = "visits"
TOPICS: Final = {TOPIC: 12, PURGED: 3, THREADS: 3, VISITS: 3}
"""The topics, and the number of partitions of each. The faults of single partitions happen to the first."""

SETTINGS: Final[dict[str, Any]] = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 4_000,
    "max_block_ms": 2_000,
    # A broker that was silent while a connection was opened delays it for this time; ten seconds are a whole period.
    "socket_connection_setup_timeout_ms": 1_000,
    "socket_connection_setup_timeout_max_ms": 1_000,
    "linger_ms": 5,
    "buffer_memory": 4_194_304,
    "compression_type": "lz4",
}
"""Deadlines pass during the longer faults, so that every kind of outcome occurs."""
_LIMITS: Final = tuple(name for name in SETTINGS if name != "linger_ms" and name.endswith("_ms"))

_POOL: Final = b"what a record may be filled with, 0123456789; " * 20
_HEADERS: Final = (("h", b"1"), ("h", None))
_BURST: Final = 50
_BULK: Final = 250
_ARREARS: Final = 2.0
"""Seconds of work that a user makes up for after a fault; older work is given up."""
_FROM_THREADS: Final = 20
_VISIT: Final = 50


def settings(haste: float) -> dict[str, Any]:
    """The producer's settings; in haste, its time limits are shorter."""
    return SETTINGS | {name: int(SETTINGS[name] / haste) for name in _LIMITS}


@attrs.define(eq=False)
class Pace:
    """The rate of one user."""

    records_per_second: float
    _due: float = 0.0

    def take(self, records: int) -> float:
        """Count sent records; returns the seconds until the next may be sent."""
        now = _now()
        self._due = max(self._due, now - _ARREARS) + records / self.records_per_second
        return self._due - now


@attrs.define(eq=False)
class Gate:
    """A gate that all users pass between two pieces of work; while it is shut, they wait there."""

    users: int = 0
    _waiting: int = 0
    _open: asyncio.Event = attrs.Factory(asyncio.Event)
    _shut: asyncio.Event = attrs.Factory(asyncio.Event)
    _all_wait: asyncio.Event = attrs.Factory(asyncio.Event)

    def shut(self) -> None:
        """Keep users from beginning another piece of work."""
        self._open.clear()
        self._shut.set()

    def open(self) -> None:
        """Let all users continue."""
        self._all_wait.clear()
        self._shut.clear()
        self._open.set()

    def release_all(self) -> None:
        """From now on no user pauses, and none is stopped."""
        self._shut.set()
        self._open.set()

    async def pass_through(self) -> None:
        """Pass the gate, or wait for it."""
        if not self._open.is_set():
            self._waiting += 1
            self._check()
            try:
                await self._open.wait()
            finally:
                self._waiting -= 1

    async def pause(self, seconds: float) -> None:
        """Wait for this time, but no longer than until the gate is shut."""
        if seconds <= 0:
            # Always a turn of the loop: a user that is behind must not keep the others from theirs.
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._shut.wait()

    def remove_user(self) -> None:
        """A user has finished."""
        self.users -= 1
        self._check()

    async def all_waiting(self) -> None:
        """Wait until all users wait at the gate."""
        self._check()
        await self._all_wait.wait()

    def _check(self) -> None:
        if self._waiting >= self.users:
            self._all_wait.set()


@attrs.define(eq=False)
class Users:
    """All users, their shared state, and their kinds of work."""

    producer: Producer[Any, Any]
    ledger: Ledger
    records_per_second: float
    seed: int
    access: Access
    """For producers that are made later."""
    gate: Gate = attrs.Factory(Gate)
    haste: float = 1.0
    finishing: bool = False
    _tasks: list[asyncio.Task[None]] = attrs.Factory(list)

    @property
    def delivery_timeout(self) -> float:
        """Seconds from acceptance to the outcome."""
        return self.producer.config.delivery_timeout_ms / 1000

    @property
    def max_block(self) -> float:
        """The longest wait of a call for acceptance, in seconds."""
        return self.producer.config.max_block_ms / 1000

    def start(self) -> None:
        """Start the tasks of all users."""
        work: list[tuple[Callable[[random.Random], Awaitable[int]], int, float]] = [
            # the kind of work, the number of its users, and their share of the records
            (self._send_and_await_later, 8, 0.40),
            (self._send_without_awaiting, 2, 0.20),
            (self._send_in_bulk, 4, 0.25),
            (self._send_and_wait, 20, 0.08),
            (self._lose_patience, 2, 0.04),
            (self._purge, 1, 0.03),
            (self._send_from_a_thread, 1, 0.02),
            (self._flush_and_look, 1, 1 / self.records_per_second),
            (self._visit, 1, _VISIT / 2 / self.records_per_second),
        ]
        for task, count, share in work:
            for index in range(count):
                rng = random.Random(f"{self.seed}-{task.__name__}-{index}")
                pace = Pace(self.records_per_second * share / count)
                self._tasks.append(asyncio.create_task(self._live(task, rng, pace)))
        self.gate.users = len(self._tasks)
        self.gate.open()

    async def finish(self, timeout: float) -> list[Exception]:
        """Let all users finish their work; returns their errors, and a TimeoutError for each that did not end."""
        self.finishing = True
        self.gate.release_all()
        _, hanging = await asyncio.wait(self._tasks, timeout=timeout)
        for task in hanging:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        wrong = [end for end in ends if isinstance(end, Exception)]
        return wrong + [TimeoutError(f"a user did not come to an end: {task}") for task in hanging]

    async def _live(
        self, work: Callable[[random.Random], Awaitable[int]], rng: random.Random, pace: Pace
    ) -> None:
        try:
            while not self.finishing:
                await self.gate.pass_through()
                await self.gate.pause(pace.take(await work(rng)))
        finally:
            self.gate.remove_user()

    # -- kinds of work; each returns the number of its records

    async def _send_and_await_later(self, rng: random.Random) -> int:
        deliveries = [await self._send(TOPIC, rng, partition=rng.randrange(24)) for _ in range(_BURST)]
        for delivery in deliveries:
            if delivery is not None:
                await delivery.wait()
        return _BURST

    async def _send_without_awaiting(self, rng: random.Random) -> int:
        for _ in range(_BURST):
            key = b"key-%d" % rng.randrange(1000)
            number, value = self.ledger.enter(TOPIC, _filling(rng), key)
            called_at = _now()
            try:
                delivery = self.producer.send_nowait(TOPIC, value, key=key)
            except KafkaError as error:
                self.ledger.failed(number, error, called_at)
            else:
                self.ledger.accepted(number, delivery, called_at + self.max_block + self.delivery_timeout)
        return _BURST

    async def _send_in_bulk(self, rng: random.Random) -> int:
        entered = [self.ledger.enter(TOPIC, _filling(rng)) for _ in range(_BULK)]
        sending = self.producer.send_batch(TOPIC, [value for _, value in entered])
        await self._follow_bulk([number for number, _ in entered], await sending)
        return _BULK

    async def _follow_bulk(self, numbers: list[int], handle: BatchDelivery) -> None:
        # All of them have their place by now, or were refused.
        due_at = _now() + self.delivery_timeout
        result = await handle
        for index, number in enumerate(numbers):
            error = result.errors.get(index)
            if error is None:
                self.ledger.placed(number, result.partitions[index], result.offsets[index], due_at)
            else:
                self.ledger.failed(number, error, due_at)

    async def _send_and_wait(self, rng: random.Random) -> int:
        await self._follow(TOPIC, rng, wait=True)
        return 1

    async def _lose_patience(self, rng: random.Random) -> int:
        """Calls that are cancelled before, while and after their record is accepted; records that are withdrawn."""
        calls = [asyncio.create_task(self._follow(TOPIC, rng, wait=rng.random() < 0.5)) for _ in range(20)]
        await asyncio.wait(calls, timeout=rng.choice((0.0, 0.001, 0.01, 1.0)))
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        for _ in range(20):
            delivery = await self._send(TOPIC, rng)
            if delivery is not None and rng.random() < 0.5:
                delivery.try_cancel()
        return 40

    async def _purge(self, rng: random.Random) -> int:
        for _ in range(_BURST):
            await self._send(PURGED, rng)
        if rng.random() < 0.5:
            self.producer.purge(PURGED)
        return _BURST

    async def _send_from_a_thread(self, rng: random.Random) -> int:
        entered = [self.ledger.enter(THREADS, _filling(rng)) for _ in range(_FROM_THREADS)]
        futures = await asyncio.to_thread(
            lambda: [self.producer.send_threadsafe(THREADS, value) for _, value in entered]
        )
        due_at = _now() + self.max_block + self.delivery_timeout
        for (number, _), future in zip(entered, futures, strict=True):
            try:
                metadata = await asyncio.wrap_future(future)
            except KafkaError as error:
                self.ledger.failed(number, error, due_at)
            else:
                self.ledger.placed(number, metadata.partition, metadata.offset, due_at)
        return _FROM_THREADS

    async def _flush_and_look(self, rng: random.Random) -> int:
        with contextlib.suppress(TimeoutError):
            await self.producer.flush(timeout=rng.choice((0.0, 0.1, 10.0)))
        stats = self.producer.stats()
        if stats.bytes_buffered > SETTINGS["buffer_memory"]:
            raise AssertionError(f"{stats.bytes_buffered} bytes are buffered")
        self.producer.health()
        repr(self.producer)
        with contextlib.suppress(MetadataTimeoutError):
            await self.producer.partitions_for(TOPIC)
        return 1

    async def _visit(self, rng: random.Random) -> int:
        """Make a producer of its own, send a few records, and close it."""
        visitor: Producer[Any, Any] = Producer(**self.access.visiting, **settings(self.haste))
        await visitor.start()
        try:
            for _ in range(_VISIT):
                await self._send(VISITS, rng, producer=visitor)
        finally:
            await visitor.close(self.delivery_timeout)
        return _VISIT

    # -- one record

    async def _send(self, topic: str, rng: random.Random, **how: Any) -> Delivery | None:
        return await self._follow(topic, rng, wait=False, **how)

    async def _follow(
        self,
        topic: str,
        rng: random.Random,
        *,
        wait: bool,
        partition: int | None = None,
        producer: Producer[Any, Any] | None = None,
    ) -> Delivery | None:
        """Send one record and make sure that its outcome is recorded, even if this is cancelled."""
        producer = self.producer if producer is None else producer
        key = b"key-%d" % rng.randrange(1000) if rng.random() < 0.3 else None
        headers: Headers = _HEADERS if rng.random() < 0.05 else ()
        chosen = partition if partition is not None and partition < TOPICS[topic] else None
        # There is no await between the number and the call: the numbers are the order of the calls.
        number, value = self.ledger.enter(topic, _filling(rng), key, headers)
        called_at = _now()
        call = producer.send_and_wait if wait else producer.send
        sending: Any = call(topic, value, key=key, partition=chosen, headers=headers)
        try:
            await sending
        except KafkaError as error:
            if sending.delivery is None:
                self.ledger.failed(number, error, called_at + self.max_block)
                return None
        except asyncio.CancelledError:
            if sending.delivery is None:
                self.ledger.withdrawn(number)
                raise
            self.ledger.accepted(number, sending.delivery, _now() + self.delivery_timeout)
            raise
        accepted_by = called_at + self.max_block if wait else _now()
        self.ledger.accepted(number, sending.delivery, accepted_by + self.delivery_timeout)
        return sending.delivery  # type: ignore[no-any-return]


def _filling(rng: random.Random) -> bytes:
    start = rng.randrange(40)
    return _POOL[start : start + rng.randrange(20, 300)]


def _now() -> float:
    return asyncio.get_running_loop().time()
