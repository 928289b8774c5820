"""The pause of a whole producer after a broker refused its credentials: many attempts may lock the account."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import attrs

from aioproducer._net.connecting.security import CredentialsChanged
from aioproducer._state.backoff import Backoff
from aioproducer._state.connecting.dialogue import Await
from aioproducer.errors import AuthenticationError, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from random import Random

    from aioproducer._state.connecting.dialogue import Dialogue

__all__ = ["Attempt", "Refusals"]

T = TypeVar("T")

_PAUSE: Final = Backoff(1.0, 30.0)
_UNANSWERED: Final = 3.0
_OF_CREDENTIALS: Final = frozenset(("credentials", "mechanism"))


@attrs.frozen
class _Refused:
    """The refusals of one address since its last success."""

    count: int = 0
    not_before: float = -math.inf


_NEVER: Final = _Refused()


@attrs.define(eq=False)
class Attempt:
    """One attempt, which presents the credentials in its turn."""

    refusals: Refusals
    # Its address has refused the credentials: it lets others go first, which may be accepted.
    is_repeated: bool
    # How often the credentials had changed when it presented them; -1 before.
    presented: int = -1
    began_at: float = -math.inf

    @property
    def has_begun(self) -> bool:
        """Whether it has had its turn."""
        return self.presented >= 0

    def presenting(self, authentication: Callable[[], Dialogue[T]]) -> Dialogue[T]:
        """The same dialogue, which begins when it is the turn of this attempt, and again if the credentials change."""
        while True:
            if self.refusals.is_one_at_a_time:
                yield Await("the turn of this authentication", partial(self.refusals.take_turn, self))
            self.presented = self.refusals.changes
            with contextlib.suppress(CredentialsChanged):
                return (yield from authentication())


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
        # How often the credentials have changed, and how often brokers have refused them in all.
        self.changes = 0
        self.total = 0
        # From a refusal, or a change of the credentials, to the next success.
        self.is_one_at_a_time = False
        self._turn_of: Attempt | None = None
        # Attempts under way at addresses that have not refused.
        self._first_attempts = 0
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
        """The credentials have changed: the next attempt is made at once, also by those that wait, one at a time."""
        self.changes += 1
        self._count, self._not_before = 0, -math.inf
        self.is_one_at_a_time = True
        self._refused.clear()
        self._turn_of = None
        self._move()

    def forget_address(self, address: tuple[str, int]) -> None:
        """This address is not used any more."""
        self._refused.pop(address, None)

    @contextlib.asynccontextmanager
    async def attempt(self, address: tuple[str, int]) -> AsyncIterator[Attempt]:
        """Wait for the end of the pause, and note the result of the attempt, whose dialogue has to wait for its turn."""
        attempt = Attempt(self, address in self._refused)
        with self._counted(attempt):
            await self._pause(address)
            with self._noted(address, attempt):
                yield attempt

    @contextlib.asynccontextmanager
    async def attempt_before(self, address: tuple[str, int], until: float) -> AsyncIterator[Attempt | None]:
        """The same, but None instead of an attempt if the pause does not end before this time."""
        attempt = Attempt(self, address in self._refused)
        with self._counted(attempt):
            with anyio.move_on_after(until - self._loop.time()) as waiting:
                await self._pause(address)
            if waiting.cancelled_caught or self._loop.time() >= until:
                yield None
            else:
                with self._noted(address, attempt):
                    yield attempt

    @contextlib.contextmanager
    def _counted(self, attempt: Attempt) -> Iterator[None]:
        self._first_attempts += not attempt.is_repeated
        try:
            yield
        finally:
            self._first_attempts -= not attempt.is_repeated
            self._move()

    async def _pause(self, address: tuple[str, int]) -> None:
        """Wait for the end of the pause of this address; raises the refusal of another attempt meanwhile."""
        count, changes = self._count, self.changes
        while self.changes == changes and (pause := self.not_before(address) - self._loop.time()) > 0:
            with anyio.move_on_after(pause):
                await self._moved.wait()
            self._require_not_refused(count, changes)

    async def take_turn(self, attempt: Attempt) -> None:
        """Wait until this attempt may present the credentials; raises the refusal of another attempt meanwhile."""
        count, changes = self._count, self.changes
        first_until = self._loop.time() + _UNANSWERED if attempt.is_repeated else -math.inf
        while self.is_one_at_a_time and (taken := self._turn_is_taken_for(first_until)) > 0:
            # Also one that was on its way before the refusal.
            if self._not_before - self._loop.time() > _UNANSWERED and self._newest is not None:
                raise copy.copy(self._newest)
            with anyio.move_on_after(taken):
                await self._moved.wait()
            self._require_not_refused(count, changes)
            if self.changes != changes:
                count, changes = self._count, self.changes
        attempt.began_at = self._loop.time()
        self._turn_of = attempt

    def _require_not_refused(self, count: int, changes: int) -> None:
        if self.changes == changes and self._count > count and self._newest is not None:
            raise copy.copy(self._newest)

    def _turn_is_taken_for(self, first_until: float) -> float:
        """Seconds until the next may have the turn. A broker that does not answer holds up the others for three of them."""
        attempt = self._turn_of
        free_at = -math.inf if attempt is None else attempt.began_at + _UNANSWERED
        if self._first_attempts:
            free_at = max(free_at, first_until)
        return max(free_at, self._not_before) - self._loop.time()

    def _give_up_turn(self, attempt: Attempt) -> None:
        # It may be another's by now.
        if self._turn_of is attempt:
            self._turn_of = None
            self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    @contextlib.contextmanager
    def _noted(self, address: tuple[str, int], attempt: Attempt) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            if attempt.presented == self.changes and _is_refusal(error):
                self._note(address, error)
            raise
        else:
            if attempt.presented == self.changes:
                self._count, self._not_before = 0, -math.inf
                self.is_one_at_a_time = False
                self._refused.pop(address, None)
                self._move()
        finally:
            self._give_up_turn(attempt)

    def _note(self, address: tuple[str, int], error: KafkaError) -> None:
        now = self._loop.time()
        self._not_before = now + _PAUSE.after(self._count, self._rng)
        self._count += 1
        self.total += 1
        self.is_one_at_a_time = True
        self._newest = copy.copy(error)  # a raised error collects a traceback with its frames
        before = self._refused.get(address, _NEVER).count
        self._refused[address] = _Refused(before + 1, now + _PAUSE.after(before, self._rng))


def _is_refusal(error: KafkaError) -> bool:
    """Whether a broker, or the KDC, refused the credentials; otherwise they could not be read."""
    if not isinstance(error, AuthenticationError) or error.reason not in _OF_CREDENTIALS:
        return False
    # Errors of the KDC have no code of Kafka.
    return error.code is not None or error.mechanism == "GSSAPI"
