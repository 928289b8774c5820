"""The successor of a connection belongs to its user, whatever happens until the connection ends. No other can be opened then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioproducer import TopicPartition
from aioproducer.errors import BrokerUnavailableError
from tests.simulation.access import Access
from tests.simulation.refusing import (
    TOPIC,
    advertise,
    at_work,
    authentications,
    broker_of_metadata,
    clerk,
    close_ports,
    leaders,
    open_ports,
    patient_producer,
    recover,
    send_to_each,
    transact,
)
from tests.simulation.world import World, simulate

BROKERS: Final = 4
DEADLINE_MS: Final = 60_000


def access(mechanism: str = "PLAIN", session: float | None = None) -> Access:
    """By default sessions have no end: a connection that is open is of use."""
    return Access(mechanism, session=session, token=3_000.0, slowness=0.0)


async def end_well(world: World) -> None:
    """The network is well again, and all records end."""
    await open_ports(world)
    await recover(world, world.producers[-1])


async def without_metadata(world: World, engine: Any) -> None:
    """Answers that do not help: the connection for metadata changes its broker, if it can."""
    for _ in range(3):
        world.kafka.faults.error("UNKNOWN_SERVER_ERROR", api="Metadata")
        engine.cluster.stale(None)
        await asyncio.sleep(0.5)


def beside_metadata(world: World, engine: Any) -> list[int]:
    """The brokers that the connection for metadata does not lead to."""
    return [one for one in range(1, BROKERS + 1) if world.port(one) != engine.control.address[1]]


async def begun_at_a_name(world: World, servers: int) -> tuple[Any, dict[int, int]]:
    """A producer at work, and the partition of each broker. The name of its `bootstrap_servers` leads elsewhere from now on."""
    world.network.names["start"] = ["127.0.0.1"]
    beginnings = ",".join(f"start:{world.port(one)}" for one in range(1, 1 + servers))
    producer = patient_producer(world, bootstrap_servers=beginnings, delivery_timeout_ms=DEADLINE_MS)
    places = await at_work(world, producer, 3)
    world.network.names["start"] = ["127.0.0.9"]
    world.network.alias["127.0.0.9"] = "127.0.0.9"
    return producer, places


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_successor_of_a_sender_is_not_taken_for_metadata(seed: int) -> None:
    """The sender waits for an answer while metadata are to be asked at another broker."""

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, BROKERS)
        broker = beside_metadata(world, producer._engine)[0]
        world.kafka.faults.delay(6.0, api="Produce", broker=broker)
        sent = await send_to_each(world, producer, [places[broker]])
        await asyncio.sleep(0.1)
        producer.set_credentials(password="first")
        await asyncio.sleep(2.0)
        await close_ports(world)
        await without_metadata(world, producer._engine)
        for _ in range(100):
            sent += await send_to_each(world, producer, [places[broker]])
            await asyncio.sleep(1.0)
        await asyncio.gather(*sent)
        await end_well(world)

    simulate(play, seed, access=access(), brokers=BROKERS, history=100_000)


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("lost", ["nothing", "the connection for metadata", "a sender"])
def test_the_successors_of_coordinators_are_theirs(lost: str, group: bool) -> None:
    """Transactions at rest, behind new credentials. Other users lose their connections, or look for another broker."""

    async def play(world: World) -> None:
        kafka = world.kafka
        kafka.set_transaction_version(1)
        kafka.create_topic("input", 1)
        producer = await clerk(world, delivery_timeout_ms=DEADLINE_MS)
        engine = producer._engine

        async def commit(partitions: Any) -> None:
            async with producer.transaction() as transaction:
                for partition in partitions:
                    await producer.send(TOPIC, b"x", partition=partition)
                if group:
                    transaction.send_offsets({TopicPartition("input", 0): 1}, "group")

        await transact(producer)
        coordinator, of_group, other = beside_metadata(world, engine)
        kafka.faults.move_coordinator("clerk", coordinator)
        kafka.faults.move_coordinator("group", of_group)
        place = leaders(world, 3)
        for broker in place:
            kafka.faults.move_leader(TOPIC, place[broker], other)
        for _ in range(3):
            await commit(range(3))
        producer.set_credentials(password="first")
        await asyncio.sleep(30.0)
        await close_ports(world)
        if lost == "the connection for metadata":
            engine.control.connection._end(BrokerUnavailableError("a device on the way has ended it"))
        elif lost == "a sender" and engine.senders.get(coordinator) and engine.senders[coordinator].link:
            engine.senders[coordinator].link.connection._end(BrokerUnavailableError("lost"))
        await without_metadata(world, engine)
        began = world.now
        await commit(range(3))
        assert world.now - began < 5.0
        await end_well(world)

    simulate(play, 1, access=access(), brokers=BROKERS, history=100_000)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("end", ["answered", "cut"])
def test_a_coordinator_has_its_successor_in_the_middle_of_a_commit(end: str, seed: int) -> None:
    """The commit has no answer yet when its connection is lost. It is asked again over the one that is open in its place."""

    async def play(world: World) -> None:
        kafka = world.kafka
        kafka.set_transaction_version(1)
        producer = await clerk(world, delivery_timeout_ms=DEADLINE_MS)
        engine = producer._engine
        await transact(producer)
        coordinator, other = beside_metadata(world, engine)[:2]
        kafka.faults.move_coordinator("clerk", coordinator)
        for partition in range(3):
            kafka.faults.move_leader(TOPIC, partition, other)
        for _ in range(3):
            await transact(producer)
        former = engine.transactions.coordinators.of_id.connection
        kafka.faults.delay(5.0, api="EndTxn", broker=coordinator, before=False)
        committed = asyncio.ensure_future(transact(producer))
        await asyncio.sleep(0.2)
        producer.set_credentials(password="first")
        await asyncio.sleep(2.0)
        await close_ports(world)
        if end == "cut":
            former._end(BrokerUnavailableError("a device on the way has ended it"))
        began = world.now
        await committed
        assert world.now - began < 4.0
        await end_well(world)

    simulate(play, seed, access=access(), brokers=BROKERS, history=100_000)


@pytest.mark.parametrize("rotations", [1, 2, 3])
@pytest.mark.parametrize("end", ["answered", "cut", "timed out"])
def test_a_sender_has_the_newest_successor(rotations: int, end: str) -> None:
    """The credentials change while it waits for an answer. Then its broker is advertised where it cannot be reached."""

    async def play(world: World) -> None:
        where: dict[int, str] = {}
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, BROKERS)
        advertise(world, where)
        broker = beside_metadata(world, producer._engine)[0]
        former = producer._engine.senders[broker].link.connection
        world.kafka.faults.delay(20.0, api="Produce", broker=broker)
        sent = await send_to_each(world, producer, [places[broker]])
        await asyncio.sleep(0.5)
        for _ in range(rotations):
            producer.set_credentials(password="first")
            await asyncio.sleep(5.0)
        assert former.gate.is_retired
        assert not former.closed
        where[broker] = "127.0.0.9"
        producer._engine.cluster.stale(None)
        await asyncio.sleep(1.0)
        if end == "cut":
            former._end(BrokerUnavailableError("a device on the way has ended it"))
        elif end == "timed out":
            former.overdue(world.now + 1_000.0)
        for _ in range(100):
            sent += await send_to_each(world, producer, [places[broker]])
            await asyncio.sleep(1.0)
        await asyncio.gather(*sent)
        assert producer._engine.senders[broker].link is not None
        where.clear()
        await recover(world, producer)

    simulate(play, 1, access=access(), brokers=BROKERS, history=100_000)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_credentials_that_change_in_the_middle_of_a_new_authentication(mechanism: str) -> None:
    """It ends with those that it began with, as a connection in use is lost otherwise, and no other can be opened."""

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        places = await at_work(world, producer, BROKERS)
        broker = beside_metadata(world, producer._engine)[0]
        connection = producer._engine.senders[broker].link.connection
        sent = []
        while connection.gate.session.renew_at(0.0) - world.now > 3.0:
            sent += await send_to_each(world, producer, places.values())
            await asyncio.sleep(0.5)
        world.kafka.faults.delay(8.0, api="Produce", broker=broker)
        for _ in range(60):
            sent += await send_to_each(world, producer, places.values())
            await asyncio.sleep(0.1)
            if connection.authenticating:
                break
        assert connection.authenticating
        await close_ports(world)
        given = world.access.of_the_client(world.loop) if world.access is not None else {}
        if mechanism == "OAUTHBEARER":
            producer.set_credentials(token_provider=given["sasl_token_provider"])
        else:
            producer.set_credentials(password="first")
        for _ in range(20):
            sent += await send_to_each(world, producer, places.values())
            await asyncio.sleep(1.0)
        await asyncio.gather(*sent)
        assert not connection.closed
        await open_ports(world)
        await producer.flush()

    simulate(play, 1, access=access(mechanism, 60.0), brokers=BROKERS, history=100_000)


def test_successors_do_not_add_up() -> None:
    """Credentials that change more often than connections are idle, while answers are slow."""

    async def play(world: World) -> None:
        world.kafka.set_transaction_version(1)
        producer = await clerk(world, connections_max_idle_ms=-1)
        await transact(producer)
        before = len(producer._engine.addresses._open)
        world.kafka.faults.delay(2.0, api="Produce", times=None)
        for _ in range(30):
            producer.set_credentials(password="first")
            await transact(producer)
            await asyncio.sleep(20.0)
        assert len(producer._engine.addresses._open) <= before + 1
        assert len(producer._engine.addresses._replacement._successors) <= 1
        await recover(world, producer)

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("seed", range(6))
def test_a_new_beginning_while_one_broker_refuses(seed: int) -> None:
    """Brokers ask for a new beginning under the addresses of the metadata. One of the three beginnings refuses."""

    async def play(world: World) -> None:
        world.network.names["start"] = ["127.0.0.1"]
        servers = ",".join(f"start:{world.port(one)}" for one in range(1, 4))
        producer = patient_producer(world, bootstrap_servers=servers, metadata_max_age_ms=20_000)
        await at_work(world, producer, 3)
        engine = producer._engine

        def is_at_the_start() -> bool:
            opened = engine.addresses._open.get(engine.control.connection)
            return opened is not None and opened.host == "start"

        def sent_back(answer: Any) -> Any:
            return answer if is_at_the_start() else answer._replace(error_code=129, topics=[], brokers=[])

        for _ in range(20):
            if not is_at_the_start():
                break
            engine.control.change()
            await engine.control.connected()
            await asyncio.sleep(1.0)
        assert not is_at_the_start()
        world.kafka.faults.sasl(1, broker=3, times=None)
        world.kafka.faults.alter(sent_back, api="Metadata", times=None)
        engine.cluster.stale(None)
        asked = world.now
        await asyncio.sleep(30.0)
        assert engine.cluster.read_at > asked
        await recover(world, producer)

    simulate(play, seed, access=access(), history=100_000)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("servers", [1, 3])
def test_beginnings_that_do_not_answer_hold_up_no_metadata(servers: int, times: int) -> None:
    """Brokers ask for a new beginning, and answer well then. The servers to begin at answer nothing at all."""

    async def play(world: World) -> None:
        producer, places = await begun_at_a_name(world, servers)
        for port in {world.port(one) for one in range(1, 4)}:
            world.network.reach(port).swallows = True
        world.kafka.create_topic("later", 1)
        sent_back = world.kafka.faults.error("REBOOTSTRAP_REQUIRED", api="Metadata", times=times)
        producer._engine.cluster.stale(None)
        began = world.now
        assert len(await producer.partitions_for("later")) == 1
        assert world.now - began < 3.0
        assert sent_back.hits == times
        await asyncio.gather(*await send_to_each(world, producer, places.values()))
        for one in range(1, 4):
            world.network.release(world.port(one))
        world.network.names["start"] = ["127.0.0.1"]
        await recover(world, producer)

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("cut", ["before it begins", "while it begins"])
def test_metadata_while_a_beginning_has_no_answer_and_its_connection_is_cut(servers: int, cut: str) -> None:
    """The broker that asks for a new beginning closes its connection. All brokers are well, the servers to begin at are silent."""

    async def play(world: World) -> None:
        producer, places = await begun_at_a_name(world, servers)
        connect = world.network.connect

        async def silent_elsewhere(factory: Callable[[], Any], host: str, port: int) -> Any:
            if host == "127.0.0.9":
                await asyncio.Event().wait()
            return await connect(factory, host, port)

        world.network.connect = silent_elsewhere  # type: ignore[method-assign]
        world.kafka.create_topic("later", 1)
        world.kafka.faults.error("REBOOTSTRAP_REQUIRED", api="Metadata", times=1)
        engine = producer._engine
        engine.cluster.stale(None)
        began = world.now
        while not engine.cluster.view.rebootstrap_due(world.now):  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.001)
        while cut == "while it begins" and engine.control._beginning is None:  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.001)
        world.kafka.faults.drop_connections(broker_of_metadata(world, producer))
        assert len(await producer.partitions_for("later")) == 1
        assert world.now - began < 1.0
        await asyncio.gather(*await send_to_each(world, producer, places.values()))
        world.network.names["start"] = ["127.0.0.1"]
        await recover(world, producer)

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("takes", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("brokers", [3, 6])
def test_a_beginning_while_all_known_brokers_are_silent(brokers: int, takes: float) -> None:
    """The cluster has moved, and only the servers to begin at know it. The connection is used as soon as it is open."""

    async def play(world: World) -> None:
        world.network.names["start"] = ["127.0.0.8"]
        world.network.alias["127.0.0.8"] = "127.0.0.1"
        producer = patient_producer(world, bootstrap_servers=f"start:{world.port(brokers)}")
        await at_work(world, producer, brokers)
        connect = world.network.connect

        async def silent_but_at_the_start(factory: Callable[[], Any], host: str, port: int) -> Any:
            await (asyncio.sleep(takes) if host == "127.0.0.8" else asyncio.Event().wait())
            return await connect(factory, host, port)

        world.network.connect = silent_but_at_the_start  # type: ignore[method-assign]
        world.kafka.create_topic("later", 1)
        world.kafka.faults.error("REBOOTSTRAP_REQUIRED", api="Metadata", times=1)
        view = producer._engine.cluster.view
        producer._engine.cluster.stale(None)
        began = world.now
        while not view.rebootstrap_due(world.now):  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(0.001)
        world.kafka.faults.drop_connections(broker_of_metadata(world, producer))
        assert len(await producer.partitions_for("later")) == 1
        assert world.now - began < takes + 0.5
        world.network.connect = connect  # type: ignore[method-assign]
        await recover(world, producer)

    simulate(play, 1, access=access(), brokers=brokers, history=100_000)


def test_a_beginning_that_came_late_is_none_for_the_next_one() -> None:
    """It opens the connection for metadata behind the answer of another one. An hour later a broker asks for a new beginning."""

    async def play(world: World) -> None:
        producer = patient_producer(world, bootstrap_servers=f"127.0.0.1:{world.port(1)}")
        await at_work(world, producer, 3)
        engine, connect = producer._engine, world.network.connect

        async def slowly(factory: Callable[[], Any], host: str, port: int) -> Any:
            await asyncio.sleep(0.5)
            return await connect(factory, host, port)

        world.network.connect = slowly  # type: ignore[method-assign]
        for number in range(3):
            world.kafka.create_topic(f"later{number}", 1)
            world.kafka.faults.error("REBOOTSTRAP_REQUIRED", api="Metadata", times=1)
            former, asked = engine.control.connection, authentications(world)
            engine.cluster.stale(None)
            await producer.partitions_for(f"later{number}")
            await asyncio.sleep(1_000.0)
            assert engine.control.connection is not former
            assert authentications(world) > asked
        await recover(world, producer)

    simulate(play, 1, access=access(), history=100_000)


@pytest.mark.parametrize("seed", range(3))
def test_metadata_over_a_throttled_connection_while_others_are_silent(seed: int) -> None:
    """Kafka throttles the metrics of the client for two seconds: a question waits for that, and not for brokers out of reach."""

    async def play(world: World) -> None:
        producer = patient_producer(world, delivery_timeout_ms=DEADLINE_MS)
        await at_work(world, producer, 3)
        here = broker_of_metadata(world, producer)
        others = [world.port(one) for one in range(1, 4) if one != here]
        for port in others:
            world.network.isolate(port)
        world.kafka.create_topic("later", 1)
        producer._engine.control.connection.mute(2.0)
        began = world.now
        assert len(await producer.partitions_for("later")) == 1
        assert world.now - began < 2.5
        for port in others:
            world.network.release(port)
        await recover(world, producer)

    simulate(play, seed, access=access(), history=100_000)
