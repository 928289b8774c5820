"""Sessions that end under load: connections live on, and no record meets the end of a session."""

from __future__ import annotations

import asyncio
from typing import Any, Final

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


@pytest.mark.parametrize("fault", ["slow", "throttled"])
@pytest.mark.parametrize("seconds", [1.5, 3.0])
def test_connections_with_a_backlog_are_authenticated_again(fault: str, seconds: float) -> None:
    """Five requests wait for the time of five: the renewal is so much earlier, also where a broker becomes slow later."""
    access = Access("PLAIN", session=60.0, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        producer = world.producer(linger_ms=0, request_timeout_ms=60_000, delivery_timeout_ms=600_000)
        await producer.start()
        begin, end = world.now + LASTS / 2, world.now + 5 * LASTS
        is_slow = False
        while world.now < end:
            if not is_slow and world.now >= begin:
                is_slow = True
                if fault == "slow":
                    world.kafka.faults.delay(seconds, before=True, times=None)
                else:
                    world.kafka.faults.throttle(round(seconds * 1000), times=None)
            for partition in range(3):
                await world.ledger.send(producer, TOPIC, bytes(50), partition=partition)
            await asyncio.sleep(0.5)
        await producer.flush()
        assert producer.stats().records_retried == 0

    require_sessions(simulate(play, 1, access=access, history=100_000), 3)


def test_requests_do_not_meet_the_end_of_a_session_that_cannot_be_renewed() -> None:
    """A slow broker reads them late: the connection takes none that it would read behind the end, and nothing is UNKNOWN."""
    access = Access("PLAIN", session=60.0, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        producer = world.producer(
            linger_ms=0,
            enable_idempotence=False,
            acks=1,
            retries=0,
            request_timeout_ms=60_000,
            delivery_timeout_ms=600_000,
        )
        await producer.start()
        world.kafka.faults.delay(1.5, before=True, times=None)
        end, failing_at = world.now + 3 * LASTS, world.now + LASTS / 2
        while world.now < end:
            access.failing = failing_at < world.now < failing_at + LASTS
            await send_to_all(world, producer)
            await asyncio.sleep(0.5)
        await producer.flush()

    world = simulate(play, 1, access=access, history=100_000)
    assert {sent.outcome for sent in world.ledger.history()} == {Outcome.ACKED}


def test_a_broker_that_goes_on_refusing_is_asked_ever_less_often() -> None:
    """The others accept the credentials, so they are not held up; new credentials are tried at once."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        producer = world.producer(linger_ms=0, delivery_timeout_ms=3_600_000, max_block_ms=3_600_000)
        await producer.start()
        await send_to_all(world, producer)
        await producer.flush()
        before = sum(one.broker == 2 and one.api == "SaslAuthenticate" for one in world.kafka.requests)
        refusing = world.kafka.faults.sasl(1, broker=2, times=None)
        world.kafka.faults.drop_connections(2)
        end = world.now + 300
        while world.now < end:
            await send_to_all(world, producer)
            world.kafka.faults.drop_connections(1)
            await asyncio.sleep(1.0)
        authentications = [one for one in world.kafka.requests if one.api == "SaslAuthenticate"]
        # Pauses of 1, 2, 4, 8, 16 and then 30 seconds.
        assert 5 <= sum(one.broker == 2 for one in authentications) - before <= 20
        assert producer.stats().records_acked >= 2 * 295
        refusing.heal()
        producer.set_credentials(password="first")
        began = world.now
        await producer.flush()
        assert world.now - began < 2.0

    simulate(play, 1, access=access, history=400_000)


@pytest.mark.parametrize("brokers", [1, 12])
def test_a_provider_that_fails_is_asked_ever_less_often(brokers: int) -> None:
    """One pause for all brokers, of 10 s at most."""
    access = Access("OAUTHBEARER", session=None, token=6.0, slowness=0.0)
    calls: list[float] = []

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, brokers)
        inner = access.of_the_client(world.loop)["sasl_token_provider"]

        async def provide() -> object:
            calls.append(world.now)
            return await inner()

        producer = world.producer(linger_ms=0, delivery_timeout_ms=300_000, sasl_token_provider=provide)
        await producer.start()
        await send_to_all(world, producer, brokers)
        await producer.flush()
        access.failing = True
        await asyncio.sleep(8)
        for broker in range(1, brokers + 1):
            world.kafka.faults.drop_connections(broker)
        await send_to_all(world, producer, brokers)
        calls.clear()
        await asyncio.sleep(120)
        assert 10 <= len(calls) <= 20
        access.failing = False
        began = world.now
        await producer.flush()
        assert world.now - began < 15.0

    simulate(play, 1, brokers=brokers, access=access, history=100_000)


async def send_to_all(world: World, producer: Any, partitions: int = 3) -> None:
    """A record to each partition."""
    for partition in range(partitions):
        await world.ledger.send(producer, TOPIC, b"x", partition=partition)


def require_sessions(world: World, least: int) -> None:
    """Each of three connections was authenticated so often, and none was lost."""
    handshakes = [one for one in world.kafka.requests if one.api == "SaslHandshake"]
    openings = [one for one in world.kafka.requests if one.api == "ApiVersions"]
    assert len(handshakes) - len(openings) >= 3 * least
    assert len(openings) <= 2 * 3
    assert {sent.outcome for sent in world.ledger.history()} == {Outcome.ACKED}
