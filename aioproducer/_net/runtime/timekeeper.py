"""The accumulator's task: processes deadlines, fair to answers that have already arrived."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from aioproducer._state.batching.batch_deadlines import PULSE
from aioproducer._state.delivery.slowness import Stall

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine

LOOK_FOR_IDLE_EVERY = 30.0
HELD_UP = 0.002
# The received bytes are at most the kernel's receive buffer, of which each turn reads a part.
MOST_CATCH_UP_TURNS = 128
# In a loop with slow turns, where other answers keep coming, no deadline may wait for so many turns.
FEWEST_CATCH_UP_TURNS = 8
LONGEST_CATCH_UP = 0.1
STALLED = 0.1


class Timekeeper:
    """Ends overdue work: lingers, backoffs, records, waiting calls, idle connections."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.loop = engine.loop
        self.idle_limit = engine.config.connections_max_idle_ms / 1000
        # -1: never; 0: at the next check.
        self.look_every = min(LOOK_FOR_IDLE_EVERY, self.idle_limit if self.idle_limit > 0 else math.inf)
        self.next_idle_look = self.loop.time() + self.look_every

    async def run(self) -> None:
        """Sleep until the next deadline, and process it; never returns."""
        while True:
            if not self._keeps_time():
                await self._let_answers_arrive()
                self._process(self.loop.time())
            await self.engine.wakeup.wait()

    def on_alarm(self) -> bool:
        """Process all that is due; False: the task has to do it, after answers that may have arrived."""
        try:
            return self._keeps_time()
        except BaseException as bug:
            self.engine.crash(bug)
            if not isinstance(bug, Exception):
                raise
            return False

    def _keeps_time(self) -> bool:
        now = self.loop.time()
        self._notice_a_stall(now)
        if self._is_overdue(now):
            return False
        self._process(now)
        return True

    def _process(self, now: float) -> None:
        engine = self.engine
        if engine.last_error is not None:
            engine.note_reach()
        engine.effects.event(self._expire, now)
        engine.unseen.report(now)
        if now >= self.next_idle_look:
            self.next_idle_look = now + self.look_every
            self._close_idle(now)
            engine.brokers.forget_unused(now)
        self._set_alarm()

    def _expire(self, now: float) -> None:
        self.engine.machines.expire(now)
        # Nearly always the end of a linger is due, and its sender would take a turn of the loop to wake up.
        self.engine.brokers.send_at_once(self.engine.effects.nodes)

    def _notice_a_stall(self, now: float) -> None:
        late = self.engine.wakeup.late_by()
        if late >= STALLED:
            self.engine.stalls.note(Stall(now, late))

    def _set_alarm(self) -> None:
        due = [
            self.next_idle_look,
            # While records are in flight, to notice a blocked loop.
            self.loop.time() + PULSE if self.engine.accumulator.live else None,
            self.engine.accumulator.deadlines.next_deadline(),
            self.engine.admission.calls.deadlines.earliest(),
            self.engine.unseen.due(),
        ]
        self.engine.wakeup.by(min(moment for moment in due if moment is not None))

    # -- after a blocked loop

    def _is_overdue(self, now: float) -> bool:
        """True when a record or a call may be about to be given up."""
        accumulator = self.engine.accumulator
        oldest = accumulator.deadlines.aging.oldest()
        if oldest is not None and oldest.opened_at + oldest.delivery_timeout <= now:
            return True
        alarm = accumulator.deadlines.heap.earliest()
        call = self.engine.admission.calls.deadlines.earliest()
        # Most timers are expired lingers: those only count when the loop was blocked.
        return (call is not None and call <= now) or (alarm is not None and alarm <= now - HELD_UP)

    async def _let_answers_arrive(self) -> None:
        """Process all received answers before anything is judged late."""
        reads = -1
        until = self.loop.time() + LONGEST_CATCH_UP
        for turn in range(MOST_CATCH_UP_TURNS):
            before, reads = reads, self._reads()
            if reads == before or (turn >= FEWEST_CATCH_UP_TURNS and self.loop.time() > until):
                return
            # Two turns, for the reasons of `Alarm`: the first may end before the selector was polled.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def _reads(self) -> int:
        links = [sender.link for sender in self.engine.senders.values()]
        connections = [
            self.engine.control.connection,
            *(link.connection for link in links if link is not None),
        ]
        return sum(connection.reads for connection in connections if connection is not None)

    # -- idle connections

    def _close_idle(self, now: float) -> None:
        if self.idle_limit < 0:
            return
        for sender in self.engine.senders.values():
            sender.close_if_idle(now, self.idle_limit)
        self.engine.control.close_if_idle(now, self.idle_limit)
        if self.engine.transactions is not None:
            self.engine.transactions.coordinators.close_idle(now, self.idle_limit)
