"""The timer that is finer than the loop's: each callback runs once, and late rather than early."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from aioproducer._net.timers.fine_timer import FineTimer
from tests.simulation.loop import SimulatedLoop

FACTORIES = [asyncio.new_event_loop, uvloop.new_event_loop]


def _within(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.mark.parametrize("factory", FACTORIES)
def test_it_rings_once_and_not_before(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """On each request, on asyncio's loop and on uvloop."""

    async def wait() -> list[float]:
        timer, rung = FineTimer(asyncio.get_running_loop()), asyncio.Event()
        waits = []
        for _ in range(20):
            began = time.monotonic()
            timer.ring_at(_within(0.0003), rung.set)
            await rung.wait()
            rung.clear()
            waits.append(time.monotonic() - began)
        timer.close()
        return waits

    with asyncio.Runner(loop_factory=factory) as runner:
        waits = runner.run(wait())
    # The clock of uvloop stands still during a turn.
    assert min(waits) >= (0.0003 if factory is asyncio.new_event_loop else 0)


async def test_each_callback_runs_once() -> None:
    """The same holds for a callback that asks twice; the time of the last request counts."""
    timer, called, over = FineTimer(asyncio.get_running_loop()), list[str](), asyncio.Event()

    def first() -> None:
        called.append("first")

    timer.ring_at(_within(3600), first)
    timer.ring_at(_within(3600), first)
    timer.ring_at(_within(0), over.set)
    await over.wait()
    assert called == ["first"]
    timer.close()


async def test_what_it_opens_is_closed() -> None:
    """A timer without a request opens nothing; callbacks that are pending at its close never run."""
    timer = FineTimer(asyncio.get_running_loop())
    before = _open_files()
    timer.ring_at(_within(0), _never)
    assert len(_open_files()) == len(before) + (sys.platform == "linux")
    timer.close()
    assert _open_files() == before
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, done.set)
    await done.wait()


def test_a_loop_that_watches_no_files_has_timers_all_the_same() -> None:
    """The loop's own timers are used, and nothing stays open."""
    loop = SimulatedLoop(random.Random(0))
    before = _open_files()

    async def wait() -> float:
        timer, rung = FineTimer(loop), asyncio.Event()
        for _ in range(2):
            timer.ring_at(loop.time() + 0.25, rung.set)
            await rung.wait()
            rung.clear()
        return loop.time()

    began = loop.time()
    assert loop.run_until_complete(wait()) == pytest.approx(began + 0.5)
    assert _open_files() == before
    loop.close()


def _open_files() -> list[str]:
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return sorted(file.name for file in Path(folder).iterdir())


def _never() -> None:
    raise AssertionError("called after it was closed")
