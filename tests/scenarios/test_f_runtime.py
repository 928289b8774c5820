"""F01-F04, F14, F18, F20: the loop, the clock and the user's own code, in virtual time. Every scenario is judged."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Final
from unittest import mock

import attrs
import pytest

from aioproducer import (
    BufferFullError,
    CloseReport,
    Delivery,
    FlushReport,
    Outcome,
    Producer,
    Record,
    RecordMetadata,
    StateError,
)
from aioproducer.interceptors import Interceptor
from tests.judge.history import number_of
from tests.runtime.stepping import Ended, Moment, cancelled_at
from tests.scenarios.support import (
    TOPIC,
    all_acked,
    leader,
    numbers,
    outcomes,
    port_of_leader,
    produced,
    scenario,
    send,
    stage,
    stream,
)
from tests.simulation.ledger import Entry
from tests.simulation.world import World

RT, DT, MB = 2.0, 20.0, 5.0
TICK: Final = 0.05
BLOCKED: Final = 30.0
A_DAY_MS: Final = 86_400_000
NO_COUNTS: Final = (0, 0, 0, 0)


def held(producer: Producer[Any, Any]) -> tuple[int, int, int, int]:
    """The counts of a producer's held objects: zero, when all is over."""
    stats = producer.stats()
    return stats.bytes_buffered, stats.bytes_in_flight, stats.records_in_flight, stats.waiting_calls


def attempts(producer: Producer[Any, Any]) -> tuple[int, int, int]:
    """Counts that would grow with a repetition: records, connections, failures."""
    stats = producer.stats()
    return (
        stats.records_retried,
        sum(connection.connects for connection in stats.connections),
        sum(connection.failures for connection in stats.connections),
    )


# -- F01: the loop is blocked


async def answers_arrive_in_a_stall(
    world: World, producer: Producer[Any, Any], deliveries: Callable[[], Awaitable[list[Delivery]]]
) -> list[Delivery]:
    """Block the loop while the answers to these records are on their way to it."""
    conditions = world.network.conditions
    usual = conditions.fastest, conditions.slowest
    world.kafka.faults.delay(0.3)
    sent = await deliveries()
    await asyncio.sleep(0.1)
    # Later than any request timeout, so that the timers of the producer are due before its bytes are there.
    conditions.fastest = conditions.slowest = world.rng.uniform(RT + 0.3, BLOCKED - 1.0)
    await asyncio.sleep(0.25)
    conditions.fastest, conditions.slowest = usual
    assert {delivery.outcome for delivery in sent} == {Outcome.PENDING}
    assert producer._engine is not None
    if world.rng.random() < 0.5:
        # The task that expires late records was woken in the same turn in which the loop was blocked.
        world.loop.call_soon(producer._engine.wakeup.ring)
    world.loop.call_soon(world.loop.stall, BLOCKED)
    await asyncio.sleep(0)
    return sent


