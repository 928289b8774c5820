"""A commit or a detachment of a `MockProducer` that waits for records: callers look on, may leave, and join again."""

from __future__ import annotations

import asyncio
import copy

from aioproducer.errors import KafkaError
from aioproducer.testing.mock.transactions.table import Event


class Attempt:
    """One attempt; it ends once, however many wait for it."""

    def __init__(self, event: Event, loop: asyncio.AbstractEventLoop) -> None:
        self.event = event
        self.waiters = 0
        self.unanswered = 0
        """So many calls are not told its result."""
        self.refusal: KafkaError | None = None
        """Why the commit did not happen, which nobody has heard yet."""
        self._done: asyncio.Future[KafkaError | None] = loop.create_future()

    @property
    def is_over(self) -> bool:
        """Whether it has its result."""
        return self._done.done()

    def end(self, error: KafkaError | None) -> None:
        """It has its result; only the first counts."""
        if not self._done.done():
            self._done.set_result(error)

    async def joined(self, patience: float) -> bool:
        """Wait for it; False when there was no answer in time. Raises what it failed with."""
        self.waiters += 1
        try:
            await asyncio.wait([self._done], timeout=patience)
        finally:
            self.waiters -= 1
        if not self._done.done():
            return False
        if self.unanswered:
            self.unanswered -= 1
            return False
        error = self._done.result()
        if error is not None:
            raise copy.copy(error)
        return True
