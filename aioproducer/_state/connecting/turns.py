"""The order of authentications whose credentials may be wrong: many wrong attempts may lock the account.

For a second after a broker has accepted the credentials, attempts are free. Later the first one goes ahead, and the others
follow it after half a second. After a refusal, or a change of the credentials, there is one at a time until the next success.
A renewal goes first then when it has waited for half of its time, as the end of its session costs a connection that works.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import attrs

__all__ = ["Turn", "Turns"]

_SURE: Final = 1.0
_LEAD: Final = 0.5
_MOST_LEAD: Final = 1.5
# One broker that does not answer holds up the others for so long. Several in a row hold them up ever less.
_UNANSWERED: Final = 3.0
_LEAST_UNANSWERED: Final = 0.5
# So many attempts in a row may end without an answer before the next ones wait: a broker may close the connection in place of a
# refusal, and many wrong attempts may lock the account.
_ENDS_AT_ONCE: Final = 3
# Where a refusal took longer, twice its time, up to so many seconds: the next one is as slow, and says the same.
_MOST_UNANSWERED: Final = 10.0


@attrs.define(eq=False)
class Turn:
    """One attempt at an address.

    `patience`: the seconds that it may wait behind others that are not known to be refused; infinite but for a renewal.
    """

    address: tuple[str, int]
    patience: float = math.inf
    # Its address has refused, or has not answered: it lets others go first, which may be accepted.
    is_late: bool = False
    asked_at: float = math.inf
    began_at: float = -math.inf
    # The attempt has ended. The rest of it, which is being cancelled, gets no turn.
    is_over: bool = False


class Turns:
    """The turns of all addresses."""

    def __init__(self) -> None:
        self.is_one_at_a_time = False
        self._sure_until = -math.inf
        self._holder: Turn | None = None
        # The next turn begins then, if no attempt has one.
        self._not_before = -math.inf
        # Attempts that have ended one after the other without an answer.
        self._ends = 0
        # Turns that have ended one after the other without an answer, and the time that each first one of them has.
        self._unanswered = 0
        self._patience = _UNANSWERED
        self._late: set[tuple[str, int]] = set()
        self._asking: list[Turn] = []
        # Of each address since its last turn: when its patience is over, and when it asked first. A connection that is given up
        # meanwhile keeps its place, and a new one behind a session that ended meanwhile has the place of the renewal.
        self._places: dict[tuple[str, int], tuple[float, float]] = {}
        # Attempts under way at addresses that are not late.
        self._first_attempts = 0

    def is_free(self, now: float) -> bool:
        """Whether attempts need no turn."""
        return not self.is_one_at_a_time and now < self._sure_until

    def begin(self, address: tuple[str, int], patience: float) -> Turn:
        """An attempt begins. It asks for its turn when it is about to present the credentials."""
        turn = Turn(address, patience, address in self._late)
        self._first_attempts += not turn.is_late
        return turn

    def end(self, turn: Turn) -> None:
        """The attempt is over."""
        turn.is_over = True
        self._first_attempts -= not turn.is_late
        self.over(turn, turn.began_at)

    def over(self, turn: Turn, began_at: float) -> bool:
        """An authentication that began at this time has ended. Whether it was its turn until now: it had no answer then."""
        # The attempt may have its turn at another address by now.
        is_its_turn = self._holder is turn and turn.began_at == began_at
        if is_its_turn:
            self._no_answer(turn)
            self._holder = None
            self._ends += 1
            if self._ends > _ENDS_AT_ONCE:
                self._not_before = turn.began_at + _LEAST_UNANSWERED
        return is_its_turn

    def ask(self, turn: Turn, now: float) -> bool:
        """The attempt waits for its turn, or for another one, at the next address of the same host.

        Whether others may go earlier by that: it leaves the turn that it has, or it changes a place among those that wait,
        its own or that of another attempt at its address. Where thousands ask, each of the others looks at all.
        """
        changes_others = self._holder is turn or any(one.address == turn.address for one in self._asking)
        if self._holder is turn:
            self._holder = None
        turn.asked_at = now
        patient_until, asked_at = self._place(turn)
        self._places[turn.address] = (min(patient_until, now + turn.patience), asked_at)
        self._asking.append(turn)
        return changes_others

    def wait(self, turn: Turn, now: float) -> float:
        """Seconds until it may have its turn; infinite while others go first."""
        if turn.is_over:
            return math.inf
        if self.is_free(now):
            return 0.0
        is_next = turn is min(self._asking, key=partial(self._rank, now=now))
        if not self.is_one_at_a_time:
            at_last = turn.asked_at + min(_MOST_LEAD, turn.patience)
            return (min(self._free_at(), at_last) if is_next else at_last) - now
        patient_until, asked_at = self._place(turn)
        if not is_next:
            return patient_until - now if now < patient_until else math.inf
        first = asked_at + _UNANSWERED if turn.is_late and self._first_attempts else -math.inf
        return max(self._free_at(), first) - now

    def leave(self, turn: Turn) -> None:
        """It does not wait any more."""
        self._asking.remove(turn)

    def take(self, turn: Turn, now: float) -> None:
        """It presents the credentials now."""
        turn.began_at = now
        self._places.pop(turn.address, None)
        if self.is_free(now):
            return
        if self._holder is not None:
            self._no_answer(self._holder)
        self._holder = turn

    def accepted(self, turn: Turn, now: float) -> None:
        """A broker has accepted the credentials."""
        self.is_one_at_a_time = False
        self._patience = _UNANSWERED
        self._sure_until = now + _SURE
        self._late.discard(turn.address)
        self._answered(turn)

    def refused(self, turn: Turn, took: float, *, is_known: bool) -> None:
        """A broker has refused the credentials after so many seconds. `is_known`: it is the only one that does."""
        self._patience = min(max(_UNANSWERED, 2 * took), _MOST_UNANSWERED)
        if not is_known:
            self.is_one_at_a_time = True
            # A pause follows. Those that are late wait anew behind it, as those that go first have to wait for its end as well.
            self._forget_late()
        self._late.add(turn.address)
        self._answered(turn)

    def changed(self) -> None:
        """The credentials have changed."""
        self.is_one_at_a_time = True
        self._holder = None
        self._forget_ends()
        self._patience = _UNANSWERED
        self._late.clear()
        self._places.clear()

    def forget(self, address: tuple[str, int]) -> None:
        """This address is not used any more."""
        self._late.discard(address)
        self._places.pop(address, None)

    def _forget_late(self) -> None:
        for address in self._late:
            self._places.pop(address, None)

    def _answered(self, turn: Turn) -> None:
        self._forget_ends()
        if self._holder is turn:
            self._holder = None

    def _forget_ends(self) -> None:
        self._not_before = -math.inf
        self._ends = 0
        self._unanswered = 0

    def _no_answer(self, turn: Turn) -> None:
        if self.is_one_at_a_time:
            self._unanswered += 1
            self._late.add(turn.address)

    def _free_at(self) -> float:
        if self._holder is None:
            return self._not_before
        if not self.is_one_at_a_time:
            return self._holder.began_at + _LEAD
        shorter = self._patience * 0.5 ** max(0, self._unanswered - 1)
        return self._holder.began_at + max(_LEAST_UNANSWERED, shorter)

    def _rank(self, turn: Turn, *, now: float) -> tuple[bool, bool, bool, float]:
        patient_until, asked_at = self._place(turn)
        return turn.is_over, turn.is_late, now < patient_until, asked_at

    def _place(self, turn: Turn) -> tuple[float, float]:
        return self._places.get(turn.address, (turn.asked_at + turn.patience, turn.asked_at))