@scenario()
async def test_f01_answers_arrived_while_the_loop_was_blocked(world: World) -> None:
    """They are handled before any deadline is judged: acknowledged at the first attempt, on the same connection."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    before = attempts(producer), produced(world), len(world.network.dials)
    count = world.rng.randrange(1, 6)

    async def one_by_one() -> list[Delivery]:
        deliveries = []
        for _ in range(count):
            deliveries += await send(world, producer, partition=0)
            await asyncio.sleep(0.01)
        return deliveries

    began = world.now
    deliveries = await answers_arrive_in_a_stall(world, producer, one_by_one)
    await all_acked(deliveries)
    assert world.now - began >= BLOCKED > DT
    assert (attempts(producer), produced(world) - count, len(world.network.dials)) == before
    assert numbers(world, 0) == list(range(1 + count))


@scenario()
async def test_f01_room_came_back_while_the_loop_was_blocked(world: World) -> None:
    """A call that waited for memory gets it from the answer that had arrived, though `max_block` is over."""
    producer = await stage(world, linger_ms=0, buffer_memory=3_000, batch_size=500)
    await all_acked(await send(world, producer, partition=0))

    async def full() -> list[Delivery]:
        return await send(world, producer, 1, partition=0, filling=bytes(2_500))

    waiting: list[asyncio.Task[Delivery | None]] = []

    async def full_and_waiting() -> list[Delivery]:
        deliveries = await full()
        calls = [world.ledger.send(producer, TOPIC, bytes(400), partition=0) for _ in range(5)]
        waiting.extend(map(asyncio.create_task, calls))
        return deliveries

    await all_acked(await answers_arrive_in_a_stall(world, producer, full_and_waiting))
    await all_acked([await call for call in waiting])
    assert attempts(producer)[0] == 0


@scenario()
async def test_f01_nothing_was_in_flight_while_the_loop_was_blocked(world: World) -> None:
    """A pause of the program causes no new connection, no repeated request, and no warning."""
    producer = await stage(world, linger_ms=0, metadata_max_age_ms=300_000)
    for partition in range(3):
        await all_acked(await send(world, producer, partition=partition))
    for _ in range(3):
        before = len(world.network.dials), produced(world)
        world.loop.call_soon(world.loop.stall, BLOCKED)
        await asyncio.sleep(world.rng.uniform(0, 0.1))
        resumed = world.now
        await all_acked(await send(world, producer, 3, partition=world.rng.randrange(3)))
        assert world.now - resumed < 0.1
        assert len(world.network.dials) == before[0]
        assert produced(world) - before[1] <= 3
    assert [line for line in world.warnings() if "connect" in line or "timed out" in line] == []


@scenario()
async def test_f01_the_loop_is_blocked_again_and_again_under_a_stream(world: World) -> None:
    """The outcome of each record after each stall is true, and sending continues at once."""
    producer = await stage(world)
    streaming = asyncio.create_task(stream(world, producer, 200.0, every=0.5))
    while not streaming.done():
        await asyncio.sleep(world.rng.uniform(0.1, 5.0))
        # In the task itself: the time until the next stall begins when this one is over.
        world.loop.stall(world.rng.choice((1.0, RT + 0.1, BLOCKED)))
    deliveries = await streaming
    assert (await outcomes(deliveries))[Outcome.ACKED] > 0
    await asyncio.sleep(TICK)
    resumed = world.now
    await all_acked(await send(world, producer, 3))
    assert world.now - resumed < RT + 3.0


# -- F02: the wall clock


@scenario()
async def test_f02_the_wall_clock_jumps_by_a_day(world: World) -> None:
    """Forth and back under a stream: no delivery is affected, and each record has the time of its acceptance."""
    producer = await stage(world, 1, linger_ms=0)
    accepted: list[tuple[int, int]] = []
    deliveries = []
    for _ in range(60):
        if world.rng.random() < 0.2:
            world.loop.set_wall(world.rng.choice((-A_DAY_MS, 0, A_DAY_MS)))
        before = world.loop.wall_ms()
        deliveries += await send(world, producer)
        accepted.append((before, world.loop.wall_ms()))
        await asyncio.sleep(0.02)
    await all_acked(deliveries)
    assert producer.stats().records_retried == 0
    for (before, after), record in zip(accepted, world.kafka.records(TOPIC), strict=True):
        assert before - 1 <= record.timestamp <= after + 1
    world.loop.set_wall(0)


@pytest.mark.parametrize("how", ["jumps", "frozen"])
@scenario()
async def test_f02_deadlines_do_not_follow_the_wall_clock(world: World, how: str) -> None:
    """A record's deadline, a call's timeout and a request's timeout use the monotonic clock."""
    producer = await stage(world, linger_ms=0, buffer_memory=2_000, batch_size=500)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world))
    frozen = world.loop.wall_ms()
    with mock.patch.object(
        world.loop, "wall_ms", (lambda: frozen) if how == "frozen" else world.loop.wall_ms
    ):
        began = world.now
        (stuck,) = await send(world, producer, partition=0)
        full = await send(world, producer, partition=0, filling=bytes(1_500))
        jumping = asyncio.create_task(jump(world)) if how == "jumps" else None
        called = world.now
        assert await world.ledger.send(producer, TOPIC, bytes(1_000), partition=0) is None
        assert isinstance(world.ledger.entries[-1].error, BufferFullError)
        assert MB <= world.now - called <= MB + TICK
        assert await stuck.wait(None) is Outcome.UNKNOWN
        assert DT - TICK <= world.now - began <= DT + TICK
        await outcomes(full)
        assert DT - TICK <= world.now - began <= DT + TICK
        if jumping is not None:
            jumping.cancel()
    assert (
        len([at for at, _, port in world.network.dials if port == port_of_leader(world) and at > began]) >= 2
    )
    world.loop.set_wall(0)


