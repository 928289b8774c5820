"""The identity rule as a ledger of sent batches: the number of each record, and the known state of the attempt.

It looks at the bytes of requests and at answers, never into the machines.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from aioproducer._wire.error_codes import ErrorCode
from tests.state.machines import read_batch

MODULUS = 1 << 31
REMEMBERED = 5
# Refused in front of the append, by Kafka's own code; 6 proves it only where no offset came with it.
PROVEN = frozenset({2, 10, 19, 29, 45, 47, 59, 87})
NOT_LEADER = 6

Identity = tuple[int, int]
Slot = tuple[Identity, int]


class State(enum.Enum):
    """The known state of an attempt."""

    FLYING = "nobody has answered yet"
    REFUSED = "it was certainly not appended"
    OPEN = "it may have been appended"
    WRITTEN = "it is in the log"


@attrs.define(eq=False)
class Attempt:
    """One batch of one request."""

    identity: Identity
    first: int
    numbers: tuple[int, ...]
    state: State = State.FLYING

    def slots(self) -> list[Slot]:
        return [(self.identity, (self.first + at) % MODULUS) for at in range(len(self.numbers))]


@attrs.define(eq=False)
class Ledger:
    """Everything that was written to one partition.

    `pending`: has this record no outcome yet? `starts`: the numbers that the first identity may begin with.
    """

    pending: Callable[[int], bool]
    starts: tuple[int, ...]
    attempts: list[Attempt] = attrs.Factory(list)
    refused_number: bool = False
    """The last answer was OUT_OF_ORDER_SEQUENCE_NUMBER."""

    def wrote(self, data: bytes) -> Attempt:
        """A batch goes out; is it allowed to?"""
        batch = read_batch(data)
        numbers = tuple(int((value or b"")[:6]) for value in batch.values)
        attempt = Attempt((batch.producer_id, batch.epoch), batch.sequence, numbers)
        self._goes_on(attempt)
        self._keeps_its_place(attempt)
        self._takes_no_place(attempt)
        self._waits_its_turn(attempt)
        self.attempts.append(attempt)
        return attempt

    def answered(self, attempt: Attempt, code: int, offset: int) -> None:
        self.refused_number = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if code == 0:
            attempt.state = State.WRITTEN
        elif code in PROVEN or (code == NOT_LEADER and offset < 0):
            attempt.state = State.REFUSED
        else:
            attempt.state = State.OPEN

    def lost(self, attempt: Attempt) -> None:
        attempt.state = State.OPEN
        self.refused_number = False

    # -- the rules

    def _goes_on(self, attempt: Attempt) -> None:
        """Numbers have no gap; a new identity begins at 0; no older one comes back."""
        before = {slot for other in self.attempts for slot in other.slots()}
        identities = [other.identity for other in self.attempts]
        assert all(identity <= attempt.identity for identity in identities), "an older identity came back"
        if attempt.identity not in identities:
            starts = (0,) if identities else self.starts
            assert attempt.first in starts, f"{attempt} begins somewhere"
            return
        slot = (attempt.identity, (attempt.first - 1) % MODULUS)
        began = next(other.first for other in self.attempts if other.identity == attempt.identity)
        assert attempt.first == began or slot in before, f"a gap before {attempt}"

    def _keeps_its_place(self, attempt: Attempt) -> None:
        """A record that may be in the log is sent again under the number that it had, or not at all."""
        places = dict(zip(attempt.numbers, attempt.slots(), strict=True))
        for other in self.attempts:
            if other.state in (State.FLYING, State.OPEN, State.WRITTEN):
                for number, slot in zip(other.numbers, other.slots(), strict=True):
                    assert places.get(number, slot) == slot, (
                        f"{other} may be in the log, but {attempt} goes out"
                    )

    def _takes_no_place(self, attempt: Attempt) -> None:
        """A number under which something may be in the log is for that only."""
        owners = dict(zip(attempt.slots(), attempt.numbers, strict=True))
        for other in self.attempts:
            if other.state is not State.REFUSED:
                for slot, number in zip(other.slots(), other.numbers, strict=True):
                    assert owners.get(slot, number) == number, f"{attempt} has a number of {other}"

    def _waits_its_turn(self, attempt: Attempt) -> None:
        """One at a time while something is sent again, or while the leader does not know the producer; five at most."""
        others = self.unresolved()
        is_new = not any(set(other.numbers) & set(attempt.numbers) for other in self.attempts)
        if is_new:
            assert len(others) < REMEMBERED, "six batches without an outcome"
            assert all(other.state is State.FLYING for other in others), (
                "it passes one that waits to be sent again"
            )
            guesses = [
                other
                for other in self.attempts
                if other.state is State.OPEN
                and other.identity == attempt.identity
                and not any(self.pending(number) for number in other.numbers)
                and not self._known_by_now(other)
            ]
            assert not guesses, f"nobody knows which number comes behind {guesses}"
            knows = any(
                other.state is State.WRITTEN and other.identity[0] == attempt.identity[0]
                for other in self.attempts
            )
            assert knows or not others, "the first batch of a producer id goes alone"
        elif not self.refused_number or any(other.state is State.FLYING for other in others):
            # A leader that goes on from another number may know a newer one again.
            assert all(min(numbers) >= attempt.numbers[0] for numbers in others.values()), (
                "an older one is unresolved"
            )
        for other in self.attempts:
            if other.identity != attempt.identity:
                assert other.state is not State.FLYING, "something flies under the old identity"

    def _known_by_now(self, attempt: Attempt) -> bool:
        """It was acknowledged later, or something behind it was: a log takes numbers in their order only."""
        return any(
            other.state is State.WRITTEN
            and other.identity == attempt.identity
            and other.numbers[0] >= attempt.numbers[0]
            for other in self.attempts
        )

    def unresolved(self) -> dict[Attempt, list[int]]:
        """The newest attempts of all records without an outcome, each with its records."""
        newest: dict[int, Attempt] = {}
        for attempt in self.attempts:
            newest.update(dict.fromkeys(attempt.numbers, attempt))
        found: dict[Attempt, list[int]] = {}
        for number, attempt in newest.items():
            if self.pending(number):
                found.setdefault(attempt, []).append(number)
        return found
