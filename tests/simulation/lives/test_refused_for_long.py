"""Brokers refuse for minutes: connections that are open stay open, and brokers that accept are found behind those that refuse."""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from pathlib import Path
from typing import Any, Final

import pytest

from aioproducer import ConfigurationError, SecretFile, StateError
from aioproducer.testing import certificates
from tests.simulation.access import Access
from tests.simulation.refusing import (
    TOPIC,
    at_work,
    authentications,
    clerk,
    close_ports,
    leaders,
    links_to_all,
    patient_producer,
    recover,
    send_to_each,
    transact,
)
from tests.simulation.world import World, simulate

NOT_ACCEPTED: Final = "no connection could be opened with the new credentials or certificates"
DEADLINE_MS: Final = 120_000
"""Of each record: less than a user is away."""


def broker_for_metadata(world: World) -> int:
    """The broker that the connection for metadata goes to."""
    found = re.search(r":(\d+)", world.lines("for metadata")[-1])
    assert found is not None
    return next(broker for broker in range(1, 4) if world.port(broker) == int(found[1]))


@pytest.mark.parametrize("lost", ["a connection for records", "that for metadata as well"])
def test_a_deleted_user_keeps_the_open_connections(lost: str) -> None:
    """For ten minutes: the time after which a cluster is looked for anew is half of it."""
    access = Access("SCRAM-SHA-256", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 3)
        gone = broker_for_metadata(world) if "metadata" in lost else 3
        world.kafka.faults.sasl(1, times=None)
        world.kafka.faults.drop_connections(gone)
        await asyncio.sleep(1.0)
        (unlucky,) = await send_to_each(world, producer, [places[gone]])
        deliveries = []
        for _ in range(600):
            deliveries += await send_to_each(world, producer, [places[one] for one in places if one != gone])
            await asyncio.sleep(1.0)
        assert producer.health().connected_brokers >= 2
        await asyncio.gather(*deliveries)
        assert "credentials" in str(unlucky.exception())
        await recover(world, producer)

    simulate(play, 1, access=access, history=100_000)


@pytest.mark.parametrize(("brokers", "refusing"), [(4, 3), (6, 5), (12, 9)])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", ["after a quiet night", "all cut at once"])
def test_the_few_that_accept_are_found_behind_those_that_refuse(
    brokers: int, refusing: int, seed: int, how: str
) -> None:
    """The password of a listener is changed by a rolling restart: each broker that refuses takes three seconds at most."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, connections_max_idle_ms=60_000)
        places = await at_work(world, producer, brokers)
        refuse = random.Random(seed).sample(range(1, brokers + 1), refusing)
        await asyncio.sleep(300 if how == "after a quiet night" else 5)
        for broker in refuse:
            world.kafka.faults.sasl(1, broker=broker, times=None)
        if how == "all cut at once":
            for broker in places:
                world.kafka.faults.drop_connections(broker)
        began = world.now
        await send_to_each(world, producer, [places[broker] for broker in refuse])
        for delivery in await send_to_each(
            world, producer, [places[one] for one in places if one not in refuse]
        ):
            await delivery
        assert world.now - began < 3.0 * refusing + 2.0
        await recover(world, producer)

    simulate(play, seed, access=access, brokers=brokers, history=100_000)


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6])
def test_a_broker_that_refuses_opens_the_door_for_no_other_presentation(moment: float) -> None:
    """It gets records all the time, the others sleep; then the user is deleted, and a burst goes to all."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, connections_max_idle_ms=60_000)
        places = await at_work(world, producer, 12)
        world.kafka.faults.sasl(1, broker=12, times=None)
        world.kafka.faults.drop_connections(12)
        before = len(world.network.dials)
        for _ in range(400):
            await send_to_each(world, producer, [places[12]])
            await asyncio.sleep(0.5)
        # 13 behind pauses that grow to 30 seconds, and one in 30 seconds of another broker that may know another leader.
        assert len(world.network.dials) - before <= 13 + 8
        await asyncio.sleep(moment)
        world.kafka.faults.sasl(1, times=None)
        world.kafka.faults.delay(0.3, api="SaslAuthenticate", before=True, times=None)
        presented = authentications(world)
        await send_to_each(world, producer, places.values())
        await asyncio.sleep(2.0)
        assert authentications(world) - presented <= 2
        await recover(world, producer)

    simulate(play, 1, access=access, brokers=12, history=100_000)