async def jump(world: World) -> None:
    """Set the wall clock, with no return."""
    while True:
        world.loop.set_wall(world.rng.choice((-A_DAY_MS, 0, A_DAY_MS)))
        await asyncio.sleep(world.rng.uniform(0, 2.0))


# -- F03: cancelled at any await


@attrs.define
class CancelledSends:
    """Sends whose tasks are cancelled at some step, and the result of each."""

    world: World
    producer: Producer[Any, Any]
    accepted: int = 0
    withdrawn: int = 0

    async def send(self, filling: bytes = b"", **arguments: Any) -> Ended:
        """One call that is cancelled at one step, or at two, that the seed draws."""
        rng = self.world.rng
        entry, value = self.world.ledger._enter(TOPIC, filling, arguments)
        sending = self.producer.send(TOPIC, value, **arguments)
        step = rng.choice((1, 1, 1, 2, 3, 4, 5))
        steps = [step, step + rng.randrange(1, 3)] if rng.random() < 0.3 else [step]
        ended = await cancelled_at(sending, steps, rng.choice(list(Moment)))
        self._note(entry, sending.delivery, ended)
        return ended

    def _note(self, entry: Entry, delivery: Delivery | None, ended: Ended) -> None:
        entry.delivery = delivery
        if delivery is not None:
            self.accepted += 1
        else:
            # Withdrawn: the judge demands that.
            assert ended.cancelled or ended.error is not None
            entry.error = StateError("its task was cancelled before it was accepted")
            self.withdrawn += ended.cancelled


async def slow_value(value: bytes) -> bytes:
    """A serializer that looks something up."""
    for _ in range(2):
        await asyncio.sleep(0.001)
    return value


SLOW_PATHS: Final[dict[str, dict[str, Any]]] = {
    "metadata": {},
    "serializer": {"value_serializer": slow_value},
    "memory": {"buffer_memory": 2_000, "batch_size": 300},
}


@pytest.mark.parametrize("path", SLOW_PATHS)
@scenario()
async def test_f03_tasks_that_send_are_cancelled_at_any_step(world: World, path: str) -> None:
    """Before acceptance the record is withdrawn, after it it is sent; other records are not affected, and room comes back."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    producer = world.producer(linger_ms=0, **SLOW_PATHS[path])
    await producer.start(wait_ready=5)
    world.kafka.faults.delay(0.05, times=10)
    world.kafka.faults.delay(0.2, api="Metadata", topic=TOPIC)
    cancelled = CancelledSends(world, producer)
    filling = bytes(400) if path == "memory" else b""
    calls: list[asyncio.Task[Any]] = []
    uncancelled: list[asyncio.Task[Delivery | None]] = []
    for _ in range(60):
        partition = world.rng.randrange(3)
        if world.rng.random() < 0.5:
            calls.append(asyncio.create_task(cancelled.send(filling, partition=partition)))
        else:
            call = world.ledger.send(producer, TOPIC, filling, partition=partition)
            uncancelled.append(asyncio.create_task(call))
        if world.rng.random() < 0.2:
            await asyncio.sleep(world.rng.uniform(0, 0.01))
    await asyncio.gather(*calls)
    await all_acked([await call for call in uncancelled])
    await producer.flush()
    assert cancelled.withdrawn > 0
    assert len(numbers(world)) == len(uncancelled) + cancelled.accepted == producer.stats().records_accepted
    assert held(producer) == NO_COUNTS


async def flushing(producer: Producer[Any, Any]) -> None:
    """A flush with a limit."""
    await producer.flush(timeout=30.0)


async def looking(producer: Producer[Any, Any]) -> None:
    """A request for a topic that is not known yet."""
    await producer.partitions_for(TOPIC)


async def in_bulk(producer: Producer[Any, Any]) -> None:
    """Many records in one call, for a topic without the judge's knowledge."""
    await (await producer.send_batch("bulk", [bytes(100)] * 20))


