"""Shared parts of the simulation's scenarios: the decorator that gives each its seeds, a stage, and common checks."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import pytest

from aioproducer import Delivery, Outcome, Producer
from tests.judge.history import number_of
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
FEWEST_SECONDS: Final = 1.0


def scenario(
    *, runs: int | None = None, **options: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make a test of a scenario: it runs with each seed, and its results are judged.

    `options` go to the embedded Kafka, `runs` is the number of seeds where it is not the usual one. The other parameters of
    the scenario, except for the world, belong to the test.
    """

    def decorate(play: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            seed = arguments.pop("seed")
            simulate(lambda world: play(world, **arguments), seed, **options)

        seed = inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY)
        others = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(play).parameters.values())[1:]
        ]
        run.__signature__ = inspect.Signature([seed, *others])  # type: ignore[attr-defined]
        run.__name__, run.__doc__ = play.__name__, play.__doc__
        run.__qualname__, run.__module__ = play.__qualname__, play.__module__
        run.__dict__.update(play.__dict__)
        test: Callable[..., None] = pytest.mark.seeded(runs)(run)
        return test

    return decorate


async def stage(world: World, partitions: int = 3, **settings: Any) -> Producer[Any, Any]:
    """A producer that is connected and knows the topic `TOPIC`, whose partitions are led by brokers 1, 2, 3, ..."""
    world.kafka.create_topic(TOPIC, partitions, min_insync_replicas=2)
    producer = world.producer(**settings)
    await producer.start(wait_ready=5)
    await producer.partitions_for(TOPIC)
    return producer


async def send(
    world: World, producer: Producer[Any, Any], count: int = 1, **arguments: Any
) -> list[Delivery]:
    """This many records, which must all be accepted."""
    deliveries = []
    for _ in range(count):
        delivery = await world.ledger.send(producer, TOPIC, **arguments)
        assert delivery is not None, world.ledger.entries[-1].error
        deliveries.append(delivery)
    return deliveries


async def stream(
    world: World, producer: Producer[Any, Any], seconds: float, every: float = 0.02, **arguments: Any
) -> list[Delivery | None]:
    """Records for this time, one after the other; None for each that was not accepted."""
    sent, until = [], world.now + seconds
    while world.now < until:
        sent.append(await world.ledger.send(producer, TOPIC, **arguments))
        await asyncio.sleep(every)
    return sent


async def outcomes(deliveries: Iterable[Delivery | None]) -> Counter[Outcome]:
    """Their final outcomes."""
    return Counter([await delivery.wait(None) for delivery in deliveries if delivery is not None])


async def all_acked(deliveries: Iterable[Delivery | None]) -> None:
    """All of them are acknowledged."""
    known = list(deliveries)
    assert None not in known, "a record was not accepted"
    for delivery in known:
        assert delivery is not None
        assert await delivery.wait(None) is Outcome.ACKED, delivery.exception()


def leader(world: World, partition: int = 0) -> int:
    """The broker that leads a partition."""
    return world.kafka.leader_of(TOPIC, partition)


def port_of_leader(world: World, partition: int = 0) -> int:
    """The port of the broker that leads a partition."""
    return world.port(leader(world, partition))


def numbers(world: World, partition: int | None = None) -> list[int]:
    """The records in the log, by their numbers."""
    return [number_of(record.value) for record in world.kafka.records(TOPIC, partition)]


def dials(world: World, port: int, since: float, seconds: float = 10.0) -> int:
    """The number of connection attempts to a port within this time."""
    return sum(called == port and since <= at <= since + seconds for at, _, called in world.network.dials)


def produced(world: World) -> int:
    """The number of Produce requests that the brokers have seen."""
    return sum(request.api == "Produce" for request in world.kafka.requests)
