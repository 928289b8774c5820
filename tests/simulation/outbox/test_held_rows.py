"""Rows that are refused while an earlier record of them may be written: held, and the rows behind them go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from aioproducer import BrokerError
from aioproducer.outbox import ID_HEADER, Relay, Row
from aioproducer.outbox.session import PAGES_HELD
from tests.simulation.outbox.scene import LARGE, ONE, POLL, TWO, Scene, failing, play


def test_a_row_alone() -> None:
    """Nothing shows that its first record is not written: it is held, and ends with the next record of its partition."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE)
        its.lose_answers()
        async with its.relay() as relay:
            await its.until_held()
            await asyncio.sleep(200)
            assert (list(its.table.rows), its.letters, relay.stats().sent) == ([1], [], 2)
            assert relay.stats().pending == 1
            assert relay.stats().oldest_seconds is not None
            assert relay.error is None
            (line,) = its.world.lines("is held")
            assert "no later record of this producer is" in line
            assert "MESSAGE_TOO_LARGE" in line
            its.table.add(TWO, b"of another topic")
            await its.until(lambda: 2 not in its.table.rows)
            await asyncio.sleep(250)
            assert (list(its.table.rows), its.letters) == ([1], [])
            assert len(its.world.lines("is held")) == 2
            its.table.add(ONE, b"the next one")
            before = its.world.now
            await its.until(lambda: not its.table.rows)
            assert its.world.now - before < 2
            assert relay.stats().pending == 0
        assert (its.letters, its.log(), its.log(TWO)) == ([1], [3], [2])

    play(scene)


@pytest.mark.parametrize(("front", "behind"), [(0, 3), (3, 0), (3, 3)])
def test_rows_around_it(front: int, behind: int) -> None:
    """All others are written in their order, and nothing waits for the row."""

    async def scene(its: Scene) -> None:
        for _ in range(front):
            its.table.add(ONE, b"front")
        number = its.table.add(ONE, LARGE)
        for _ in range(behind):
            its.table.add(ONE, b"behind")
        other = its.table.add(TWO, b"other")
        its.lose_requests()
        async with its.relay():
            await its.until(lambda: its.table.rows.keys() <= {number})
            if not behind:
                await its.until_held(number)
                its.table.add(ONE, b"later")
            await its.until(lambda: not its.table.rows)
        expected = [one for one in range(1, its.table.last_id + 1) if one not in (number, other)]
        assert (its.letters, its.log(), its.log(TWO)) == ([number], expected, [other])

    play(scene)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_request_that_arrives_late(is_first: bool) -> None:
    """The leader takes it before the rows behind it, or never: they need not wait for it."""

    async def scene(its: Scene) -> None:
        async with its.relay():
            its.table.add(ONE, b"the connection is open")
            await its.until(lambda: not its.table.rows)
            ways = [link.to_broker for port in its.ports for link in its.world.network.links(port)]
            for way in ways:
                way.hold()
            its.world.kafka.faults.error("INVALID_RECORD", topic=ONE, times=2)
            its.table.add(ONE, b"late")
            await its.until_held(2)
            assert its.log() == [1]
            if is_first:
                for way in ways:
                    way.release()
                await its.until(lambda: its.log() == [1, 2])
            its.table.add(ONE, b"behind")
            await its.until(lambda: 3 in its.log())
            for way in ways:
                way.release()
            await its.until(lambda: not its.table.rows)
            await asyncio.sleep(10)
        assert its.log() == ([1, 2, 3] if is_first else [1, 3])
        assert its.letters == ([] if is_first else [2])

    play(scene, request_timeout_ms=1_000, delivery_timeout_ms=1_005)


@pytest.mark.parametrize("times", [1, 5, 6, 12])
def test_many_attempts_of_unknown_outcome(times: int) -> None:
    """None is forgotten, and all are certain with the next record."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE)
        its.lose_answers(times)
        async with its.relay():
            await its.until_held()
            its.table.add(ONE, b"behind")
            await its.until(lambda: not its.table.rows)
        assert (its.letters, its.log()) == ([1], [2])

    play(scene)


@pytest.mark.parametrize("is_written", [True, False])
def test_a_topic_that_may_not_be_read(is_written: bool) -> None:
    """The log names the missing permission; with READ the row ends, one way or the other."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, b"v" if is_written else LARGE)
        its.world.kafka.faults.error("UNKNOWN_SERVER_ERROR", topic=ONE, append=is_written)
        refused = its.world.kafka.faults.error("INVALID_RECORD", topic=ONE, skip=1, times=2)
        unread = its.world.kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=None)
        async with its.relay():
            await its.until_held()
            refused.heal()
            its.table.add(ONE, b"behind")
            await asyncio.sleep(20)
            assert (list(its.table.rows), its.letters) == ([1], [])
            (line,) = its.world.lines("row 1 is held")
            assert "may not read the topic (READ)" in line
            unread.heal()
            await its.until(lambda: not its.table.rows)
        assert its.log() == ([1, 2] if is_written else [2])
        assert its.letters == ([] if is_written else [1])

    play(scene)


