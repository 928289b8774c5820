"""A transactional life: producers of one name, one after the other or against each other, and what they were told."""

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
from tests.simulation.fault_schedule import FAULTS, TOPIC, Fault, Storm
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
    """The program does not want the transaction any more."""


@attrs.define(eq=False)
class Books:
    """What all transactions of a world were, and what became of them."""

    world: World
    told: list[Told] = attrs.Factory(list)
    numbers: int = 0

    def open(self, who: str) -> Told:
        """Another transaction."""
        entry = Told(len(self.told), story=[who])
        self.told.append(entry)
        return entry

    async def send(self, producer: Producer[Any, Any], entry: Told) -> None:
        """A record in the transaction; what is refused is no part of it."""
        rng = self.world.rng
        place = (TOPIC, rng.randrange(PARTITIONS))
        number = self.numbers
        self.numbers += 1
        value = value_of(number, bytes(rng.randrange(300)))
        # Its place in the order is that of the call; whether it was accepted is known later.
        entry.records.append((place, number))
        try:
            delivery = await producer.send(TOPIC, value, partition=place[1])
            if rng.random() < 0.05 and delivery.try_cancel():
                entry.records.remove((place, number))
        except BaseException:
            entry.records.remove((place, number))
            raise

    def seen(self) -> Seen:
        """What a reader of committed records finds."""
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
class Clerk:
    """One producer, and the program around it."""

    books: Books
    name: str
    producer: Producer[Any, Any]
    retired: bool = False
    entry: Told | None = None
    """The transaction that was begun last."""
    committing: bool = False

    async def work(self, transactions: int) -> None:
        """So many transactions, unless somebody else takes over or the producer is killed."""
        rng = self.books.world.rng
        for _ in range(transactions):
            if self.retired:
                return
            await self._transaction()
            await asyncio.sleep(rng.choice((0.0, 0.0, rng.uniform(0, 0.5))))

    async def _transaction(self) -> None:
        before = len(self.books.told)
        try:
            await self._prepare()
            await self.books.world.rng.choice(
                (self._in_a_block, self._by_hand, self._in_a_task_that_is_cancelled)
            )()
        except KafkaError as error:
            self.note_the_end(error)
        for entry in self.books.told[before:]:
            entry.story.append(entry.fate.value)

    def _begun(self) -> Told:
        """The transaction is open: from here on it counts."""
        self.entry = self.books.open(self.name)
        self.committing = False
        return self.entry

    async def _prepare(self) -> None:
        """As a user does it by hand; most often the context manager does it."""
        if self.books.world.rng.random() < 0.2:
            try:
                await self.producer.init_transactions()
            except StateError:
                # It stands somewhere else, from where the context manager may go on.
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
            async with self.producer.transaction(timeout=self._patience()) as tx:
                entry = self._begun()
                await self._fill(entry, tx)
                self.committing = True
        except Deliberate:
            self._told(entry, Fate.ABORTED)
        except CommitOutcomeUnknownError:
            await self._settle(entry)
        except KafkaError as error:
            self._refused(entry, error)
        else:
            self._told(entry, Fate.COMMITTED)

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
            await self.producer.commit_transaction(timeout=self._patience())
        except Deliberate:
            self._told(entry, Fate.ABORTED)
            await self._abort(entry)
        except CommitOutcomeUnknownError:
            await self._settle(entry)
        except KafkaError as error:
            self._refused(entry, error)
            await self._abort(entry)
        else:
            self._told(entry, Fate.COMMITTED)

    async def _in_a_task_that_is_cancelled(self) -> None:
        """At any await: then nobody was told anything; whoever comes next joins what goes on."""
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
                self._told(self.entry, Fate.ABORTED)

    def _turn_the_page(self) -> None:
        self.entry = None

    async def _settle(self, entry: Told | None) -> None:
        """In one of the ways that the documentation names."""
        again = self.books.world.rng.random() < 0.6
        for _ in range(40):
            try:
                if again:
                    await self.producer.commit_transaction(timeout=2.0)
                    self._told(entry, Fate.COMMITTED)
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
    def _told(entry: Told | None, fate: Fate) -> None:
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
        # A producer that was closed meanwhile knows nothing.
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

    def _patience(self) -> float | None:
        return self.books.world.rng.choice((None, None, 0.3, 2.0))


