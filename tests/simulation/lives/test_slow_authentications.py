"""Authentications that take longer than an address has for its connection: all brokers are well, and a host has several addresses."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.simulation.access import Access
from tests.simulation.refusing import TOPIC, authentications, leaders, patient_producer
from tests.simulation.world import World, simulate

ANSWERED_WITHIN: Final = 30.0
"""Seconds of request_timeout_ms."""


async def first_record(world: World, addresses: int, **settings: Any) -> float:
    """The seconds until a record is acknowledged, where the bootstrap server has so many addresses of one broker."""
    names = [f"127.0.0.{number}" for number in range(1, 1 + addresses)]
    world.network.alias.update(dict.fromkeys(names[1:], "127.0.0.1"))
    world.network.names["start"] = names
    world.kafka.create_topic(TOPIC, 1)
    producer = patient_producer(world, bootstrap_servers=f"start:{world.port(1)}", **settings)
    began = world.now
    await producer.start()
    await world.ledger.send(producer, TOPIC, b"x", partition=0)
    await producer.flush()
    return world.now - began


@pytest.mark.parametrize("takes", [3.0, 6.0, 9.5])
@pytest.mark.parametrize("addresses", [1, 3, 6])
def test_a_slow_provider_is_called_once(addresses: int, takes: float) -> None:
    """It may take ten seconds. No address is given up meanwhile, and the call is not begun anew."""
    calls = 0

    async def play(world: World) -> None:
        access = world.access
        assert access is not None
        provide = access.of_the_client(world.loop)["sasl_token_provider"]

        async def counted() -> Any:
            nonlocal calls
            calls += 1
            return await provide()

        assert await first_record(world, addresses, sasl_token_provider=counted) < takes + 1.0

    simulate(play, 1, access=Access("OAUTHBEARER", session=None, token=3_000.0, slowness=takes))
    assert calls == 1


@pytest.mark.parametrize("takes", [6.0, 12.0, 25.0])
@pytest.mark.parametrize("addresses", [1, 3, 6])
def test_a_broker_with_a_slow_directory(addresses: int, takes: float) -> None:
    """The broker asks elsewhere about the credentials. They are presented once for each connection."""

    async def play(world: World) -> None:
        world.kafka.faults.delay(takes, api="SaslAuthenticate", times=None)
        assert await first_record(world, addresses) < 2 * takes + 1.0
        assert authentications(world) == 2
        world.kafka.faults.heal()

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0))


@pytest.mark.parametrize("seed", range(4))
def test_an_authentication_without_an_end(seed: int) -> None:
    """A broker that never answers the credentials is left for another one after request_timeout_ms."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        silence = world.kafka.faults.silence(api="SaslAuthenticate", broker=1, times=None)
        servers = ",".join(f"127.0.0.1:{world.port(broker)}" for broker in (1, 2))
        producer = patient_producer(world, bootstrap_servers=servers)
        began = world.now
        await producer.start()
        delivery = await world.ledger.send(producer, TOPIC, b"x", partition=leaders(world, 3)[2])
        assert delivery is not None
        await delivery.wait(None)
        assert world.now - began < ANSWERED_WITHIN + 1.0
        world.kafka.faults.heal()
        assert silence.hits <= 1

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0))
