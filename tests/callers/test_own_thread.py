"""Calls that block: one that never returns does not leave a thread behind for each attempt."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aioproducer._callers.own_thread import OneThread
from tests.net.support import turns

LIMIT = 30.0


class Blocking:
    """A function that blocks until it is released."""

    def __init__(self) -> None:
        self.calls = 0
        self.released = threading.Event()

    def __call__(self) -> int:
        self.calls += 1
        self.released.wait(LIMIT)
        return self.calls


async def given_up(thread: OneThread, function: Blocking) -> None:
    """A call that its caller gives up."""
    calling = asyncio.create_task(thread.call(function))
    while not function.calls:
        await turns(1)
    calling.cancel()
    await asyncio.wait([calling])


async def test_a_call_waits_for_the_one_before_it() -> None:
    """Also if that was given up, and also if others that waited are."""
    thread, function = OneThread(), Blocking()
    async with asyncio.timeout(LIMIT):
        await given_up(thread, function)
        waiting = [asyncio.create_task(thread.call(function)) for _ in range(3)]
        await turns(5)
        assert function.calls == 1
        waiting[0].cancel()
        await turns(5)
        function.released.set()
        assert sorted([await waiting[1], await waiting[2]]) == [2, 3]


async def test_what_a_call_waits_for_may_have_been_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins beside it after a while."""
    monkeypatch.setattr("aioproducer._callers.own_thread._LONGEST_WAIT", 0.05)
    thread, function = OneThread(), Blocking()
    async with asyncio.timeout(LIMIT):
        await given_up(thread, function)
        assert await thread.call(lambda: "replaced") == "replaced"
    function.released.set()


async def test_an_error_of_a_call_is_its_own() -> None:
    """The next one is made."""
    thread = OneThread()

    def fail() -> None:
        raise ValueError("no")

    async with asyncio.timeout(LIMIT):
        with pytest.raises(ValueError, match="no"):
            await thread.call(fail)
        assert await thread.call(lambda: 1) == 1


async def test_a_call_that_is_given_up_before_its_thread_begins() -> None:
    """It holds up no other."""
    thread = OneThread()
    calling = asyncio.create_task(thread.call(lambda: 1))
    calling.cancel()
    await asyncio.wait([calling])
    async with asyncio.timeout(LIMIT):
        assert await thread.call(lambda: 2) == 2
