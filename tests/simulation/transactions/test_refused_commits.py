"""A commit that waits while its producer ends is not executed: its caller learns that nothing is written, and that holds."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import pytest

from aioproducer import AuthorizationError, KafkaError, Outcome, Producer, ProducerFencedError
from tests.simulation.world import World, simulate

SOON, LATE, SOURCE, GROUP = "soon", "late", "source", "readers"
NAME: Final = "books"
NOT_ALLOWED: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
SEEDS: Final = 4
"""The simulation draws the order in which tasks of one turn run."""


async def _stage(world: World) -> Producer[Any, Any]:
    """A producer with a record in its open transaction."""
    for number, topic in enumerate((SOON, LATE, SOURCE), start=1):
        world.forgotten.add(topic)
        world.kafka.create_topic(topic, 1)
        world.kafka.faults.move_leader(topic, 0, number)
    producer = world.producer(transactional_id=NAME, linger_ms=0)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    for topic in (SOON, LATE):
        await (await producer.send(topic, b"first", partition=0))
    return producer


async def _is_not_committed(world: World, producer: Producer[Any, Any], kind: type[KafkaError]) -> None:
    with pytest.raises(kind) as caught:
        await producer.commit_transaction()
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    await asyncio.sleep(5)
    view = world.kafka.transaction(NAME)
    assert (view is not None and view.state, world.kafka.records(SOON)) == ("Ongoing", [])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_leader_refuses_a_record_while_another_one_is_in_flight(seed: int, version: int) -> None:
    """The state of the id cannot be read, so the refusal counts as a takeover. The commit waits for the record in flight."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        faults = world.kafka.faults
        faults.error(NOT_ALLOWED, api="DescribeTransactions", times=None)
        faults.error("INVALID_PRODUCER_EPOCH", api="Produce", topic=SOON, times=None)
        faults.delay(1.0, api="Produce", topic=LATE)
        for topic in (SOON, LATE):
            await producer.send(topic, b"second", partition=0)
        await _is_not_committed(world, producer, ProducerFencedError)

    simulate(play, seed, transaction_version=version)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_offsets_are_refused_while_the_commit_waits_for_them(seed: int, version: int) -> None:
    """The answer ends the producer. The commit waited for its turn, and would be executed without the offsets."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        world.kafka.faults.error(NOT_ALLOWED, api="TxnOffsetCommit")
        world.kafka.faults.delay(0.5, api="TxnOffsetCommit")
        sending = asyncio.create_task(producer.send_offsets_to_transaction({(SOURCE, 0): 1}, GROUP))
        await asyncio.sleep(0.1)
        await _is_not_committed(world, producer, AuthorizationError)
        with contextlib.suppress(AuthorizationError):
            await sending

    simulate(play, seed, transaction_version=version)
