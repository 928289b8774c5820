"""Certainty after UNKNOWN: each verdict of `resolve_unknown()` is compared with the log, at the end of the scenario."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from aioproducer import ConfigurationError, Delivery, KafkaError, Outcome, StateError
from aioproducer._net.resolving import resolver  # loaded by a thread otherwise, and time stands still here
from aioproducer._net.resolving.reading import MAY_NOT_READ
from aioproducer._state.resolving.search import NOTHING_LATER, OTHER_TOPIC
from aioproducer.records import Resolution
from tests.judge.judge import Rules
from tests.scenarios.support import TOPIC, all_acked, leader, outcomes, port_of_leader, scenario, send, stage
from tests.simulation.world import World

LIMIT = 5.0
DT = 20.0


async def unknown(world: World, *, appended: bool, count: int = 1) -> list[Delivery]:
    """Records whose answers never came; they reached the broker (`appended`), or hang in the network before it."""
    producer = await stage(world, linger_ms=5)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world), to_broker=not appended, to_client=appended)
    deliveries = await send(world, producer, count, partition=0)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: count}
    return deliveries


@scenario()
async def test_the_record_is_in_the_log(world: World) -> None:
    """The answers were lost: each record of the batch is found at its offset, and the deliveries keep their outcome."""
    deliveries = await unknown(world, appended=True, count=3)
    world.network.release(port_of_leader(world))
    told = await asyncio.gather(*(delivery.resolve_unknown(LIMIT) for delivery in deliveries))
    assert told == [Resolution(Outcome.ACKED, 1 + index) for index in range(3)]
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 3}


@scenario()
async def test_a_later_record_proves_that_it_never_will_be(world: World) -> None:
    """The request was lost; the next record of the partition has a later epoch, behind which no leader takes it."""
    (delivery,) = await unknown(world, appended=False)
    world.network.reset(port_of_leader(world))
    world.network.release(port_of_leader(world))
    assert await delivery.resolve_unknown(LIMIT) == Resolution(Outcome.UNKNOWN, reason=NOTHING_LATER)
    waiting = asyncio.ensure_future(delivery.resolve_unknown(LIMIT))
    await all_acked(await send(world, world.producers[0], partition=0))
    assert await waiting == Resolution(Outcome.NOT_WRITTEN)
    assert world.kafka.high_watermark(TOPIC, 0) == 2


@scenario()
async def test_the_leader_is_gone(world: World) -> None:
    """It stays UNKNOWN within its time, and the reason names the broker; when it is back, it is resolved."""
    (delivery,) = await unknown(world, appended=True)
    world.network.isolate(port_of_leader(world))
    world.network.reset(port_of_leader(world))
    began = world.now
    told = await delivery.resolve_unknown(LIMIT)
    assert told.outcome is Outcome.UNKNOWN
    assert told.reason
    assert LIMIT - 0.01 <= world.now - began <= LIMIT + 0.1
    waiting = asyncio.ensure_future(delivery.resolve_unknown(DT))
    await asyncio.sleep(1)
    world.network.release(port_of_leader(world))
    assert await waiting == Resolution(Outcome.ACKED, 1)


@scenario()
async def test_another_broker_leads(world: World) -> None:
    """The log is read where it is now."""
    (delivery,) = await unknown(world, appended=True)
    world.kafka.faults.move_leader(TOPIC, 0, leader(world) % 3 + 1)
    assert await delivery.resolve_unknown(DT) == Resolution(Outcome.ACKED, 1)


@scenario()
async def test_another_topic_of_this_name(world: World) -> None:
    """A topic that was made again says nothing about the record."""
    (delivery,) = await unknown(world, appended=True)
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 3)
    world.rules = Rules(loss=True)
    for broker in world.kafka.brokers:
        world.network.release(broker.port)
    told = await delivery.resolve_unknown(LIMIT)
    assert told == Resolution(Outcome.UNKNOWN, reason=OTHER_TOPIC)


@scenario()
async def test_nothing_was_acknowledged_before(world: World) -> None:
    """A short log is read from its first record on."""
    producer = await stage(world, linger_ms=0)
    lost = world.kafka.faults.drop_answer(api="Produce", times=None)
    deliveries = await send(world, producer, partition=0)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 1}
    lost.heal()
    assert await deliveries[0].resolve_unknown(LIMIT) == Resolution(Outcome.ACKED, 0)


@scenario(runs=2)
async def test_without_numbers(world: World) -> None:
    """A producer without idempotence gets an error that says so; other outcomes are returned as they are."""
    producer = await stage(world, linger_ms=0, enable_idempotence=False)
    (acked,) = await send(world, producer, partition=0)
    assert await acked.resolve_unknown() == Resolution(Outcome.ACKED, 0)
    world.network.hold(port_of_leader(world), to_broker=False)
    (delivery,) = await send(world, producer, partition=0)
    assert await delivery.wait(None) is Outcome.UNKNOWN
    with pytest.raises(ConfigurationError, match="enable_idempotence") as caught:
        await delivery.resolve_unknown(LIMIT)
    assert caught.value.outcome is Outcome.UNKNOWN
    world.rules = Rules(duplicates=True)


@scenario(runs=2)
async def test_the_principal_may_not_read(world: World) -> None:
    """No later attempt helps: the reason comes at once."""
    (delivery,) = await unknown(world, appended=True)
    world.network.release(port_of_leader(world))
    world.kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch")
    began = world.now
    assert await delivery.resolve_unknown() == Resolution(Outcome.UNKNOWN, reason=MAY_NOT_READ)
    assert world.now - began < 1


@scenario(runs=2)
async def test_the_producer_closes_meanwhile(world: World) -> None:
    """The call ends with the producer, and says so; later ones too."""
    (delivery,) = await unknown(world, appended=True)
    world.network.isolate(port_of_leader(world))
    waiting = asyncio.ensure_future(delivery.resolve_unknown(1_000))
    await asyncio.sleep(1)
    await world.producers[0].close()
    for told in (await waiting, await delivery.resolve_unknown()):
        assert told == Resolution(Outcome.UNKNOWN, reason=resolver.CLOSED)


@scenario(runs=2)
async def test_from_another_loop(world: World) -> None:
    """The call belongs to the loop of the producer."""
    (delivery,) = await unknown(world, appended=True)
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(lambda: asyncio.run(delivery.resolve_unknown(0)))
        with pytest.raises(StateError, match="run_coroutine_threadsafe"):
            asked.result()


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("appended", [False, True], ids=["lost", "appended"])
@scenario(runs=4)
async def test_in_a_transaction(world: World, level: int, appended: bool) -> None:
    """The log decides, whatever became of the transaction: the next one proves that a record is absent."""
    world.kafka.set_transaction_version(level)
    world.rules = Rules(loss=True)
    world.forgotten.add(TOPIC)
    producer = await stage(world, linger_ms=0, transactional_id="tx", delivery_timeout_ms=4_000)
    async with producer.transaction():
        await all_acked(await send(world, producer, partition=0))
    delivery = None
    with pytest.raises(KafkaError):
        async with producer.transaction():
            await all_acked(await send(world, producer, partition=0))
            world.network.hold(port_of_leader(world), to_broker=not appended, to_client=appended)
            (delivery,) = await send(world, producer, partition=0)
            await delivery.wait(None)
            world.network.reset(port_of_leader(world))
            world.network.release(port_of_leader(world))
    assert delivery is not None
    if delivery.outcome is Outcome.UNKNOWN:
        async with producer.transaction():
            await all_acked(await send(world, producer, partition=0))
        told = await delivery.resolve_unknown(LIMIT)
        assert told.outcome is (Outcome.ACKED if appended else Outcome.NOT_WRITTEN), told
