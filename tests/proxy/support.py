"""Support for tests with the proxy: a story of records that ends with the judge, and a count of the loop's turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

import attrs

from aioproducer import Delivery, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.history import SeenRequest
from tests.judge.history import Found, Sent, digest_of, found, told, value_of
from tests.judge.judge import Finding, Rules, judge
from tests.net.support import LIMIT, turns

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22

SLACK = 1.0
"""Seconds that an outcome may be late on a real clock, beside three other tests on two processors; deadlines are exact in virtual time."""

FILLING = bytes(range(200))
"""Makes a record long enough that cuts fall into it as well."""


class Make(Protocol):
    """The fixture `make`: a producer that knows the brokers by their proxies, with short pauses."""

    def __call__(self, **settings: Any) -> Producer[Any, Any]: ...


@attrs.define(eq=False)
class Call:
    """One record that was accepted."""

    number: int
    digest: bytes
    delivery: Delivery
    due_at: float
    resolved_at: float = float("-inf")

    def sent(self) -> Sent:
        """As the judge wants it."""
        return told(self.number, self.digest, self.delivery, due_at=self.due_at, resolved_at=self.resolved_at)


class Story:
    """Sends records that can be recognized, and has them judged in the end."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka
        self.calls: list[Call] = []
        self._numbers = 0

    async def send(
        self, producer: Producer[Any, Any], topic: str = "one", filling: bytes = FILLING, **where: Any
    ) -> Delivery:
        """Send the next record."""
        number, self._numbers = self._numbers, self._numbers + 1
        value = value_of(number, filling)
        delivery: Delivery = await producer.send(topic, value, **where)
        loop = asyncio.get_running_loop()
        due_at = loop.time() + where.get("timeout", producer.config.delivery_timeout_ms / 1000)
        call = Call(number, digest_of(None, value, (), None), delivery, due_at)
        self.calls.append(call)

        def resolved(_: Delivery) -> None:
            call.resolved_at = loop.time()

        delivery.add_done_callback(resolved)
        return delivery

    async def send_many(
        self, producer: Producer[Any, Any], count: int, topic: str = "one", **where: Any
    ) -> list[Delivery]:
        """Send so many."""
        return [await self.send(producer, topic, **where) for _ in range(count)]

    def log(self) -> list[Found]:
        """All that is in the logs."""
        return [
            found(one.topic, one.partition, one.offset, one.key, one.value, one.headers, None)
            for topic in self.kafka.topics
            for one in self.kafka.records(topic)
        ]

    async def end(self) -> None:
        """Wait for every outcome; none may hang."""
        for call in self.calls:
            await call.delivery.wait(LIMIT)
        await turns(2)

    async def findings(self, *, duplicates: bool = False) -> list[Finding]:
        """The findings of the judge, when every record has its outcome."""
        await self.end()
        assert self.calls
        return judge(
            [call.sent() for call in self.calls], self.log(), Rules(duplicates=duplicates, slack=SLACK)
        )


async def outcomes(deliveries: Iterable[Delivery]) -> set[Outcome]:
    """The outcomes of these deliveries; none may hang."""
    return {await one.wait(LIMIT) for one in deliveries}


class Polls:
    """Counts how often the loop asks the system for events: a loop that is busy asks all the time."""

    def __init__(self) -> None:
        self.count = 0
        selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        self._selector, self._select = selector, selector.select

    def __enter__(self) -> Self:
        def select(timeout: float | None = None) -> Any:
            self.count += 1
            return self._select(timeout)

        self._selector.select = select
        return self

    def __exit__(self, *_: object) -> None:
        del self._selector.select


async def so(condition: Callable[[], object], every: float = 0.002) -> None:
    """Wait until it is so, leaving the loop idle in between: turns are counted."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(LIMIT):
        while not condition():
            looked = loop.create_future()
            loop.call_later(every, looked.set_result, None)
            await looked


def disconnected(producer: Producer[Any, Any]) -> bool:
    """Has it no connection to produce over?"""
    to_produce = (one for one in producer.stats().connections if one.broker != "metadata")
    return all(connection.state != "connected" for connection in to_produce)


def produce_requests(kafka: EmbeddedKafka) -> list[SeenRequest]:
    """The Produce requests that the broker got, retries included."""
    return [request for request in kafka.requests if request.api == "Produce"]
