"""The lag of a loop: its known part, and the delays that it excuses."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.judge.lag import LagWatch


async def test_lag_watch_sees_a_loop_that_stands_still() -> None:
    """The longest time, the longest few together, and nothing any more when it was told."""
    lag = LagWatch(tick=0.0)
    watch = asyncio.create_task(lag.watch())
    await asyncio.sleep(0)
    for _ in range(2):
        threading.Event().wait(0.05)
        # A tick of the lag that is measured, whose length does not matter.
        await asyncio.sleep(0.001)
    told = lag.take()
    watch.cancel()
    assert told.longest >= 0.05
    assert told.of_some_turns >= 0.1
    assert lag.take().longest == 0


async def test_only_the_lag_between_two_moments_excuses() -> None:
    """Of a lag that began before, only the rest counts; one that is not over yet counts."""
    lag, loop = LagWatch(tick=0.0), asyncio.get_running_loop()
    watch = asyncio.create_task(lag.watch())
    await asyncio.sleep(0)
    _hold_up(0.2)
    # A tick of the lag that is measured, whose length does not matter.
    await asyncio.sleep(0.001)
    begin = loop.time()
    assert lag.between(begin, begin) == pytest.approx(0.0, abs=0.02)
    assert lag.between(begin - 0.1, begin) == pytest.approx(0.1, abs=0.02)
    _hold_up(0.1)
    assert lag.between(begin, loop.time()) == pytest.approx(loop.time() - begin, abs=0.02)
    # A tick of the lag that is measured, whose length does not matter.
    await asyncio.sleep(0.001)
    assert lag.between(begin, loop.time()) == pytest.approx(loop.time() - begin, abs=0.02)
    watch.cancel()


def _hold_up(seconds: float) -> None:
    threading.Event().wait(seconds)
