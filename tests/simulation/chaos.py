"""A chaotic life: many tasks send through one producer during faults of the brokers, the network and the loop."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import attrs

from aioproducer import Producer
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.world import World

RECORDS: Final = 1_000
LASTS: Final = 10.0
TIMES: Final = ((), (), (0, *(1_700_000_000_000,) * 9))
"""Timestamps are stored as distances from the first record's, so that a batch without it has another size."""


@attrs.define
class Life:
    """One producer, and the tasks that use it."""

    world: World
    producer: Producer[Any, Any]
    records: int = 0
    times: tuple[int, ...] = ()
    """The timestamps of the records; None: the time of their acceptance."""

    async def task(self, share: int) -> None:
        """Send a share of the records, in one of the ways of users."""
        rng = self.world.rng
        ways = [self._one_by_one, self._nowait, self._in_bulk, self._waiting, self._impatient]
        while share > 0:
            count = min(share, rng.randrange(1, 60))
            share -= count
            self.records += count
            await rng.choice(ways)(count)
            await asyncio.sleep(rng.uniform(0, 2 * LASTS * count / RECORDS))

    def _arguments(self) -> dict[str, Any]:
        rng = self.world.rng
        arguments: dict[str, Any] = {}
        if rng.random() < 0.5:
            arguments["key"] = b"key-%d" % rng.randrange(20)
        elif rng.random() < 0.3:
            arguments["partition"] = rng.randrange(3)
        if rng.random() < 0.1:
            arguments["headers"] = (("name", b"value"), ("none", None))
        if rng.random() < 0.1:
            arguments["timeout"] = rng.uniform(0.05, 30.0)
        if self.times and rng.random() < 0.9:
            arguments["timestamp"] = rng.choice(self.times)
        return arguments

    def _filling(self) -> bytes:
        rng = self.world.rng
        return rng.randbytes(rng.randrange(40)) if rng.random() < 0.9 else bytes(rng.randrange(3000))

    async def _one_by_one(self, count: int) -> None:
        for _ in range(count):
            delivery = await self.world.ledger.send(
                self.producer, TOPIC, self._filling(), **self._arguments()
            )
            if delivery is not None and self.world.rng.random() < 0.02:
                delivery.try_cancel()

    async def _nowait(self, count: int) -> None:
        for _ in range(count):
            self.world.ledger.send_nowait(self.producer, TOPIC, self._filling(), **self._arguments())

    async def _in_bulk(self, count: int) -> None:
        await self.world.ledger.send_batch(self.producer, TOPIC, [self._filling() for _ in range(count)])

    async def _waiting(self, count: int) -> None:
        for _ in range(min(count, 10)):
            delivery = await self.world.ledger.send(
                self.producer, TOPIC, self._filling(), **self._arguments()
            )
            if delivery is not None:
                await delivery.wait(None)
        await self._nowait(max(0, count - 10))

    async def _impatient(self, count: int) -> None:
        """Callers that give up: before or after their record was accepted."""
        for _ in range(count):
            sending = asyncio.create_task(
                self.world.ledger.send(self.producer, TOPIC, self._filling(), **self._arguments())
            )
            timeout = self.world.rng.choice((0.0, 0.01, 1.0))
            _, pending = await asyncio.wait([sending], timeout=timeout)
            if pending:
                sending.cancel()
                await asyncio.wait([sending])

    async def housekeeper(self) -> None:
        """Flush, read statistics and purge while others send."""
        rng = self.world.rng
        while True:
            await asyncio.sleep(rng.uniform(0.2, 3.0))
            match rng.randrange(4):
                case 0:
                    await self.producer.flush()
                case 1:
                    assert self.producer.stats().bytes_buffered <= self.producer.config.buffer_memory
                case 2:
                    self.producer.health()
                case 3 if rng.random() < 0.3:
                    self.producer.purge()


def settings_of(world: World) -> dict[str, Any]:
    """The settings of a life, drawn from the seed."""
    rng = world.rng
    return {
        "linger_ms": rng.choice((0, 1, 5, 50)),
        "batch_size": rng.choice((0, 300, 1_000, 5_000, 131_072)),
        "buffer_memory": rng.choice((20_000, 100_000, 1_000_000)),
        "max_request_size": rng.choice((6_000, 20_000, 1_000_000)),
        "max_in_flight_requests_per_connection": rng.choice((1, 2, 5, 5, 5)),
        "compression_type": rng.choice(("none", "none", "gzip", "lz4", "zstd", "snappy")),
        "delivery_timeout_ms": rng.choice((3_000, 8_000, 20_000, 60_000)),
        "request_timeout_ms": rng.choice((500, 2_000)),
        "max_block_ms": rng.choice((200, 2_000, 20_000)),
        "partitioner_adaptive_partitioning_enable": rng.random() < 0.5,
        "linger_awaited": rng.random() < 0.2,
    }


async def live(world: World) -> FaultSchedule:
    """One life: `RECORDS` records from several tasks, three to eight faults, and the end."""
    rng = world.rng
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    conditions = world.network.conditions
    conditions.fragmented = rng.choice((0.0, 0.1, 0.5))
    conditions.window = rng.choice((2_000, 16_000, 256_000))
    settings = settings_of(world)
    if settings["linger_ms"] + settings["request_timeout_ms"] > settings["delivery_timeout_ms"]:
        settings["delivery_timeout_ms"] = 8_000
    producer = world.producer(**settings)
    await producer.start()
    life, schedule = Life(world, producer, times=rng.choice(TIMES)), FaultSchedule(world)
    tasks = rng.randrange(2, 9)
    async with asyncio.TaskGroup() as group:
        faults = group.create_task(schedule.run(rng.randrange(3, 9), LASTS))
        keeping = asyncio.create_task(life.housekeeper())
        senders = [group.create_task(life.task(-(-RECORDS // tasks))) for _ in range(tasks)]
        await asyncio.wait([faults, *senders])
        keeping.cancel()
    await asyncio.wait([keeping])
    if rng.random() < 0.7:
        await producer.flush()
    return schedule
