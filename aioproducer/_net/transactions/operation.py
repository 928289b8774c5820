"""Work of the producer's own tasks for callers, which may leave while it goes on, and join it again."""

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
        # Its error, if it failed.
        self.error: KafkaError | None = None
        self.began_at = loop.time()
        # Woken in this order: the first one advances the table, and the others find it advanced.
        self._waiters: list[asyncio.Future[None]] = []
        self._scope = anyio.CancelScope()

    @property
    def is_watched(self) -> bool:
        """Whether a caller waits for it."""
        return bool(self._waiters)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work. A `KafkaError` is its result; any other error ends the producer."""
        try:
            with self._scope:
                await work()
                self.end(None)
        except KafkaError as error:
            # A kept error would keep everything that its traceback refers to.
            self.end(error.with_traceback(None))
        finally:
            if not self.ended:
                self.end(StateError(f"the producer ended before {self.event.value} did"))

    def end(self, error: KafkaError | None) -> None:
        """Set the result; only the first one counts."""
        if self.ended:
            return
        self.ended, self.error = True, error
        for waiter in self._waiters:
            wake(waiter)
        self._on_end(self)

    def replace(self, error: KafkaError) -> None:
        """Stop the work. Its callers get this error."""
        self.end(error)
        self._scope.cancel()

    async def joined(self, timeout: float) -> bool:
        """Wait for it. Returns False if there was no result in time. Raises its error."""
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
