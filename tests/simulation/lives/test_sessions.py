"""Sessions that end under load: connections live on, and no record meets the end of a session."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from aioproducer import Outcome
from tests.simulation.access import Access
from tests.simulation.world import World, simulate

TOPIC: Final = "events"
LASTS: Final = 60.0
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("in_flight", [1, 5])
def test_connections_are_authenticated_again(mechanism: str, in_flight: int) -> None:
    """Nothing is retried, no connection is lost, and no WARNING is logged."""
    access = Access(mechanism, session=2.5, token=30.0, slowness=0.01)

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        producer = world.producer(linger_ms=0, max_in_flight_requests_per_connection=in_flight)
        await producer.start()
        end = world.now + LASTS
        while world.now < end:
            for partition in range(3):
                await world.ledger.send(producer, TOPIC, bytes(500), partition=partition)
            await asyncio.sleep(0.02)
        await producer.flush()
        assert producer.stats().records_retried == 0

    world = simulate(play, 1, access=access, history=100_000)
    require_sessions(world, 20)
    assert world.warnings() == []


@pytest.mark.parametrize("in_flight", [1, 5])
def test_throttled_connections_are_authenticated_again(in_flight: int) -> None:
    """A broker reads nothing from a connection that it throttles: the new authentication waits, and is in time."""
    access = Access("SCRAM-SHA-256", session=5.0, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        world.kafka.faults.throttle(400, times=None)
        producer = world.producer(linger_ms=0, max_in_flight_requests_per_connection=in_flight)
        await producer.start()
        end = world.now + LASTS
        while world.now < end:
            for partition in range(3):
                await world.ledger.send(producer, TOPIC, bytes(500), partition=partition)
            await asyncio.sleep(0.1)
        await producer.flush()
        assert producer.stats().records_retried == 0

    require_sessions(simulate(play, 1, access=access, history=100_000), 10)


def require_sessions(world: World, least: int) -> None:
    """Each of three connections was authenticated so often, and none was lost."""
    handshakes = [one for one in world.kafka.requests if one.api == "SaslHandshake"]
    openings = [one for one in world.kafka.requests if one.api == "ApiVersions"]
    assert len(handshakes) - len(openings) >= 3 * least
    assert len(openings) <= 2 * 3
    assert {sent.outcome for sent in world.ledger.history()} == {Outcome.ACKED}
