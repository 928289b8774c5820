"""A gapless source with dead letters under faults: it comes to its end, in order, and each record is written or set aside."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from aioproducer import KafkaError
from aioproducer.outlets import Checkpoint, DeadLetters
from tests.effort import CHECKPOINTS, seeds
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.world import World, simulate

DEAD: Final = "dead"
PARTITIONS: Final = 3
RECORDS: Final = 90
LONGEST: Final = 900.0


@pytest.mark.parametrize("seed", seeds(CHECKPOINTS))
def test_a_gapless_source(seed: int) -> None:
    """Brokers fail, and refuse some records of batches by name. No record is left out, and none is before an earlier one."""

    async def play(world: World) -> None:
        rng = world.rng
        world.forgotten |= {TOPIC, DEAD}
        world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=rng.choice((1, 2)))
        world.kafka.create_topic(DEAD, 1)
        producer = world.producer(
            gapless=True,
            linger_ms=rng.choice((0, 5, 200)),
            batch_size=rng.choice((1, 100, 16_384)),
            delivery_timeout_ms=rng.choice((3_000, 20_000)),
            retry_backoff_ms=50,
        )
        await producer.start()
        for _ in range(rng.randrange(4)):
            world.kafka.faults.record_errors(
                {rng.randrange(3): "bad"}, topic=TOPIC, skip=rng.randrange(10), times=rng.randrange(1, 4)
            )
        checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
            tasks.create_task(FaultSchedule(world).run(rng.randrange(1, 4), 3.0))
            tasks.create_task(relay(world, checkpoint))
        await checkpoint.close()
        world.kafka.faults.heal()
        check(world)

    simulate(play, seed)


async def relay(world: World, checkpoint: Checkpoint[int]) -> None:
    """Send all records, and go on from the position after each failure."""
    rng = world.rng
    while checkpoint.position != RECORDS:
        try:
            for number in range(checkpoint.position or 0, RECORDS):
                await checkpoint.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                if rng.random() < 0.2 or number == RECORDS - 1:
                    checkpoint.mark(number + 1)
                if rng.random() < 0.1:
                    await asyncio.sleep(rng.uniform(0, 0.5))
            await checkpoint.reached()
        except KafkaError:
            await asyncio.sleep(0.1)
            await checkpoint.rewind()


def check(world: World) -> None:
    """The first copies of the records of a partition are in order, and only records that were set aside are missing."""
    aside = {int(letter.value or b"-1") for letter in world.kafka.records(DEAD)}
    for partition in range(PARTITIONS):
        found = [int(record.value or b"-1") for record in world.kafka.records(TOPIC, partition)]
        first = list(dict.fromkeys(found))
        assert [number for number in first if number not in aside] == sorted(set(first) - aside)
        assert set(range(partition, RECORDS, PARTITIONS)) - set(first) <= aside
