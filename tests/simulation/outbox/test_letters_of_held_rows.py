"""The dead letters of held rows: an outlet that fails, is slow or does not answer holds up no other row."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import attrs
import pytest

from aioproducer.outbox import Relay, Row
from aioproducer.outbox.session import PAGES_HELD
from tests.effort import SCENARIO, seeds
from tests.outbox.memory import BrokenStoreError, MemoryStore
from tests.simulation.outbox.scene import LARGE, ONE, TWO, Scene, failing, play

HELD = (101, 102, 103, 104)


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
@pytest.mark.parametrize("fault", ["fails", "hangs", "is slow", "is cancelled", "cancels its task"])
def test_an_outlet_with_a_fault(fault: str, batch: int) -> None:
    """Rows behind are written at once, in their order. Each letter is written when the outlet works again."""

    async def scene(its: Scene) -> None:
        works = asyncio.Event()
        tries = 0

        async def on_letter(_: int) -> None:
            nonlocal tries
            tries += 1
            if tries > 100:
                # Without a pause, no time would pass.
                works.set()
            if works.is_set():
                return
            if fault == "fails":
                raise BrokenStoreError("dead letters")
            if fault == "is cancelled":
                raise asyncio.CancelledError
            if fault == "cancels its task":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            await (works.wait() if fault == "hangs" else asyncio.sleep(10))

        its.on_letter = on_letter
        its.table.last_id = HELD[-1]
        async with its.relay(batch=batch) as relay:
            await its.hold(relay, *HELD)
            behind = [its.decide() for _ in range(6)]
            other = [its.table.add(TWO, b"other") for _ in range(20)]
            before = its.world.now
            await its.until(lambda: not its.table.rows.keys() - set(HELD))
            assert its.world.now - before < 2
            await asyncio.sleep(60)
            assert 1 <= tries <= 12
            late = its.table.add(TWO, b"late")
            before = its.world.now
            await its.until(lambda: late not in its.table.rows)
            assert its.world.now - before < 1
            assert relay.stats().pending == len(its.table.rows)
            works.set()
            await its.until(lambda: not its.table.rows)
            assert relay.stats().pending == 0
        assert its.letters == sorted(its.letters) or fault != "is slow"
        assert sorted(its.letters) == list(HELD)
        assert (its.log(), its.log(TWO)) == (behind, [*other, late])

    play(scene)


def test_a_letter_that_is_never_written() -> None:
    """The letters of other rows are, and the log names the row, after growing pauses."""

    async def scene(its: Scene) -> None:
        async def on_letter(number: int) -> None:
            if number == HELD[0]:
                raise BrokenStoreError("too large")

        its.on_letter = on_letter
        async with its.relay() as relay:
            await its.hold(relay, *HELD)
            its.decide()
            await its.until(lambda: its.table.rows.keys() == {HELD[0]})
            await asyncio.sleep(300)
            assert its.letters == list(HELD[1:])
            lines = its.world.lines("the dead letter of row 101, which is held, was not written")
            assert 7 <= len(lines) <= 12
            assert "tried again in 1 s: BrokenStoreError: too large" in lines[0]
            assert "tried again in 60 s" in lines[-1]
            del its.table.rows[HELD[0]]
            await its.until(lambda: not relay.stats().pending)

    play(scene)


@pytest.mark.parametrize("is_anew", [True, False])
@pytest.mark.parametrize("during", ["pause", "letter"])
def test_a_row_that_is_gone(during: str, is_anew: bool) -> None:
    """Another program deletes it while its letter waits or is written, and may make another one with its id, which is sent."""

    async def scene(its: Scene) -> None:
        goes_on = asyncio.Event()
        begun = asyncio.Event()

        async def on_letter(_: int) -> None:
            begun.set()
            if during == "letter":
                await goes_on.wait()
            elif not goes_on.is_set():
                raise BrokenStoreError("dead letters")

        its.on_letter = on_letter
        async with its.relay() as relay:
            await its.hold(relay, 1)
            its.table.last_id = 1
            behind = its.decide()
            await begun.wait()
            await its.until(lambda: behind not in its.table.rows)
            del its.table.rows[1]
            if is_anew:
                its.table.commit(Row(1, TWO, b"another one"))
            if during == "letter":
                # The page that shows it is read for another row.
                its.table.add(TWO, b"other")
                await its.until(lambda: its.log(TWO))
            goes_on.set()
            await its.until(lambda: not its.table.rows and not relay.stats().pending)
            assert not relay._flight.held
        assert its.letters == ([1] if during == "letter" else [])
        assert its.log(TWO).count(1) == is_anew

    play(scene)


@attrs.define(eq=False)
class OpenLetter:
    """Row 1 is held, row 2 behind it is written and deleted, and the letter of row 1 is on its way until `goes_on`."""

    relay: Relay
    store: MemoryStore
    running: asyncio.Future[None]
    goes_on: asyncio.Event = attrs.Factory(asyncio.Event)


async def open_letter(its: Scene) -> OpenLetter:
    """A relay that has begun a letter."""
    store, begun = its.store, asyncio.Event()
    relay = its.relay(store)
    opened = OpenLetter(relay, store, asyncio.ensure_future(relay.run()))

    async def on_letter(_: int) -> None:
        begun.set()
        await opened.goes_on.wait()

    its.on_letter = on_letter
    await its.hold(relay, 1)
    its.table.last_id = 1
    behind = its.decide()
    await begun.wait()
    await its.until(lambda: behind not in its.table.rows)
    return opened


@pytest.mark.parametrize("ends", ["close", "soon", "cancel", "lock", "store"])
def test_an_end_while_a_letter_is_written(ends: str) -> None:
    """`close()` waits for it; a letter that is written is not written again by the next session."""

    async def scene(its: Scene) -> None:
        opened = await open_letter(its)
        relay, running = opened.relay, opened.running
        before = its.world.now
        if ends == "close":
            asyncio.get_running_loop().call_later(2, opened.goes_on.set)
            await relay.close()
            assert its.world.now - before == pytest.approx(2, abs=0.1)
            assert (list(its.table.rows), its.letters) == ([], [1])
        elif ends in ("soon", "cancel"):
            if ends == "soon":
                await relay.close(0.2)
            else:
                running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert its.world.now - before < 1
            assert (list(its.table.rows), its.letters, its.table.owner) == ([1], [], None)
            return
        elif ends == "lock":
            its.table.owner = its.store
            await its.until(lambda: not relay.stats().active)
            its.table.owner = None
        else:
            opened.store.step = failing("read", "delete")
            await its.until(lambda: its.world.lines("the store has failed"))
        opened.goes_on.set()
        await its.until(lambda: not its.table.rows)
        await relay.close()
        await running
        assert its.letters == [1]
        assert its.log() == [2]

    play(scene)


@pytest.mark.parametrize("is_read", [True, False])
def test_an_end_when_a_row_is_made_anew(is_read: bool) -> None:
    """Another program has given its id to another row while its letter was written: that row stays, and the next relay sends it."""

    async def scene(its: Scene) -> None:
        opened = await open_letter(its)
        relay, running = opened.relay, opened.running
        if is_read:
            its.table.commit(Row(1, TWO, b"another one"))
            asyncio.get_running_loop().call_later(1, opened.goes_on.set)
        else:
            # Its session ends before it is read again, and the next one before its first page.
            opened.store.step = failing("read")
            opened.goes_on.set()
            await its.until(lambda: its.letters)
            await its.until(lambda: its.world.lines("the store has failed"))
            its.table.commit(Row(1, TWO, b"another one"))
        await relay.close()
        await running
        assert list(its.table.rows) == [1]
        async with its.relay():
            await its.until(lambda: not its.table.rows)
        assert (its.letters, its.log(TWO)) == ([1], [1])

    play(scene)


def test_acknowledged_rows_at_the_end() -> None:
    """They are deleted before the relay waits for a letter: when it is killed then, they are not sent again."""

    async def scene(its: Scene) -> None:
        opened = await open_letter(its)
        relay, running = opened.relay, opened.running
        sent = relay.stats().sent
        ways = [link.to_broker for port in its.ports for link in its.world.network.links(port)]
        for way in ways:
            way.hold()
        behind = its.table.add(TWO, b"behind")
        await its.until(lambda: relay.stats().sent == sent + 1)
        closing = asyncio.ensure_future(relay.close(60))
        await its.moment()
        assert behind in its.table.rows
        for way in ways:
            way.release()
        await its.until(lambda: its.table.rows.keys() == {1})
        await asyncio.sleep(1)
        assert not closing.done()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await closing

    play(scene)


@attrs.define(eq=False)
class Life:
    """Held rows among others, an outlet with drawn faults, a store that fails, and another program that deletes rows."""

    its: Scene
    draw: random.Random
    faults: int
    held: set[int] = attrs.Factory(set)
    large: set[int] = attrs.Factory(set)
    others: dict[str, list[int]] = attrs.Factory(lambda: {ONE: [], TWO: []})
    begun: set[int] = attrs.Factory(set)
    written: list[int] = attrs.Factory(list)
    gone: set[int] = attrs.Factory(set)

    async def on_letter(self, number: int) -> None:
        """The outlet writes the letter, or not."""
        assert number not in self.gone, f"row {number} was gone before"
        self.begun.add(number)
        if self.faults and self.draw.random() < 0.6:
            self.faults -= 1
            await self.fault()
        self.written.append(number)

    async def fault(self) -> None:
        """It is slow, fails, or both."""
        if self.draw.random() < 0.5:
            await asyncio.sleep(self.draw.uniform(0.1, 20))
        if self.draw.random() < 0.7:
            raise self.draw.choice([BrokenStoreError("dead letters"), asyncio.CancelledError()])

    async def step(self, relay: Relay, store: MemoryStore) -> None:
        """A transaction of the application, a failure of the store, or a row that is deleted by another program."""
        deed = self.draw.choice(["other"] * 7 + ["large", "store", "delete"])
        if deed == "other":
            topic = self.draw.choice([ONE, TWO])
            self.others[topic].append(self.its.table.add(topic, b"other"))
        elif deed == "large":
            self.large.add(self.its.table.add(ONE, LARGE))
        elif deed == "store":
            store.step = failing(self.draw.choice(["read", "delete", "acquire"]))
        elif waiting := sorted(self.held & self.its.table.rows.keys() - self.begun):
            await self.delete(relay, self.draw.choice(waiting))

    async def delete(self, relay: Relay, number: int) -> None:
        """Until the relay reads on, it does not know, and may begin the letter."""
        del self.its.table.rows[number]
        await self.its.until(lambda: number not in relay._flight.held.ids)
        self.gone.add(number)

    def check(self) -> None:
        """All others are written in their order, and each refused row has one letter."""
        refused = self.held | self.large
        assert {topic: self.its.log(topic) for topic in self.others} == self.others
        assert sorted(self.written) == sorted(set(self.written))
        assert refused - self.gone <= set(self.written) <= refused


@pytest.mark.parametrize("seed", seeds(SCENARIO))
def test_drawn_outlets(seed: int) -> None:
    """Each row is done with at last, and none has two letters."""
    draw = random.Random(seed)

    async def scene(its: Scene) -> None:
        life = Life(its, draw, draw.randrange(12))
        its.on_letter = life.on_letter
        store = its.store
        batch = draw.choice([1, 2, 3, 10])
        async with its.relay(store, batch=batch) as relay:
            held = [100 + one for one in range(draw.randrange(1, 1 + min(9, PAGES_HELD * batch)))]
            its.table.last_id = held[-1]
            await its.hold(relay, *held)
            life.held.update(held)
            for _ in range(draw.randrange(5, 30)):
                await asyncio.sleep(draw.choice([0.0, 0.1, 3.0]))
                await life.step(relay, store)
            life.others[ONE].append(its.decide())
            await its.until(lambda: not its.table.rows and not relay.stats().pending)
            assert not relay._flight.held
        life.check()

    play(scene)
