"""Rows that are held: refused, while an earlier record of them may be written.

A held row is neither sent again nor set aside, and the rows behind it go on. That keeps the order: a leader takes a
request of an idempotent producer that is still on its way only before a later record of this producer, so that the
record of the held row is in the log before the records behind it, or never.

They may be thousands, beside which the relay goes on with other rows: what it asks for often takes a time that does not
grow with their number.
"""

from __future__ import annotations

import heapq
import itertools
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
# The records of so many rows are looked for at once: more would hold up the event loop where all searches end together.
ROWS_OF_A_SEARCH: Final = 32
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
        # Before the rows that were searched for, and after those that are followed by a record.
        self._due = 0.0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._logged_at = -math.inf

    @property
    def is_done(self) -> bool:
        """Whether nothing is left but to delete it."""
        return self.has_letter or self.outcome is Outcome.ACKED

    @property
    def lacks_letter(self) -> bool:
        """Whether its dead letter is to be written."""
        return self.outcome is Outcome.NOT_WRITTEN and not self.has_letter

    @property
    def due(self) -> float:
        """The time of the next search."""
        return math.inf if self.outcome is not None else self._due

    def search_first(self) -> None:
        """The next search is due now, before those for other rows."""
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
        # The moment that the age of each row counts from.
        self.since: dict[int, float] = {}
        # Those that the next read leaves out: they were read in this session, and since the last search began. And the others.
        self.here: set[int] = set()
        self._away: set[int] = set()
        # By partition, those of which no later record was acknowledged.
        self._not_followed: dict[tuple[str, int | None], dict[HeldRow, None]] = {}
        # Heaps: an outdated entry is found where it comes to the top. The times of the next searches,
        self._plans: list[tuple[float, int, HeldRow]] = []
        self._serial = itertools.count()
        # and, of the rows that are here, the letters: those with the fewest failed attempts first.
        self._letters: list[tuple[int, int]] = []
        self._queued: set[tuple[int, int]] = set()
        # Those with which nothing is left to do but to delete them.
        self._done: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def ids(self) -> Collection[int]:
        """Their ids."""
        return self._rows.keys()

    @property
    def has_letters(self) -> bool:
        """Whether the dead letters of some are written: they wait to be read again, and are deleted then."""
        return any(self._rows[one].has_letter for one in self._done)

    def __contains__(self, held: HeldRow) -> bool:
        return self._rows.get(held.row.id) is held

    def add(self, row: HeldRow, since: float) -> None:
        """Hold this row."""
        self._rows[row.row.id] = row
        self.since[row.row.id] = since
        self.here.add(row.row.id)
        for place in row.places:
            self._not_followed.setdefault(place, {})[row] = None
        self._sort(row)

    def drop(self, number: int) -> float | None:
        """The row is done with, or gone. Returns the moment that its age counts from, if it was held."""
        row = self._rows.pop(number, None)
        if row is None:
            return None
        for ids in (self.here, self._away, self._done):
            ids.discard(number)
        for place in row.places:
            waiting = self._not_followed.get(place, {})
            waiting.pop(row, None)
            if not waiting:
                self._not_followed.pop(place, None)
        return self.since.pop(number)

    def _sort(self, row: HeldRow) -> None:
        """Note the next step for this row."""
        number = row.row.id
        if row.is_done:
            self._done.add(number)
        elif row.lacks_letter:
            letter = row.failed_letters, number
            if number in self.here and letter not in self._queued:
                self._queued.add(letter)
                heapq.heappush(self._letters, letter)
        elif row.due < math.inf:
            heapq.heappush(self._plans, (row.due, next(self._serial), row))

    # -- reading them again

    @property
    def away(self) -> int:
        """The number of rows that the next reads return."""
        return len(self._away)

    def is_same(self, row: Row) -> bool:
        """Whether this row, which was read, is held; another one with its id takes its place."""
        held = self._rows.get(row.id)
        if held is None:
            return False
        if held.row != row:
            self.drop(row.id)
            return False
        self._away.discard(row.id)
        self.here.add(row.id)
        if held.lacks_letter:
            self._sort(held)
        return True

    def begin(self) -> None:
        """A session begins: the rows are read again. Nothing else has changed: the log is not that of the database."""
        self._away.update(self.here)
        self.here.clear()

    def read_again(self, rows: Iterable[HeldRow]) -> None:
        """Let the next reads show whether these rows are still there."""
        ids = [each.row.id for each in rows if each in self]
        self.here.difference_update(ids)
        self._away.update(ids)

    def passed(self, last: int | None) -> Sequence[int]:
        """Forget the rows up to this id that were not read again: they are gone. None: up to the end. Returns their ids."""
        gone = [one for one in self._away if last is None or one <= last]
        for one in gone:
            self.drop(one)
        return gone

    # -- searching

    @property
    def due(self) -> float:
        """The time of the next search."""
        plans = self._plans
        while plans and not (plans[0][2] in self and plans[0][2].due == plans[0][0]):
            heapq.heappop(plans)
        return plans[0][0] if plans else math.inf

    def begin_search(self, now: float) -> Sequence[HeldRow]:
        """The rows whose records are to be looked for now: a few of them, first those that are followed by a record."""
        rows: list[HeldRow] = []
        while self.due <= now and len(rows) < ROWS_OF_A_SEARCH:
            row = heapq.heappop(self._plans)[2]
            row.search_begins()
            rows.append(row)
        return rows

    def end_search(self, rows: Iterable[HeldRow], found: Collection[int], now: float) -> None:
        """Note the result of the search for these rows; some are followed by a record meanwhile."""
        for each in rows:
            is_planned = each.due < math.inf
            each.search_ends(found, now)
            if each in self and (each.outcome is not None or not is_planned):
                self._sort(each)

    def followed(self, place: tuple[str, int | None]) -> None:
        """A record of this partition was acknowledged: a search for one before it can be certain now."""
        for each in self._not_followed.pop(place, ()):
            each.search_first()
            self._sort(each)

    # -- ending

    @property
    def done(self) -> Sequence[HeldRow]:
        """Those that can be deleted."""
        return [self._rows[one] for one in sorted(self._done & self.here)]

    @property
    def next_letter(self) -> HeldRow | None:
        """The row whose letter is to be written next. One that cannot be written stops no other."""
        while self._letters:
            row = self._of_letter(self._letters[0])
            if row is not None:
                return row
            self._queued.discard(heapq.heappop(self._letters))
        return None

    @property
    def waiting(self) -> Sequence[HeldRow]:
        """All rows that were read and whose letters are to be written."""
        return [row for each in self._letters if (row := self._of_letter(each)) is not None]

    def _of_letter(self, letter: tuple[int, int]) -> HeldRow | None:
        failed, number = letter
        row = self._rows.get(number)
        is_next = row is not None and row.lacks_letter and row.failed_letters == failed
        return row if is_next and number in self.here else None

    def letter_ends(self, row: HeldRow, *, is_written: bool) -> None:
        """The letter of this row is written, or was not: others come before it then."""
        row.has_letter = is_written
        row.failed_letters += not is_written
        if row in self:
            self._sort(row)
