"""Checkpoints under faults: the position never passes a record without an acknowledgement, and never stays behind for good."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer.outlets import Checkpoint
from tests.effort import CHECKPOINTS, seeds
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.outlets.source import Source, Store, is_acked
from tests.simulation.world import World, simulate


@pytest.mark.parametrize("seed", seeds(CHECKPOINTS))
def test_the_position_of_a_source(seed: int) -> None:
    """Whatever the order of partitions, retries, withdrawals, cancellations and rewinds."""

    async def play(world: World) -> None:
        rng = world.rng
        world.kafka.create_topic(TOPIC, 3, min_insync_replicas=rng.choice((1, 2)))
        producer = world.producer(
            linger_ms=rng.choice((0, 5, 1_000)),
            batch_size=rng.choice((100, 300, 16_384)),
            buffer_memory=rng.choice((2_000, 1_000_000)),
            delivery_timeout_ms=rng.choice((3_000, 20_000)),
            retry_backoff_ms=50,
            gapless=rng.random() < 0.3,
        )
        await producer.start()
        store = Store(rng)
        every = rng.choice((0, 0.1, 1.0))
        checkpoint: Checkpoint[int] = Checkpoint(producer, store.save, every=every)
        source = Source(world, producer, checkpoint)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(FaultSchedule(world).run(rng.randrange(1, 4), 3.0))
            for _ in range(rng.choice((1, 1, 2))):
                tasks.create_task(source.run(30))
        world.kafka.faults.heal()
        await producer.flush()
        await world.ledger.look_at_what_was_left()
        source.check()
        assert all(entry.place is not None for entry in source.believed), "a bulk call"
        # All records have their outcome: the position is exact.
        assert checkpoint.position == source.expected()
        assert (checkpoint.error is None) == all(map(is_acked, source.records))
        try:
            await checkpoint.close()
        except OSError:
            assert store.saved[-1:] != [checkpoint.position]
        else:
            assert checkpoint.position in (None, *store.saved[-1:])

    simulate(play, seed)
