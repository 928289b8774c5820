"""One timer with one callback: when it fires, and by how much the loop was late."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioproducer._net.timers.wakeup import Wakeup
from tests.net.support import timers_of_the_library, until


async def rung(wakeup: Wakeup, deadline: float, stall: float = 0.0) -> float:
    """The seconds by which it fired late, with a loop that was held up for this time."""
    wakeup.by(deadline)
    time.sleep(stall)  # noqa: ASYNC251  # a loop that is held up is the subject of the test
    await wakeup.wait()
    return wakeup.late_by()


async def test_a_loop_that_was_held_up_rings_late() -> None:
    """The lateness is counted from the deadline to the callback, and reported once."""
    wakeup = Wakeup(asyncio.get_running_loop())
    assert await rung(wakeup, asyncio.get_running_loop().time() + 0.05, stall=0.2) >= 0.15
    assert wakeup.late_by() == 0.0


async def test_what_was_over_when_it_was_asked_for_is_not_late() -> None:
    """A deadline that had already passed when it was set does not mean that the loop was held up."""
    loop = asyncio.get_running_loop()
    assert await rung(Wakeup(loop), loop.time() - 10.0) < 1.0


async def test_without_memory_for_an_earlier_alarm_the_one_before_rings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """... and the next request is not compared with an alarm that does not exist."""
    loop = asyncio.get_running_loop()
    wakeup = Wakeup(loop)
    wakeup.by(loop.time() + 0.05)

    def no_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_at", no_memory)
        with pytest.raises(MemoryError):
            wakeup.by(loop.time())
    await asyncio.wait_for(wakeup.wait(), 5)
    wakeup.by(loop.time() + 60)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_at", no_memory)
        with pytest.raises(MemoryError):
            wakeup.by(loop.time())
    wakeup.by(loop.time())
    await asyncio.wait_for(wakeup.wait(), 5)
    wakeup.silence()


@pytest.mark.parametrize("is_done", [True, False], ids=["all done", "left to the task"])
async def test_work_is_done_in_the_callback_of_the_timer(is_done: bool) -> None:
    """The task is woken only where the work leaves something to it."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def work() -> bool:
        done.set()
        return is_done

    wakeup = Wakeup(loop, work)
    sleeping = asyncio.ensure_future(wakeup.wait())
    await asyncio.sleep(0)
    wakeup.by(loop.time())
    await asyncio.wait_for(done.wait(), 5)
    await asyncio.sleep(0)
    assert sleeping.done() is not is_done
    wakeup.ring()
    await asyncio.wait_for(sleeping, 5)


async def test_a_task_that_is_awake_does_the_work_itself() -> None:
    """The timer leaves it to the task, which finds the alarm when it goes to sleep."""
    loop = asyncio.get_running_loop()
    calls: list[None] = []

    def work() -> bool:
        calls.append(None)
        return True

    wakeup = Wakeup(loop, work)
    wakeup.by(loop.time())
    await until(lambda: wakeup._rung)
    await asyncio.wait_for(wakeup.wait(), 5)
    assert calls == []


async def test_a_later_timer_stays_behind_an_earlier_one() -> None:
    """It is not set anew when the earlier one has fired. Only one is kept, and none is left in silence."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    wakeup = Wakeup(loop)
    for seconds in (90, 60, 0):
        wakeup.by(now + seconds)
    assert sorted(timer.when() for timer in timers_of_the_library()) == [now, now + 60]
    await asyncio.wait_for(wakeup.wait(), 5)
    wakeup.by(now + 70)
    assert [timer.when() for timer in timers_of_the_library()] == [now + 60]
    wakeup.by(now + 30)
    wakeup.silence()
    assert timers_of_the_library() == []
    wakeup.by(now + 80)
    assert [timer.when() for timer in timers_of_the_library()] == [now + 80]
    wakeup.silence()
