"""An outbox relay: with `gapless=True` and unread deliveries, each partition's log has no gap under any fault."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from aioproducer import Outcome
from tests.effort import SCENARIO, seeds
from tests.judge.history import number_of
from tests.simulation.fault_schedule import (
    TOPIC,
    FaultSchedule,
    final_errors,
    lost_answers,
    retriable_errors,
    too_few_in_sync,
)
from tests.simulation.world import World, simulate

PARTITIONS = 3


@pytest.mark.parametrize("seed", seeds(2 * SCENARIO))
def test_without_a_look_nothing_is_written_past_a_gap(seed: int) -> None:
    """The log of a partition has the records that were sent to it first, up to some record, and none behind."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
        producer = world.producer(
            gapless=True,
            linger_ms=world.rng.choice((0, 5, 1_000)),
            batch_size=world.rng.choice((100, 1_000)),
            delivery_timeout_ms=world.rng.choice((3_000, 10_000)),
            buffer_memory=world.rng.choice((5_000, 1_000_000)),
        )
        await producer.start()
        schedule = FaultSchedule(world)
        schedule.log.append("gapless")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(schedule.run(4, 5.0))
            for number in range(300):
                # A record with less time than its neighbours is lost alone, between them.
                timeout = world.rng.choice((None, None, None, 0.5, 2.0))
                await world.ledger.send(producer, TOPIC, partition=number % PARTITIONS, timeout=timeout)
                if number % 10 == 0:
                    await asyncio.sleep(world.rng.uniform(0, 0.3))
        accepted = [entry for entry in world.ledger.entries if entry.delivery is not None]
        await asyncio.sleep(max(entry.due_at for entry in accepted) + 1 - world.now)
        assert not any(entry.pending for entry in accepted)

    world = simulate(play, seed)
    for partition in range(PARTITIONS):
        records = world.kafka.records(TOPIC, partition)
        there = [number_of(record.value) for record in records]
        # The record was refused before acceptance; its sender got the error, and continued.
        sent = [
            entry.number
            for entry in world.ledger.entries
            if entry.number % PARTITIONS == partition and entry.delivery is not None
        ]
        assert there == sent[: len(there)]


@pytest.mark.parametrize("seed", seeds(SCENARIO))
def test_a_relay_that_looks_and_begins_again_writes_all_in_order(seed: int) -> None:
    """The relay sends again from the first failure on until all is acked: each row is in the log, in order."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 1)
        world.rules = attrs.evolve(world.rules, disorder=True)
        producer = world.producer(gapless=True, linger_ms=0, batch_size=200, delivery_timeout_ms=4_000)
        await producer.start(wait_ready=5)
        for skip in range(3):
            world.kafka.faults.error("INVALID_RECORD", skip=2 + 5 * skip)
        rows, position = 60, 0
        while position < rows:
            deliveries = [
                await world.ledger.send(producer, TOPIC, b"row %d" % row) for row in range(position, rows)
            ]
            for row, delivery in enumerate(deliveries, position):
                assert delivery is not None
                if await delivery.wait(None) is not Outcome.ACKED:
                    position = row
                    break
            else:
                position = rows

    world = simulate(play, seed)
    rows = [int((record.value or b"")[8:].removeprefix(b"row ")) for record in world.kafka.records(TOPIC)]
    assert rows == list(range(60))


@pytest.mark.parametrize("seed", seeds(SCENARIO))
def test_a_program_that_reads_only_its_newest_records_goes_on(seed: int) -> None:
    """It never reads the record that was lost: the failure of a later one tells it, and the next but one is written."""

    async def play(world: World) -> None:
        rng = world.rng
        world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
        producer = world.producer(
            gapless=True,
            linger_ms=rng.choice((0, 5)),
            batch_size=rng.choice((100, 1_000)),
            delivery_timeout_ms=4_000,
            request_timeout_ms=1_000,
        )
        await producer.start(wait_ready=5)
        for partition in range(PARTITIONS):
            world.kafka.faults.error("INVALID_RECORD", topic=TOPIC, partition=partition)
            await world.ledger.send(producer, TOPIC, partition=partition)
        schedule = FaultSchedule(world)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                schedule.run(4, 5.0, (retriable_errors, final_errors, lost_answers, too_few_in_sync))
            )
            for number in range(200):
                timeout = rng.choice((None, None, 0.05))
                await world.ledger.send(producer, TOPIC, partition=number % PARTITIONS, timeout=timeout)
                if number % 10 == 0:
                    await asyncio.sleep(rng.uniform(0, 0.3))
        world.kafka.faults.heal()
        await asyncio.sleep(5.0)
        for partition in range(PARTITIONS):
            # The first may be the failure of the gap; reading it closes the gap.
            for _ in range(2):
                await world.ledger.send_and_wait(producer, TOPIC, partition=partition)
            newest = world.ledger.entries[-1].delivery
            assert newest is not None
            assert await newest.wait(None) is Outcome.ACKED, newest.exception()

    simulate(play, seed)
