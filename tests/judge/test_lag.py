"""The lag of a loop: its known part, and the delays that it excuses."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from tests.judge.lag import LagWatch
from tests.net.support import turns


@attrs.define
class Clock:
    """The time of a loop, which only the test moves."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock() -> Clock:
    """The time of the test's loop."""
    clock = Clock()
    asyncio.get_running_loop().time = clock  # type: ignore[method-assign]
    return clock


async def test_lag_watch_sees_a_loop_that_stands_still(clock: Clock) -> None:
    """The longest time, the longest few together, and nothing any more when it was told."""
    lag = LagWatch(tick=0.0)
    watch = asyncio.create_task(lag.watch())
    await turns()
    for _ in range(2):
        clock.now += 0.05
        await turns()
    told = lag.take()
    watch.cancel()
    assert told.longest == pytest.approx(0.05)
    assert told.of_some_turns == pytest.approx(0.1)
    assert lag.take().longest == 0


async def test_only_the_lag_between_two_moments_excuses(clock: Clock) -> None:
    """Of a lag that began before, only the rest counts; one that is not over yet counts."""
    lag = LagWatch(tick=0.0)
    watch = asyncio.create_task(lag.watch())
    await turns()
    clock.now += 0.2
    await turns()
    begin = clock.now
    assert lag.between(begin, begin) == pytest.approx(0.0)
    assert lag.between(begin - 0.1, begin) == pytest.approx(0.1)
    clock.now += 0.1
    assert lag.between(begin, clock.now) == pytest.approx(0.1)
    await turns()
    assert lag.between(begin, clock.now) == pytest.approx(0.1)
    watch.cancel()
