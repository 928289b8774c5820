"""Work that a producer's own tasks do for callers, who may leave while it goes on, and join it again."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING

import anyio

from aioproducer.errors import KafkaError, StateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aioproducer._state.transaction import Event


class Operation:
    """One piece of work. Whoever waits for it only looks on: that one is cancelled, or out of patience, stops nothing."""

    def __init__(self, event: Event, loop: asyncio.AbstractEventLoop) -> None:
        self.event = event
        # What it failed with, or None.
        self.done: asyncio.Future[KafkaError | None] = loop.create_future()
        self.waiters = 0
        self._scope = anyio.CancelScope()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it; a `KafkaError` is its result, whatever else goes wrong ends the producer."""
        try:
            with self._scope:
                await work()
                self.end(None)
        except KafkaError as error:
            # What the traceback refers to would live as long as whoever keeps the error.
            self.end(error.with_traceback(None))
        finally:
            self.end(StateError(f"the producer ended before {self.event.value} did"))

    def end(self, error: KafkaError | None) -> None:
        """It has its result; only the first counts."""
        if not self.done.done():
            self.done.set_result(error)

    def replace(self, error: KafkaError) -> None:
        """Stop the work, and tell whoever waits why."""
        self.end(error)
        self._scope.cancel()

    async def joined(self, patience: float) -> bool:
        """Wait for it; False when there was no result in time. Raises what it failed with."""
        self.waiters += 1
        try:
            await asyncio.wait([self.done], timeout=patience)
        finally:
            self.waiters -= 1
        if not self.done.done():
            return False
        error = self.done.result()
        if error is not None:
            raise copy.copy(error)
        return True
