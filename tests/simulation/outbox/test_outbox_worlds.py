"""Whole lives of an outbox: relays that are killed and lose their lock, a store that fails, late commits, a faulty cluster.

The database fails over to a replica that is behind: transactions are lost, and their ids are used again. So each row has a
value of its own, by which the log is judged. Some rows are larger than the topic takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final
from unittest import mock

import attrs
import pytest

from aioproducer import Producer, Record
from aioproducer.outbox import ID_HEADER, Relay, Row
from aioproducer.outbox.flight import Flight
from tests.effort import SCENARIO, seeds
from tests.outbox.memory import BrokenStoreError, MemoryStore, Table
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.world import World, simulate

PARTITIONS: Final = 3
ROWS: Final = 150
LONGEST: Final = 600.0
# The topic takes no larger batches, and a row of the larger kind is never written.
LARGEST: Final = 1_500
LARGE: Final = 3_000


@attrs.define
class Transaction:
    """A transaction of the application: its rows by partition, and its time."""

    rows: list[Row]
    began_at: float
    committed_at: float = 0.0


@attrs.define
class Replica:
    """The state of a replica of the database, which is behind."""

    rows: dict[int, Row] = attrs.Factory(dict)
    last_id: int = 0
    transactions: int = 0


@attrs.define(eq=False)
class Process(MemoryStore):
    """The database as a process sees it that may be killed: at a step, or from outside."""

    dies_at: str | None = None
    killed: asyncio.Event = attrs.Factory(asyncio.Event)

    async def reach(self, name: str, *, dies: bool) -> None:
        """Come to this step, if the process is still there."""
        if name == self.dies_at and dies:
            self.killed.set()
        if self.killed.is_set():
            raise BrokenStoreError("killed")

    async def release(self) -> None:
        """A killed process gives nothing back."""
        if not self.killed.is_set():
            await super().release()

    def forgotten(self) -> None:
        """The database has noticed the end of the process."""
        if self.table.owner is self:
            self.table.owner = None


@attrs.define(eq=False)
class Outbox:
    """The table, those who write it, and the relays."""

    world: World
    table: Table = attrs.Factory(Table)
    transactions: list[Transaction] = attrs.Factory(list)
    made: list[Row] = attrs.Factory(list)
    """All rows; the value of each is its place here."""
    lost: set[int] = attrs.Factory(set)
    set_aside: set[int] = attrs.Factory(set)
    held: set[int] = attrs.Factory(set)
    is_alone: bool = False
    """One relay, of one producer, has all of the life: it knows of each record that may be written."""
    replica: Replica = attrs.Factory(Replica)
    troubled: bool = True

    def __attrs_post_init__(self) -> None:
        self.table.on_delete = self.check_deleted

    # -- the application

    async def write(self) -> None:
        """Transactions that overlap, so that rows are committed behind rows of a higher id."""
        rng = self.world.rng
        async with asyncio.TaskGroup() as tasks:
            while len(self.made) < ROWS:
                tasks.create_task(self.transaction())
                await asyncio.sleep(rng.choice((0.0, 0.01, 0.1, 0.5)))

    async def transaction(self) -> None:
        """One to five rows, committed a moment later."""
        rng = self.world.rng
        server, rows = self.table.server, [self.row() for _ in range(rng.randint(1, 5))]
        noted = Transaction(rows, self.world.now)
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.05, 1.0)))
        if server != self.table.server:
            return
        noted.committed_at = self.world.now
        self.table.commit(*rows)
        self.transactions.append(noted)

    def row(self) -> Row:
        """A row with a value of its own."""
        partition = self.world.rng.randrange(PARTITIONS)
        value = b"%d" % len(self.made)
        if self.world.rng.random() < 0.05:
            value = value.ljust(LARGE)
        row = Row(self.table.reserve(), TOPIC, value, b"%d" % partition, None, partition)
        self.made.append(row)
        return row

    # -- the database

    async def fail_over(self) -> None:
        """A replica follows the server, now and then, and takes over once or never."""
        rng = self.world.rng
        at = self.world.now + rng.choice((1.0, 3.0, 8.0, 1e9))
        while self.troubled:
            self.replica = Replica(dict(self.table.rows), self.table.last_id, len(self.transactions))
            await asyncio.sleep(rng.choice((0.01, 0.1, 0.5)))
            if self.world.now > at:
                at = 1e9
                for each in self.transactions[self.replica.transactions :]:
                    self.lost |= {place_of(row) for row in each.rows}
                del self.transactions[self.replica.transactions :]
                self.table.fail_over(self.replica.rows, self.replica.last_id)

    # -- relays

    async def relay(self) -> None:
        """One process after another: a relay that works for a while, and ends in any way."""
        rng = self.world.rng
        while self.troubled or self.table.rows:
            producer = self.producer()
            await producer.start()
            process = self.process()
            relay = self.relay_of(producer, process)
            await self.life(relay, process)
            assert relay.error is None
            assert not relay.stats().active
            if process.killed.is_set():
                await producer.close(timeout=0)
                await asyncio.sleep(rng.choice((0.0, 0.5, 3.0)))
                process.forgotten()
            elif rng.random() < 0.5:
                await producer.close(timeout=rng.choice((0, 1)))

    def producer(self) -> Producer[Any, Any]:
        """A producer of any kind that a relay may have."""
        rng = self.world.rng
        return self.world.producer(
            gapless=True,
            linger_ms=rng.choice((0, 5)),
            batch_size=rng.choice((100, 1_000)),
            delivery_timeout_ms=rng.choice((3_000, 10_000)),
            buffer_memory=rng.choice((5_000, 1_000_000)),
        )

    def relay_of(self, producer: Producer[Any, Any], store: MemoryStore) -> Relay:
        """A relay of any kind."""
        rng = self.world.rng
        return Relay(
            producer, store, batch=rng.choice((1, 7, 100)), poll=rng.choice((0.1, 1.0)), dead_letters=self
        )

    async def only_relay(self) -> None:
        """One relay that loses its lock now and then; behind the faults, more rows follow until none waits."""
        producer = self.producer()
        await producer.start()
        async with self.relay_of(producer, self.process()) as relay:
            while self.troubled:
                await self.moment()
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST / 2):
                    while self.table.rows:
                        await self.transaction()
                        await asyncio.sleep(5.0)
            assert relay.error is None
            assert {place_of(row) for row in self.table.rows.values()} <= self.held | {len(self.made) - 1}

    async def life(self, relay: Relay, process: Process) -> None:
        """Let a relay work."""
        rng = self.world.rng
        if process.dies_at is not None:
            task = asyncio.ensure_future(relay.run())
            await self.a_while(process)
            process.killed.set()
            task.cancel()
            await asyncio.wait([task])
            return
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

    async def a_while(self, process: Process | None = None) -> None:
        """A part of the time of faults, up to the end of the process; without faults, until all is relayed.

        A row may be held without end: a relay that is made anew ends it.
        """
        began = self.world.now
        end = began + self.world.rng.choice((0.0, 0.3, 3.0, 10.0))
        while (self.world.now < end) if self.troubled else (self.table.rows and self.world.now < began + 60):
            if process is not None and process.killed.is_set():
                return
            await self.moment()

    @staticmethod
    async def moment() -> None:
        """The interval at which a life looks whether it shall end."""
        await asyncio.sleep(0.05)

    def process(self) -> Process:
        """A store whose calls fail, hang and lose the lock, of a process that may be killed around a deletion."""
        rng = self.world.rng
        dies_at = (
            rng.choice((None, None, "delete", "deleted")) if self.troubled and not self.is_alone else None
        )
        store = Process(self.table, dies_at=dies_at)
        other = MemoryStore(self.table)

        async def step(name: str) -> None:
            await store.reach(name, dies=rng.random() < 0.5)
            if self.table.owner is other and (not self.troubled or rng.random() < 0.3):
                self.table.owner = None
            if not self.troubled:
                return
            chance = rng.random()
            if chance < 0.02:
                raise BrokenStoreError(name)
            if chance < 0.1:
                await asyncio.sleep(rng.uniform(0, 0.5))
            if chance > 0.97:
                self.table.owner = other if self.is_alone else None

        store.step = step
        return store

    async def put(self, record: Record[Any, Any], error: object) -> None:
        """The outlet of dead letters."""
        if self.troubled and self.world.rng.random() < 0.3:
            raise BrokenStoreError("dead letters")
        number = int(record.value or b"")
        if self.is_alone:
            assert number not in self.found()
        self.set_aside.add(number)

    def hold(self, hold: Any) -> Any:
        """`Flight.hold`, which notes the row."""

        def noted(flight: Flight, row: Row, *rest: Any) -> None:
            self.held.add(place_of(row))
            hold(flight, row, *rest)

        return mock.patch.object(Flight, "hold", noted)

    # -- the promise

    def check_deleted(self, ids: Collection[int]) -> None:
        """Nothing is deleted before it is acknowledged."""
        gone = {place_of(self.table.rows[one]) for one in ids if one in self.table.rows}
        assert gone <= self.found() | self.set_aside

    def found(self) -> set[int]:
        """The rows in the log."""
        return {number for partition in range(PARTITIONS) for number in self.first(partition)}

    def first(self, partition: int) -> dict[int, int]:
        """The place of the first copy of each row; all copies are of the same row."""
        places: dict[int, int] = {}
        for place, record in enumerate(self.world.kafka.records(TOPIC, partition)):
            number = int(record.value or b"")
            row = self.made[number]
            assert (row.partition, row.key) == (partition, record.key)
            assert record.headers == ((ID_HEADER, b"%d" % row.id),)
            places.setdefault(number, place)
        return places

    def judge(self) -> None:
        """All rows are there, in the order of the transactions that did not overlap."""
        committed = {place_of(row) for each in self.transactions for row in each.rows}
        # Rows that are held to the end of the only relay.
        waiting = {place_of(row) for row in self.table.rows.values()} if self.is_alone else set()
        assert committed <= self.found() | self.set_aside | waiting
        assert self.found() | self.set_aside <= committed | self.lost
        # A row that was set aside may come back with a failover, and one that is held with another relay, and be written then.
        late = self.set_aside if self.is_alone else self.set_aside | self.held
        for partition in range(PARTITIONS):
            places = {one: place for one, place in self.first(partition).items() if one not in late}
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
                one, two = place_of(row), place_of(other)
                if row.id < other.id and {one, two} <= places.keys():
                    assert places[one] < places[two], (partition, row.id, other.id)


def place_of(row: Row) -> int:
    """The place of a row among all that were made."""
    return int(bytes(row.value or b""))


@pytest.mark.parametrize("seed", seeds(4 * SCENARIO))
def test_every_row_is_written_in_order(seed: int) -> None:
    """Nothing is lost, nothing deleted too early, and first copies are in order, whatever fails."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, PARTITIONS, max_message_bytes=LARGEST)
        world.forgotten.add(TOPIC)
        outbox = Outbox(world)
        schedule = FaultSchedule(world)
        with outbox.hold(Flight.hold):
            async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
                for _ in range(world.rng.choice((1, 2, 2, 3))):
                    tasks.create_task(outbox.relay())
                tasks.create_task(outbox.fail_over())
                async with asyncio.TaskGroup() as trouble:
                    trouble.create_task(outbox.write())
                    trouble.create_task(schedule.run(5, 10.0))
                world.kafka.faults.heal()
                outbox.troubled = False
        outbox.judge()

    simulate(play, seed)