@pytest.mark.parametrize("failure", ["lock", "store", "letter"])
def test_a_held_row_outlives_the_session(failure: str) -> None:
    """It is not sent again, and its dead letter is written once."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE)
        its.lose_answers()
        store = its.store
        async with Relay(its.producer, store, dead_letters=its, poll=POLL) as relay:
            await its.until_held()
            if failure == "letter":
                its.failing_letters = 2
            elif failure == "lock":
                its.table.owner = its.store
                await its.until(lambda: not relay.stats().active)
                its.table.owner = None
            else:
                store.step = failing("read", "delete", "delete")
                await its.until(lambda: its.world.lines("the store has failed"))
            its.table.add(ONE, b"behind")
            await its.until(lambda: not its.table.rows)
            assert relay.stats().sent == 3
            assert relay.stats().pending == 0
        assert (its.letters, its.log()) == ([1], [2])

    play(scene)


@pytest.mark.parametrize("ends", ["close", "cancel"])
def test_the_end_does_not_wait_for_it(ends: str) -> None:
    """The row stays in the table; a relay that is made anew sends it again, and sets it aside."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE)
        its.lose_answers()
        relay = its.relay()
        running = asyncio.ensure_future(relay.run())
        await its.until_held()
        # In the middle of a search.
        await its.until(lambda: relay._flight.held.due == float("inf"))
        before = its.world.now
        if ends == "close":
            await relay.close()
        else:
            running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert its.world.now - before < 0.1
        assert (list(its.table.rows), its.letters, its.table.owner) == ([1], [], None)
        async with its.relay():
            await its.until(lambda: not its.table.rows)
        assert its.letters == [1]

    play(scene)


@pytest.mark.parametrize("is_anew", [True, False])
@pytest.mark.parametrize("is_last", [True, False])
def test_a_row_that_is_gone(is_anew: bool, is_last: bool) -> None:
    """Another program deletes it, and may make another one with its id, which is sent."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE, timestamp=1)
        its.lose_answers()
        async with its.relay() as relay:
            await its.until_held()
            assert relay.stats().pending == 1
            del its.table.rows[1]
            if is_anew:
                its.table.commit(Row(1, TWO, b"another one"))
            if not is_last:
                its.table.add(TWO, b"behind")
            await its.until(lambda: not its.table.rows and not relay.stats().pending)
            assert not relay._flight.held
        assert its.letters == []
        assert its.log(TWO) == [1] * is_anew + [2] * (not is_last) or its.log(TWO) == [2, 1]

    play(scene)


def test_without_dead_letters() -> None:
    """The row stops the relay; the error says that an earlier record may be written."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE)
        its.lose_answers()
        relay = its.relay(dead_letters=None)
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE") as caught:
            await relay.run()
        first, second = caught.value.__notes__[-2:]
        assert first == "row 1 of the outbox"
        assert second.startswith("an earlier record of it may be written: the record is not in the log")

    play(scene)


def test_more_rows_than_are_held() -> None:
    """Some pages of rows are held; the next one holds up the outbox, and the log says so. A later record ends them all."""

    async def scene(its: Scene) -> None:
        async with its.relay(batch=1):
            for number in range(1, PAGES_HELD + 2):
                its.lose_answers()
                its.table.add(ONE, LARGE)
                if number <= PAGES_HELD:
                    await its.until_held(number)
            await its.until(lambda: its.world.lines("holds up the outbox"))
            its.table.add(ONE, b"waits")
            await asyncio.sleep(60)
            assert len(its.table.rows) == PAGES_HELD + 2
            assert 4 <= len(its.world.lines(f"row {PAGES_HELD + 1} is refused, and holds up the outbox")) <= 8
            await its.producer.send_and_wait(ONE, b"another", headers={ID_HEADER: b"0"})
            await its.until(lambda: not its.table.rows)
        assert sorted(its.letters) == list(range(1, PAGES_HELD + 2))
        assert its.log() == [0, PAGES_HELD + 2]

    play(scene)


def test_without_idempotence() -> None:
    """An earlier request could be written behind later rows, and nothing proves that it is not: the row holds up the outbox."""

    async def scene(its: Scene) -> None:
        its.table.add(ONE, LARGE)
        its.table.add(ONE, b"behind")
        its.lose_answers()
        async with its.relay():
            await its.until(lambda: its.world.lines("row 1 is refused, and holds up the outbox"))
            await asyncio.sleep(5)
            assert (list(its.table.rows), its.letters, its.log()) == ([1, 2], [], [])
            del its.table.rows[1]
            await its.until(lambda: not its.table.rows)
        assert its.log() == [2]
        assert "enable_idempotence" in its.world.lines("holds up the outbox")[0]

    play(scene, enable_idempotence=False, max_in_flight_requests_per_connection=1)
