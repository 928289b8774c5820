"""`send_all()` of iterables that lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest

from aioproducer import ConfigurationError, Producer, Record
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.callers.zoo import released
from tests.net.support import LIMIT, Make, turns, warm
from tests.runtime.support import sound

ENDLESS: dict[str, Any] = {
    "no records": lambda: 5,
    "records with a bad value": lambda: Record("one", released()),
    "records of a wrong topic": lambda: Record("no topic", b"v"),
    "records of another partition": lambda: Record("one", b"v", partition=-1),
}


def for_ever(what: str) -> Iterator[Any]:
    while True:
        yield ENDLESS[what]()


async def for_ever_later(what: str) -> AsyncIterator[Any]:
    for each in for_ever(what):
        yield each


@pytest.fixture(params=["producer", "mock"])
async def producer(request: pytest.FixtureRequest, make: Make, kafka: EmbeddedKafka) -> Any:
    """A running producer, and its mock."""
    if request.param == "mock":
        mock: MockProducer[Any, Any] = MockProducer()
        await mock.start()
        return mock
    return await warm(make(kafka), "one")


@pytest.mark.parametrize("kind", [for_ever, for_ever_later], ids=["iterator", "async iterator"])
@pytest.mark.parametrize("what", ENDLESS)
async def test_bad_items_without_an_end(what: str, kind: Any, producer: Any) -> None:
    """The loop has its turns meanwhile, and cancelling the call ends it."""
    call = asyncio.ensure_future(producer.send_all(kind(what)))
    # Were the loop held up, not even this would come back.
    await turns(20)
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    if isinstance(producer, Producer):
        await sound(producer)
    await producer.close()


@pytest.mark.parametrize("kind", [for_ever, for_ever_later], ids=["iterator", "async iterator"])
async def test_a_time_limit_ends_it(kind: Any, producer: Any) -> None:
    """So does a `timeout()` around it."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await producer.send_all(kind("no records"))
    await producer.close()


async def test_progress_that_nobody_can_be_told(producer: Any) -> None:
    """It is refused before anything is sent."""
    asked: list[int] = []

    def records() -> Iterable[Record[Any, Any]]:
        asked.append(1)
        yield Record("one", b"v")

    with pytest.raises(ConfigurationError, match="on_progress must be a function"):
        await producer.send_all(records(), on_progress=5)
    assert asked == []
    assert (await producer.send_all(records(), on_progress=asked.append)).acked == 1
    await producer.flush(LIMIT)
    await producer.close()