async def all_of_them(producer: Producer[Any, Any]) -> None:
    """Records of an iterable."""
    await producer.send_all(Record("bulk", bytes(100)) for _ in range(20))


async def and_wait(producer: Producer[Any, Any]) -> None:
    """One record, until it is written."""
    await producer.send_and_wait("bulk", bytes(100))


CALLS: Final = (flushing, looking, in_bulk, all_of_them, and_wait)


@scenario()
async def test_f03_any_other_call_is_cancelled_at_any_step(world: World) -> None:
    """Flushing, looking and bulk sends: a cancelled call leaves nothing behind, and no other record is harmed."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    world.kafka.create_topic("bulk", 2)
    world.forgotten.add("bulk")
    producer = world.producer(linger_ms=20, buffer_memory=3_000, batch_size=500)
    await producer.start(wait_ready=5)
    streaming = asyncio.create_task(stream(world, producer, 3.0, every=0.03))
    ended: list[asyncio.Task[Ended]] = []
    while not streaming.done():
        call = world.rng.choice(CALLS)
        moment = world.rng.choice(list(Moment))
        ended.append(asyncio.create_task(cancelled_at(call(producer), [world.rng.randrange(1, 8)], moment)))
        await asyncio.sleep(world.rng.uniform(0, 0.1))
    results = await asyncio.gather(*ended)
    assert sum(result.cancelled for result in results) > 5
    assert [result.error for result in results if result.error is not None] == []
    await all_acked(await streaming)
    await producer.flush()
    assert held(producer) == NO_COUNTS


@scenario()
async def test_f03_start_and_close_are_cancelled_at_any_step(world: World) -> None:
    """A cancelled start can be repeated; a cancelled close still ends, and closing again waits for it."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    for _ in range(5):
        producer = world.producer(linger_ms=100)
        steps = [world.rng.randrange(1, 8)]
        begun = await cancelled_at(producer.start(wait_ready=5), steps, world.rng.choice(list(Moment)))
        assert begun.error is None
        if begun.cancelled:
            await producer.start(wait_ready=5)
        deliveries = await send(world, producer, 3)
        steps = [world.rng.randrange(1, 8)]
        closed = await cancelled_at(producer.close(), steps, world.rng.choice(list(Moment)))
        assert closed.error is None
        report = await producer.close()
        assert isinstance(report, CloseReport)
        assert Outcome.PENDING not in await outcomes(deliveries)
        assert held(producer) == NO_COUNTS


# -- F04: the handle is cancelled


@scenario()
async def test_f04_handles_are_cancelled_at_any_time(world: World) -> None:
    """By the user, by `gather` or by `wait_for`: every record is written, in order, and its handle shows that."""
    producer = await stage(world, linger_ms=5)
    deliveries: list[Delivery] = []
    for _ in range(60):
        (delivery,) = await send(world, producer)
        deliveries.append(delivery)
        match world.rng.randrange(4):
            case 0:
                delivery.cancel()
                assert delivery.cancelled()
            case 1:
                world.loop.call_later(world.rng.uniform(0, 0.02), delivery.cancel)
            case 2:
                group = asyncio.gather(delivery, return_exceptions=True)
                group.add_done_callback(lambda done: done.cancelled() or done.exception())
                world.loop.call_later(world.rng.uniform(0, 0.02), group.cancel)
            case 3:
                with_limit = asyncio.wait_for(delivery, world.rng.uniform(0.0001, 0.02))
                await asyncio.gather(with_limit, return_exceptions=True)
        if world.rng.random() < 0.1:
            world.network.reset(world.port(world.rng.choice([1, 2, 3])))
    await all_acked(deliveries)
    assert sorted(numbers(world)) == list(range(60))
    assert not any(delivery.cancelled() for delivery in deliveries)
    assert {(await delivery).topic for delivery in deliveries} == {TOPIC}


# -- F14: the user's own code


