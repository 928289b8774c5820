"""Saving of positions: never two calls at once, never an older position after a newer one, and one more at closing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aioproducer import StateError
from aioproducer.outlets import Checkpoint
from aioproducer.outlets.saving import PAUSE
from aioproducer.testing import MockProducer
from tests.api.support import turns


@pytest.fixture
async def producer() -> AsyncIterator[MockProducer[Any, Any]]:
    """Its outcomes are there at once."""
    async with MockProducer() as producer:
        yield producer


class Store:
    """Notes what it saves. `slow`: each save waits until it is let go. `failures`: so many of the next ones raise."""

    def __init__(self) -> None:
        self.saved: list[int] = []
        self.times: list[float] = []
        self.failures = 0
        self.running = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def save(self, position: int) -> None:
        """A coroutine function."""
        assert self.running == 0
        self.running += 1
        self.times.append(asyncio.get_running_loop().time())
        try:
            await self.gate.wait()
            if self.failures:
                self.failures -= 1
                raise OSError("the disk is full")
            assert not self.saved or self.saved[-1] < position
            self.saved.append(position)
        finally:
            self.running -= 1


async def marked(checkpoint: Checkpoint[int], *positions: int) -> None:
    """Send a record for each, and mark it."""
    for position in positions:
        await checkpoint.send("one", b"a")
        checkpoint.mark(position)


async def test_a_function_and_a_coroutine_function(producer: MockProducer[Any, Any]) -> None:
    """Either will do; the newest position is saved at once, and the last at closing."""
    store, plain = Store(), list[int]()
    async with Checkpoint(producer, store.save) as one, Checkpoint(producer, plain.append) as two:
        for checkpoint in (one, two):
            await marked(checkpoint, 0, 1)
            await turns(3)
            await marked(checkpoint, 2, 3)
            assert checkpoint.position == 3
    assert store.saved == [1, 3]
    assert plain == [1, 3]


async def test_at_most_once_in_so_many_seconds(producer: MockProducer[Any, Any]) -> None:
    """The calls begin `every` seconds apart, each with the newest position."""
    store = Store()
    async with Checkpoint(producer, store.save, every=0.05) as checkpoint:
        for at in range(3):
            await marked(checkpoint, 2 * at, 2 * at + 1)
            await checkpoint.reached()
    assert store.saved == [1, 3, 5]
    assert store.times[1] - store.times[0] >= 0.049
    assert store.times[2] - store.times[1] >= 0.049


async def test_a_slow_save_is_never_overtaken(producer: MockProducer[Any, Any]) -> None:
    """Positions that are reached meanwhile are saved afterwards: the newest alone."""
    store = Store()
    store.gate.clear()
    async with Checkpoint(producer, store.save, every=0) as checkpoint:
        await marked(checkpoint, 0)
        await turns(3)
        assert store.running == 1
        await marked(checkpoint, 1, 2)
        reaching = asyncio.create_task(checkpoint.reached(2))
        await turns(3)
        assert not reaching.done()
        closing = asyncio.create_task(checkpoint.close())
        await turns(3)
        store.gate.set()
        await asyncio.gather(reaching, closing)
    assert store.saved == [0, 2]


async def test_reached_waits_for_the_save(producer: MockProducer[Any, Any]) -> None:
    """A position that is acknowledged and not saved is not reached."""
    store = Store()
    store.gate.clear()
    checkpoint = Checkpoint(producer, store.save)
    await marked(checkpoint, 0)
    with pytest.raises(TimeoutError):
        await checkpoint.reached(0, timeout=0.01)
    assert checkpoint.position == 0
    store.gate.set()
    await checkpoint.reached(0, timeout=1)
    await checkpoint.close()


async def test_a_save_that_raises(producer: MockProducer[Any, Any], caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next one tries again; nothing else stops."""
    store = Store()
    store.failures = 2
    checkpoint = Checkpoint(producer, store.save, every=0)
    await marked(checkpoint, 0, 1)
    await checkpoint.reached(1, timeout=5)
    assert store.saved == [1]
    assert store.times[1] - store.times[0] >= PAUSE * 0.99
    assert caplog.text.count("the position of a checkpoint was not saved") == 2
    assert "the disk is full" in caplog.text
    await checkpoint.close()


