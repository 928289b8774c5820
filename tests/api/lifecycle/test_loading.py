"""Calls that come while the first `start()` of the process loads the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aioproducer import Producer, StateError
from aioproducer._calls import lifecycle
from aioproducer.testing import EmbeddedKafka


class Loading:
    """A thread that imports for as long as the test wants."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.done = asyncio.Event()

    async def load(self, *_modules: str) -> None:
        self.begun.set()
        await self.done.wait()


@pytest.fixture
async def loading(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Loading]:
    """The first `start()` of a process."""
    one = Loading()
    monkeypatch.setattr(lifecycle, "load", one.load)
    yield one
    one.done.set()


async def test_a_producer_starts_once(kafka: EmbeddedKafka, loading: Loading) -> None:
    """Of two calls of start() at the same time, the second is refused."""
    producer = Producer(kafka.bootstrap_servers)
    first, second = asyncio.create_task(producer.start()), asyncio.create_task(producer.start())
    await loading.begun.wait()
    loading.done.set()
    await first
    with pytest.raises(StateError, match="already running"):
        await second
    await producer.send_and_wait("orders", b"1")
    await producer.close()


async def test_a_producer_that_was_closed_meanwhile_does_not_start(
    kafka: EmbeddedKafka, loading: Loading
) -> None:
    """close() during the start ends the producer, and start() says so."""
    producer = Producer(kafka.bootstrap_servers)
    starting = asyncio.create_task(producer.start())
    await loading.begun.wait()
    await producer.close()
    loading.done.set()
    with pytest.raises(StateError, match="was closed"):
        await starting
    assert producer.health().state == "closed"


async def test_a_cancelled_start_can_be_repeated(kafka: EmbeddedKafka, loading: Loading) -> None:
    """Nothing remains of a start() that was cancelled while it loaded."""
    producer = Producer(kafka.bootstrap_servers)
    starting = asyncio.create_task(producer.start())
    await loading.begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    loading.done.set()
    async with producer:
        await producer.send_and_wait("orders", b"1")
