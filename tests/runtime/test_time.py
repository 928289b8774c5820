"""Time as Python programs distort it: a loop that is held up, and a wall clock that jumps or stands still."""

from __future__ import annotations

import asyncio
import time

import pytest

from aioproducer import Outcome
from aioproducer._calls import lifecycle
from aioproducer._core import ManualClock
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, engine, outcomes, until, warm
from tests.runtime.support import History, KafkaElsewhere

STALL = 3.0
START_MS = 1_700_000_000_000
DAY_MS = 24 * 60 * 60 * 1000


async def test_f01_loop_blocked_for_longer_than_every_timeout(make: Make) -> None:
    """Answers that arrive while a callback blocks the loop for 3 s count, though every time limit is over by then."""
    history = History()
    with KafkaElsewhere("one") as kafka:
        producer = await warm(
            make(kafka.bootstrap_servers, batch_size=1, request_timeout_ms=1000, delivery_timeout_ms=2000),
            "one",
        )
        first = await producer.send("one", first_value := history.value())
        await first
        values = [history.value() for _ in range(5)]
        deliveries = [await producer.send("one", value) for value in values]
        await until(lambda: producer.stats().requests == 6)
        asyncio.get_running_loop().call_soon(time.sleep, STALL)
        assert await outcomes(deliveries) == [Outcome.ACKED] * 5
        for value, delivery in zip([first_value, *values], [first, *deliveries], strict=True):
            history.accepted(value, delivery)
        history.check(kafka, ["one"])
        stats = producer.stats()
        assert (stats.records_retried, stats.connections[0].connects, stats.requests) == (0, 1, 6)
        await producer.close()


async def test_f01_calls_that_wait_while_the_loop_is_blocked(make: Make) -> None:
    """A send that waits for memory gets what an answer gave back during the stall, though its `max_block` is over."""
    with KafkaElsewhere("one") as kafka:
        producer = await warm(make(kafka.bootstrap_servers, buffer_memory=1_000, batch_size=1), "one")
        first = await producer.send("one", bytes(700))
        waiting = asyncio.ensure_future(producer.send("one", bytes(700), max_block=1.0))
        await until(lambda: producer.stats().requests == 1)
        asyncio.get_running_loop().call_soon(time.sleep, 1.5)
        assert await outcomes([first, await waiting]) == [Outcome.ACKED] * 2
        await producer.close()


class Wall:
    """The wall clock of a test: the core's, and Python's own functions for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock(time.monotonic(), START_MS)
        monkeypatch.setattr(lifecycle, "Clock", lambda: self.clock)
        monkeypatch.setattr(time, "time", lambda: self.clock.wall_ms / 1000)
        monkeypatch.setattr(time, "time_ns", lambda: self.clock.wall_ms * 1_000_000)

    def jump(self, milliseconds: int) -> int:
        """Set it forward or back; monotonic time goes on as it does."""
        self.clock.wall_ms += milliseconds
        self.clock.monotonic = time.monotonic()
        return self.clock.wall_ms


@pytest.mark.parametrize("jump", [DAY_MS, -DAY_MS, 0], ids=["forward", "back", "frozen"])
async def test_f02_wall_clock_jumps(jump: int, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that is set moves timestamps of records and nothing else: no time limit is measured by it."""
    wall = Wall(monkeypatch)
    # The broker has a clock of its own, which takes every timestamp that there may be.
    async with EmbeddedKafka(wall_clock=lambda: START_MS + 3 * DAY_MS) as kafka:
        producer = await warm(
            make(kafka, delivery_timeout_ms=1500, request_timeout_ms=700, linger_ms=100, buffer_memory=1_000),
            "one",
        )
        await producer.send_and_wait("one", b"before")
        hold = kafka.faults.delay(times=None)
        flying = await producer.send("one", b"flying")
        await hold.reached()
        lingering = await producer.send("one", bytes(500))
        waiting = asyncio.ensure_future(producer.send("one", bytes(600), max_block=1))
        stamp = wall.jump(jump)
        engine(producer).wakeup.ring()
        # A timer of a real clock: every timer that the jump might have made due would be, too.
        await asyncio.sleep(0.05)
        assert (flying.outcome, lingering.outcome, waiting.done()) == (
            Outcome.PENDING,
            Outcome.PENDING,
            False,
        )
        hold.heal()
        late = await waiting
        assert await outcomes([flying, lingering, late]) == [Outcome.ACKED] * 3
        after = await producer.send_and_wait("one", b"after")
        assert after.timestamp == stamp
        assert [record.timestamp for record in kafka.records("one")][-1] == stamp
        stats = producer.stats()
        assert (stats.records_retried, stats.records_failed, stats.connections[0].connects) == (0, 0, 1)
        timings = flying.timings
        assert timings.answered is not None
        assert timings.written is not None
        assert 0 <= timings.answered - timings.written < 5
        await producer.close()
