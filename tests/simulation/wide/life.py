"""One wide life: a producer under unusual settings, its users, a schedule of faults, and an end of some kind."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import attrs

from aioproducer import Outcome, Producer
from tests.judge.history import Sent
from tests.simulation.fault_schedule import APIS, FAULTS, FaultSchedule
from tests.simulation.wide.bounds import Bounds
from tests.simulation.wide.pieces import CountingInterceptor, interceptors
from tests.simulation.wide.reports import Reports
from tests.simulation.wide.settings import make_topics, rules_of, settings_of
from tests.simulation.wide.users import User
from tests.simulation.world import World

MOST_RECORDS: Final = 250
LASTS: Final = (0.3, 1.0, 3.0, 8.0)
"""Seconds of a life: in a short one many batches are in flight at each fault."""
OFTEN: Final = tuple(
    fault
    for fault in FAULTS
    if fault.__name__
    in (
        "retriable_errors", "final_errors", "cut_answers", "lost_answers", "late_answers", "cut_somewhere", "leaders_move",
        "too_few_in_sync", "reset_all_connections", "hold_one_direction", "loop_stalls",
    )
)  # fmt: skip
"""The faults that leave batches in doubt, or cause retries."""
SHORTLY: Final = 0.25
"""Seconds in which `close()` returns when its time is over."""


@attrs.define(eq=False)
class Life:
    """One producer, and its books."""

    world: World
    settings: dict[str, Any]
    producer: Producer[Any, Any]
    schedule: FaultSchedule
    bounds: Bounds
    reports: Reports
    interceptors: tuple[CountingInterceptor, ...]

    async def live(self) -> None:
        """Run users and faults until all have ended, or until the producer is closed beneath them."""
        rng, loop = self.world.rng, asyncio.get_running_loop()
        await self.producer.start()
        lasts = rng.choice(LASTS)
        faults = loop.create_task(self.schedule.run(rng.randrange(0, 12), lasts, (*FAULTS, *OFTEN * 3)))
        count = rng.randrange(1, 6)
        share = rng.randrange(1, MOST_RECORDS) // count + 1
        users = [
            User(f"task {number}", self.world, self.producer, self.schedule.topics, self.reports, self.bounds)
            for number in range(count)
        ]
        working = [loop.create_task(user.work(share, lasts)) for user in users]
        if rng.random() < 0.3:
            await asyncio.wait(working, timeout=rng.uniform(0, lasts))
        else:
            await asyncio.wait(working)
        await self._close()
        await self._all_return(users, working)
        await asyncio.wait([faults])
        faults.result()
        self.world.rules = rules_of(self.producer)

    async def _close(self) -> None:
        rng = self.world.rng
        timeout = rng.choice((None, None, 0.0, 0.05, 2.0))
        patience = self.producer.config.close_timeout_ms / 1000 if timeout is None else timeout
        with self.bounds.within("close()", patience + SHORTLY):
            await self.reports.close(timeout)

    async def _all_return(self, users: list[User], working: list[asyncio.Task[None]]) -> None:
        for user in users:
            # The task ends what it has begun, and is refused.
            user.over = True
        await asyncio.wait(working)
        for task in working:
            task.result()
        await self.world.ledger.look_at_what_was_left()

    def verdict(self) -> list[str]:
        """Every broken promise that the judge does not see."""
        history = self.world.ledger.history()
        return [
            *self.bounds.broken,
            *self.reports.verdict(history),
            *self._left(),
            *self._seen_by_interceptors(history),
        ]

    def _left(self) -> list[str]:
        engine, intake = self.producer._engine, self.producer._intake
        assert engine is not None
        assert intake is not None
        left = {
            "queued": len(intake.queued),
            "flushes": len(engine.flushes.waiting),
            "waiting": engine.admission.calls.waiting,
            "live": sum(batch.pending for batch in engine.accumulator.live),
        }
        return [f"{what}: {count} are left" for what, count in left.items() if count]

    def _seen_by_interceptors(self, history: list[Sent]) -> list[str]:
        acked: Counter[tuple[str, int | None, int]] = Counter(
            (sent.topic, sent.partition, sent.offset) for sent in history if sent.outcome is Outcome.ACKED
        )
        found = []
        for interceptor in self.interceptors:
            if interceptor.places != acked:
                seen = sorted(interceptor.places.items())
                found.append(f"an interceptor saw {seen}, and {sorted(acked.items())} were acknowledged")
            if interceptor.ended > interceptor.seen:
                found.append(f"an interceptor got {interceptor.ended} outcomes of {interceptor.seen} records")
            if interceptor.closed != 1:
                found.append(f"an interceptor was closed {interceptor.closed} times")
        return found


def live_in(world: World) -> Life:
    """A life in this world."""
    rng = world.rng
    topics = make_topics(world)
    conditions = world.network.conditions
    conditions.fragmented = rng.choice((0.0, 0.1, 0.5))
    conditions.window = rng.choice((2_000, 16_000, 256_000))
    observers = interceptors(rng)
    settings = settings_of(world, topics, observers)
    producer = world.producer(**settings)
    reports = Reports(world.ledger, producer)
    return Life(
        world,
        settings,
        producer,
        FaultSchedule(world, topics=topics, apis=("Produce",) * 6 + APIS),
        Bounds(world.loop),
        reports,
        observers,
    )
