"""The brokers within reach, in `health()`: an old trouble of an address that is not dialed says nothing about the present."""

from __future__ import annotations

import asyncio
import errno
from typing import Any, Final

import pytest

from aioproducer import Outcome, Producer
from aioproducer._net.connecting.addresses import TROUBLE_IS_PRESENT
from tests.scenarios.support import TOPIC, scenario, send, stage
from tests.simulation.world import World

# A record has more than one attempt, and metadata is asked for only where it is needed.
HASTY: Final[dict[str, Any]] = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 2_500,
    "linger_ms": 0,
    "metadata_max_age_ms": 3_600_000,
}


async def first_ready(world: World, producer: Producer[Any, Any], limit: float) -> float:
    """The seconds until a probe that asks each second is answered "ready"."""
    began = world.now
    while not producer.health().ready:
        assert world.now < began + limit, producer.health()
        await asyncio.sleep(1.0)
    return world.now - began


@scenario(runs=1, brokers=1)
async def test_a_program_that_sends_only_while_it_is_ready(world: World) -> None:
    """Kubernetes sends no request to a pod that is not ready: it becomes ready without one, when its broker may be well."""
    world.kafka.create_topic(TOPIC, 1)
    producer = world.producer(**HASTY)
    await producer.start(wait_ready=5)
    await producer.partitions_for(TOPIC)
    fault = world.kafka.faults.drop_answer(api="Produce", times=None)
    (delivery,) = await send(world, producer)
    assert await delivery.wait(10) is Outcome.UNKNOWN
    # The connection of the last attempt is given up.
    await asyncio.sleep(2.0)
    assert not producer.health().ready
    fault.heal()
    assert await first_ready(world, producer, 600) == pytest.approx(TROUBLE_IS_PRESENT, abs=5)
    assert producer.health().problems == ()
    (delivery,) = await send(world, producer)
    assert await delivery.wait(10) is Outcome.ACKED


@scenario(runs=2)
async def test_a_cluster_that_stays_down(world: World) -> None:
    """The producer goes on to look for it, though the program does nothing: it does not become ready, and names each broker."""
    producer = await stage(world)
    for broker in world.kafka.brokers:
        world.network.fail_connecting(broker.port, errno.ECONNREFUSED)
        for link in world.network.links(broker.port):
            link.server.close()
    await asyncio.sleep(5)
    for _ in range(600):
        await asyncio.sleep(1.0)
        health = producer.health()
        assert not health.ready
        # The brokers are forgotten after five minutes, and the bootstrap servers named.
        assert health.brokers_unreachable == health.brokers_known
        assert len(health.problems) >= 3
    await producer.close(timeout=0)


@scenario(runs=2)
async def test_a_broker_that_is_back_and_gets_no_records(world: World) -> None:
    """It is a problem while records wait for it, and until a minute after the last attempt; no longer."""
    producer = await stage(world, **HASTY)
    port = world.port(2)
    world.network.fail_connecting(port, errno.ECONNREFUSED)
    for link in world.network.links(port):
        link.server.close()
    deliveries = await send(world, producer, partition=1)
    for _ in range(2):
        await asyncio.sleep(1.0)
        assert producer.health().problems[0].startswith("broker 2 ")
    await asyncio.gather(*(delivery.wait(10) for delivery in deliveries))
    # The last attempt ends.
    await asyncio.sleep(2.0)
    world.network.release(port)
    began = world.now
    while producer.health().problems:
        assert world.now < began + 600, producer.health()
        await asyncio.sleep(1.0)
    assert world.now - began == pytest.approx(TROUBLE_IS_PRESENT, abs=5)
    assert producer.health().brokers_unreachable == 0