class Careless(Interceptor):
    """Fails, blocks and sends more records, in every call."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.producer: Producer[Any, Any]
        self.sends_more = 20
        self.asked = 0
        self.reported: list[tuple[RecordMetadata | None, BaseException | None]] = []

    def on_send(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """Called before each record is accepted."""
        self.asked += 1
        self.misbehave("on_send")
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Called after each is done."""
        self.reported.append((metadata, error))
        self.misbehave("on_acknowledgement")

    def misbehave(self, where: str) -> None:
        """One of the usual faults of users' code."""
        match self.world.rng.randrange(6):
            case 0:
                raise ZeroDivisionError(where)
            case 1:
                self.world.loop.stall(0.05)
            case 2 if self.sends_more and where != "on_send":
                self.sends_more -= 1
                self.world.ledger.send_nowait(self.producer, TOPIC)
            case 3 if where != "on_send":
                self.world.loop.create_task(self.producer.flush())


@scenario()
async def test_f14_interceptors_misbehave(world: World) -> None:
    """Each failure gives a line of the log; every record has its outcome, and is reported once."""
    careless = Careless(world)
    careless.producer = producer = await stage(world, linger_ms=1, interceptors=[careless])
    deliveries = await stream(world, producer, 2.0, every=0.05)
    await all_acked(deliveries)
    while len(careless.reported) < len(world.ledger.entries):
        await producer.flush()
        await asyncio.sleep(0.1)
    sent = len(world.ledger.entries)
    assert sent == careless.asked == len(careless.reported)
    assert sent > len(deliveries)
    assert {error for _, error in careless.reported} == {None}
    assert logged(world, "on_send") > 0
    assert logged(world, "on_acknowledgement") > 0


def logged(world: World, text: str) -> int:
    """The number of lines of the log with an exception that the user's code raised there."""
    return sum(
        record.levelno >= logging.ERROR and record.exc_info is not None and text in str(record.exc_info[1])
        for record in world.log
    )


@attrs.define(eq=False)
class CarelessCallback:
    """Fails, blocks, sends more records, flushes and cancels, when a delivery is done."""

    world: World
    producer: Producer[Any, Any]
    offsets: dict[int, list[int]] = attrs.Factory(lambda: defaultdict(list))
    raised: int = 0
    sent: int = 0

    def __call__(self, delivery: Delivery) -> None:
        """Called once for each delivery."""
        metadata = delivery.result()
        self.offsets[metadata.partition].append(metadata.offset)
        match self.world.rng.randrange(6):
            case 0:
                self.raised += 1
                raise ZeroDivisionError("in a callback")
            case 1:
                self.world.loop.stall(0.05)
            case 2 if self.sent < 20:
                self.send_more()
            case 3:
                self.world.loop.create_task(self.producer.flush())
            case 4:
                delivery.cancel()

    def send_more(self) -> None:
        """One more record, with the same callback."""
        self.sent += 1
        more = self.world.ledger.send_nowait(self.producer, TOPIC)
        assert more is not None
        more.add_done_callback(self)


@scenario()
async def test_f14_callbacks_misbehave(world: World) -> None:
    """Their failures go to the loop's handler, outcomes stay, and callbacks of a partition come in offset order."""
    producer = await stage(world, linger_ms=1)
    callback = CarelessCallback(world, producer)
    for _ in range(60):
        for delivery in await send(world, producer):
            delivery.add_done_callback(callback)
        if world.rng.random() < 0.1:
            world.network.reset(world.port(world.rng.choice([1, 2, 3])))
        await asyncio.sleep(world.rng.uniform(0, 0.02))
    calls = -1
    while calls != (calls := sum(map(len, callback.offsets.values()))):
        await producer.flush()
        await asyncio.sleep(0.1)
    failures = [trouble for trouble in world.loop.troubles if type(trouble["exception"]) is ZeroDivisionError]
    assert len(failures) == callback.raised > 0
    world.loop.troubles[:] = [trouble for trouble in world.loop.troubles if trouble not in failures]
    assert calls == 60 + callback.sent
    for partition, offsets in callback.offsets.items():
        assert offsets == list(range(world.kafka.high_watermark(TOPIC, partition)))