@pytest.mark.parametrize("seed", range(6))
def test_a_coordinator_that_moves_away_from_a_broker_that_refuses(seed: int) -> None:
    """It is looked for in the pause, which is up to 30 seconds by then."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = await clerk(world)
        world.kafka.faults.move_coordinator("clerk", 3)
        others = [partition for broker, partition in leaders(world, 3).items() if broker != 3]
        await transact(producer, others)
        world.kafka.faults.sasl(1, broker=3, times=None)
        world.kafka.faults.drop_connections(3)
        waiting = asyncio.create_task(transact(producer, others))
        await asyncio.sleep(60.0)
        world.kafka.faults.move_coordinator("clerk", 1)
        began = world.now
        await waiting
        assert world.now - began < 5.0
        world.kafka.faults.heal()

    simulate(play, seed, access=access, history=100_000)


async def failing() -> str:
    """A provider that cannot be reached."""
    raise ConnectionError("the store is down")


async def hanging() -> str:
    """A provider that does not answer."""
    await asyncio.sleep(3_600.0)
    return ""


@pytest.mark.parametrize("password", [SecretFile("/missing"), failing, hanging, "wrong"])
def test_new_credentials_that_cannot_be_used_cost_no_connection(password: Any) -> None:
    """All stay as they are, for longer than it takes to look for a cluster anew, and no record waits for the right ones."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 6)
        producer.set_credentials(password=password)
        for _ in range(400):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        assert producer.health().connected_brokers == 6
        assert len(world.lines(NOT_ACCEPTED)) == 1
        (await producer.flush()).raise_for_errors()
        producer.set_credentials(password="first")
        former = links_to_all(world, 6)
        await asyncio.sleep(20.0)
        assert all(link.client.gone for link in former)

    simulate(play, 1, access=access, brokers=6, history=100_000)


def test_credentials_that_work_from_a_moment_on_are_found_to() -> None:
    """A file that is written later, or brokers that learn late of a password: no other call is needed."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 6)
        world.kafka.faults.sasl(1, times=None)
        producer.set_credentials(password="first")
        former = links_to_all(world, 6)
        for _ in range(200):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        assert not any(link.client.gone for link in former)
        (await producer.flush()).raise_for_errors()
        world.kafka.faults.heal()
        for _ in range(40):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        assert all(link.client.gone for link in former)

    simulate(play, 1, access=access, brokers=6, history=100_000)


async def close_beside(world: World, producer: Any, *calls: asyncio.Task[Any]) -> None:
    """Close the producer: the calls under way in tasks of the program end with it."""
    await producer.close()
    began = world.now
    for call in calls:
        with pytest.raises(StateError, match="closed while this call went on"):
            await call
    assert world.now - began < 0.1


@pytest.mark.parametrize("after", [0.5, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("call", ["fence", "committed_offsets"])
def test_a_call_that_waits_for_a_coordinator_ends_with_the_producer(call: str, after: float) -> None:
    """All brokers refuse, so the call would go on for a minute. The end of the producer is no refusal."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(max_block_ms=60_000, request_timeout_ms=30_000, delivery_timeout_ms=120_000)
        await at_work(world, producer, 3)
        world.kafka.faults.sasl(1, times=None)
        for broker in (1, 2, 3):
            world.kafka.faults.drop_connections(broker)
        await asyncio.sleep(0.1)
        waiting: asyncio.Task[Any]
        if call == "fence":
            waiting = asyncio.create_task(producer.fence(["clerk"]))
        else:
            waiting = asyncio.create_task(producer.committed_offsets("group", [(TOPIC, 0)]))
        await asyncio.sleep(after)
        await close_beside(world, producer, waiting)

    simulate(play, 1, access=access, history=100_000)


@pytest.mark.parametrize("after", [0.5, 5.0, 12.0, 20.0, 40.0])
def test_a_call_that_pauses_ends_with_the_producer(after: float) -> None:
    """One broker refuses. The pauses between two requests to it may be long."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, retry_backoff_max_ms=60_000)
        await at_work(world, producer, 3)
        world.kafka.faults.move_coordinator("clerk", 2)
        world.kafka.faults.sasl(1, broker=2, times=None)
        world.kafka.faults.drop_connections(2)
        call = asyncio.create_task(producer.fence(["clerk"], timeout=300.0))
        await asyncio.sleep(after)
        await close_beside(world, producer, call)

    simulate(play, 1, access=access, history=100_000)


@pytest.mark.parametrize("pause_ms", [50, 20_000])
@pytest.mark.parametrize("fault", ["silent", "one is silent", "gone"])
def test_a_call_that_dials_ends_with_the_producer(fault: str, pause_ms: int) -> None:
    """The call is in a task of the program: neither its attempts nor their pauses go on."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(
            world, reconnect_backoff_ms=pause_ms, reconnect_backoff_max_ms=max(1_000, pause_ms)
        )
        await at_work(world, producer, 3)
        world.kafka.faults.move_coordinator("clerk", 3)
        if fault == "gone":
            await close_ports(world)
        else:
            silent = None if fault == "silent" else 3
            world.kafka.faults.silence(api="SaslAuthenticate", broker=silent, times=None)
        for broker in (1, 2, 3):
            world.kafka.faults.drop_connections(broker)
        await asyncio.sleep(0.1)
        calls = [
            asyncio.create_task(producer.list_transactions(timeout=300.0)),
            asyncio.create_task(producer.fence(["clerk"], timeout=300.0)),
        ]
        await asyncio.sleep(5.0)
        await close_beside(world, producer, *calls)

    simulate(play, 1, access=access, history=100_000)


