"""Producers and records of lives in which brokers refuse credentials that others accept."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.simulation.network import Link
from tests.simulation.world import World

TOPIC: Final = "events"


def leaders(world: World, brokers: int) -> dict[int, int]:
    """The partition of each broker."""
    return {world.kafka.leader_of(TOPIC, partition): partition for partition in range(brokers)}


def links_to_all(world: World, brokers: int) -> list[Link]:
    """The connections that are open now."""
    return [link for broker in range(1, brokers + 1) for link in world.network.links(world.port(broker))]


def authentications(world: World) -> int:
    """The number of messages with credentials."""
    return sum(one.api == "SaslAuthenticate" for one in world.kafka.requests)


async def send_to_each(world: World, producer: Any, partitions: Any) -> list[Any]:
    """A record to each of these partitions."""
    return [await world.ledger.send(producer, TOPIC, b"x", partition=one) for one in partitions]


async def at_work(world: World, producer: Any, brokers: int) -> dict[int, int]:
    """Start the producer and send a record to each broker; the partition of each of them."""
    world.kafka.create_topic(TOPIC, brokers)
    await producer.start()
    places = leaders(world, brokers)
    await send_to_each(world, producer, places.values())
    await producer.flush()
    return places


async def clerk(world: World, **settings: Any) -> Any:
    """A transactional producer that is started, and a topic of three partitions."""
    world.kafka.create_topic(TOPIC, 3)
    world.forgotten.add(TOPIC)  # the ledger knows no transactions
    producer = patient_producer(world, transactional_id="clerk", transaction_timeout_ms=600_000, **settings)
    await producer.start()
    return producer


async def transact(producer: Any, partitions: Any = range(3)) -> None:
    """A transaction with a record to each of these partitions."""
    async with producer.transaction():
        for partition in partitions:
            await producer.send(TOPIC, b"x", partition=partition)


def patient_producer(world: World, **settings: Any) -> Any:
    """A producer whose records and connections have the time limits of Java."""
    patience = {
        "linger_ms": 0,
        "delivery_timeout_ms": 600_000,
        "max_block_ms": 300_000,
        "request_timeout_ms": 30_000,
        "socket_connection_setup_timeout_ms": 10_000,
        "socket_connection_setup_timeout_max_ms": 30_000,
    }
    return world.producer(**{**patience, **settings})


async def send_for(world: World, producer: Any, seconds: float) -> None:
    """A record to each broker, twice a second."""
    until = world.now + seconds
    while world.now < until:
        await send_to_each(world, producer, range(12))
        await asyncio.sleep(0.5)


async def close_ports(world: World) -> None:
    """No new connection can be opened from now on."""
    for broker in world.kafka.brokers:
        await world.kafka.faults.refuse_connections(broker.id)


async def open_ports(world: World) -> None:
    """New connections can be opened again."""
    for broker in world.kafka.brokers:
        await world.kafka.faults.accept_connections(broker.id)


def advertise(world: World, hosts: dict[int, str]) -> None:
    """Metadata name these hosts for these brokers from now on; the mapping may change."""

    def advertised(answer: Any) -> Any:
        nodes = [one._replace(host=hosts.get(one.node_id, one.host)) for one in answer.brokers]
        return answer._replace(brokers=nodes)

    world.kafka.faults.alter(advertised, api="Metadata", times=None)


def broker_of_metadata(world: World, producer: Any) -> int:
    """The broker that the connection for metadata leads to."""
    port = producer._engine.control.address[1]
    return next(broker.id for broker in world.kafka.brokers if world.port(broker.id) == port)


async def recover(world: World, producer: Any) -> None:
    """The faults are over, and the program gives the password anew: all records end."""
    world.kafka.faults.heal()
    producer.set_credentials(password="first")
    await producer.flush()
