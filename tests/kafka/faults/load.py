"""Twenty tasks that send without pause, and record the outcome of each record.

"Full speed" is bounded in two ways: the buffer is small, so that tasks wait for room whenever brokers do not answer,
and unless `flood` is set a pacer lets all tasks send in bursts, at so many records a second.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import attrs

from aioproducer import CloseReport, Delivery, Outcome, Producer
from aioproducer.errors import KafkaError
from tests.judge.history import Sent, digest_of, refused, told, value_of
from tests.judge.lag import LagWatch

TASKS: Final = 20
PARTITIONS: Final = 12
BURST: Final = 10
_POOL: Final = b"what a record may be filled with, 0123456789; " * 40
_SMALLEST, _LARGEST = 200, 1000
_HEADERS: Final = (("h", b"1"), ("h", None))


@attrs.frozen
class Plan:
    """The settings of a load: its topic, the producer's settings, and its pace without `flood`."""

    name: str
    topic: str
    seed: int
    records_per_second: float
    roaming: bool = True
    settings: dict[str, Any] = attrs.Factory(dict)


@attrs.define(eq=False)
class Load:
    """One producer under load. `async with Load(plan, servers) as load: ...`; then `finish()`."""

    plan: Plan
    servers: str
    flood: bool = False
    history: list[Sent] = attrs.Factory(list)
    acked: Counter[int] = attrs.Factory(Counter)
    outcomes: Counter[Outcome] = attrs.Factory(Counter)
    longest: float = 0.0
    """The longest time from a send to its outcome."""
    latest: float = float("-inf")
    """How long after its deadline the latest outcome came, without the lag of the loop; negative if all came before."""
    lag: LagWatch = attrs.Factory(LagWatch)
    producer: Producer[Any, Any] = attrs.field(init=False)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _pending: dict[int, tuple[bytes, float, Delivery]] = attrs.field(factory=dict, init=False)
    _expected: dict[int, asyncio.Future[float]] = attrs.field(factory=dict, init=False)
    _allowances: list[asyncio.Semaphore] = attrs.field(factory=list, init=False)
    _tasks: list[asyncio.Task[None]] = attrs.field(factory=list, init=False)
    _stopping: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.producer = Producer(self.servers, **self.plan.settings)

    async def start(self) -> None:
        """Start the producer, the tasks, the pacer, and the clock that notices a loop that stands still."""
        await self.producer.start(wait_ready=60.0)
        await self.producer.partitions_for(self.plan.topic)
        count = TASKS if self.plan.roaming else PARTITIONS
        self._allowances = [asyncio.Semaphore(0) for _ in range(count)]
        tasks = [self._send_on(index, allowance) for index, allowance in enumerate(self._allowances)]
        self._tasks = [asyncio.create_task(one) for one in (*tasks, self._pace(), self.lag.watch())]

    async def finish(self) -> CloseReport:
        """Stop sending, wait for all outcomes, close the producer, and record the unresolved records too."""
        self._stopping = True
        *senders, pacer, watch = self._tasks
        await asyncio.gather(*senders)
        report = await self.producer.close()
        pacer.cancel()
        watch.cancel()
        await asyncio.gather(pacer, watch, return_exceptions=True)
        for number, (digest, due_at, delivery) in self._pending.items():
            self.history.append(told(number, digest, delivery, due_at=due_at))
        return report

    async def abort(self) -> None:
        """End everything at once, after a failed test."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.producer.close(0)

    def next_acks(self, partitions: Iterable[int]) -> list[asyncio.Future[float]]:
        """The time of the next acknowledgement of each of these partitions, by the loop's clock."""
        loop = asyncio.get_running_loop()
        self._expected = {partition: loop.create_future() for partition in partitions}
        return list(self._expected.values())

    def in_flight(self) -> dict[str, int]:
        """The number of requests in flight, by broker."""
        return {one.broker: one.requests_in_flight for one in self.producer.stats().connections}

    # -- the tasks

    async def _send_on(self, index: int, allowance: asyncio.Semaphore) -> None:
        rng = random.Random(f"{self.plan.seed}-{self.plan.name}-{index}")
        while not self._stopping:
            if not self.flood:
                await allowance.acquire()
            for _ in range(BURST):
                await self._send(index, rng)

    async def _send(self, index: int, rng: random.Random) -> None:
        partition = index if index < PARTITIONS else None
        key = b"%d" % rng.randrange(1000) if partition is not None or index % 2 else None
        headers = _HEADERS if rng.random() < 0.1 else ()
        size = rng.randrange(_SMALLEST, _LARGEST)
        loop = asyncio.get_running_loop()
        # From the number to the call there is no await: the numbers are the order of the calls.
        number = next(self._numbers)
        value = value_of(number, _POOL[number % 40 : number % 40 + size])
        digest = digest_of(key, value, headers, None)
        topic, called_at = self.plan.topic, loop.time()
        try:
            delivery = await self.producer.send(topic, value, key=key, partition=partition, headers=headers)
        except KafkaError as error:
            limit = called_at + self.producer.config.max_block_ms / 1000
            now = loop.time()
            due_at = self._excused(limit, now)
            self._add(refused(number, digest, topic, error, due_at=due_at, resolved_at=now), called_at)
            return
        due_at = loop.time() + self.producer.config.delivery_timeout_ms / 1000
        self._pending[number] = (digest, due_at, delivery)
        delivery.add_done_callback(partial(self._resolved, number, called_at))

    def _resolved(self, number: int, called_at: float, delivery: Delivery) -> None:
        digest, due_at, _ = self._pending.pop(number)
        now = asyncio.get_running_loop().time()
        record = told(number, digest, delivery, due_at=self._excused(due_at, now), resolved_at=now)
        self._add(record, called_at)
        if record.outcome is Outcome.ACKED and record.partition is not None:
            self.acked[record.partition] += 1
            expected = self._expected.pop(record.partition, None)
            if expected is not None:
                expected.set_result(now)

    def _excused(self, due_at: float, now: float) -> float:
        """The time at which an outcome was due, shifted by the lag of the loop."""
        return due_at if now <= due_at else due_at + self.lag.between(due_at, now)

    def _add(self, record: Sent, called_at: float) -> None:
        self.history.append(record)
        self.outcomes[record.outcome] += 1
        self.longest = max(self.longest, record.resolved_at - called_at)
        self.latest = max(self.latest, record.resolved_at - record.due_at)

    # -- time, which is real here

    async def _pace(self) -> None:
        pause = BURST * len(self._allowances) / self.plan.records_per_second
        while True:
            await asyncio.sleep(pause)
            # Each task has its own: tasks that wait for room neither pass their share to the others nor save it up.
            for allowance in self._allowances:
                if allowance.locked():
                    allowance.release()
