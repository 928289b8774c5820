"""Shared functions of the tests of whole producers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from aioproducer import Delivery, Outcome, Producer, StateError
from aioproducer._net.runtime.engine import Engine
from aioproducer.testing import EmbeddedKafka

LIMIT = 30.0
"""Seconds after which a waiting test has failed."""


class Make(Protocol):
    """The fixture `make`: a producer for a cluster, or for addresses."""

    def __call__(self, kafka: EmbeddedKafka | str, **settings: Any) -> Producer[Any, Any]: ...


def engine(producer: Producer[Any, Any]) -> Engine:
    """The engine of a started producer."""
    found = producer._engine
    assert found is not None
    return found


async def warm(producer: Producer[Any, Any], *topics: str) -> Producer[Any, Any]:
    """Start it and let it learn these topics."""
    await producer.start(wait_ready=LIMIT)
    for topic in topics:
        await producer.partitions_for(topic)
    return producer


async def turns(count: int = 3) -> None:
    """Let everything that is ready in the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until the condition is true."""
    async with asyncio.timeout(LIMIT):
        while not condition():
            await turns(1)


async def send_all(
    producer: Producer[Any, Any], numbers: Iterable[int], topic: str = "one", **where: Any
) -> list[Delivery]:
    """Send these numbers as values, in order."""
    return [await producer.send(topic, b"%d" % number, **where) for number in numbers]


async def send_behind(producer: Producer[Any, Any], numbers: Iterable[int]) -> list[BaseException]:
    """Send these, and another one from the callback of each; the list collects the refusals of the callbacks."""
    errors: list[BaseException] = []

    def send_again(_: object) -> None:
        try:
            producer.send_nowait("one", b"9")
        except StateError as error:
            errors.append(error)

    for delivery in await send_all(producer, numbers):
        delivery.add_done_callback(send_again)
    return errors


async def outcomes(deliveries: Iterable[Delivery]) -> list[Outcome]:
    """The outcomes of the deliveries; none may hang."""
    return [await one.wait(LIMIT) for one in deliveries]


async def all_acked(deliveries: Iterable[Delivery]) -> bool:
    """Did every record get into the log? Prints the errors of the others."""
    deliveries = list(deliveries)
    found = await outcomes(deliveries)
    for one, outcome in zip(deliveries, found, strict=True):
        if outcome is not Outcome.ACKED:
            print(one, repr(one.exception()) if one.done() else "")
    return set(found) == {Outcome.ACKED}


def numbers(kafka: EmbeddedKafka, topic: str = "one", partition: int | None = None) -> list[int]:
    """The written numbers, in the order of the log."""
    return [int(record.value or b"-1") for record in kafka.records(topic, partition)]


def free_permits(producer: Producer[Any, Any]) -> list[int]:
    """The free permits of each connected broker."""
    links = [sender.link for sender in engine(producer).senders.values()]
    return [link.permits.value for link in links if link is not None]


def permits_are_all_back(producer: Producer[Any, Any]) -> bool:
    """Is no permit held while nothing is in flight?"""
    most = producer.config.max_in_flight_requests_per_connection
    return all(free == most for free in free_permits(producer))


def in_flight(producer: Producer[Any, Any]) -> int:
    """Requests that wait for their answer, of all connections."""
    return sum(connection.requests_in_flight for connection in producer.stats().connections)


def memory_in_use(producer: Producer[Any, Any]) -> int:
    """The used bytes of `buffer_memory`."""
    return engine(producer).accumulator.budget.used


LIBRARY = ("aioproducer._net", "aioproducer._core", "aioproducer._calls", "aioproducer.producer")


def owner(callback: Any) -> str:
    """The module whose code a timer calls. The `repr` of a timer does not name the module of a method."""
    while isinstance(callback, partial):
        callback = callback.func
    bound_to = getattr(callback, "__self__", None)
    return str(type(bound_to).__module__ if bound_to is not None else callback.__module__)


def timers_of_the_library(loop: Any = None) -> list[Any]:
    """The library's pending timers of the loop; uvloop does not list them."""
    scheduled = getattr(asyncio.get_running_loop() if loop is None else loop, "_scheduled", ())
    return [
        timer for timer in scheduled if not timer.cancelled() and owner(timer._callback).startswith(LIBRARY)
    ]
