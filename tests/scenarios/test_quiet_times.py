"""Quiet times: idleness of a producer, with changes of the cluster meanwhile, breaks no promise afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from aioproducer import MetadataTimeoutError, Outcome, Producer, RecordError, TransactionAbortedError
from aioproducer._core import murmur2
from tests.effort import SCENARIO, seeds
from tests.scenarios.support import TOPIC, all_acked, leader, outcomes, scenario, send, stage
from tests.simulation.world import World, simulate

IDLE: Final = 300.0
"""The default of metadata_max_idle_ms, in seconds."""
JUST_BELOW, JUST_ABOVE = IDLE - 10, IDLE + 10
DAY: Final = 86_400.0
OTHER: Final = "other"
VERSIONS: Final = (1, 2)
Step = Callable[[World, Producer[Any, Any]], Awaitable[None]]


# -- transactional producers: only the coordinator raises an epoch


async def nothing(world: World, producer: Producer[Any, Any]) -> None:
    """The producer stays idle."""


async def look_at_another(world: World, producer: Producer[Any, Any]) -> None:
    """A topic whose metadata is read once, and which is not used any more."""
    world.kafka.create_topic(OTHER, 2)
    await producer.partitions_for(OTHER)


async def remake(world: World, producer: Producer[Any, Any], partitions: int) -> None:
    """The topic is deleted and created again, and the producer learns of it."""
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, partitions, min_insync_replicas=2)
    await asyncio.sleep(60)


async def remake_smaller(world: World, producer: Producer[Any, Any]) -> None:
    """With fewer partitions."""
    await remake(world, producer, 1)


async def remake_larger(world: World, producer: Producer[Any, Any]) -> None:
    """With more partitions."""
    await remake(world, producer, 5)


async def abort_uncleanly(world: World, producer: Producer[Any, Any]) -> None:
    """A transaction that is aborted while the outcome of its record is unknown."""
    await producer.begin_transaction()
    world.kafka.faults.drop_answer(api="Produce", times=None)
    delivery = await producer.send(TOPIC, b"lost", partition=0)
    await delivery.wait(None)
    world.kafka.faults.heal()
    await producer.abort_transaction()


async def transact(producer: Producer[Any, Any], value: bytes) -> None:
    """One transaction with a record for each partition there is."""
    async with producer.transaction():
        count = len(await producer.partitions_for(TOPIC))
        for partition in range(count):
            await producer.send(TOPIC, value, partition=partition)


@pytest.mark.parametrize("pause", [JUST_BELOW, JUST_ABOVE, 3 * IDLE])
@pytest.mark.parametrize(
    "step",
    [nothing, look_at_another, abort_uncleanly, remake_smaller, remake_larger],
    ids=lambda step: str(step.__name__),
)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_producer_survives_a_quiet_time(version: int, step: Step, pause: float) -> None:
    """It is not fenced, so it continues; its records from before and after are visible as they should be."""

    async def play(world: World) -> None:
        producer = await stage(world, transactional_id="orders", metadata_max_idle_ms=int(IDLE * 1000))
        await transact(producer, b"before")
        await step(world, producer)
        await asyncio.sleep(pause)
        for value in (b"after", b"later"):
            await transact(producer, value)
        partitions = {partition.partition for partition in await producer.partitions_for(TOPIC)}
        for value in (b"after", b"later"):
            seen = [record for record in world.kafka.records(TOPIC) if record.value == value]
            assert {record.partition for record in seen} == partitions
            assert len(seen) == len(partitions)
        world.forgotten.add(TOPIC)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("pause", [JUST_BELOW, JUST_ABOVE])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_quiet_time_before_the_first_transaction(version: int, pause: float) -> None:
    """Topics that were prefetched idle out before the first record for them."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 2)
        world.kafka.create_topic(OTHER, 2)
        producer = world.producer(transactional_id="orders", topics=[TOPIC, OTHER])
        await producer.start(wait_ready=5)
        await producer.init_transactions()
        await asyncio.sleep(pause)
        await transact(producer, b"first")
        assert len(world.kafka.records(TOPIC)) == 2
        world.forgotten.add(TOPIC)

    simulate(play, 1, transaction_version=version)