@pytest.mark.parametrize("seed", seeds(4 * SCENARIO))
def test_one_relay_knows_of_each_record(seed: int) -> None:
    """Rows that are held are in order as well, and no row becomes a dead letter that is in the log."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, PARTITIONS, max_message_bytes=LARGEST)
        world.forgotten.add(TOPIC)
        outbox = Outbox(world, is_alone=True)
        schedule = FaultSchedule(world)
        with outbox.hold(Flight.hold):
            async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as tasks:
                tasks.create_task(outbox.only_relay())
                async with asyncio.TaskGroup() as trouble:
                    trouble.create_task(outbox.write())
                    trouble.create_task(schedule.run(8, 10.0))
                    trouble.create_task(refusals(world))
                world.kafka.faults.heal()
                outbox.troubled = False
        outbox.judge()

    simulate(play, seed)


async def refusals(world: World) -> None:
    """Requests and answers are lost, and rows are refused behind that; now and then the topic may not be read."""
    rng, faults = world.rng, world.kafka.faults
    while world.now < 1_015:
        await asyncio.sleep(rng.uniform(0.1, 3.0))
        where: dict[str, Any] = {"topic": TOPIC, "partition": rng.randrange(PARTITIONS)}
        lost = rng.choice(("request", "answer", "written"))
        if lost == "request":
            faults.cut(before=rng.random() < 0.5, api="Produce", times=rng.choice((1, 3)))
        else:
            faults.error(
                "UNKNOWN_SERVER_ERROR", append=lost == "written", times=rng.choice((1, 1, 7)), **where
            )
        name = rng.choice(("INVALID_RECORD", "MESSAGE_TOO_LARGE"))
        faults.error(name, skip=rng.choice((0, 1)), times=rng.choice((2, 3, 10)), **where)
        if rng.random() < 0.3:
            faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=rng.choice((1, 10)))
