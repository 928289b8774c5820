"""Whole lives of an outbox: relays that die and lose their lock, a store that fails, late commits, a faulty cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

import attrs
import pytest

from aioproducer import Record
from aioproducer.outbox import ID_HEADER, Relay, Row
from tests.effort import SCENARIO, seeds
from tests.outbox.memory import BrokenStoreError, MemoryStore, Table
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.world import World, simulate

PARTITIONS: Final = 3
ROWS: Final = 150
LONGEST: Final = 400.0


@attrs.define
class Transaction:
    """A transaction of the application: its rows by partition, and its time."""

    rows: list[Row]
    began_at: float
    committed_at: float = 0.0


@attrs.define(eq=False)
class Outbox:
    """The table, those who write it, and the relays."""

    world: World
    table: Table = attrs.Factory(Table)
    transactions: list[Transaction] = attrs.Factory(list)
    set_aside: set[int] = attrs.Factory(set)
    troubled: bool = True

    def __attrs_post_init__(self) -> None:
        self.table.on_delete = self.check_deleted

    # -- the application

    async def write(self) -> None:
        """Transactions that overlap, so that rows are committed behind rows of a higher id."""
        rng = self.world.rng
        async with asyncio.TaskGroup() as tasks:
            while self.table.last_id < ROWS:
                tasks.create_task(self.transaction())
                await asyncio.sleep(rng.choice((0.0, 0.01, 0.1, 0.5)))

    async def transaction(self) -> None:
        """One to five rows, committed a moment later."""
        rng = self.world.rng
        rows = [
            Row(self.table.reserve(), TOPIC, b"row", partition=rng.randrange(PARTITIONS))
            for _ in range(rng.randint(1, 5))
        ]
        noted = Transaction(rows, self.world.now)
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.05, 1.0)))
        noted.committed_at = self.world.now
        self.table.commit(*rows)
        self.transactions.append(noted)

    # -- relays

    async def relay(self) -> None:
        """One process after another: a relay that works for a while, and ends in any way."""
        rng = self.world.rng
        while self.troubled or self.table.rows:
            producer = self.world.producer(
                gapless=True,
                linger_ms=rng.choice((0, 5)),
                batch_size=rng.choice((100, 1_000)),
                delivery_timeout_ms=rng.choice((3_000, 10_000)),
                buffer_memory=rng.choice((5_000, 1_000_000)),
            )
            await producer.start()
            relay = Relay(
                producer,
                self.store(),
                batch=rng.choice((1, 7, 100)),
                poll=rng.choice((0.1, 1.0)),
                dead_letters=self,
            )
            await self.life(relay)
            assert relay.error is None
            assert not relay.stats().active
            if rng.random() < 0.5:
                await producer.close(timeout=rng.choice((0, 1)))

    async def life(self, relay: Relay) -> None:
        """Let a relay work."""
        rng = self.world.rng
        if rng.random() < 0.5:
            async with relay:
                await self.a_while()
                if rng.random() < 0.5:
                    await relay.close(timeout=rng.choice((0, 1, 100)))
            return
        task = asyncio.ensure_future(relay.run())
        await self.a_while()
        task.cancel()
        await asyncio.wait([task])

    async def a_while(self) -> None:
        """A part of the time of faults; without them, until all is relayed."""
        end = self.world.now + self.world.rng.choice((0.0, 0.3, 3.0, 10.0))
        while (self.world.now < end) if self.troubled else self.table.rows:
            await self.moment()

    @staticmethod
    async def moment() -> None:
        """The interval at which a life looks whether it shall end."""
        await asyncio.sleep(0.05)

    def store(self) -> MemoryStore:
        """A store whose calls fail, hang and lose the lock."""
        store = MemoryStore(self.table)
        rng = self.world.rng

        async def step(name: str) -> None:
            if not self.troubled:
                return
            chance = rng.random()
            if chance < 0.02:
                raise BrokenStoreError(name)
            if chance < 0.1:
                await asyncio.sleep(rng.uniform(0, 0.5))
            if chance > 0.97:
                self.table.owner = None

        store.step = step
        return store

    async def put(self, record: Record[Any, Any], error: object) -> None:
        """The outlet of dead letters."""
        if self.troubled and self.world.rng.random() < 0.3:
            raise BrokenStoreError("dead letters")
        self.set_aside.add(int(dict(record.headers or ())[ID_HEADER] or b""))

    # -- the promise

    def check_deleted(self, ids: Collection[int]) -> None:
        """Nothing is deleted before it is acknowledged."""
        assert set(ids) <= self.found() | self.set_aside

    def found(self) -> set[int]:
        """The rows in the log."""
        return {number for partition in range(PARTITIONS) for number in self.first(partition)}

    def first(self, partition: int) -> dict[int, int]:
        """The place of the first copy of each row."""
        places: dict[int, int] = {}
        for place, record in enumerate(self.world.kafka.records(TOPIC, partition)):
            places.setdefault(int(dict(record.headers)[ID_HEADER] or b""), place)
        return places

    def judge(self) -> None:
        """All rows are there, in the order of the transactions that did not overlap."""
        assert self.found() | self.set_aside == {row.id for each in self.transactions for row in each.rows}
        for partition in range(PARTITIONS):
            places = self.first(partition)
            for former in self.transactions:
                for later in self.transactions:
                    if later.began_at <= former.committed_at and later is not former:
                        continue
                    self.check_order(former, later, places, partition)

    @staticmethod
    def check_order(former: Transaction, later: Transaction, places: dict[int, int], partition: int) -> None:
        """The rows of one transaction, in a partition, before those of another one."""
        for row in former.rows:
            for other in later.rows:
                if row.id < other.id and {row.id, other.id} <= places.keys():
                    assert places[row.id] < places[other.id], (partition, row.id, other.id)


@pytest.mark.parametrize("seed", seeds(4 * SCENARIO))
def test_every_row_is_written_in_order(seed: int) -> None:
    """Nothing is lost, nothing deleted too early, and first copies are in order, whatever fails."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, PARTITIONS)
        world.forgotten.add(TOPIC)
        outbox = Outbox(world)
        schedule = FaultSchedule(world)
        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
            for _ in range(world.rng.choice((1, 2, 2, 3))):
                tasks.create_task(outbox.relay())
            async with asyncio.TaskGroup() as trouble:
                trouble.create_task(outbox.write())
                trouble.create_task(schedule.run(5, 10.0))
            world.kafka.faults.heal()
            outbox.troubled = False
        outbox.judge()

    simulate(play, seed)
