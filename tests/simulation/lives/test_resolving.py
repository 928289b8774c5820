"""Chaotic lives whose UNKNOWN records are resolved: no verdict is ever wrong, and nearly all of them are certain."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import attrs

from aioproducer import Delivery, Outcome, Producer
from aioproducer.records import FlushReport, Resolution
from tests.effort import RESOLVING, seeds
from tests.judge.history import number_of
from tests.simulation import fault_schedule
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.world import World, simulate

LIMIT: Final = 20.0
LASTS: Final = 10.0
KINDS: Final = (
    fault_schedule.hold_a_broker,
    fault_schedule.hold_one_direction,
    fault_schedule.hold_one_direction,
    fault_schedule.isolate_a_broker,
    fault_schedule.peers_vanish,
    fault_schedule.cut_somewhere,
    fault_schedule.reset_all_connections,
    fault_schedule.leaders_move,
    fault_schedule.broker_dies,
    fault_schedule.late_answers,
    fault_schedule.lost_answers,
)


@attrs.define
class Told:
    """The verdict about one record."""

    number: int
    partition: int
    resolution: Resolution


async def resolved(number: int, delivery: Delivery) -> Told:
    """Ask for one record."""
    assert delivery.partition is not None
    return Told(number, delivery.partition, await delivery.resolve_unknown(LIMIT))


async def stream(world: World, producer: Producer[Any, Any], partition: int) -> None:
    """Records for one partition, at random moments."""
    until = world.now + LASTS
    while world.now < until:
        await world.ledger.send(producer, TOPIC, partition=partition)
        await asyncio.sleep(world.rng.choice((0.0, 0.01, 0.5, 2.0)))


@attrs.define
class Life:
    """The verdicts at the end of a life: in the report of a flush, and about each record."""

    report: FlushReport = attrs.Factory(FlushReport)
    told: list[Told] = attrs.Factory(list)


async def live_and_resolve(world: World, life: Life, *, everything_is_back: bool) -> None:
    """A life with short deadlines under long faults; at its end every UNKNOWN record is resolved.

    `everything_is_back`: the faults are over, and each partition has a later record.
    """
    rng = world.rng
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    producer = world.producer(
        delivery_timeout_ms=rng.choice((1_000, 2_000)),
        request_timeout_ms=rng.choice((300, 800)),
        linger_ms=rng.choice((0, 20)),
        batch_size=rng.choice((200, 16_384)),
        max_block_ms=500,
    )
    await producer.start(wait_ready=5)
    faults = FaultSchedule(world)
    async with producer.scope() as scope:
        async with asyncio.TaskGroup() as group:
            group.create_task(faults.run(rng.randrange(4, 10), LASTS, KINDS))
            for partition in range(3):
                group.create_task(stream(world, producer, partition))
        if everything_is_back:
            await all_back(world, producer)
        life.report = await scope.flush(LIMIT, resolve=True)
    await asyncio.sleep(3)
    life.told += await asyncio.gather(
        *(
            resolved(entry.number, entry.delivery)
            for entry in world.ledger.entries
            if entry.delivery is not None and entry.delivery.outcome is Outcome.UNKNOWN
        )
    )


async def all_back(world: World, producer: Producer[Any, Any]) -> None:
    """No fault is left, and each partition gets a record."""
    for broker in world.kafka.brokers:
        world.network.release(broker.port)
    world.kafka.faults.heal()
    await asyncio.sleep(3)
    for partition in range(3):
        delivery = await world.ledger.send(producer, TOPIC, partition=partition)
        if delivery is not None:
            await delivery.wait(None)


def mistakes(world: World, life: Life) -> list[object]:
    """The verdicts that the log contradicts, at the end of everything."""
    places = {
        number_of(record.value): (record.partition, record.offset) for record in world.kafka.records(TOPIC)
    }
    wrong: list[object] = [
        each
        for each in life.told
        if (each.resolution.outcome is Outcome.ACKED
            and places.get(each.number) != (each.partition, each.resolution.offset))
        or (each.resolution.outcome is Outcome.NOT_WRITTEN and each.number in places)
    ]  # fmt: skip
    report = life.report
    accepted = [entry.number for entry in world.ledger.entries if entry.delivery is not None]
    written = len(places.keys() & set(accepted))
    is_counted = report.acked + report.not_written + report.unknown == len(accepted)
    if not is_counted or not report.acked <= written <= report.acked + report.unknown:
        wrong.append((written, len(accepted), report))
    return wrong


def test_no_verdict_is_wrong() -> None:
    """Each verdict agrees with the log after everything has ended; at least 95 % are certain where the leaders are back."""
    counts: Counter[Outcome] = Counter()
    flushed: Counter[Outcome] = Counter()
    reasons: Counter[str] = Counter()
    for seed in seeds(RESOLVING):
        life, back = Life(), bool(seed % 4)
        try:
            world = simulate(
                lambda world, life=life, back=back: live_and_resolve(world, life, everything_is_back=back),  # type: ignore[misc]
                seed,
            )
        except BaseException:
            print("seed", seed)
            raise
        assert mistakes(world, life) == [], f"seed {seed}"
        if back:
            counts.update(each.resolution.outcome for each in life.told)
            flushed[Outcome.ACKED] += life.report.resolved_acked
            flushed[Outcome.NOT_WRITTEN] += life.report.resolved_not_written
            flushed[Outcome.UNKNOWN] += life.report.unknown
            reasons.update(life.report.unknown_reasons)
    for each in (counts, flushed):
        assert each[Outcome.UNKNOWN] <= 0.05 * each.total(), (counts, flushed, reasons)
    print(counts, flushed, reasons)
