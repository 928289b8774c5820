"""Connections that work stay open as long as no other can be opened in their place: each is left behind its successor."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import pytest

from aioproducer import TopicPartition
from tests.simulation.access import USER, Access
from tests.simulation.refusing import (
    TOPIC,
    advertise,
    at_work,
    broker_of_metadata,
    clerk,
    close_ports,
    leaders,
    links_to_all,
    open_ports,
    patient_producer,
    recover,
    send_to_each,
    transact,
)
from tests.simulation.world import World, simulate

DEADLINE_MS: Final = 120_000
NO_NAME: Final = socket.gaierror(-3, "Temporary failure in name resolution")


def access() -> Access:
    """Sessions without an end: a connection that is open is of use, whatever happens to the user."""
    return Access("PLAIN", session=None, token=30.0, slowness=0.0)


def by_name(world: World, **settings: Any) -> Any:
    """A producer that looks each broker up by a name."""
    world.network.names["localhost"] = ["127.0.0.1"]

    def named(answer: Any) -> Any:
        return answer._replace(brokers=[one._replace(host="localhost") for one in answer.brokers])

    world.kafka.faults.alter(named, api="Metadata", times=None)
    servers = world.kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    return patient_producer(world, bootstrap_servers=servers, **settings)


async def admit_none(world: World, fault: str) -> None:
    """No new connection can be opened from now on."""
    if fault == "no name":
        world.network.names["localhost"] = NO_NAME
    elif fault == "hung up":
        world.kafka.faults.hang_up(times=None)
    elif fault == "refused":
        world.kafka.faults.sasl(1, times=None)
    else:
        await close_ports(world)


async def admit(world: World) -> None:
    """New connections can be opened again."""
    world.network.names["localhost"] = ["127.0.0.1"]
    await open_ports(world)
    await recover(world, world.producers[-1])


async def send_for(world: World, producer: Any, places: Any, seconds: int) -> list[Any]:
    """A record to each of these partitions every second, whose outcome is not waited for."""
    deliveries = []
    for _ in range(seconds):
        deliveries += await send_to_each(world, producer, places)
        await asyncio.sleep(1.0)
    return deliveries


@pytest.mark.parametrize("fault", ["no name", "hung up", "closed ports"])
def test_new_credentials_while_no_connection_can_be_opened(fault: str) -> None:
    """They are right, and brokers would accept them: it is the network that does not let new connections through."""

    async def play(world: World) -> None:
        producer = by_name(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 6)
        await admit_none(world, fault)
        world.kafka.users[USER] = "second"
        producer.set_credentials(password="second")
        former = links_to_all(world, 6)
        await asyncio.gather(*await send_for(world, producer, places.values(), 400))
        assert not any(link.client.gone for link in former)
        world.kafka.users[USER] = "first"
        await admit(world)
        await send_for(world, producer, places.values(), 40)
        assert all(link.client.gone for link in former)

    simulate(play, 1, access=access(), brokers=6, history=100_000)


def test_idle_connections_have_successors_in_use() -> None:
    """They are replaced where there is nothing to send, and then no other can be opened. One broker had moved out of reach."""

    async def play(world: World) -> None:
        world.network.names["elsewhere"] = NO_NAME
        producer = patient_producer(world, metadata_max_age_ms=200_000)
        places = await at_work(world, producer, 4)
        control = producer._engine.control
        moved = next(one for one in places if world.port(one) != control.address[1])
        advertise(world, {moved: "elsewhere"})
        producer._engine.cluster.stale(None)
        await asyncio.sleep(1.0)
        former = links_to_all(world, 4)
        producer.set_credentials(password="first")
        await asyncio.sleep(10.0)
        assert all(link.client.gone for link in former)
        await admit_none(world, "closed ports")
        kept = control.connection
        await asyncio.sleep(300.0)
        began = world.now
        await asyncio.gather(*await send_to_each(world, producer, places.values()))
        assert world.now - began < 1.0
        assert control.connection is kept
        assert not kept.closed
        await admit(world)

    simulate(play, 1, access=access(), brokers=4, history=100_000)


@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_beside_a_sender_has_a_successor_of_its_own(seed: int) -> None:
    """Both are at one broker, and rest; then no other connection can be opened, and the next transaction has all it needs."""

    async def play(world: World) -> None:
        producer = await clerk(world)
        world.kafka.faults.move_coordinator("clerk", 3)

        await transact(producer)
        for _ in range(3):
            opened = producer.health().connected_brokers, len(links_to_all(world, 3))
            producer.set_credentials(password="first")
            await asyncio.sleep(20.0)
            assert (producer.health().connected_brokers, len(links_to_all(world, 3))) == opened
        await admit_none(world, "refused")
        began = world.now
        await transact(producer)
        assert world.now - began < 5.0
        await admit(world)

    simulate(play, seed, access=access(), history=100_000)


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_producer_is_ready_while_its_connections_work(brokers: int) -> None:
    """A wrong new password is one of the problems, and each record is written."""

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, brokers)
        producer.set_credentials(password="wrong")
        for _ in range(100):
            await asyncio.gather(*await send_to_each(world, producer, places.values()))
            health = producer.health()
            assert health.ready
            await asyncio.sleep(1.0)
        assert any("lets no further connection be opened for" in problem for problem in health.problems)
        producer.set_credentials(password="first")
        await admit(world)

    simulate(play, 1, access=access(), brokers=brokers, history=100_000)


@pytest.mark.parametrize("fault", ["no name", "hung up", "closed ports", "refused"])
def test_one_connection_is_lost_while_no_other_can_be_opened(fault: str) -> None:
    """The rest is used for longer than it takes to look for a cluster anew, and metadata say where a leader has moved."""

    async def play(world: World) -> None:
        producer = by_name(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 6)
        control = producer._engine.control.address[1]
        lost, source, target = [one for one in places if world.port(one) != control][:3]
        await admit_none(world, fault)
        world.kafka.faults.drop_connections(lost)
        kept = [place for broker, place in places.items() if broker != lost]
        await asyncio.sleep(1.0)
        (unlucky,) = await send_to_each(world, producer, [places[lost]])
        await asyncio.gather(*await send_for(world, producer, kept, 400))
        assert producer.health().connected_brokers >= 5
        world.kafka.faults.move_leader(TOPIC, places[source], target)
        (moved,) = await send_to_each(world, producer, [places[source]])
        began = world.now
        await moved
        assert world.now - began < 5.0
        assert unlucky.exception() is not None
        await admit(world)

    simulate(play, 1, access=access(), brokers=6, history=100_000)


@pytest.mark.parametrize("fault", ["no name", "hung up", "closed ports"])
def test_the_connection_for_metadata_is_lost_while_no_other_can_be_opened(fault: str) -> None:
    """After five minutes without metadata the cluster is looked for anew: no bootstrap server is found, and nothing is left."""

    async def play(world: World) -> None:
        producer = by_name(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 6)
        lost = broker_of_metadata(world, producer)
        await admit_none(world, fault)
        world.kafka.faults.drop_connections(lost)
        kept = [place for broker, place in places.items() if broker != lost]
        producer._engine.cluster.stale(None)
        await asyncio.gather(*await send_for(world, producer, kept, 700))
        assert producer.health().connected_brokers == 5
        await admit(world)

    simulate(play, 1, access=access(), brokers=6, history=100_000)


def test_known_brokers_are_asked_where_bootstrap_servers_are_gone_for_good() -> None:
    """The setting was not mended since: the brokers of the last metadata give metadata when they are back."""

    async def play(world: World) -> None:
        world.network.names["start"] = ["127.0.0.1"]
        world.kafka.limit_version("Produce", 0, 9)  # its answers do not name the leader
        producer = patient_producer(
            world, bootstrap_servers=f"start:{world.port(1)}", delivery_timeout_ms=3_000_000
        )
        places = await at_work(world, producer, 3)
        world.network.names["start"] = NO_NAME
        await admit_none(world, "closed ports")
        lost = broker_of_metadata(world, producer)
        world.kafka.faults.drop_connections(lost)
        producer._engine.cluster.stale(None)
        for _ in range(600):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        await admit(world)
        source, target = [one for one in places if one != lost]
        world.kafka.faults.move_leader(TOPIC, places[source], target)
        (moved,) = await send_to_each(world, producer, [places[source]])
        began = world.now
        await moved
        assert world.now - began < 40.0

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("fault", ["no name", "refused", ""])
def test_brokers_that_are_advertised_by_another_name(fault: str) -> None:
    """Their connections are left when those to the new name are open, and only then."""

    async def play(world: World) -> None:
        world.network.names["other"] = NO_NAME if fault == "no name" else ["127.0.0.1"]
        producer = patient_producer(world, metadata_max_age_ms=20_000, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 4)
        if fault == "refused":
            await admit_none(world, fault)

        def renamed(answer: Any) -> Any:
            return answer._replace(brokers=[one._replace(host="other") for one in answer.brokers])

        world.kafka.faults.alter(renamed, api="Metadata", times=None)
        former = {sender.link.connection for sender in producer._engine.senders.values()}
        await asyncio.gather(*await send_for(world, producer, places.values(), 200))
        assert [connection.closed for connection in former] == [not fault] * 4
        assert producer.stats().records_retried == 0
        world.network.names["other"] = ["127.0.0.1"]
        await admit(world)

    simulate(play, 1, access=access(), brokers=4, history=100_000)


def test_a_broker_that_asks_for_a_new_beginning_while_the_user_is_away() -> None:
    """REBOOTSTRAP_REQUIRED: nothing is left before a bootstrap server accepts a connection."""

    async def play(world: World) -> None:
        producer = patient_producer(world, metadata_max_age_ms=20_000, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 3)
        former = links_to_all(world, 3)
        await admit_none(world, "refused")
        world.kafka.faults.alter(lambda answer: answer._replace(error_code=129), api="Metadata")
        await asyncio.gather(*await send_for(world, producer, places.values(), 200))
        assert not any(link.client.gone for link in former)
        await admit(world)

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("why", ["asked for", "no metadata for five minutes"])
def test_a_new_beginning_while_one_broker_alone_lets_connections_be_opened(why: str) -> None:
    """The others serve their open connections, which are kept until there is another one in their place."""

    async def play(world: World) -> None:
        producer = patient_producer(world, metadata_max_age_ms=20_000, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 4)
        control = producer._engine.control.address[1]
        others = [one for one in places if world.port(one) != control]
        for broker in others:
            await world.kafka.faults.refuse_connections(broker)
        former = [link for broker in others for link in world.network.links(world.port(broker))]
        if why == "asked for":
            world.kafka.faults.alter(lambda answer: answer._replace(error_code=129), api="Metadata")
        else:
            world.kafka.faults.error("UNKNOWN_SERVER_ERROR", api="Metadata", times=None)
        await asyncio.gather(*await send_for(world, producer, places.values(), 500))
        assert not any(link.client.gone for link in former)
        await admit(world)
        await send_for(world, producer, places.values(), 60)
        assert all(link.client.gone for link in former)

    simulate(play, 1, access=access(), brokers=4, history=100_000)


@pytest.mark.parametrize("why", ["asked for", "no metadata for five minutes"])
def test_a_new_beginning_at_a_broker_that_accepts_while_others_refuse(why: str) -> None:
    """One bootstrap server accepts the user, and the others serve their open connections: these stay."""

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 4)
        for broker in (2, 3, 4):
            world.kafka.faults.sasl(1, broker=broker, times=None)
        world.kafka.faults.drop_connections(4)
        former = [link for broker in (2, 3) for link in world.network.links(world.port(broker))]
        if why == "asked for":
            world.kafka.faults.alter(lambda answer: answer._replace(error_code=129), api="Metadata")
        else:
            world.kafka.faults.error("UNKNOWN_SERVER_ERROR", api="Metadata", times=None)
        for _ in range(400):
            await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        assert not any(link.client.gone for link in former)
        await admit(world)

    simulate(play, 1, access=access(), brokers=4, history=100_000)


@pytest.mark.parametrize("api", ["EndTxn", "AddPartitionsToTxn"])
@pytest.mark.parametrize("code", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_a_coordinator_that_is_found_where_it_was(api: str, code: str) -> None:
    """It answers once that it is none, while the user is away: the transaction goes on over the same connection."""

    async def play(world: World) -> None:
        world.kafka.set_transaction_version(1)
        producer = await clerk(world)
        await transact(producer)
        former = links_to_all(world, 3)
        await admit_none(world, "refused")
        world.kafka.faults.error(code, api=api)
        began = world.now
        await transact(producer)
        assert world.now - began < 5.0
        assert not any(link.client.gone for link in former)
        await admit(world)

    simulate(play, 1, access=access(), history=100_000)


def test_a_coordinator_that_is_found_at_the_second_attempt() -> None:
    """It lets no new connection through, and the first question for it gets no answer."""

    async def play(world: World) -> None:
        producer = await clerk(world)
        await transact(producer)
        control = producer._engine.control.address[1]
        coordinator = next(one for one in range(1, 4) if world.port(one) != control)
        world.kafka.faults.move_coordinator("clerk", coordinator)
        await transact(producer)
        await world.kafka.faults.refuse_connections(coordinator)
        world.kafka.faults.error("NOT_COORDINATOR", api="EndTxn")
        cut = world.kafka.faults.cut(api="FindCoordinator", before=True)
        began = world.now
        await transact(producer)
        assert cut.hits == 1
        assert world.now - began < 5.0
        await admit(world)

    simulate(play, 1, access=access(), history=100_000)


def test_a_commit_that_is_given_up_keeps_an_idle_coordinator() -> None:
    """It waits for a record of a lost broker, and the coordinator for nothing: init_transactions() ends it at once."""

    async def play(world: World) -> None:
        producer = await clerk(world)
        world.kafka.faults.move_coordinator("clerk", 1)
        places = leaders(world, 3)
        await transact(producer, places.values())
        await admit_none(world, "refused")
        world.kafka.faults.drop_connections(3)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await transact(producer, places.values())
        began = world.now
        await producer.init_transactions()
        assert world.now - began < 5.0
        await admit(world)

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("fault", ["throttled", "no answer"])
def test_metrics_cost_no_connection_for_metadata(fault: str) -> None:
    """The user is away, and a broker throttles metrics, or does not answer: none are pushed until he is back."""

    async def play(world: World) -> None:
        world.kafka.subscribe_metrics(["org.apache.kafka.producer."], 5_000)
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, 3)
        control = producer._engine.control
        lost = next(one for one in places if world.port(one) != control.address[1])
        await admit_none(world, "refused")
        world.kafka.faults.drop_connections(lost)
        if fault == "throttled":
            world.kafka.faults.throttle(4_900, api="PushTelemetry", times=None)
        else:
            world.kafka.faults.drop_answer(api="PushTelemetry", times=None)
        kept = control.connection
        for _ in range(20):
            await send_to_each(world, producer, [places[lost]])
            await asyncio.sleep(3.3)
            producer._engine.cluster.stale(None)
        assert control.connection is kept
        assert not kept.closed
        pushes = len(world.kafka.pushes)
        await admit(world)
        await asyncio.sleep(100.0)
        assert len(world.kafka.pushes) > pushes

    simulate(play, 1, access=access(), history=100_000, telemetry=True)


def test_metrics_are_pushed_while_one_broker_refuses() -> None:
    """Its list of users lags behind for good. The others accept connections, so none that works is the last one."""

    async def play(world: World) -> None:
        world.kafka.subscribe_metrics(["org.apache.kafka.producer."], 5_000)
        producer = patient_producer(world)
        places = await at_work(world, producer, 3)
        control = producer._engine.control.address[1]
        lagging = next(one for one in places if world.port(one) != control)
        world.kafka.faults.sasl(1, broker=lagging, times=None)
        world.kafka.faults.drop_connections(lagging)
        await send_for(world, producer, places.values(), 60)
        pushes = len(world.kafka.pushes)
        await send_for(world, producer, places.values(), 60)
        assert len(world.kafka.pushes) - pushes > 8
        await admit(world)

    simulate(play, 1, access=access(), history=100_000, telemetry=True)


def test_metadata_over_the_successor_of_a_connection_that_waits_for_an_answer() -> None:
    """A question of one task is slow while the connection is replaced; that of another task needs no further connection."""

    async def play(world: World) -> None:
        world.kafka.create_topic("orders", 1)
        world.kafka.create_topic("input", 1)
        producer = await clerk(world)
        await transact(producer)
        control = producer._engine.control
        present = next(one for one in range(1, 4) if world.port(one) == control.address[1])
        world.kafka.faults.move_coordinator("group", present)
        world.kafka.faults.delay(25.0, api="FindCoordinator", before=True)

        async def commit() -> None:
            async with producer.transaction() as transaction:
                await producer.send(TOPIC, b"x", partition=0)
                transaction.send_offsets({TopicPartition("input", 0): 1}, "group")

        committing = asyncio.create_task(commit())
        await asyncio.sleep(1.0)
        assert control.connection.in_flight
        for other in {1, 2, 3} - {present}:
            world.kafka.faults.sasl(1, broker=other, times=None)
        producer.set_credentials(password="first")
        await asyncio.sleep(10.0)
        assert control.connection.gate.is_retired
        began = world.now
        assert len(await producer.partitions_for("orders")) == 1
        assert world.now - began < 1.0
        await admit(world)
        await committing

    simulate(play, 1, access=access(), history=100_000)


def test_brokers_out_of_reach_hold_up_no_metadata() -> None:
    """Two of three answer nothing at all. A call waits for a topic, which the third one knows a moment later."""

    async def play(world: World) -> None:
        producer = patient_producer(world)
        await at_work(world, producer, 3)
        control = producer._engine.control.address[1]
        for port in {world.port(one) for one in range(1, 4)} - {control}:
            world.network.isolate(port)
        waiting = asyncio.create_task(producer.partitions_for("later"))
        await asyncio.sleep(3.0)
        assert not waiting.done()
        world.kafka.create_topic("later", 1)
        began = world.now
        await waiting
        assert world.now - began < 2.0
        for broker in range(1, 4):
            world.network.release(world.port(broker))
        await admit(world)

    simulate(play, 1, access=access(), auto_create_topics=False, history=100_000)
