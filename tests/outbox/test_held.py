"""The rows that are held, by themselves, in any number of them."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import attrs
import pytest

from aioproducer import KafkaError, Outcome, Resolution
from aioproducer.outbox import Row
from aioproducer.outbox.doubts import BEGUN_AT_ONCE, Doubts, search
from aioproducer.outbox.held import ROWS_OF_A_SEARCH, Held, HeldRow
from tests.effort import seeds

PLACES = (("one", 0), ("one", 1), ("two", 0))


@attrs.frozen(eq=False)
class Place:
    """A delivery, as far as its partition."""

    topic: str
    partition: int


def held_row(number: int, *, value: bytes = b"", place: tuple[str, int] = PLACES[0]) -> HeldRow:
    """A row that is refused, and of which one record may be written."""
    row = Row(number, place[0], value)
    doubts = Doubts(row)
    delivery: Any = Place(*place)
    doubts.deliveries.append(delivery)
    return HeldRow(row, KafkaError("refused"), doubts)


def held_rows(count: int) -> tuple[Held, list[HeldRow]]:
    """So many of them."""
    held = Held()
    rows = [held_row(number) for number in range(1, count + 1)]
    for row in rows:
        held.add(row, 0.0)
    return held, rows


def test_a_search_is_for_some_rows() -> None:
    """The others come next; first those of which a record was acknowledged, because their search will be short."""
    held, rows = held_rows(3 * ROWS_OF_A_SEARCH)
    other = held_row(1_000, place=PLACES[2])
    held.add(other, 0.0)
    first = held.begin_search(0)
    second = held.begin_search(0)
    assert [*first, *second] == rows[: 2 * ROWS_OF_A_SEARCH]
    held.end_search(first, (), 0)
    held.end_search(second, (), 0)
    held.followed(PLACES[2])
    assert held.due == -math.inf
    assert held.begin_search(0) == [other, *rows[2 * ROWS_OF_A_SEARCH : -1]]
    assert held.begin_search(0) == [rows[-1]]
    assert held.due == 1
    held.followed(PLACES[0])
    assert len(held.begin_search(0)) == ROWS_OF_A_SEARCH


@attrs.define(eq=False)
class Searched:
    """Deliveries whose searches end with the first step of the loop behind `decided`, and the number of them in each step."""

    decided: asyncio.Event = attrs.Factory(asyncio.Event)
    begun: list[int] = attrs.Factory(lambda: [0])
    cancelled: int = 0

    async def resolve_unknown(self, _timeout: float) -> Resolution:
        """The search for one of them."""
        self.begun[-1] += 1
        asyncio.get_running_loop().call_soon(self.step)
        try:
            await self.decided.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Resolution(Outcome.NOT_WRITTEN)

    def step(self) -> None:
        """A later step of the loop."""
        if self.begun[-1]:
            self.begun.append(0)

    def doubts(self, count: int) -> list[Doubts]:
        """So many rows."""
        delivery: Any = self
        found = []
        for number in range(count):
            doubts = Doubts(Row(number, "one"))
            doubts.deliveries.append(delivery)
            found.append(doubts)
        return found


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_searches_begin_in_steps(is_cancelled: bool) -> None:
    """Other tasks run between them; all are made at the same time, and end with the caller."""
    searched = Searched()
    in_doubt = searched.doubts(5 * BEGUN_AT_ONCE)
    task = asyncio.ensure_future(search(in_doubt, 1.0))
    for _ in range(100):
        await asyncio.sleep(0)
    assert sum(searched.begun) == len(in_doubt)
    assert max(searched.begun) == BEGUN_AT_ONCE
    if is_cancelled:
        task.cancel()
        await asyncio.wait([task])
        assert (task.cancelled(), searched.cancelled) == (True, len(in_doubt))
    else:
        searched.decided.set()
        assert await task == set()
        assert all(each.are_cleared for each in in_doubt)


def test_a_session_begins_no_search() -> None:
    """The times of the next searches stay as they were: nothing has changed in the logs."""
    held, _ = held_rows(3)
    held.end_search(held.begin_search(5), (), 5)
    assert (held.due, held.away) == (6, 0)
    held.begin()
    assert (held.due, held.away, held.here) == (6, 3, set())
    assert held.begin_search(5.9) == []


def turn(held: Held, rows: list[HeldRow]) -> None:
    """The questions of one turn of a relay; no row changes."""
    assert held.due == 1
    assert held.begin_search(0) == []
    assert held.next_letter is rows[1]
    assert held.done == []
    assert held.passed(None) == []
    assert (held.has_letters, held.away) == (False, 0)


def test_the_effort_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same for ten rows and for a thousand: half of them are searched for later, and half wait for letters."""
    efforts = []
    for count in (10, 1_000):
        held, rows = held_rows(count)
        while searched := held.begin_search(0):
            for row in searched:
                if not row.row.id % 2:
                    row.doubts.deliveries.clear()
            held.end_search(searched, (), 0)
        looks = 0

        def look(self: HeldRow, name: str) -> Any:
            nonlocal looks
            looks += 1
            return object.__getattribute__(self, name)

        with monkeypatch.context() as patch:
            patch.setattr(HeldRow, "__getattribute__", look)
            turn(held, rows)
        efforts.append(looks)
    assert efforts[0] == efforts[1] < 50


