"""A transactional life: producers of one name, in succession or against each other, and the results of their calls."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import attrs

from aioproducer import (
    CommitOutcomeUnknownError,
    KafkaError,
    Outcome,
    Producer,
    ProducerFencedError,
    StateError,
    TransactionTimeoutError,
)
from tests.judge.history import NO_NUMBER, number_of, value_of
from tests.judge.transactions import Fate, Place, Seen, Told
from tests.simulation.fault_schedule import FAULTS, TOPIC, Fault, FaultSchedule
from tests.simulation.world import World

NAME: Final = "books"
GROUP: Final = "readers"
SOURCE: Final = "source"
PARTITIONS: Final = 3
LASTS: Final = 12.0
APIS: Final = (
    "Produce", "EndTxn", "EndTxn", "EndTxn", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn",
    "TxnOffsetCommit", "FindCoordinator", "Metadata",
)  # fmt: skip


class Deliberate(Exception):  # noqa: N818  # no error: the program changes its mind
    """The program drops the transaction."""


@attrs.define(eq=False)
class Books:
    """All transactions of a world, and their results."""

    world: World
    entries: list[Told] = attrs.Factory(list)
    numbers: int = 0

    def open(self, who: str) -> Told:
        """Begin another transaction."""
        entry = Told(len(self.entries), story=[who])
        self.entries.append(entry)
        return entry

    async def send(self, producer: Producer[Any, Any], entry: Told) -> None:
        """Send a record in the transaction; a refused record is no part of it."""
        rng = self.world.rng
        place = (TOPIC, rng.randrange(PARTITIONS))
        number = self.numbers
        self.numbers += 1
        value = value_of(number, bytes(rng.randrange(300)))
        # The record's place in the order is that of the call; its acceptance is known later.
        entry.records.append((place, number))
        try:
            delivery = await producer.send(TOPIC, value, partition=place[1])
            if rng.random() < 0.05 and delivery.try_cancel():
                entry.records.remove((place, number))
        except BaseException:
            entry.records.remove((place, number))
            raise

    def seen(self) -> Seen:
        """The records that a reader of committed records finds."""
        kafka = self.world.kafka
        records: dict[Place, list[int]] = {}
        for partition in range(PARTITIONS):
            found = kafka.records(TOPIC, partition)
            records[TOPIC, partition] = [number_of(record.value) for record in found]
        hidden = [
            (TOPIC, partition)
            for partition in range(PARTITIONS)
            if kafka.last_stable_offset(TOPIC, partition) != kafka.high_watermark(TOPIC, partition)
        ]
        assert NO_NUMBER not in {number for numbers in records.values() for number in numbers}
        return Seen(records, kafka.committed_offset(GROUP, SOURCE, 0), hidden)


@attrs.define(eq=False)
class Program:
    """One producer, and the program around it."""

    books: Books
    name: str
    producer: Producer[Any, Any]
    retired: bool = False
    entry: Told | None = None
    """The transaction that began last."""
    committing: bool = False

    async def work(self, transactions: int) -> None:
        """Run so many transactions, until another producer takes over or this one is killed."""
        rng = self.books.world.rng
        for _ in range(transactions):
            if self.retired:
                return
            await self._transaction()
            await asyncio.sleep(rng.choice((0.0, 0.0, rng.uniform(0, 0.5))))

    async def _transaction(self) -> None:
        before = len(self.books.entries)
        try:
            await self._prepare()
            await self.books.world.rng.choice(
                (self._in_a_block, self._by_hand, self._in_a_task_that_is_cancelled)
            )()
        except KafkaError as error:
            self.note_the_end(error)
        for entry in self.books.entries[before:]:
            entry.story.append(entry.fate.value)

    def _begun(self) -> Told:
        """The transaction is open: it counts from here on."""
        self.entry = self.books.open(self.name)
        self.committing = False
        return self.entry

    async def _prepare(self) -> None:
        """Prepare as a user does by hand; most often the context manager does it."""
        if self.books.world.rng.random() < 0.2:
            try:
                await self.producer.init_transactions()
            except StateError:
                # The producer stands in another state, from which the context manager may continue.
                return

    async def _fill(self, entry: Told, tx: Any = None) -> None:
        rng = self.books.world.rng
        for _ in range(rng.randrange(12)):
            await self.books.send(self.producer, entry)
            if rng.random() < 0.1:
                await asyncio.sleep(rng.uniform(0, 0.3))
        if rng.random() < 0.4:
            offsets = {(SOURCE, 0): entry.number}
            if tx is None:
                entry.offset = entry.number
                await self.producer.send_offsets_to_transaction(offsets, GROUP)
            else:
                entry.offset = entry.number
                tx.send_offsets(offsets, GROUP)
        if rng.random() < 0.25:
            raise Deliberate

    async def _in_a_block(self) -> None:
        entry = None
        try:
            async with self.producer.transaction(timeout=self._timeout()) as tx:
                entry = self._begun()
                await self._fill(entry, tx)
                self.committing = True
        except Deliberate:
            self._set_fate(entry, Fate.ABORTED)
        except CommitOutcomeUnknownError:
            await self._settle(entry)
        except KafkaError as error:
            self._refused(entry, error)
        else:
            self._set_fate(entry, Fate.COMMITTED)

    async def _by_hand(self) -> None:
        try:
            await self.producer.begin_transaction()
        except StateError:
            await self._in_a_block()
            return
        entry = self._begun()
        try:
            await self._fill(entry)
            self.committing = True
            await self.producer.commit_transaction(timeout=self._timeout())
        except Deliberate:
            self._set_fate(entry, Fate.ABORTED)
            await self._abort(entry)
        except CommitOutcomeUnknownError:
            await self._settle(entry)
        except KafkaError as error:
            self._refused(entry, error)
            await self._abort(entry)
        else:
            self._set_fate(entry, Fate.COMMITTED)

    async def _in_a_task_that_is_cancelled(self) -> None:
        """Cancel at any await: the caller learned nothing; the next caller joins the operation."""
        self._turn_the_page()
        task = asyncio.create_task(self._in_a_block())
        await asyncio.wait([task], timeout=self.books.world.rng.choice((0.0, 0.01, 0.1, 1.0)))
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        elif self.entry is not None:
            self.entry.story.append("cancelled")
            if self.committing:
                await self._settle(self.entry)
            else:
                self._set_fate(self.entry, Fate.ABORTED)

    def _turn_the_page(self) -> None:
        self.entry = None

    async def _settle(self, entry: Told | None) -> None:
        """Settle the transaction in one of the documented ways."""
        again = self.books.world.rng.random() < 0.6
        for _ in range(40):
            try:
                if again:
                    await self.producer.commit_transaction(timeout=2.0)
                    self._set_fate(entry, Fate.COMMITTED)
                else:
                    await self.producer.init_transactions(timeout=2.0)
            except (CommitOutcomeUnknownError, TransactionTimeoutError):
                continue
            except KafkaError as error:
                self._refused(entry, error)
                if entry is not None:
                    await self._abort(entry)
            return

    @staticmethod
    def _set_fate(entry: Told | None, fate: Fate) -> None:
        if entry is not None:
            entry.fate = fate

    async def _abort(self, entry: Told) -> None:
        for _ in range(40):
            try:
                await self.producer.abort_transaction(timeout=2.0)
            except TransactionTimeoutError:
                continue
            except StateError as error:
                entry.story.append(str(error)[:80])
            except KafkaError as error:
                self.note_the_end(error)
            return

    def _refused(self, entry: Told | None, error: KafkaError) -> None:
        """The transaction is not committed, and its owner may rely on that where the error says so."""
        self.note_the_end(error)
        if entry is None:
            return
        entry.story.append(f"{type(error).__name__} {error.outcome.value}")
        # A producer that was closed meanwhile has no result.
        unsure = error.outcome is Outcome.UNKNOWN or isinstance(error, StateError)
        entry.fate = Fate.UNKNOWN if self.committing and unsure else Fate.ABORTED

    def note_the_end(self, error: KafkaError) -> None:
        """Whether the producer can go on after this."""
        if isinstance(error, ProducerFencedError) or self.producer.health().state in (
            "failed",
            "closed",
            "closing",
        ):
            self.retired = True

    def _timeout(self) -> float | None:
        return self.books.world.rng.choice((None, None, 0.3, 2.0))


@attrs.define(eq=False)
class Programs:
    """Programs of one name: mostly one at a time, sometimes two, of which the older one is not fenced yet."""

    books: Books
    settings: dict[str, Any]
    all: list[Program] = attrs.Factory(list)

    async def start(self) -> Program:
        """Start another process with the same transactional id."""
        world = self.books.world
        producer = world.producer(transactional_id=NAME, **self.settings)
        await producer.start()
        program = Program(self.books, f"program {len(self.all)}", producer)
        self.all.append(program)
        return program

    async def run(self, transactions: int) -> None:
        """Programs come and go until so many transactions were tried."""
        rng = self.books.world.rng
        while len(self.books.entries) < transactions:
            program = await self.start()
            working = asyncio.create_task(program.work(transactions))
            await asyncio.wait([working], timeout=rng.uniform(0.2, LASTS / 2))
            if rng.random() < 0.5:
                program.retired = True
                await program.producer.close(timeout=0)
                await working
            elif rng.random() < 0.5:
                program.retired = True
                await working
                await program.producer.close(timeout=rng.choice((None, 0.5)))
            else:
                # A zombie: it continues until it is fenced.
                await self._with_a_zombie(working)

    async def _with_a_zombie(self, working: asyncio.Task[None]) -> None:
        successor = await self.start()
        await asyncio.wait([asyncio.create_task(successor.work(5)), working])

    async def end_open_transaction(self) -> None:
        """After the last program: a new producer of this name ends the open transaction."""
        program = await self.start()
        for _ in range(100):
            try:
                await program.producer.init_transactions()
            except TransactionTimeoutError:
                continue
            return


# -- faults of transactions alone


async def coordinators_move(schedule: FaultSchedule) -> None:
    """The coordinators of the transactions and of the group move repeatedly; some load first."""
    rng = schedule.world.rng
    for _ in range(rng.randrange(1, 6)):
        up = [broker.id for broker in schedule.kafka.brokers if broker.up]
        if up:
            key = rng.choice((NAME, NAME, GROUP))
            schedule.kafka.faults.move_coordinator(key, rng.choice(up), loading=rng.choice((0.0, 0.0, 1.0)))
        await asyncio.sleep(rng.uniform(0.0, 0.5))


async def markers_are_late(schedule: FaultSchedule) -> None:
    """The markers of a transaction are written late."""
    schedule.kafka.faults.delay_markers(
        schedule.world.rng.uniform(0.01, 3.0), times=schedule.world.rng.randrange(1, 6)
    )


async def coordinator_errors(schedule: FaultSchedule) -> None:
    """Retriable errors, at any request to a coordinator; some come after the effect."""
    rng = schedule.world.rng
    api = rng.choice(APIS[1:-1])
    schedule.kafka.faults.error(rng.choice((14, 15, 16, 51)), api=api, times=rng.randrange(1, 8))


async def ends_without_an_answer(schedule: FaultSchedule) -> None:
    """The coordinator handles a request and the connection ends before the answer, or it ends before the handling."""
    rng = schedule.world.rng
    schedule.kafka.faults.cut(api="EndTxn", before=rng.random() < 0.5, times=rng.randrange(1, 4))


async def late_ends(schedule: FaultSchedule) -> None:
    """EndTxn is handled late, perhaps after its caller has given up."""
    rng = schedule.world.rng
    schedule.kafka.faults.delay(rng.uniform(0.1, 6.0), before=True, api="EndTxn", times=rng.randrange(1, 3))


TRANSACTIONAL: Final[tuple[Fault, ...]] = (
    *(fault for fault in FAULTS if fault.__name__ not in ("more_partitions", "hidden_topic", "nonsense")),
    *(coordinators_move, markers_are_late, coordinator_errors, ends_without_an_answer, late_ends) * 4,
)


async def live(world: World) -> tuple[Books, FaultSchedule]:
    """Transactions of several owners, faults around them, and the quiet time afterwards."""
    rng = world.rng
    world.forgotten.update((TOPIC, SOURCE))
    world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
    world.kafka.create_topic(SOURCE, 1)
    settings = {
        "linger_ms": rng.choice((0, 5)),
        "batch_size": rng.choice((300, 16_384)),
        "delivery_timeout_ms": rng.choice((3_000, 20_000)),
        "transaction_timeout_ms": rng.choice((1_000, 60_000)),
        "max_in_flight_requests_per_connection": rng.choice((1, 5)),
        "gapless": rng.random() < 0.3,
    }
    books, schedule = Books(world), FaultSchedule(world, apis=APIS)
    programs = Programs(books, settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(schedule.run(rng.randrange(3, 9), LASTS, TRANSACTIONAL))
        group.create_task(programs.run(rng.randrange(10, 30)))
    world.kafka.faults.heal()
    for broker in world.kafka.brokers:
        world.network.release(broker.port)
    await programs.end_open_transaction()
    return books, schedule