@attrs.define(eq=False)
class Office:
    """Clerks of one name: at most times one, sometimes two of which the older one does not know better yet."""

    books: Books
    settings: dict[str, Any]
    clerks: list[Clerk] = attrs.Factory(list)

    async def hire(self) -> Clerk:
        """Another process with the same transactional id."""
        world = self.books.world
        producer = world.producer(transactional_id=NAME, **self.settings)
        await producer.start()
        clerk = Clerk(self.books, f"clerk {len(self.clerks)}", producer)
        self.clerks.append(clerk)
        return clerk

    async def run(self, transactions: int) -> None:
        """Clerks come and go until so many transactions were tried."""
        rng = self.books.world.rng
        while len(self.books.told) < transactions:
            clerk = await self.hire()
            working = asyncio.create_task(clerk.work(transactions))
            await asyncio.wait([working], timeout=rng.uniform(0.2, LASTS / 2))
            if rng.random() < 0.5:
                clerk.retired = True
                await clerk.producer.close(timeout=0)
                await working
            elif rng.random() < 0.5:
                clerk.retired = True
                await working
                await clerk.producer.close(timeout=rng.choice((None, 0.5)))
            else:
                # A zombie: it goes on until it learns of its successor.
                await self._with_a_zombie(working)

    async def _with_a_zombie(self, working: asyncio.Task[None]) -> None:
        successor = await self.hire()
        await asyncio.wait([asyncio.create_task(successor.work(5)), working])

    async def last_words(self) -> None:
        """Nobody works any more: the next of this name ends what is open."""
        clerk = await self.hire()
        for _ in range(100):
            try:
                await clerk.producer.init_transactions()
            except TransactionTimeoutError:
                continue
            return


# -- faults that only transactions know


async def coordinators_move(storm: Storm) -> None:
    """Those of the transactions and of the group, again and again, some of them loading first."""
    rng = storm.world.rng
    for _ in range(rng.randrange(1, 6)):
        up = [broker.id for broker in storm.kafka.brokers if broker.up]
        if up:
            key = rng.choice((NAME, NAME, GROUP))
            storm.kafka.faults.move_coordinator(key, rng.choice(up), loading=rng.choice((0.0, 0.0, 1.0)))
        await asyncio.sleep(rng.uniform(0.0, 0.5))


async def markers_are_late(storm: Storm) -> None:
    """The end of a transaction takes its time on the partitions."""
    storm.kafka.faults.delay_markers(
        storm.world.rng.uniform(0.01, 3.0), times=storm.world.rng.randrange(1, 6)
    )


async def coordinator_errors(storm: Storm) -> None:
    """Errors that pass, at any request to a coordinator; some of them behind the deed."""
    rng = storm.world.rng
    api = rng.choice(APIS[1:-1])
    storm.kafka.faults.error(rng.choice((14, 15, 16, 51)), api=api, times=rng.randrange(1, 8))


async def ends_without_an_answer(storm: Storm) -> None:
    """The coordinator does what it is asked, and the connection ends before it says so; or before it does."""
    rng = storm.world.rng
    storm.kafka.faults.cut(api="EndTxn", before=rng.random() < 0.5, times=rng.randrange(1, 4))


async def late_ends(storm: Storm) -> None:
    """EndTxn is done late, perhaps when nobody waits for it any more."""
    rng = storm.world.rng
    storm.kafka.faults.delay(rng.uniform(0.1, 6.0), before=True, api="EndTxn", times=rng.randrange(1, 3))


TRANSACTIONAL: Final[tuple[Fault, ...]] = (
    *(fault for fault in FAULTS if fault.__name__ not in ("more_partitions", "hidden_topic", "nonsense")),
    *(coordinators_move, markers_are_late, coordinator_errors, ends_without_an_answer, late_ends) * 4,
)


async def live(world: World) -> tuple[Books, Storm]:
    """Transactions of several owners, faults around them, and the quiet afterwards."""
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
    books, storm = Books(world), Storm(world, apis=APIS)
    office = Office(books, settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(storm.rage(rng.randrange(3, 9), LASTS, TRANSACTIONAL))
        group.create_task(office.run(rng.randrange(10, 30)))
    world.kafka.faults.heal()
    for broker in world.kafka.brokers:
        world.network.release(broker.port)
    await office.last_words()
    return books, storm