def test_each_connection_is_replaced_by_one_other() -> None:
    """The new credentials are presented once for each, whether or not there is anything to send over it."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        places = await at_work(world, producer, 6)
        for busy in (places.values(), [places[2]]):
            former, dialed = links_to_all(world, 6), len(world.network.dials)
            producer.set_credentials(password="first")
            for _ in range(60):
                await send_to_each(world, producer, busy)
                await asyncio.sleep(1.0)
            assert all(link.client.gone for link in former)
            assert len(world.network.dials) - dialed == len(former)

    simulate(play, 1, access=access, brokers=6, history=100_000)


def test_the_connection_to_a_coordinator_is_replaced_by_one_other() -> None:
    """It is idle between two transactions, and the next one begins over its successor."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = await clerk(world)
        world.kafka.faults.move_coordinator("clerk", 3)
        others = [partition for broker, partition in leaders(world, 3).items() if broker != 3]
        for change in range(3):
            await transact(producer, others)
            if change == 0:
                dialed, former = len(world.network.dials), links_to_all(world, 3)
                producer.set_credentials(password="first")
                await asyncio.sleep(30.0)
                assert all(link.client.gone for link in former)
        assert len(world.network.dials) - dialed == len(former)

    simulate(play, 1, access=access, history=100_000)


def test_certificates_of_another_authority_cost_no_connection(tmp_path: Path) -> None:
    """The file can be read, and does not trust the brokers."""
    authority = certificates()
    trusted = tmp_path / "authority.pem"
    trusted.write_text(authority.authority)

    async def play(world: World) -> None:
        producer = patient_producer(
            world,
            security_protocol="SSL",
            ssl_truststore_location=str(trusted),
            delivery_timeout_ms=DEADLINE_MS,
        )
        places = await at_work(world, producer, 6)
        trusted.write_text(certificates().authority)
        await producer.reload_certificates()
        for _ in range(400):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        assert producer.health().connected_brokers == 6
        (await producer.flush()).raise_for_errors()
        trusted.write_text(authority.authority)
        await producer.reload_certificates()
        former = links_to_all(world, 6)
        await asyncio.sleep(20.0)
        assert all(link.client.gone for link in former)

    simulate(play, 1, brokers=6, history=100_000, tls=authority.broker_context())


def test_a_context_of_the_user_that_cannot_be_made(tmp_path: Path) -> None:
    """reload_certificates() says so, and the newest context is used, also for new connections."""
    authority = certificates()
    trusted = tmp_path / "authority.pem"
    trusted.write_text(authority.authority)

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile=str(trusted))
        return context

    async def play(world: World) -> None:
        producer = patient_producer(world, security_protocol="SSL", ssl_context=make)
        places = await at_work(world, producer, 4)
        former = links_to_all(world, 4)
        trusted.write_text(authority.authority[:200])
        for _ in range(3):
            with pytest.raises(ConfigurationError, match="ssl_context: the callable raised SSLError"):
                await producer.reload_certificates()
            await producer.flush()
            await send_to_each(world, producer, places.values())
        assert not any(link.client.gone for link in former)
        world.kafka.faults.drop_connections(1)
        await send_to_each(world, producer, places.values())
        (await producer.flush()).raise_for_errors()
        assert len(world.lines("the newest context stays in use")) == 1
        trusted.write_text(authority.authority)
        await producer.reload_certificates()
        await producer.flush()

    simulate(play, 1, brokers=4, history=100_000, tls=authority.broker_context())


