"""An event loop in virtual time: no real wait, and every order of events that may happen does happen.

Time stands still while code runs and jumps to the next timer when nothing is ready. Ready tasks of the same turn
take their steps in an order drawn from the seed: in reality the order in which they become ready is chance.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable
from typing import Any, Final

from aioproducer._core import ManualClock

_BEGIN: Final = 1_000.0
_WALL_BEGIN_MS: Final = 1_700_000_000_000
_TURN_COSTS: Final = 20e-6
_MOST_TURNS: Final = 3_000_000
_MANY_CANCELLED: Final = 50


class StuckError(AssertionError):
    """Nothing is ready and no timer is set, but the simulation is not over: a task waits without end."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop without sockets, threads and real time. The compiled core reads the time from `clock`."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.clock = ManualClock()
        self.turns = 0
        # Callbacks for a certain turn of the loop.
        self.in_turn: dict[int, Callable[[], object]] = {}
        self.troubles: list[dict[str, Any]] = []
        self.wall_offset_ms = 0
        self.stalled = 0.0
        """Seconds for which the loop was blocked, in all."""
        self._clock_resolution = 1e-9
        self._timer_cancelled_count = 0
        self._now = _BEGIN
        self._selector = self
        self._set_clock()
        self.set_exception_handler(lambda _loop, trouble: self.troubles.append(trouble))

    # -- time

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._now

    def wall_ms(self) -> int:
        """The wall clock, which may be set; virtual time continues regardless."""
        return _WALL_BEGIN_MS + round((self._now - _BEGIN) * 1000) + self.wall_offset_ms

    def set_wall(self, offset_ms: int) -> None:
        """Set the wall clock."""
        self.wall_offset_ms = offset_ms
        self._set_clock()

    def stall(self, seconds: float) -> None:
        """Block the loop for so many seconds."""
        self.stalled += seconds
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self._now += seconds
        self._set_clock()

    def _set_clock(self) -> None:
        # In each turn: without a call of wall_ms().
        self.clock.monotonic = now = self._now
        self.clock.wall_ms = _WALL_BEGIN_MS + round((now - _BEGIN) * 1000) + self.wall_offset_ms

    # -- turns

    def _run_once(self) -> None:
        """asyncio: one turn. As asyncio does it, without the parts for selectors and debugging."""
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        if self._timer_cancelled_count > max(_MANY_CANCELLED, len(scheduled) // 2):
            scheduled[:] = [timer for timer in scheduled if not timer._cancelled or self._let_go(timer)]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        ready = self._ready  # type: ignore[attr-defined]
        self._begin_turn(idle=not ready and not self._stopping)  # type: ignore[attr-defined]
        now = self._now + self._clock_resolution
        while scheduled and scheduled[0]._when < now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _begin_turn(self, *, idle: bool) -> None:
        self.turns += 1
        planned = self.in_turn.pop(self.turns, None)
        if planned is not None:
            self.call_soon(planned)
        if self.turns > _MOST_TURNS:
            raise StuckError(f"after {_MOST_TURNS} turns of the loop the simulation is not over")
        ahead = self._until_a_timer() if idle else 0.0
        self._pass(ahead if ahead > 0 else self.rng.random() * _TURN_COSTS)
        if len(self._ready) > 1:  # type: ignore[attr-defined]
            self._shuffle()

    def _until_a_timer(self) -> float:
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._let_go(heapq.heappop(scheduled))
            self._timer_cancelled_count -= 1
        if not scheduled:
            raise StuckError("nothing will ever happen again, and the simulation is not over")
        return float(scheduled[0]._when - self._now)

    @staticmethod
    def _let_go(timer: Any) -> bool:
        timer._scheduled = False
        return False

    def _shuffle(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]
        handles = list(ready)
        places = [place for place, handle in enumerate(handles) if _is_step_of_a_task(handle)]
        if len(places) < 2:
            return
        steps = [handles[place] for place in places]
        self.rng.shuffle(steps)
        for place, step in zip(places, steps, strict=True):
            handles[place] = step
        ready.clear()
        ready.extend(handles)

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # -- no threads

    def in_a_thread(self, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a thread, which ends in a later turn."""
        done = self.create_future()
        self.call_later(self.rng.random() * 0.01, self._run, done, func, args)
        return done

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # a future is awaited either way
        """An import, at once: a life is the same whether an earlier one has made it. Beside a thread, minutes would pass here."""
        done = self.create_future()
        self._run(done, func, args)
        return done

    def _run(self, done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if done.done():
            return
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # the waiter of the thread gets it
            done.set_exception(error)


def _is_step_of_a_task(handle: asyncio.Handle) -> bool:
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return isinstance(owner, asyncio.Task)
