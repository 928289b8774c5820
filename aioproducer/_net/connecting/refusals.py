"""The pause of a whole producer after a broker refused its credentials: many attempts may lock the account."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
from typing import TYPE_CHECKING, Final

import anyio

from aioproducer._state.backoff import Backoff
from aioproducer.errors import AuthenticationError, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from random import Random

__all__ = ["Refusals"]

_PAUSE: Final = Backoff(1.0, 30.0)
_OF_CREDENTIALS: Final = frozenset(("credentials", "mechanism"))


class Refusals:
    """One attempt at a time for all addresses, from a refusal of the credentials to the next success.

    The result of an attempt is that of all that wait for their turn meanwhile: with a pause for each of them, callers
    would wait for minutes for an error that is known.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._turn = asyncio.Lock()
        self._count = 0
        self._newest: KafkaError | None = None
        self._forgotten = asyncio.Event()
        self.not_before = -math.inf

    @property
    def are_pending(self) -> bool:
        """Whether the newest attempt was refused."""
        return self._count > 0

    def forget(self) -> None:
        """The credentials have changed: the next attempt is made at once."""
        self._count, self.not_before = 0, -math.inf
        self._forgotten.set()
        self._forgotten = asyncio.Event()

    @contextlib.asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Wait for the turn of this attempt, and note its result."""
        async with contextlib.AsyncExitStack() as stack:
            if self._count:
                await self._wait(stack)
            with self._noted():
                yield

    @contextlib.asynccontextmanager
    async def attempt_before(self, until: float) -> AsyncIterator[bool]:
        """The same, but False instead of an attempt if its turn does not come before this time."""
        async with contextlib.AsyncExitStack() as stack:
            with anyio.move_on_after(until - self._loop.time()) as waiting:
                if self._count:
                    await self._wait(stack)
            if not waiting.cancelled_caught and self._loop.time() < until:
                with self._noted():
                    yield True
            else:
                yield False

    async def _wait(self, stack: contextlib.AsyncExitStack) -> None:
        """Wait for the turn and the end of the pause; raises the refusal of another attempt meanwhile."""
        count = self._count
        await stack.enter_async_context(self._turn)
        if self._count > count and self._newest is not None:
            raise copy.copy(self._newest)
        with anyio.move_on_after(self.not_before - self._loop.time()):
            await self._forgotten.wait()

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            self._note(error)
            raise
        self._count, self.not_before = 0, -math.inf

    def _note(self, error: KafkaError) -> None:
        if _is_refusal(error):
            self.not_before = self._loop.time() + _PAUSE.after(self._count, self._rng)
            self._count += 1
            self._newest = copy.copy(error)  # a raised error collects a traceback with its frames


def _is_refusal(error: KafkaError) -> bool:
    """Whether a broker, or the KDC, refused the credentials; otherwise they could not be read."""
    if not isinstance(error, AuthenticationError) or error.reason not in _OF_CREDENTIALS:
        return False
    # Errors of the KDC have no code of Kafka.
    return error.code is not None or error.mechanism == "GSSAPI"