@scenario()
async def test_f14_a_callback_closes_the_producer(world: World) -> None:
    """In the middle of a stream: accepted records have their outcomes, later ones are refused at once."""
    producer = await stage(world, linger_ms=1)
    closing: list[asyncio.Task[CloseReport]] = []

    def close(_: Delivery) -> None:
        closing.append(world.loop.create_task(producer.close()))

    at = world.rng.randrange(5, 40)
    refused = 0
    for number in range(60):
        called = world.now
        try:
            delivery = await world.ledger.send(producer, TOPIC)
        except StateError:
            delivery = None
        refused += delivery is None
        assert delivery is not None or world.now - called < TICK
        if delivery is not None and number == at:
            delivery.add_done_callback(close)
        await asyncio.sleep(world.rng.uniform(0, 0.02))
    (report,) = await asyncio.gather(*closing)
    assert report.unknown == report.not_written == 0
    assert refused > 0
    assert len(numbers(world)) == 60 - refused


# -- F18: a crowd waits


WAITING: Final = 10_000
SEEDS_OF_THE_WHOLE_CROWD: Final = 2


@scenario()
async def test_f18_ten_thousand_callers_wait_for_memory(world: World) -> None:
    """First come, first served; some calls give up, and no wake-up is lost with them; none waits longer than `max_block`."""
    crowd = WAITING if world.seed < SEEDS_OF_THE_WHOLE_CROWD else WAITING // 20
    record = 200
    producer = await stage(
        world, linger_ms=0, batch_size=4_000, buffer_memory=crowd * record // 50, max_block_ms=5_000
    )
    await all_acked(await send(world, producer, partition=0))
    slow = world.kafka.faults.delay(0.02, times=None, broker=leader(world))
    done_at: dict[int, float] = {}
    called_at: dict[int, float] = {}
    deliveries: dict[int, Delivery | None] = {}

    async def call() -> None:
        number = len(world.ledger.entries)
        called_at[number] = world.now
        try:
            deliveries[number] = await world.ledger.send(producer, TOPIC, bytes(record), partition=0)
        finally:
            done_at[number] = world.now

    tasks = [asyncio.create_task(call()) for _ in range(crowd)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert producer.stats().waiting_calls > 0.9 * crowd
    gone: list[asyncio.Task[None]] = []
    while len(gone) < crowd // 10:
        await asyncio.sleep(0.02)
        cancelled = [task for task in world.rng.sample(tasks, crowd // 50) if not task.done()]
        for task in cancelled:
            task.cancel()
        gone += cancelled or tasks[: crowd // 10]
        assert producer.stats().bytes_buffered <= producer.config.buffer_memory
    await asyncio.wait(tasks)
    slow.heal()
    waits = [done_at[number] - called_at[number] for number in done_at]
    assert max(waits) <= MB + TICK
    refused = [number for number, delivery in deliveries.items() if delivery is None]
    accepted = [number for number, delivery in deliveries.items() if delivery is not None]
    for number in refused:
        assert isinstance(world.ledger.entries[number].error, BufferFullError)
        assert done_at[number] - called_at[number] >= MB
    first_come_first_served(done_at, accepted, refused)
    await all_acked(deliveries[number] for number in accepted)
    assert held(producer) == NO_COUNTS
    # No lost wake-up: while memory is free, no call waits for it. The slow leader accepted as many records as it could.
    assert len(accepted) > 0.2 * crowd


def first_come_first_served(done_at: dict[int, float], accepted: list[int], refused: list[int]) -> None:
    """No call was accepted before an earlier one."""
    times = [done_at[number] for number in sorted(accepted)]
    assert all(earlier <= later + TICK for earlier, later in itertools.pairwise(times))
    assert not refused or not accepted or min(refused) > max(accepted) - len(done_at) * 0.02


@scenario()
async def test_f18_all_calls_in_front_give_up(world: World) -> None:
    """Their room is too little for them and enough for the calls behind, which get it at once, without any answer."""
    producer = await stage(world, linger_ms=0, batch_size=1_000, buffer_memory=3_000)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world), to_broker=False)
    stuck = await send(world, producer, partition=0, filling=bytes(1_000))
    calls = [
        asyncio.create_task(world.ledger.send(producer, TOPIC, bytes(2_500), partition=0)) for _ in range(200)
    ]
    await asyncio.sleep(0.5)
    behind = [asyncio.create_task(world.ledger.send(producer, TOPIC, partition=0)) for _ in range(5)]
    await asyncio.sleep(0.1)
    assert producer.stats().waiting_calls == 205
    for call in calls:
        call.cancel()
    await asyncio.sleep(0.01)
    assert all(call.done() for call in behind)
    world.network.release(port_of_leader(world))
    await all_acked([*stuck, *[await call for call in behind]])


# -- F20: everything at once


async def flushed(producer: Producer[Any, Any], world: World) -> object:
    """A flush, with or without a limit."""
    return await producer.flush(world.rng.choice((None, 0.0, 0.5, 30.0)))


async def closed(producer: Producer[Any, Any], world: World) -> object:
    """A close, with or without a limit."""
    return await producer.close(world.rng.choice((None, 0.0, 0.5, 30.0)))


async def started(producer: Producer[Any, Any], world: World) -> object:
    """A start."""
    await producer.start(wait_ready=world.rng.choice((None, 5)))
    return producer


async def sent(producer: Producer[Any, Any], world: World) -> object:
    """A few records."""
    return [await world.ledger.send(producer, TOPIC) for _ in range(world.rng.randrange(1, 5))]


AT_ONCE: Final = (flushed, flushed, sent, sent, sent, started, closed)


@pytest.mark.parametrize("fault_schedule", ["fair", "silent"])
@scenario()
async def test_f20_everything_is_called_at_once(world: World, fault_schedule: str) -> None:
    """Start, send, flush and close in any order: each ends within its time with a result or a StateError."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    for _ in range(5):
        producer = world.producer(linger_ms=world.rng.choice((0, 5, 200)), max_block_ms=1_000)
        calls = [asyncio.create_task(later(world, producer, world.rng.choice(AT_ONCE))) for _ in range(12)]
        await asyncio.sleep(world.rng.uniform(0, 0.2))
        if fault_schedule == "silent":
            for broker in world.kafka.brokers:
                world.network.hold(broker.port)
        async with asyncio.timeout(DT + MB + 2.0):
            results = await asyncio.gather(*calls, return_exceptions=True)
        defined = (FlushReport, CloseReport, list, Producer, type(None), StateError, TimeoutError)
        assert [result for result in results if not isinstance(result, defined)] == []
        began = world.now
        first = await producer.close(timeout=1.0)
        assert world.now - began <= 1.0 + TICK
        assert await producer.close() == first
        assert world.now - began <= 1.0 + TICK
        with pytest.raises(StateError):
            await producer.send(TOPIC, b"late")
        for broker in world.kafka.brokers:
            world.network.release(broker.port)


async def later(
    world: World, producer: Producer[Any, Any], call: Callable[[Producer[Any, Any], World], Awaitable[object]]
) -> object:
    """A call after a short time."""
    await asyncio.sleep(world.rng.choice((0.0, 0.0, world.rng.uniform(0, 0.3))))
    return await call(producer, world)


@scenario()
async def test_f20_flush_and_close_meet_a_stream(world: World) -> None:
    """Each flush covers all records accepted before it; the close covers the rest."""
    producer = await stage(world, linger_ms=50)
    deliveries: list[Delivery] = []
    closing = math.inf

    async def flush_now_and_then() -> None:
        while closing == math.inf:
            before = list(deliveries)
            await producer.flush()
            assert {delivery.outcome for delivery in before} <= {Outcome.ACKED}
            await asyncio.sleep(world.rng.uniform(0, 0.05))

    flushes = [asyncio.create_task(flush_now_and_then()) for _ in range(3)]
    for _ in range(80):
        deliveries += await send(world, producer)
        await asyncio.sleep(world.rng.uniform(0, 0.02))
    closing = world.now
    reports = await asyncio.gather(*[producer.close() for _ in range(3)])
    await asyncio.gather(*flushes)
    assert len(set(map(repr, reports))) == 1
    assert {delivery.outcome for delivery in deliveries} == {Outcome.ACKED}
    assert sorted(map(number_of, (record.value for record in world.kafka.records(TOPIC)))) == list(range(80))
