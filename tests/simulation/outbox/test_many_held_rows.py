"""Many rows that are held, beside other rows whose letters fail, and beside sessions that end: none costs the work of all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from aioproducer.outbox import ID_HEADER, Row, looking
from aioproducer.outbox.doubts import Doubts, search
from aioproducer.outbox.held import LONGEST_PAUSE, ROWS_OF_A_SEARCH
from tests.outbox.memory import BrokenStoreError, MemoryStore
from tests.simulation.outbox.scene import LARGE, ONE, TWO, Scene, failing, play

HELD = range(101, 181)
BATCH = 20


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each search for held rows."""
    numbers: list[int] = []

    async def counted(in_doubt: Sequence[Doubts], seconds: float) -> set[int]:
        numbers.append(len(in_doubt))
        return await search(in_doubt, seconds)

    monkeypatch.setattr(looking, "search", counted)
    return numbers


def read_again(store: MemoryStore) -> int:
    """The number of held rows that the reads have returned, if all were asked for."""
    return sum(len(set(HELD).difference(skip)) for _, skip in store.reads)


async def quiet(its: Scene) -> None:
    """The pauses between searches are long."""
    await asyncio.sleep(3 * LONGEST_PAUSE)
    its.table.last_id = HELD[-1]


def test_an_ordinary_letter_that_fails(searched: list[int]) -> None:
    """The session goes on: held rows are neither read nor searched for again, and each attempt sends one record."""

    async def scene(its: Scene) -> None:
        tries = 0

        async def on_letter(number: int) -> None:
            nonlocal tries
            if number in others:
                tries += 1
                if tries < 50:
                    raise BrokenStoreError("dead letters")

        its.on_letter = on_letter
        store = its.store
        async with its.relay(store, batch=BATCH) as relay:
            await its.hold(relay, *HELD)
            await quiet(its)
            before = relay.stats().sent
            for each in (store.calls, store.reads, searched):
                each.clear()
            others = [its.table.add(ONE, LARGE) for _ in range(10)]
            began = its.world.now
            await its.until(lambda: tries >= 40)
            assert its.world.now - began > 10
            assert "release" not in store.calls
            # All at once, and then the first of them.
            assert relay.stats().sent - before <= len(others) + 42
            assert sum(searched) <= len(HELD)
            assert read_again(store) <= 2 * len(HELD)
            assert len(store.reads) < 60
            (line,) = its.world.lines("the dead letter of row 181 was not written")[:1]
            assert "is tried again: BrokenStoreError: dead letters" in line
            await its.until(lambda: its.table.rows.keys() == set(HELD))
            its.decide()
            await its.until(lambda: not its.table.rows)
            assert relay.stats().pending == 0
        assert sorted(its.letters) == [*HELD, *others]

    play(scene)


def test_sessions_that_end(searched: list[int]) -> None:
    """Held rows are read again by each of them, and not searched for again."""

    async def scene(its: Scene) -> None:
        store = its.store
        async with its.relay(store, batch=BATCH) as relay:
            await its.hold(relay, *HELD)
            await quiet(its)
            searched.clear()
            for _ in range(10):
                store.calls.clear()
                store.step = failing("read")
                its.table.add(TWO, b"other")
                await its.until(lambda: its.table.rows.keys() == set(HELD))
                assert "release" in store.calls
                assert relay.stats().pending == len(HELD)
            assert sum(searched) <= len(HELD)
            its.decide()
            await its.until(lambda: not its.table.rows)
        assert max(searched) == ROWS_OF_A_SEARCH
        assert its.letters == [*HELD]

    play(scene)


def test_sessions_that_end_during_searches(searched: list[int]) -> None:
    """A search that was cut off is made again after a pause; a row that is acknowledged shortens it."""

    async def scene(its: Scene) -> None:
        store = its.store
        async with its.relay(store, batch=BATCH) as relay:
            await its.hold(relay, *HELD)
            for _ in range(30):
                store.step = failing("read")
                its.table.add(TWO, b"other")
                await its.moment()
            assert sum(searched) <= 4 * len(HELD)
            await its.until(lambda: its.table.rows.keys() == set(HELD))
            its.table.last_id = HELD[-1]
            its.decide()
            before = its.world.now
            await its.until(lambda: not its.table.rows)
            assert its.world.now - before < 3
        assert its.letters == [*HELD]

    play(scene)


def test_a_search_that_is_cut_off(searched: list[int]) -> None:
    """The end of its session costs a pause: the row is found then, also without a later record of its partition."""

    async def scene(its: Scene) -> None:
        unread = its.world.kafka.faults.silence(api="Fetch")
        store = its.store
        async with its.relay(store) as relay:
            await its.hold(relay, HELD[0])
            await its.until(lambda: searched)
            store.step = failing("read")
            its.table.add(TWO, b"other")
            await its.until(lambda: "release" in store.calls)
            unread.heal()
            # Another user of the producer: the relay does not know of it.
            await its.producer.send_and_wait(ONE, b"another", headers={ID_HEADER: b"0"})
            await its.until(lambda: not its.table.rows)
        assert its.letters == [HELD[0]]
        assert len(searched) > 1

    play(scene)


def test_one_row_at_a_time() -> None:
    """Held rows that are read again are beside it, and no other row is sent with it: that one would have its letter."""

    async def scene(its: Scene) -> None:
        works = asyncio.Event()
        tries = 0

        async def on_letter(_: int) -> None:
            nonlocal tries
            if not works.is_set():
                tries += 1
                raise BrokenStoreError("dead letters")

        its.on_letter = on_letter
        store = its.store
        async with its.relay(store, batch=BATCH) as relay:
            await its.hold(relay, *HELD)
            its.table.last_id = HELD[-1]
            its.table.commit(Row(1, ONE, LARGE), *(Row(number, ONE, b"small") for number in range(2, 6)))
            await its.until(lambda: its.world.lines("the dead letter of row 1 was not written"))
            store.reads.clear()
            sent = relay.stats().sent - tries
            await asyncio.sleep(4 * LONGEST_PAUSE)
            # No row is read alone while others are read again.
            assert len(store.reads) < 1.2 * tries
            assert relay.stats().sent - sent <= tries + 1
            works.set()
            await its.until(lambda: not its.table.rows)
        assert sorted(its.letters) == [1, *HELD]
        assert its.log() == [2, 3, 4, 5]

    play(scene)
