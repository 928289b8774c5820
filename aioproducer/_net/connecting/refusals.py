"""The pauses of a producer after a broker refused its credentials: many attempts may lock the account."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import attrs

from aioproducer._state.backoff import Backoff
from aioproducer._state.connecting.dialogue import Await, before_the_first_request
from aioproducer._state.connecting.turns import Turn, Turns
from aioproducer.errors import AuthenticationError, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from random import Random

    from aioproducer._state.connecting.dialogue import Dialogue

__all__ = ["Attempt", "Refusals", "is_refusal"]

T = TypeVar("T")

_PAUSE: Final = Backoff(1.0, 30.0)
# An attempt does not wait for the end of a longer pause with an open connection, and an address that has not refused is not
# kept from its attempt for longer by those that have: it may accept what they refuse.
_LONG_PAUSE: Final = 3.0
# The part of the time of a renewal that it waits for others before any refusal.
_PATIENCE: Final = 0.5
_OF_CREDENTIALS: Final = frozenset(("credentials", "mechanism"))


@attrs.frozen
class _Refused:
    """The refusals of one address since its last success."""

    count: int = 0
    newest_at: float = -math.inf
    not_before: float = -math.inf
    # Another one has accepted the credentials since then.
    is_alone: bool = False


_NEVER: Final = _Refused()


@attrs.define(eq=False)
class Attempt:
    """One attempt, which presents the credentials in its turn: at one address of its host, or beside each other at several."""

    refusals: Refusals
    turn: Turn
    # Whether a broker has refused the credentials that it presents, or waits to present; it may go on at another address.
    is_refused: bool = False
    # How often the credentials had changed when it presented them last.
    changes: int = -1
    _begun: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether it has had its turn at any address."""
        return self._begun > 0

    def presenting(self, authentication: Dialogue[T]) -> Dialogue[T]:
        """The same dialogue, which begins when it is the turn of this attempt. Its result is noted at once."""
        try:
            return (yield from self._presented_in_turn(authentication))
        except KafkaError as error:
            # Also that of another attempt, which this one has waited for.
            self.is_refused = self.is_refused or is_refusal(error)
            raise

    def _presented_in_turn(self, authentication: Dialogue[T]) -> Dialogue[T]:
        refusals, turn = self.refusals, self.turn
        yield Await("the turn of this authentication", partial(refusals.take_turn, turn))
        self._begun += 1
        count, changes, began_at = refusals.count, refusals.changes, turn.began_at
        self.changes = changes
        is_refused_meanwhile = False

        def check() -> None:
            nonlocal is_refused_meanwhile
            is_refused_meanwhile = True
            refusals.require_not_refused_by_many(turn.address, count, changes)
            is_refused_meanwhile = False

        try:
            # A provider may take long for the credentials, which are refused meanwhile.
            result = yield from before_the_first_request(authentication, check)
            if changes == refusals.changes:
                refusals.note_accepted(turn, began_at)
            return result
        except KafkaError as error:
            if is_refused_meanwhile:
                self._begun -= 1
            if not is_refused_meanwhile and changes == refusals.changes and is_refusal(error):
                refusals.note_refused(turn, began_at, error)
            raise
        finally:
            refusals.note_over(turn, began_at)