@pytest.mark.parametrize("with_offsets", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_outlives_its_time(version: int, *, with_offsets: bool) -> None:
    """The coordinator has aborted it: none of its records becomes part of the next transaction."""

    async def play(world: World) -> None:
        producer = await stage(
            world, transactional_id="orders", transaction_timeout_ms=10_000, batch_size=0, linger_ms=0
        )
        with pytest.raises(TransactionAbortedError):
            async with producer.transaction() as tx:
                await producer.send(TOPIC, b"early", partition=0)
                await producer.flush()
                # By now the transaction is over, and the first record in the partition goes alone.
                await asyncio.sleep(100)
                for _ in range(3):
                    await producer.send(TOPIC, b"late", partition=0)
                if with_offsets:
                    tx.send_offsets({(TOPIC, 0): 1}, "readers")
        assert all(known.rests for known in world.kafka._cluster.transactions.all())
        for value in (b"after", b"later"):
            await transact(producer, value)
        seen = {record.value for record in world.kafka.records(TOPIC)}
        assert seen == {b"after", b"later"}
        world.forgotten.add(TOPIC)

    for seed in seeds(SCENARIO):
        simulate(play, seed, transaction_version=version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_a_topic_that_is_remade_inside_a_transaction(version: int, partitions: int) -> None:
    """The transaction is committed or aborted as a whole, its owner is not fenced, and the next one works."""

    async def play(world: World) -> None:
        producer = await stage(world, transactional_id="orders")

        async def twice() -> None:
            await producer.send(TOPIC, b"one", partition=0)
            await producer.flush()
            if not remade.is_set():
                remade.set()
                await remake(world, producer, partitions)
            await producer.send(TOPIC, b"two", partition=0)

        remade = asyncio.Event()
        await producer.run_transaction(twice)
        await transact(producer, b"after")
        assert [record.value for record in world.kafka.records(TOPIC, 0)][-2:] == [b"two", b"after"]
        world.forgotten.add(TOPIC)

    simulate(play, 1, transaction_version=version)


# -- leaders that forget a silent producer


SILENT: Final[dict[str, Any]] = {
    "batch_size": 0,
    "linger_ms": 0,
    "metadata_max_idle_ms": int(2 * DAY * 1000),
    "metadata_max_age_ms": int(2 * DAY * 1000),
}
"""One record a batch, and a topic that stays in use."""


@scenario()
@pytest.mark.parametrize("pause", [30.0, 120.0, DAY + 600])
async def test_a_partition_that_was_silent(world: World, pause: float) -> None:
    """The first of several batches is refused: none may be written before it, for any remaining state of the leader."""
    producer = await stage(world, **SILENT)
    await all_acked(await send(world, producer, partition=0))
    await asyncio.sleep(pause)
    world.kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=0)
    await all_acked(await send(world, producer, 4, partition=0))


@scenario()
async def test_a_silent_partition_whose_answers_are_lost(world: World) -> None:
    """The first batch is refused, the second is appended, and both answers are lost: no delivery has a false offset."""
    producer = await stage(world, **SILENT)
    await all_acked(await send(world, producer, partition=0))
    await asyncio.sleep(DAY + 600)
    world.kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=0)
    world.kafka.faults.cut(api="Produce", broker=leader(world), skip=1)
    await outcomes(await send(world, producer, 2, partition=0))


# -- missing partitions


async def full_buffer(world: World) -> Producer[Any, Any]:
    """The broker of partition 3 does not answer, and its records hold most of the memory."""
    world.kafka.create_topic(OTHER, 3)
    producer = await stage(world, 4, buffer_memory=2_000, max_block_ms=60_000, delivery_timeout_ms=90_000)
    await producer.partitions_for(OTHER)
    world.kafka.faults.delay(30.0, api="Produce", times=None)
    for _ in range(4):
        await producer.send(TOPIC, bytes(400), partition=3)
    return producer


async def remake_with(world: World, partitions: int) -> None:
    """The topic is remade, the producer learns of that, and brokers answer again."""
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, partitions)
    await asyncio.sleep(31)
    world.kafka.faults.heal()
    await asyncio.sleep(5)


KEY_OF_3: Final = b"1"


def place_of(key: bytes, partitions: int) -> int:
    """The partition that the default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@scenario()
async def test_a_call_waits_for_memory_of_a_partition_that_is_gone(world: World) -> None:
    """Its key leads to another partition now; no call is held up, and the partition can be used when it is back."""
    world.forgotten.add(TOPIC)
    producer = await full_buffer(world)
    assert place_of(KEY_OF_3, 4) == 3
    late = asyncio.create_task(producer.send_and_wait(TOPIC, bytes(1_000), key=KEY_OF_3))
    bulk = asyncio.create_task(producer.send_batch(TOPIC, [b"a", bytes(1_000), b"b"], keys=[KEY_OF_3] * 3))
    await asyncio.sleep(1)
    await remake_with(world, 2)
    assert (await late).partition == place_of(KEY_OF_3, 2)
    assert (await (await bulk)).acked == 3
    await remake_with(world, 4)
    for partition in range(4):
        assert (await producer.send_and_wait(TOPIC, bytes(900), partition=partition)).partition == partition
    assert [record.value for record in world.kafka.records(TOPIC, 3)] == [bytes(900)]


@scenario()
async def test_a_call_waits_for_memory_of_its_own_partition_that_is_gone(world: World) -> None:
    """It waits until the partition exists again, or is refused; other topics of the broker are not held up."""
    world.forgotten.add(TOPIC)
    producer = await full_buffer(world)
    late = asyncio.create_task(producer.send(TOPIC, bytes(1_000), partition=3))
    await asyncio.sleep(1)
    await remake_with(world, 2)
    began = world.now
    for partition in range(3):
        await producer.send_and_wait(OTHER, bytes(100), partition=partition)
    assert world.now - began < 1
    await remake_with(world, 4)
    await asyncio.wait([late])
    if late.exception() is None:
        assert await late.result().wait(None) is Outcome.ACKED
    else:
        assert isinstance(late.exception(), (MetadataTimeoutError, RecordError))
    assert (await producer.send_and_wait(TOPIC, bytes(900), partition=3)).partition == 3
    world.forgotten.add(OTHER)


# -- former answers

RECOVERY: Final = 3.0
FORMER_ID: Final = bytes([9]) * 16


@scenario()
async def test_one_metadata_answer_from_the_past(world: World) -> None:
    """A broker that lags behind names the topic that was deleted before the producer began."""
    producer = await stage(world, **SILENT)
    await all_acked(await send(world, producer, partition=0))

    def from_the_past(answer: Any) -> Any:
        return answer._replace(topics=[topic._replace(topic_id=FORMER_ID) for topic in answer.topics])

    world.kafka.faults.alter(from_the_past, api="Metadata")
    world.kafka.faults.cut(api="Produce", times=2)
    await outcomes(await send(world, producer, 3, partition=0))
    world.kafka.faults.heal()
    # A record that is sent while the answer is believed reveals that; a minute is too long for it.
    await outcomes(await send(world, producer, partition=0))
    await asyncio.sleep(RECOVERY)
    began = world.now
    await all_acked(await send(world, producer, 3, partition=0))
    assert world.now - began < 1
