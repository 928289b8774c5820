"""Tasks that share one transactional producer learn the truth, whatever the others do at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import KafkaError
from tests.effort import SHARED, seeds
from tests.simulation.shared.told import DOCUMENTED, Shared
from tests.simulation.shared.users import SOURCE, Users
from tests.simulation.world import World, simulate

TOPICS = ("one", "two", "three")
LONGEST = 1500.0


def _cluster_of_4_0_0(world: World) -> None:
    """An abort at the time limit raises the epoch twice there."""
    world.kafka.limit_version("Produce", 3, 12)
    world.kafka._cluster.transactions.raises_twice = True


async def _live(world: World, version: int) -> Shared:
    world.forgotten.update((*TOPICS, SOURCE))
    for topic in TOPICS:
        world.kafka.create_topic(topic, 2)
    world.kafka.create_topic(SOURCE, 1)
    producer = world.producer(
        transactional_id="books",
        linger_ms=world.rng.choice((0, 5)),
        compression_type=world.rng.choice(("none", "gzip")),
        transaction_timeout_ms=world.rng.choice((1_500, 60_000)),
    )
    if version > 1 and world.rng.random() < 0.5:
        _cluster_of_4_0_0(world)
    shared = Shared(world, producer, TOPICS)
    users = Users(shared)
    await producer.start(wait_ready=5)
    others = [asyncio.create_task(coroutine) for coroutine in (users.rival(), users.disturb())]
    async with asyncio.timeout(LONGEST):
        await users.work()
    for other in others:
        other.cancel()
    results = await asyncio.gather(*others, return_exceptions=True)
    shared.wrong += [repr(result) for result in results if not isinstance(result, asyncio.CancelledError)]
    world.kafka.faults.heal()
    try:
        await users.settle()
        left = [one for one in await producer.list_transactions() if one.state == "Ongoing"]
    except KafkaError as error:
        # The time limit may end the producer where its state fits a takeover too.
        if DOCUMENTED not in str(error):
            shared.wrong.append(f"the producer does not work any more: {error!r}")
    else:
        shared.wrong += [f"left open: {one}" for one in left]
    return shared


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(SHARED))
def test_tasks_that_share_a_producer_learn_the_truth(seed: int, version: int) -> None:
    """Commits, aborts, new epochs, withdrawn records and faults at any moment: no result is contradicted by the log."""
    findings: list[str] = []

    async def play(world: World) -> None:
        shared = await _live(world, version)
        found = await shared.judge()
        findings.extend([*found, *shared.story] if found else ())

    simulate(play, seed, transaction_version=version)
    assert not findings, "\n".join([f"AIOPRODUCER_SEED={seed}", *findings])
