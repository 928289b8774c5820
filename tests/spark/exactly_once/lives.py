"""Lives of exactly-once work in virtual time: faults of a cluster, and drivers and attempts that Spark has given up."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import attrs

from aioproducer import KafkaError
from aioproducer.spark.options import LEDGER
from tests.simulation.world import World, simulate

__all__ = ["DAY", "OPTIONS", "TOPIC", "Life", "play"]

TOPIC: Final = "orders"
DAY: Final = 86_400.0
OPTIONS: Final = {
    "topic": TOPIC,
    "delivery": "exactly-once",
    "kafka.max.block.ms": "20000",
    "kafka.request.timeout.ms": "3000",
    "kafka.delivery.timeout.ms": "20000",
}
ERRORS: Final = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "CONCURRENT_TRANSACTIONS",
    "REQUEST_TIMED_OUT",
)
ANSWER_ERRORS: Final = ("EndTxn", "InitProducerId", "OffsetFetch", "TxnOffsetCommit")
APIS: Final = (*ANSWER_ERRORS, "ListTransactions", "Produce", "FindCoordinator", "Fetch")
# Seconds until an attempt begins that Spark has given up, and until a driver dies.
LATE: Final = (0.0, 0.1, 1.0, 10.0)
DIES: Final = (None, None, None, 0.1, 0.5, 2.0, 10.0)


@attrs.define
class Life:
    """A piece of work, and everything of it that goes on although Spark has given it up."""

    world: World
    # Transactional ids and groups, whose coordinators may move.
    names: list[str] = attrs.Factory(list)
    attempts: int = 0
    behind: list[asyncio.Task[Any]] = attrs.Factory(list)
    faults: asyncio.Task[None] | None = None

    @property
    def rng(self) -> random.Random:
        """The only source of chance."""
        return self.world.rng

    @property
    def visible(self) -> Counter[bytes]:
        """The committed rows."""
        return Counter(record.value or b"" for record in self.world.kafka.records(TOPIC))

    def require_no_double(self) -> None:
        """No row is visible twice."""
        doubled = {row: times for row, times in self.visible.items() if times > 1}
        assert not doubled, doubled

    def abandon(self, attempt: Callable[[], Awaitable[object]]) -> None:
        """An attempt whose executor is taken for lost: it begins at any time later, and its result is dropped."""

        async def late() -> None:
            await asyncio.sleep(self.rng.choice(LATE))  # virtual time
            with contextlib.suppress(KafkaError):
                await attempt()

        self.behind.append(asyncio.create_task(late()))

    async def until_death(self, driver: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """The ended work of a driver; None if it has died, or was taken for dead and goes on."""
        task = asyncio.create_task(driver)
        done, _ = await asyncio.wait([task], timeout=self.rng.choice(DIES))  # virtual time
        if done:
            return task
        if self.rng.random() < 0.5:
            task.cancel()
        self.behind.append(task)
        return None

    def begin_faults(self) -> None:
        """The cluster is disturbed from now on."""
        self.faults = asyncio.create_task(self._disturbed())

    async def end_faults(self) -> None:
        """Everything works again, and all that was given up has ended."""
        if self.faults is not None:
            self.faults.cancel()
            await asyncio.gather(self.faults, return_exceptions=True)
        self.faults = None
        self.world.kafka.faults.heal()
        for number, broker in enumerate(self.world.kafka.brokers, 1):
            if not broker.up:
                await self.world.kafka.faults.start_broker(number)
        await asyncio.gather(*self.behind, return_exceptions=True)

    async def _disturbed(self) -> None:
        while True:
            await asyncio.sleep(self.rng.choice((0.05, 0.5, 2.0)))  # virtual time
            await self._disturb()

    async def _disturb(self) -> None:
        faults, rng = self.world.kafka.faults, self.rng
        broker, api = rng.randrange(1, 4), rng.choice(APIS)
        match rng.randrange(7):
            case 0:
                faults.cut(
                    api=api, before=rng.random() < 0.5, skip=rng.randrange(5), times=rng.randrange(1, 4)
                )
            case 1:
                faults.error(rng.choice(ERRORS), api=rng.choice(ANSWER_ERRORS), times=rng.randrange(1, 6))
            case 2:
                faults.drop_connections(broker)
            case 3:
                await faults.stop_broker(broker)
                await asyncio.sleep(rng.choice((0.5, 4.0)))  # virtual time
                await faults.start_broker(broker)
            case 4:
                faults.drop_answer(api=api, times=1, skip=rng.randrange(3))
            case 5:
                for name in self.names:
                    faults.move_coordinator(name, broker, loading=rng.choice((0.0, 0.5)))
            case 6:
                # Of coordinators that are being elected.
                faults.alter(_nothing_listed, api="ListTransactions", times=rng.randrange(1, 12))


def _nothing_listed(answer: Any) -> Any:
    return answer._replace(transaction_states=[])


def play(life: Callable[[World], Awaitable[None]], seed: int, version: int) -> None:
    """A life on this version of transactions, with the topic of its rows and the ledger."""

    async def whole(world: World) -> None:
        world.forgotten |= {TOPIC, LEDGER}
        world.kafka.create_topic(TOPIC, 4)
        world.kafka.create_topic(LEDGER, 16, cleanup_policy="compact")
        await life(world)

    simulate(whole, seed, transaction_version=version)