async def test_the_last_save_raises(producer: MockProducer[Any, Any]) -> None:
    """At closing there is no next one: the exception is raised, or noted in that of the block."""
    store = Store()
    store.failures = 3
    with pytest.raises(OSError, match="disk is full"):
        async with Checkpoint(producer, store.save) as checkpoint:
            await marked(checkpoint, 0)
    with pytest.raises(ZeroDivisionError) as raised:
        async with Checkpoint(producer, store.save) as checkpoint:
            await marked(checkpoint, 0)
            raise ZeroDivisionError
    assert "OSError: the disk is full" in raised.value.__notes__[0]
    assert checkpoint.position == 0


class Own(BaseException):
    """An exception that is no Exception."""


@pytest.mark.parametrize("failure", [Own, asyncio.CancelledError])
async def test_a_save_that_raises_any_exception(
    producer: MockProducer[Any, Any], failure: type[BaseException]
) -> None:
    """It is tried again, and at closing the caller's task is not the one that was cancelled."""
    failures = [failure(), failure()]
    saved: list[int] = []

    async def save(position: int) -> None:
        if failures:
            raise failures.pop()
        saved.append(position)

    checkpoint: Checkpoint[int] = Checkpoint(producer, save, every=0)
    await marked(checkpoint, 0)
    await checkpoint.reached(0, timeout=5)
    await checkpoint.close()
    assert saved == [0]
    failures = [failure(), failure()]
    checkpoint = Checkpoint(producer, save)
    await marked(checkpoint, 1)
    with pytest.raises((Own, StateError)):
        await checkpoint.close()


async def test_a_save_that_hangs_at_closing(producer: MockProducer[Any, Any]) -> None:
    """close() ends within its limit and a second, and no task is left."""
    store = Store()
    store.gate.clear()
    checkpoint = Checkpoint(producer, store.save)
    await marked(checkpoint, 0)
    with pytest.raises(TimeoutError, match="save"):
        await checkpoint.close(timeout=0.01)
    await turns(2)
    assert store.running == 0
    assert store.saved == []


async def test_close_is_cancelled(producer: MockProducer[Any, Any]) -> None:
    """The save is cancelled with it; the checkpoint is closed, also for another task that closes it."""
    store = Store()
    store.gate.clear()
    checkpoint = Checkpoint(producer, store.save)
    await marked(checkpoint, 0)
    first, second = asyncio.create_task(checkpoint.close()), asyncio.create_task(checkpoint.close())
    await turns(3)
    first.cancel()
    await asyncio.wait([first, second])
    assert first.cancelled()
    assert second.exception() is None
    assert store.running == 0


async def test_a_rewind_goes_on_with_the_same_order(producer: MockProducer[Any, Any]) -> None:
    """Positions behind it are saved again only when they are reached again."""
    store = Store()
    async with Checkpoint(producer, store.save, every=0) as checkpoint:
        await marked(checkpoint, 0)
        await checkpoint.reached(0)
        producer.fail_delivery(OSError())
        await checkpoint.send("one", b"b")
        with pytest.raises(Exception, match="OSError"):
            checkpoint.mark(1)
        assert await checkpoint.rewind() == 0
        await marked(checkpoint, 1)
        await checkpoint.reached(1)
    assert store.saved == [0, 1]


async def test_no_save_without_a_position(producer: MockProducer[Any, Any]) -> None:
    """Nothing was marked: nothing is saved."""
    store = Store()
    async with Checkpoint(producer, store.save) as checkpoint:
        await checkpoint.send("one", b"a")
    assert store.times == []
