"""Work that a producer's own tasks do for callers, who may leave while it goes on, and join it again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import anyio

from aioproducer._net.timers.wakeup import wake
from aioproducer.errors import KafkaError, StateError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from aioproducer._state.transactions.table import Event


class Operation:
    """One piece of work. Cancelling or timing out a waiter does not stop it."""

    def __init__(
        self, event: Event, loop: asyncio.AbstractEventLoop, on_end: Callable[[Operation], None]
    ) -> None:
        self.event = event
        self.ended = False
        self._loop = loop
        self._on_end = on_end
        # What it failed with.
        self.error: KafkaError | None = None
        self.began_at = loop.time()
        # Woken in this order: what the first of them does then, the others find done.
        self._waiters: list[asyncio.Future[None]] = []
        self._scope = anyio.CancelScope()

    @property
    def is_watched(self) -> bool:
        """Whether a caller waits for it."""
        return bool(self._waiters)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it; a `KafkaError` is its result, whatever else goes wrong ends the producer."""
        try:
            with self._scope:
                await work()
                self.end(None)
        except KafkaError as error:
            # The traceback is removed: its frames would live as long as the error, which the caller may keep.
            self.end(error.with_traceback(None))
        finally:
            if not self.ended:
                self.end(StateError(f"the producer ended before {self.event.value} did"))

    def end(self, error: KafkaError | None) -> None:
        """It has its result; only the first counts."""
        if self.ended:
            return
        self.ended, self.error = True, error
        for waiter in self._waiters:
            wake(waiter)
        self._on_end(self)

    def replace(self, error: KafkaError) -> None:
        """Stop the work, and raise this error in the waiting callers."""
        self.end(error)
        self._scope.cancel()

    async def joined(self, timeout: float) -> bool:
        """Wait for it; False when there was no result in time. Raises what it failed with."""
        if not self.ended:
            await self._watch(timeout)
        if not self.ended:
            return False
        if self.error is not None:
            raise copy.copy(self.error)
        return True

    async def _watch(self, timeout: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        timer = self._loop.call_later(timeout, wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.remove(waiter)
