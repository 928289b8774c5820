"""Ends and reopenings of the connections to leaders, for metadata and to the coordinator, in `health()` and the log."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from aioproducer import BrokerUnavailableError, Health, KafkaError, Producer
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.runtime.engine import Engine
from aioproducer.coordinators import fence
from tests.scenarios.support import TOPIC, scenario
from tests.simulation.network import Link
from tests.simulation.world import QUICK, World

KINDS: Final = ("sender", "metadata", "coordinator")
PURPOSES: Final = ("", ", for metadata", ", the coordinator of transactional id 'orders'")
REFUSED: Final = "Connection refused"
MOMENT: Final = 0.5


def engine_of(producer: Producer[Any, Any]) -> Engine:
    engine = producer._engine
    assert engine is not None
    return engine


def connection_of(producer: Producer[Any, Any], kind: str) -> Connection | None:
    engine = engine_of(producer)
    if kind == "metadata":
        return engine.control.connection
    if kind == "coordinator":
        assert engine.transactions is not None
        return engine.transactions.coordinator.connection
    (sender,) = engine.senders.values()
    return None if sender.link is None else sender.link.connection


def link_of(world: World, producer: Producer[Any, Any], kind: str) -> Link:
    """The network link of the connection."""
    connection = connection_of(producer, kind)
    assert connection is not None
    links = [link for broker in world.kafka.brokers for link in world.network.links(broker.port)]
    (found,) = [link for link in links if link.client is connection.transport]
    return found


def hang_up(world: World, producer: Producer[Any, Any], kind: str) -> None:
    """The broker ends the connection."""
    link_of(world, producer, kind).server.close()


def refuse_all(world: World) -> None:
    """No new connection opens."""
    for broker in world.kafka.brokers:
        world.network.fail_connecting(broker.port, errno.ECONNREFUSED)


async def one_transaction(producer: Producer[Any, Any], timeout: float = 60.0) -> None:
    async with producer.transaction(timeout=timeout):
        await producer.send(TOPIC, b"v", partition=0)


async def at_rest(world: World, **settings: Any) -> Producer[Any, Any]:
    """A producer with a connection of each kind, which sends no request by itself for five minutes."""
    world.kafka.create_topic(TOPIC, 1)
    world.forgotten.add(TOPIC)
    calm = {"metadata_max_age_ms": 300_000, "connections_max_idle_ms": -1, "transactional_id": "orders"}
    producer = world.producer(**{**calm, **settings})
    await producer.start(wait_ready=5)
    await one_transaction(producer)
    await asyncio.sleep(MOMENT)
    assert producer.health().last_error is None
    return producer


def is_over(health: Health) -> bool:
    """The condition that the documentation gives for the end of an error."""
    answered, failed = health.answered_seconds_ago, health.last_error_seconds_ago
    assert answered is not None
    return failed is None or answered < failed


def reconnects(world: World, level: int) -> list[str]:
    lines = [line.getMessage() for line in world.log if line.levelno == level]
    return [line for line in lines if "onnected to broker" in line]


async def use(producer: Producer[Any, Any], kind: str) -> None:
    """A call that needs the connection."""
    if kind == "metadata":
        await producer.partitions_for("unheard-of", timeout=4)
    else:
        await one_transaction(producer, timeout=4)


# -- health


@pytest.mark.parametrize("kind", KINDS)
@scenario()
async def test_one_that_is_cut_while_it_is_in_use(world: World, kind: str) -> None:
    """The cut of any connection is the last error at once; the error is over when a broker has answered again."""
    producer = await at_rest(world)
    hang_up(world, producer, kind)
    connection = connection_of(producer, kind)
    ended = asyncio.Event()
    assert connection is not None
    connection.add_close_callback(lambda _connection: ended.set())
    await ended.wait()
    health = producer.health()
    assert "closed the connection" in str(health.last_error)
    assert not is_over(health)
    await asyncio.sleep(MOMENT)
    assert is_over(producer.health())
    assert producer.health().connected_brokers >= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("quiet", [0.0, 100.0])
@scenario()
async def test_one_that_is_cut_and_nobody_answers_any_more(world: World, kind: str, quiet: float) -> None:
    """The last error is set within a moment, though the program makes no call, and stays set."""
    producer = await at_rest(world)
    await asyncio.sleep(quiet)
    refuse_all(world)
    for each in KINDS:
        if each != kind:
            link_of(world, producer, each).client.close()
    hang_up(world, producer, kind)
    await asyncio.sleep(MOMENT)
    for waited in (0.0, 20.0):
        await asyncio.sleep(waited)
        health = producer.health()
        assert REFUSED in str(health.last_error)
        assert not is_over(health)
        assert health.last_error_seconds_ago is not None
        assert health.last_error_seconds_ago < 3
        assert health.answered_seconds_ago == pytest.approx(quiet + 2 * MOMENT + waited, abs=0.1)
        assert health.connected_brokers == 0


@pytest.mark.parametrize("kind", KINDS)
@scenario()
async def test_one_that_the_broker_closes_because_it_is_idle(world: World, kind: str) -> None:
    """There is no error; a broker is asked for metadata, and answers."""
    producer = await at_rest(world)
    await asyncio.sleep(100.0)
    hang_up(world, producer, kind)
    await asyncio.sleep(MOMENT)
    health = producer.health()
    assert health.last_error is None
    assert health.answered_seconds_ago is not None
    assert health.answered_seconds_ago < MOMENT
    assert health.connected_brokers >= 1


@pytest.mark.parametrize("kind", KINDS)
@scenario()
async def test_an_attempt_after_an_idle_time(world: World, kind: str) -> None:
    """All connections were closed as idle, which is no error; the next attempt fails, which is one."""
    producer = await at_rest(world, connections_max_idle_ms=10_000)
    await asyncio.sleep(60.0)
    health = producer.health()
    assert (health.connected_brokers, health.last_error) == (0, None)
    assert health.answered_seconds_ago == pytest.approx(60.0 + MOMENT, abs=0.1)
    refuse_all(world)
    using = asyncio.ensure_future(use(producer, kind))
    await asyncio.sleep(MOMENT)
    health = producer.health()
    assert REFUSED in str(health.last_error)
    assert not is_over(health)
    assert health.connected_brokers == 0
    with pytest.raises(KafkaError):
        await using


@pytest.mark.parametrize("kind", KINDS)
@scenario()
async def test_one_whose_broker_does_not_answer(world: World, kind: str) -> None:
    """The last error is the time-out; the abandoned connection does not count."""
    producer = await at_rest(world)
    held = link_of(world, producer, kind)
    connection = connection_of(producer, kind)
    held.to_broker.hold()
    using = asyncio.ensure_future(use(producer, kind))
    await asyncio.sleep(QUICK["request_timeout_ms"] / 1000 + 0.05)
    health = producer.health()
    assert "timed out" in str(health.last_error)
    assert health.last_error_seconds_ago is not None
    assert health.last_error_seconds_ago < 0.1
    assert connection is not None
    assert connection.closed
    assert connection not in engine_of(producer).addresses._open
    await asyncio.wait([using])
    assert is_over(producer.health())
    using.exception()


NAME_SERVERS: Final[dict[str, tuple[OSError | None, str]]] = {
    "knows no such name": (
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        "Name or service not known",
    ),
    "does not answer": (None, "the name server did not answer within "),
}


@pytest.mark.parametrize("case", NAME_SERVERS)
@scenario()
async def test_a_name_that_cannot_be_resolved(world: World, case: str) -> None:
    """At the start no broker has answered yet."""
    world.network.names["kafka.example"], text = NAME_SERVERS[case]
    producer = world.producer(bootstrap_servers="kafka.example:9092")
    await producer.start()
    await asyncio.sleep(2.0)
    health = producer.health()
    assert text in str(health.last_error)
    assert health.last_error_seconds_ago is not None
    assert (health.answered_seconds_ago, health.connected_brokers) == (None, 0)


# -- the log


@scenario()
async def test_each_is_told_once(world: World) -> None:
    """The line has the purpose of the connection."""
    producer = await at_rest(world)
    await one_transaction(producer)
    lines = reconnects(world, logging.INFO)
    assert {line.partition(" (id ")[2].partition(")")[2] for line in lines if "(id" in line} <= set(PURPOSES)
    assert [sum(line.endswith(purpose) for line in lines) for purpose in PURPOSES[1:]] == [1, 1]
    assert len(lines) == len(KINDS)
    assert all(line.startswith("aioproducer: connected to broker 127.0.0.1:") for line in lines)


@scenario()
async def test_idle_times_are_not_told(world: World) -> None:
    """The log has neither idle connections that this producer ends nor those that brokers end; DEBUG has them."""
    producer = await at_rest(world, connections_max_idle_ms=45_000)
    for kind in KINDS:
        await asyncio.sleep(100.0)
        await one_transaction(producer)
        await asyncio.sleep(35.0)
        hang_up(world, producer, kind)
        await asyncio.sleep(MOMENT)
        await one_transaction(producer)
    assert len(reconnects(world, logging.INFO)) == len(KINDS)
    assert len(reconnects(world, logging.DEBUG)) >= 3 * len(KINDS)
    assert world.lines("ended", logging.INFO) == []


async def _cut(world: World, producer: Producer[Any, Any]) -> None:
    for kind in KINDS:
        hang_up(world, producer, kind)


async def _stop(world: World, producer: Producer[Any, Any]) -> None:
    await world.kafka.faults.stop_broker(1)
    await asyncio.sleep(3.0)
    await world.kafka.faults.start_broker(1)


TROUBLES: Final[tuple[Callable[[World, Producer[Any, Any]], Awaitable[None]], ...]] = (
    _cut,
    _stop,
)


@pytest.mark.parametrize("trouble", TROUBLES)
@scenario(brokers=1)
async def test_what_comes_back_after_trouble_is_told(
    world: World, trouble: Callable[[World, Producer[Any, Any]], Awaitable[None]]
) -> None:
    """Each reconnection is one line."""
    producer = await at_rest(world)
    await trouble(world, producer)
    await one_transaction(producer)
    back = [line for line in reconnects(world, logging.INFO) if "reconnected" in line]
    assert [sum(line.endswith(purpose) for line in back) for purpose in PURPOSES[1:]] == [1, 1]
    assert len(back) == len(KINDS)


@scenario(brokers=1)
async def test_trouble_that_shows_after_an_idle_time_is_told(world: World) -> None:
    """The connections ended as idle ones; those that could not be reopened are logged when they are."""
    producer = await at_rest(world)
    await asyncio.sleep(100.0)
    await world.kafka.faults.stop_broker(1)
    using = asyncio.ensure_future(one_transaction(producer))
    await asyncio.sleep(3.0)
    await world.kafka.faults.start_broker(1)
    await using
    back = [line for line in reconnects(world, logging.INFO) if "reconnected" in line]
    assert [sum(line.endswith(end) for line in back) for end in (")", PURPOSES[1])] == [1, 1]


@scenario()
async def test_a_moved_coordinator_is_told(world: World) -> None:
    """The line has the coordinator's new broker."""
    producer = await at_rest(world)
    before = len(reconnects(world, logging.INFO))
    now = next(one for one in (1, 2, 3) if f"(id {one})" not in repr(connection_of(producer, "coordinator")))
    world.kafka.faults.move_coordinator("orders", now)
    await one_transaction(producer)
    (line,) = reconnects(world, logging.INFO)[before:]
    assert line.endswith(f"reconnected to broker 127.0.0.1:{world.port(now)} (id {now}){PURPOSES[2]}")


@scenario()
async def test_a_few_questions_of_somebody_without_a_producer_are_not_told(world: World) -> None:
    """`fence()` connects, sends its requests, and disconnects."""
    await fence(["one", "two"], world.kafka.bootstrap_servers)
    assert reconnects(world, logging.INFO) == []
    assert len(reconnects(world, logging.DEBUG)) >= 2


@scenario()
async def test_the_end_of_one_that_is_in_use_is_told(world: World) -> None:
    """One INFO line for an address and a second, for any number of connections."""
    producer = await at_rest(world)
    hang_up(world, producer, "metadata")
    await asyncio.sleep(MOMENT)
    (_line,) = world.lines("the connection to a broker ended", logging.INFO)
    assert world.warnings() == []
    assert isinstance(producer.health().last_error, BrokerUnavailableError)