@pytest.mark.parametrize(("former", "silent"), [(12, 0), (9, 3)])
def test_a_cluster_that_has_moved_is_found_where_its_former_addresses_refuse(
    former: int, silent: int
) -> None:
    """They belong to another cluster now, and some to nothing. The address of bootstrap_servers leads to the new place."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)
    new = former + 1

    async def play(world: World) -> None:
        def without_the_new(answer: Any) -> Any:
            return answer._replace(brokers=[one for one in answer.brokers if one.node_id != new])

        hidden = world.kafka.faults.alter(without_the_new, api="Metadata", times=None)
        producer = patient_producer(
            world,
            bootstrap_servers=f"127.0.0.1:{world.port(new)}",
            delivery_timeout_ms=3_000_000,
            connections_max_idle_ms=30_000,
        )
        world.kafka.create_topic(TOPIC, former)
        for partition in range(former):
            world.kafka.faults.move_leader(TOPIC, partition, partition + 1)
        await producer.start()
        await asyncio.gather(*await send_to_each(world, producer, range(former)))
        await asyncio.sleep(100.0)
        hidden.heal()
        for broker in range(1, new):
            if broker <= silent:
                world.kafka.faults.delay(3_600.0, api="ApiVersions", broker=broker, times=None)
            world.kafka.faults.sasl(1, broker=broker, times=None)
            world.kafka.faults.move_leader(TOPIC, broker - 1, new)
        for broker in range(1, new + 1):
            world.kafka.faults.drop_connections(broker)
        began = world.now
        (delivery,) = await send_to_each(world, producer, [0])
        await delivery
        assert world.now - began < 400.0
        await recover(world, producer)

    simulate(play, 1, access=access, brokers=new, history=1_000_000)


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_that_lags_behind_is_left_while_another_one_refuses(seed: int) -> None:
    """The connection for metadata goes to a broker that does not know a new topic; another one refuses for good."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        places = await at_work(world, producer, 3)
        refusing = next(broker for broker in places if broker != broker_for_metadata(world))
        world.kafka.faults.sasl(1, broker=refusing, times=None)
        world.kafka.faults.drop_connections(refusing)
        await send_to_each(world, producer, [places[refusing]])
        await asyncio.sleep(60.0)
        lagging = broker_for_metadata(world)
        healthy = next(broker for broker in places if broker not in (refusing, lagging))
        world.kafka.faults.hide_topic("other", broker=lagging)
        world.kafka.create_topic("other", 1)
        world.kafka.faults.move_leader("other", 0, healthy)
        began = world.now
        delivery = await world.ledger.send(producer, "other", b"x", partition=0)
        assert delivery is not None
        await delivery
        assert world.now - began < 40.0
        world.kafka.faults.show_topic("other", broker=lagging)
        await recover(world, producer)

    simulate(play, seed, access=access, history=100_000)


@pytest.mark.parametrize("fault", ["hangs", "cuts", "refuses"])
def test_one_sick_broker_keeps_no_other_at_former_credentials(fault: str) -> None:
    """It is the first one whose connection is replaced."""
    access = Access("SCRAM-SHA-256", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, connections_max_idle_ms=3_600_000)
        places = await at_work(world, producer, 6)
        if fault == "hangs":
            world.kafka.faults.delay(3_600.0, api="SaslAuthenticate", broker=1, before=True, times=None)
        elif fault == "cuts":
            world.kafka.faults.cut(api="SaslAuthenticate", broker=1, before=True, times=None)
        else:
            world.kafka.faults.sasl(1, broker=1, times=None)
        await asyncio.sleep(1.0)
        former = [link for broker in range(2, 7) for link in world.network.links(world.port(broker))]
        await send_to_each(world, producer, [places[1]])
        await asyncio.sleep(0.05)
        producer.set_credentials(password="first")
        for _ in range(60):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        assert all(link.client.gone for link in former)
        (await producer.flush()).raise_for_errors()
        await recover(world, producer)

    simulate(play, 1, access=access, brokers=6, history=100_000)


def test_brokers_that_are_only_told_of_are_asked_ever_less_often() -> None:
    """The user is gone everywhere, and records go to one of thirty brokers: the others are candidates for metadata."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world, connections_max_idle_ms=30_000, metadata_max_age_ms=60_000)
        places = await at_work(world, producer, 30)
        await asyncio.sleep(100.0)
        world.kafka.faults.sasl(1, times=None)
        for broker in places:
            world.kafka.faults.drop_connections(broker)
        counts = []
        for _ in range(6):
            before = authentications(world)
            for _ in range(60):
                await send_to_each(world, producer, [places[1]])
                await asyncio.sleep(1.0)
            counts.append(authentications(world) - before)
        assert max(counts[2:]) <= 4
        await recover(world, producer)

    simulate(play, 1, access=access, brokers=30, history=1_000_000)
