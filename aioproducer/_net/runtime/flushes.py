"""The flushes of a producer that tasks wait for, and the wait until no call waits to be accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.timers.wakeup import wake
from aioproducer._state.queues.flushing import cover_call, uncover

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from aioproducer._state.admission.waiting import Waiting
    from aioproducer._state.machines import Machines
    from aioproducer._state.queues.flush import Flush


class Flushes:
    """The tasks that wait until accepted records have their outcome, or calls are accepted."""

    def __init__(self, machines: Machines, loop: asyncio.AbstractEventLoop) -> None:
        self.waiting: dict[Flush, asyncio.Future[None]] = {}
        self._accumulator = machines.accumulator
        self._admission = machines.admission
        self._tally = machines.tally
        self._loop = loop
        # Tasks that wait until no call waits to be accepted.
        self._idle_waiters: list[asyncio.Future[None]] = []

    def begin(self, queued: Iterable[Waiting] = ()) -> tuple[Flush, asyncio.Future[None]]:
        """Send the buffered records, and those queued for their topics, without lingering.

        The future is done when all of them have their outcome, and their waiting tasks were woken.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        flush = self._accumulator.flush(self._loop.time())
        flush.began = self._tally.told_now()
        for call in queued:
            cover_call(flush, call)
        self.waiting[flush] = done
        if not flush.waiting:
            self.end(flush)
        return flush, done

    def leave(self, flush: Flush, queued: Iterable[Waiting]) -> None:
        """The task that waited for the flush is gone. Unanswered records would keep the flush until their deadlines."""
        if self.waiting.pop(flush, None) is not None:
            uncover(flush, self._accumulator.live, queued)

    def end(self, flush: Flush) -> None:
        """A flush is complete: wake its task."""
        # A flush that ended for lack of memory has no waiting task; batches may still refer to it.
        done = self.waiting.get(flush)
        if done is not None:
            self._accumulator.waker.wake_after_all(done)
            del self.waiting[flush]

    def end_all(self) -> None:
        """Every record has its outcome: no flush is left to wait for."""
        for flush in list(self.waiting):
            self.end(flush)

    def give_up(self) -> None:
        """The process had no memory to track a record of some flushes: their tasks get an error."""
        for flush, done in list(self.waiting.items()):
            if flush.error is not None:
                del self.waiting[flush]
                if not done.done():
                    done.set_exception(flush.error)

    async def no_call_waits(self) -> None:
        """Wait until no call waits to be accepted."""
        while self._admission.calls.waiting:
            done: asyncio.Future[None] = self._loop.create_future()
            self._idle_waiters.append(done)
            await done

    def end_idle_wait(self) -> None:
        """No call waits to be accepted any more: wake the tasks that wait for that."""
        idle_waiters, self._idle_waiters = self._idle_waiters, []
        for done in idle_waiters:
            wake(done)