def test_heaps_do_not_grow() -> None:
    """However often sessions begin, records follow and rows are read again."""
    held, rows = held_rows(10)
    now = 0.0
    for each in rows[:5]:
        each.doubts.deliveries.clear()
    for _ in range(1_000):
        held.begin()
        for each in rows:
            assert held.is_same(each.row)
        searched = held.begin_search(now)
        held.end_search(searched, (), now)
        held.letter_ends(rows[0], is_written=False)
        assert held.next_letter in rows[1:5]
        now += 10
    assert len(held._plans) <= 20
    assert len(held._letters) <= 2_000


@attrs.define(eq=False)
class Model:
    """The same rows, of which all are looked at each time."""

    rows: dict[int, HeldRow] = attrs.Factory(dict)
    here: set[int] = attrs.Factory(set)

    @property
    def due(self) -> float:
        """The time of the next search."""
        return min((each.due for each in self.rows.values()), default=math.inf)

    @property
    def waiting(self) -> list[HeldRow]:
        """Those whose letters are to be written, in this order."""
        waiting = [each for one, each in self.rows.items() if one in self.here and each.lacks_letter]
        return sorted(waiting, key=lambda each: (each.failed_letters, each.row.id))

    @property
    def done(self) -> list[HeldRow]:
        """Those that can be deleted."""
        return [self.rows[one] for one in sorted(self.here) if self.rows[one].is_done]

    def drop(self, number: int) -> None:
        """The row is gone."""
        self.rows.pop(number, None)
        self.here.discard(number)


@attrs.define(eq=False)
class Life:
    """Drawn deeds of a relay, and a model beside."""

    draw: random.Random
    held: Held = attrs.Factory(Held)
    model: Model = attrs.Factory(Model)
    searched: list[HeldRow] = attrs.Factory(list)
    now: float = 0.0
    last_id: int = 0

    def add(self) -> None:
        """Another row is held."""
        self.last_id += 1
        row = held_row(self.last_id, place=self.draw.choice(PLACES))
        self.held.add(row, self.now)
        self.model.rows[self.last_id] = row
        self.model.here.add(self.last_id)

    def begin(self) -> None:
        """A session begins."""
        self.held.begin()
        self.model.here.clear()

    def read(self) -> None:
        """A page is read; some rows are gone, and others have their ids."""
        away = sorted(self.model.rows.keys() - self.model.here)
        page = away[: self.draw.randrange(1, 8)]
        is_last = page == away
        for one in page:
            fate = self.draw.choice(["same"] * 8 + ["gone", "another"])
            if fate == "same":
                assert self.held.is_same(self.model.rows[one].row)
                self.model.here.add(one)
                continue
            if fate == "another":
                assert not self.held.is_same(Row(one, "two", b"another"))
            if fate == "another" or is_last or one < page[-1]:
                self.model.drop(one)
        if page:
            self.held.passed(None if is_last else page[-1])
            for one in [one for one in away if (is_last or one <= page[-1]) and one not in self.model.here]:
                self.model.drop(one)

    def search(self) -> None:
        """A search begins, or ends."""
        if not self.searched:
            before = self.model.due
            self.searched = list(self.held.begin_search(self.now))
            assert bool(self.searched) == (before <= self.now)
            self.held.read_again(self.searched)
            self.model.here.difference_update(each.row.id for each in self.searched)
            return
        found = {each.row.id for each in self.searched if self.draw.random() < 0.2}
        for each in self.searched:
            if self.draw.random() < 0.3:
                each.doubts.deliveries.clear()
        self.held.end_search(self.searched, found, self.now)
        self.searched = []

    def follow(self) -> None:
        """A record is acknowledged."""
        self.held.followed(self.draw.choice(PLACES))

    def letter(self) -> None:
        """A letter is written, or not."""
        row = self.held.next_letter
        if row is not None:
            self.held.letter_ends(row, is_written=self.draw.random() < 0.5)

    def end(self) -> None:
        """Rows are done with."""
        for each in self.held.done:
            assert self.held.drop(each.row.id) is not None
            self.model.drop(each.row.id)

    def check(self) -> None:
        """Both are the same."""
        held, model = self.held, self.model
        assert set(held.ids) == held.since.keys() == model.rows.keys()
        assert (held.here, held.away) == (model.here, len(model.rows) - len(model.here))
        assert held.due == model.due
        assert list(held.done) == model.done
        assert held.next_letter is next(iter(model.waiting), None)
        assert sorted(each.row.id for each in held.waiting) == sorted(each.row.id for each in model.waiting)
        assert held.has_letters == any(each.has_letter for each in model.rows.values())


@pytest.mark.parametrize("seed", seeds(100))
def test_drawn_lives(seed: int) -> None:
    """All answers are those of a model that looks at each row."""
    draw = random.Random(seed)
    life = Life(draw)
    for _ in range(300):
        draw.choice(
            [
                life.add,
                life.add,
                life.begin,
                life.read,
                life.read,
                life.search,
                life.follow,
                life.letter,
                life.end,
            ]
        )()
        life.now += draw.choice([0.0, 0.5, 20.0])
        life.check()
    assert {each.outcome for each in life.model.rows.values()} <= {None, Outcome.ACKED, Outcome.NOT_WRITTEN}
