"""A topic stays in use while calls wait for memory for it, even without a send."""

from __future__ import annotations

import asyncio

from tests.simulation.world import World, simulate

CROWDED, QUIET = "crowded", "quiet"
IDLE_MS = 5_000


def test_a_topic_is_not_forgotten_while_calls_wait_for_memory() -> None:
    """A forgotten partition gave its sequence numbers twice: records were acknowledged, and not in the log."""

    async def play(world: World) -> None:
        world.kafka.create_topic(CROWDED, 1)
        world.kafka.create_topic(QUIET, 1)
        producer = world.producer(
            linger_ms=0,
            batch_size=0,
            buffer_memory=2_000,
            max_request_size=2_000,
            max_block_ms=4 * IDLE_MS,
            metadata_max_idle_ms=IDLE_MS,
            delivery_timeout_ms=8 * IDLE_MS,
            request_timeout_ms=8 * IDLE_MS,
        )
        await producer.start()
        await producer.partitions_for(QUIET)
        held = world.kafka.faults.delay(2.5 * IDLE_MS / 1000, topic=CROWDED)
        for _ in range(2):
            await world.ledger.send(producer, CROWDED, bytes(800))
        waiting = [
            asyncio.create_task(world.ledger.send(producer, QUIET, bytes(300), partition=0)) for _ in range(3)
        ]
        await held.reached()
        await asyncio.wait(waiting)
        for _ in range(6):
            # If the other topic were forgotten too, everything would begin under a new epoch.
            await world.ledger.send(producer, CROWDED)
            await asyncio.sleep(IDLE_MS / 2_000)
        for _ in range(2):
            await world.ledger.send(producer, QUIET, partition=0)
            await producer.flush()
        assert len(world.kafka.records(QUIET)) == 5

    simulate(play, 1)