class Refusals:
    """The pauses and turns of attempts at all addresses.

    The result of an attempt is that of all that wait for their turn meanwhile: with a pause for each of them, callers
    would wait for minutes for an error that is known. An address that goes on refusing what others accept has a growing pause
    of its own, and holds up no other. An attempt with credentials that have changed since has no effect on the attempts with
    the new ones.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._turns = Turns()
        # Refusals since the last success. Several that answer attempts of the same moment are one.
        self.count = 0
        self._counted_at = -math.inf
        self._refused_at = -math.inf
        self._not_before = -math.inf
        self._newest: KafkaError | None = None
        self._refused: dict[tuple[str, int], _Refused] = {}
        # The addresses of the refusals since the last success, but for those that refuse what others accept.
        self.refusing: set[tuple[str, int]] = set()
        # How often the credentials have changed.
        self.changes = 0
        # Set, and replaced, when the turn is over or not needed any more, and when the credentials have changed.
        self._moved = asyncio.Event()

    def not_before(self, address: tuple[str, int]) -> float:
        """The end of the pause of this address."""
        own = self._refused.get(address, _NEVER).not_before
        return max(self._general_end(address), own)

    def forget(self) -> None:
        """The credentials have changed: the next attempt is made at once, also by those that wait, one at a time."""
        self.changes += 1
        self.count, self._not_before, self._counted_at = 0, -math.inf, -math.inf
        self._refused.clear()
        self.refusing.clear()
        self._turns.changed()
        self._move()

    def forget_address(self, address: tuple[str, int]) -> None:
        """This address is not used any more."""
        self._refused.pop(address, None)
        self.refusing.discard(address)
        self._turns.forget(address)

    @contextlib.asynccontextmanager
    async def attempt(self, address: tuple[str, int]) -> AsyncIterator[Attempt]:
        """Wait for the end of the pause. The dialogue of the attempt has to wait for its turn, and its result is noted."""
        with self._begun(address, math.inf) as attempt:
            await self._pause(address)
            yield attempt

    @contextlib.asynccontextmanager
    async def attempt_before(self, address: tuple[str, int], until: float) -> AsyncIterator[Attempt | None]:
        """The same, but None instead of an attempt if the pause does not end before this time."""
        left = until - self._loop.time()
        with self._begun(address, left * _PATIENCE) as attempt:
            with anyio.move_on_after(left) as waiting:
                await self._pause(address)
            if waiting.cancelled_caught or self._loop.time() >= until:
                yield None
            else:
                yield attempt

    @contextlib.contextmanager
    def _begun(self, address: tuple[str, int], patience: float) -> Iterator[Attempt]:
        attempt = Attempt(self, self._turns.begin(address, patience))
        try:
            yield attempt
        finally:
            self._turns.end(attempt.turn)
            self._move()

    async def _pause(self, address: tuple[str, int]) -> None:
        """Wait for the end of the pause of this address; raises the refusal of another attempt meanwhile."""
        count, changes = self.count, self.changes
        while self.changes == changes and (pause := self.not_before(address) - self._loop.time()) > 0:
            with anyio.move_on_after(pause):
                await self._moved.wait()
            self.require_not_refused(count, changes)

    async def take_turn(self, turn: Turn) -> None:
        """Wait until the attempt of this turn may present the credentials; raises the refusal of another attempt meanwhile."""
        count, changes = self.count, self.changes
        if self._turns.ask(turn, self._loop.time()):
            self._move()
        try:
            while (seconds := self._seconds_until_turn(turn)) > 0:
                # Also one that was on its way before the refusal.
                pause = self._general_end(turn.address) - self._loop.time()
                if pause > _LONG_PAUSE and self._newest is not None:
                    raise copy.copy(self._newest)
                with anyio.move_on_after(seconds):
                    await self._moved.wait()
                self.require_not_refused(count, changes)
                if self.changes != changes:
                    count, changes = self.count, self.changes
        finally:
            self._turns.leave(turn)
            self._move()
        self._turns.take(turn, self._loop.time())

    def note_over(self, turn: Turn, began_at: float) -> None:
        """The turn that began at that time is over, also without an answer: those that wait need not wait for one."""
        if self._turns.over(turn, began_at):
            self._move()

    def _seconds_until_turn(self, turn: Turn) -> float:
        now = self._loop.time()
        return max(self._turns.wait(turn, now), self._general_end(turn.address) - now)

    def _general_end(self, address: tuple[str, int]) -> float:
        """The end of the pause behind the newest refusal, whichever address it was that refused."""
        is_first = address not in self._refused
        return min(self._not_before, self._refused_at + _LONG_PAUSE) if is_first else self._not_before

    def require_not_refused(self, count: int, changes: int) -> None:
        """Raises the refusal of another attempt, since there were so many of them and so many changes."""
        if self.changes == changes and self.count > count and self._newest is not None:
            raise copy.copy(self._newest)

    def require_not_refused_by_many(self, address: tuple[str, int], count: int, changes: int) -> None:
        """The same, unless one other address alone has refused: this one may accept what that one refuses."""
        if address in self.refusing or len(self.refusing) > 1:
            self.require_not_refused(count, changes)

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def note_accepted(self, turn: Turn, began_at: float) -> None:
        """A broker has accepted the credentials that were presented at that time."""
        self.count, self._not_before = 0, -math.inf
        self.refusing.clear()
        self._turns.accepted(turn, self._loop.time())
        self._refused.pop(turn.address, None)
        for address, refused in self._refused.items():
            if began_at >= refused.newest_at:
                self._refused[address] = attrs.evolve(refused, is_alone=True)
        self._move()

    def note_refused(self, turn: Turn, began_at: float, error: KafkaError) -> None:
        """A broker has refused the credentials that were presented at that time."""
        now = self._loop.time()
        before = self._refused.get(turn.address, _NEVER)
        pause = _PAUSE.after(before.count, self._rng)
        self._refused[turn.address] = _Refused(before.count + 1, now, now + pause, before.is_alone)
        self._turns.refused(turn, now - began_at, is_known=before.is_alone)
        self._move()
        if before.is_alone:
            return
        self.refusing.add(turn.address)
        # Brokers may learn one after the other of a user that was deleted: no refusal is that of one broker alone any more.
        for address, refused in self._refused.items():
            self._refused[address] = attrs.evolve(refused, is_alone=False)
        # Those that were under way at a refusal tell the same fact, and make the pause no longer.
        if began_at > self._counted_at:
            self.count += 1
            self._counted_at = now
        self._refused_at, self._not_before = now, now + _PAUSE.after(self.count - 1, self._rng)
        self._newest = copy.copy(error)  # a raised error collects a traceback with its frames


def is_refusal(error: KafkaError) -> bool:
    """Whether a broker, or the KDC, refused the credentials; otherwise they could not be read."""
    if not isinstance(error, AuthenticationError) or error.reason not in _OF_CREDENTIALS:
        return False
    # Errors of the KDC have no code of Kafka.
    return error.code is not None or error.mechanism == "GSSAPI"
