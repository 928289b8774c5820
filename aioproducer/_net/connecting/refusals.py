"""The pause of a whole producer after a broker refused its credentials: many attempts may lock the account."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from aioproducer._state.backoff import Backoff
from aioproducer.errors import AuthenticationError, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from random import Random

__all__ = ["Refusals"]

_PAUSE: Final = Backoff(1.0, 30.0)
_UNANSWERED: Final = 1.0
_OF_CREDENTIALS: Final = frozenset(("credentials", "mechanism"))


@attrs.frozen
class _Refused:
    """The refusals of one address since its last success."""

    count: int = 0
    not_before: float = -math.inf


_NEVER: Final = _Refused()


@attrs.define(eq=False)
class Attempt:
    """One attempt, which may have the turn."""

    # When its pause is over and it begins.
    begins_at: float = -math.inf
    # A broker has, or is about to get, the credentials.
    is_presenting: bool = False

    def present(self) -> None:
        """The authentication begins."""
        self.is_presenting = True


class Refusals:
    """One attempt at a time for all addresses, from a refusal of the credentials to the next success.

    The result of an attempt is that of all that wait for their turn meanwhile: with a pause for each of them, callers
    would wait for minutes for an error that is known. An address that goes on refusing what others accept has a growing pause
    of its own. An attempt with credentials that have changed since has no effect on the attempts with the new ones.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._count = 0
        self._not_before = -math.inf
        self._newest: KafkaError | None = None
        self._refused: dict[tuple[str, int], _Refused] = {}
        # How often the credentials have changed.
        self._changes = 0
        # From a refusal to the next success, also over a change: the new credentials may be wrong as well.
        self._is_one_at_a_time = False
        self._turn_of: Attempt | None = None
        # Set, and replaced, when the turn is over or not needed any more, and when the credentials have changed.
        self._moved = asyncio.Event()

    @property
    def are_pending(self) -> bool:
        """Whether the newest attempt was refused."""
        return self._count > 0

    def not_before(self, address: tuple[str, int]) -> float:
        """The end of the pause of this address."""
        return max(self._not_before, self._refused.get(address, _NEVER).not_before)

    def forget(self) -> None:
        """The credentials have changed: the next attempt is made at once, also by one that waits."""
        self._changes += 1
        self._count, self._not_before = 0, -math.inf
        self._refused.clear()
        self._turn_of = None
        self._move()

    def forget_address(self, address: tuple[str, int]) -> None:
        """This address is not used any more."""
        self._refused.pop(address, None)

    @contextlib.asynccontextmanager
    async def attempt(self, address: tuple[str, int]) -> AsyncIterator[Attempt]:
        """Wait for the turn of this attempt, and note its result. The attempt has to note that it presents the credentials."""
        attempt = Attempt()
        with contextlib.ExitStack() as stack:
            await self._wait(address, attempt, stack)
            with self._noted(address):
                yield attempt

    @contextlib.asynccontextmanager
    async def attempt_before(self, address: tuple[str, int], until: float) -> AsyncIterator[bool]:
        """The same, but False instead of an attempt if its turn does not come before this time."""
        with contextlib.ExitStack() as stack:
            attempt = Attempt(is_presenting=True)
            with anyio.move_on_after(until - self._loop.time()) as waiting:
                await self._wait(address, attempt, stack)
            if not waiting.cancelled_caught and self._loop.time() < until:
                with self._noted(address):
                    yield True
            else:
                yield False

    async def _wait(self, address: tuple[str, int], attempt: Attempt, stack: contextlib.ExitStack) -> None:
        """Wait for the turn and the end of the pauses; raises the refusal of another attempt meanwhile.

        After a change of the credentials it begins anew: several attempts at once would present the new ones to all brokers.
        """
        changes = -1
        while changes != self._changes:
            changes, count = self._changes, self._count
            # Without the turn: it is up to 30 s, and other addresses may be fine.
            await self._pause(self._refused.get(address, _NEVER).not_before, changes)
            if self._is_one_at_a_time and await self._has_turn(attempt, changes, count):
                stack.callback(self._give_up_turn, attempt)
                await self._pause(self._not_before, changes)

    async def _pause(self, until: float, changes: int) -> None:
        pause = until - self._loop.time()
        if pause > 0:
            with anyio.move_on_after(pause):
                while self._changes == changes:
                    await self._moved.wait()

    async def _has_turn(self, attempt: Attempt, changes: int, count: int) -> bool:
        """Wait for the turn; False if none is needed any more, or the credentials have changed.

        `count` has the refusals before this attempt began to wait.
        """
        while (
            self._changes == changes and self._is_one_at_a_time and (pause := self._turn_is_taken_for()) > 0
        ):
            with anyio.move_on_after(pause if pause < math.inf else None):
                await self._moved.wait()
        if self._changes != changes or not self._is_one_at_a_time:
            return False
        if self._count > count and self._newest is not None:
            raise copy.copy(self._newest)
        attempt.begins_at = max(self._loop.time(), self._not_before)
        self._turn_of = attempt
        return True

    def _turn_is_taken_for(self) -> float:
        """Seconds: an attempt whose broker does not answer presents nothing, and holds up the others for a second."""
        attempt = self._turn_of
        if attempt is None:
            return 0.0
        return math.inf if attempt.is_presenting else attempt.begins_at + _UNANSWERED - self._loop.time()

    def _give_up_turn(self, attempt: Attempt) -> None:
        # It may be another's by now.
        if self._turn_of is attempt:
            self._turn_of = None
            self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    @contextlib.contextmanager
    def _noted(self, address: tuple[str, int]) -> Iterator[None]:
        changes = self._changes
        try:
            yield
        except KafkaError as error:
            if self._changes == changes and _is_refusal(error):
                self._note(address, error)
            raise
        if self._changes == changes:
            self._count, self._not_before = 0, -math.inf
            self._is_one_at_a_time = False
            self._refused.pop(address, None)
            self._move()

    def _note(self, address: tuple[str, int], error: KafkaError) -> None:
        now = self._loop.time()
        self._not_before = now + _PAUSE.after(self._count, self._rng)
        self._count += 1
        self._is_one_at_a_time = True
        self._newest = copy.copy(error)  # a raised error collects a traceback with its frames
        before = self._refused.get(address, _NEVER).count
        self._refused[address] = _Refused(before + 1, now + _PAUSE.after(before, self._rng))


def _is_refusal(error: KafkaError) -> bool:
    """Whether a broker, or the KDC, refused the credentials; otherwise they could not be read."""
    if not isinstance(error, AuthenticationError) or error.reason not in _OF_CREDENTIALS:
        return False
    # Errors of the KDC have no code of Kafka.
    return error.code is not None or error.mechanism == "GSSAPI"
