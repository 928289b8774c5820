"""A relay with a topic that takes no large records, a table, and dead letters: rows of it are held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from aioproducer import BrokerError, KafkaError, Producer, Record
from aioproducer.outbox import ID_HEADER, Relay, Row
from tests.outbox.memory import BrokenStoreError, MemoryStore, Table
from tests.simulation.world import World, simulate

ONE, TWO = "one", "two"
LARGE: Final = b"x" * 3_000
POLL: Final = 0.5
LIMIT: Final = 300.0


@attrs.define(eq=False)
class Scene:
    """A topic that takes no large records, a table, and the dead letters of its rows."""

    world: World
    producer: Producer[Any, Any]
    table: Table = attrs.Factory(Table)
    letters: list[int] = attrs.Factory(list)
    failing_letters: int = 0
    on_letter: Callable[[int], Awaitable[None]] | None = None
    """Called with the row of each letter, before it is written."""

    @property
    def store(self) -> MemoryStore:
        """The view of one relay."""
        return MemoryStore(self.table)

    async def put(self, record: Record[Any, Any], error: KafkaError) -> None:
        """The outlet of dead letters."""
        assert isinstance(error, BrokerError)
        if self.failing_letters:
            self.failing_letters -= 1
            raise BrokenStoreError("dead letters")
        number = int(dict(record.headers or ())[ID_HEADER] or b"")
        if self.on_letter is not None:
            await self.on_letter(number)
        self.letters.append(number)

    @property
    def ports(self) -> list[int]:
        """The ports of all brokers."""
        return [broker.port for broker in self.world.kafka.brokers]

    def relay(self, store: MemoryStore | None = None, **options: Any) -> Relay:
        """A relay of the table."""
        return Relay(self.producer, store or self.store, **{"dead_letters": self, "poll": POLL, **options})

    def log(self, topic: str = ONE) -> list[int]:
        """The rows in a topic."""
        return [int(dict(record.headers)[ID_HEADER] or b"") for record in self.world.kafka.records(topic)]

    def lose_requests(self, times: int = 1) -> None:
        """The next requests are lost on their way."""
        self.world.kafka.faults.cut(before=True, api="Produce", times=times)

    def lose_answers(self, times: int = 1) -> None:
        """No answer tells that they are written."""
        self.world.kafka.faults.error("UNKNOWN_SERVER_ERROR", topic=ONE, append=False, times=times)

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait for it."""
        async with asyncio.timeout(LIMIT):
            while not is_so():
                await self.moment()

    @staticmethod
    async def moment() -> None:
        """The interval at which a scene looks."""
        await asyncio.sleep(0.05)

    async def until_held(self, number: int = 1) -> None:
        """Wait until this row is held, and the log says so."""
        await self.until(lambda: self.world.lines(f"row {number} is held"))

    async def hold(self, relay: Relay, *numbers: int) -> None:
        """Let the brokers refuse these rows, the only ones of the table, so that they are held."""
        lost = self.world.kafka.faults.error("UNKNOWN_SERVER_ERROR", topic=ONE, append=False, times=None)
        for number in numbers:
            self.table.commit(Row(number, ONE, b"held"))
        await self.until(lambda: self.world.lines("were not acknowledged"))
        lost.heal()
        refused = self.world.kafka.faults.error("INVALID_RECORD", topic=ONE, append=False, times=None)
        await self.until(lambda: len(relay._flight.held) == len(numbers))
        refused.heal()

    def decide(self) -> int:
        """A row of their topic: with its outcome the relay knows that no record of the held rows is written. Its id."""
        return self.table.add(ONE, b"behind")


def play(scene: Callable[[Scene], Awaitable[None]], **settings: Any) -> World:
    """Play a scene."""

    async def whole(world: World) -> None:
        world.kafka.create_topic(ONE, 1, max_message_bytes=1_500)
        world.kafka.create_topic(TWO, 1)
        world.forgotten |= {ONE, TWO}
        producer = world.producer(
            **{
                "gapless": True,
                "linger_ms": 5,
                "delivery_timeout_ms": 3_000,
                "retry_backoff_ms": 10,
                **settings,
            }
        )
        await producer.start()
        await scene(Scene(world, producer))

    return simulate(whole, 1)


def failing(*names: str) -> Callable[[str], None]:
    """The first calls with these names fail."""
    left = list(names)

    def step(name: str) -> None:
        if name in left:
            left.remove(name)
            raise BrokenStoreError(name)

    return step
