"""Rows that are held: refused, while an earlier record of them may be written.

A held row is neither sent again nor set aside, and the rows behind it go on. That keeps the order: a leader takes a
request of an idempotent producer that is still on its way only before a later record of this producer, so that the
record of the held row is in the log before the records behind it, or never.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer.outbox.backoff import Backoff
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer.errors import KafkaError
    from aioproducer.outbox.doubts import Doubts
    from aioproducer.outbox.rows import Row

__all__ = ["Held", "HeldRow"]

# The pause between two searches for the records of one row, and between two attempts to write a letter, in seconds: it doubles
# with each of them.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
# A row that is held is logged at this interval, in seconds.
LOG_INTERVAL: Final = 300.0


class HeldRow:
    """One row, the refusal, and the records of it that may be written."""

    def __init__(self, row: Row, error: KafkaError, doubts: Doubts) -> None:
        self.row = row
        self.error = error
        self.doubts = doubts
        # ACKED or NOT_WRITTEN, once the log of its partition has shown it.
        self.outcome: Outcome | None = None
        # Whether its dead letter is written, and the attempts before that have failed.
        self.has_letter = False
        self.failed_letters = 0
        self.places = doubts.places
        self._due = -math.inf
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._logged_at = -math.inf

    @property
    def is_done(self) -> bool:
        """Whether nothing is left but to delete it."""
        return self.has_letter or self.outcome is Outcome.ACKED

    @property
    def due(self) -> float:
        """The time of the next search."""
        return math.inf if self.outcome is not None else self._due

    def search_soon(self) -> None:
        """The next search is due now."""
        self._due = -math.inf
        self._backoff.reset()

    def search_begins(self) -> None:
        """Another one is due a pause after its end, or when a record follows meanwhile."""
        self._due = math.inf

    def search_ends(self, found: Collection[int], now: float) -> None:
        """The outcome, where the search has shown it, or the next pause."""
        if self.row.id in found:
            self.outcome = Outcome.ACKED
        elif self.doubts.are_cleared:
            self.outcome = Outcome.NOT_WRITTEN
        elif self._due == math.inf:
            self._due = now + self._backoff.next()

    def is_to_be_logged(self, now: float) -> bool:
        """Whether it was not logged for a while."""
        if self.outcome is not None or now < self._logged_at + LOG_INTERVAL:
            return False
        self._logged_at = now
        return True


class Held:
    """All of them. They outlive sessions: each session, and each search, has to read a row again before it is done with."""

    def __init__(self) -> None:
        self._rows: dict[int, HeldRow] = {}
        # Those that the next read leaves out: they were read in this session, and since the last search began.
        self.here: set[int] = set()
        # By partition, those of which no later record was acknowledged.
        self._not_followed: dict[tuple[str, int | None], list[HeldRow]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def ids(self) -> Collection[int]:
        """Their ids."""
        return self._rows.keys()

    @property
    def has_letters(self) -> bool:
        """Whether the dead letters of some are written: they wait to be read again, and are deleted then."""
        return any(each.has_letter for each in self._rows.values())

    def __contains__(self, held: HeldRow) -> bool:
        return self._rows.get(held.row.id) is held

    def add(self, row: HeldRow) -> None:
        """Hold this row."""
        self._rows[row.row.id] = row
        self.here.add(row.row.id)
        for place in row.places:
            self._not_followed.setdefault(place, []).append(row)

    def drop(self, number: int) -> None:
        """The row is done with, or gone."""
        row = self._rows.pop(number, None)
        if row is None:
            return
        self.here.discard(number)
        for place in row.places:
            waiting = self._not_followed.get(place, [])
            if row in waiting:
                waiting.remove(row)
            if not waiting:
                self._not_followed.pop(place, None)

    # -- reading them again

    def is_same(self, row: Row) -> bool:
        """Whether this row, which was read, is held; another one with its id takes its place."""
        held = self._rows.get(row.id)
        if held is None:
            return False
        if held.row != row:
            self.drop(row.id)
            return False
        self.here.add(row.id)
        return True

    def begin(self) -> None:
        """A session begins: the rows are read again, and searched for."""
        self.here.clear()
        for each in self._rows.values():
            each.search_soon()

    def read_again(self, rows: Iterable[HeldRow]) -> None:
        """Let the next reads show whether these rows are still there."""
        self.here.difference_update([each.row.id for each in rows])

    def passed(self, last: int | None) -> Sequence[int]:
        """Forget the rows up to this id that were not read again: they are gone. None: up to the end. Returns their ids."""
        gone = [one for one in self._rows.keys() - self.here if last is None or one <= last]
        for one in gone:
            self.drop(one)
        return gone

    # -- searching

    @property
    def due(self) -> float:
        """The time of the next search."""
        return min((each.due for each in self._rows.values()), default=math.inf)

    def due_until(self, now: float) -> Sequence[HeldRow]:
        """Those whose records are to be looked for now."""
        return [each for each in self._rows.values() if each.due <= now]

    def followed(self, place: tuple[str, int | None]) -> None:
        """A record of this partition was acknowledged: a search for one before it can be certain now."""
        for each in self._not_followed.pop(place, ()):
            each.search_soon()

    @property
    def decided(self) -> Sequence[HeldRow]:
        """Those that can be deleted, or set aside."""
        return [self._rows[one] for one in sorted(self.here) if self._rows[one].outcome is not None]
