"""The life of a transactional producer over days: no other producer has its name, so that none fences it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

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
from aioproducer.testing.broker.cluster.topics import Topic
from tests.judge.history import number_of, value_of
from tests.judge.transactions import Fate, Place, Seen, Told, judge_transactions
from tests.simulation.days.incarnations import Incarnations, full_name
from tests.simulation.days.past import Past
from tests.simulation.days.scene import DAY, HOUR, LATE_BELIEF, TOPICS, Scene, slow_settings
from tests.simulation.ledger import MOMENT
from tests.simulation.world import World

NAME: Final = "books"
GROUP: Final = "readers"
SOURCE: Final = "source"
ATTEMPTS: Final = 40
T = TypeVar("T")


class ChangedMindError(Exception):
    """The program drops the transaction."""


def settings_of(world: World) -> dict[str, Any]:
    """The settings of a life, drawn from the seed."""
    rng = world.rng
    return {
        "transactional_id": NAME,
        "linger_ms": rng.choice((0, 0, 5)),
        "batch_size": rng.choice((0, 0, 400)),
        "delivery_timeout_ms": rng.choice((3_000, 20_000)),
        "max_block_ms": rng.choice((3_000, 20_000)),
        "transaction_timeout_ms": rng.choice((10_000, 60_000, 900_000)),
        "metadata_max_idle_ms": rng.choice((5_000, 300_000, 300_000, 300_000, 5_000_000, 5_000_000)),
        **slow_settings(world),
    }


@attrs.define(eq=False)
class Life:
    """One producer, and the results of its owner's calls."""

    scene: Scene
    producer: Producer[Any, Any]
    entries: list[Told] = attrs.Factory(list)
    numbers: int = 0
    committing: bool = False
    outlives: bool = False
    """May a transaction stay open beyond its time?"""

    @property
    def world(self) -> World:
        """The world of the producer."""
        return self.scene.world

    async def live(self) -> None:
        """Pause, change, transaction; repeatedly."""
        rng = self.world.rng
        for _ in range(rng.randrange(3, 7)):
            seconds = self.scene.pause()
            self.scene.note(f"a pause of {seconds:.3f} s")
            await asyncio.sleep(seconds)
            for change in rng.choice(CHANGES):
                if not (change == "restart" and self._must_find_its_coordinator):
                    self.scene.aside(getattr(self.scene, change))
                self.scene.deny_perhaps()
            if rng.random() < 0.25 and not self._must_find_its_coordinator:
                self._disturb_the_coordinator()
            await self._transaction()
            if rng.random() < 0.6:
                await self.scene.settle()
            self.scene.look_at(self.producer)

    @property
    def _must_find_its_coordinator(self) -> bool:
        """On version 1 a time-out looks like fencing if an attempt to end the transaction had no clear answer."""
        return self.outlives and self.world.kafka._cluster.transaction_version == 1

    def _disturb_the_coordinator(self) -> None:
        """The coordinator moves, is loading, or handles requests without an answer."""
        rng, faults = self.world.rng, self.world.kafka.faults
        match rng.randrange(3):
            case 0:
                broker, loading = rng.randrange(1, 4), rng.choice((0.0, 1.0, 5.0))
                faults.move_coordinator(rng.choice((NAME, NAME, GROUP)), broker, loading=loading)
                self.scene.note(f"broker {broker} coordinates, and is loading for {loading} s")
            case 1:
                api = rng.choice(("EndTxn", "EndTxn", "InitProducerId", "AddPartitionsToTxn"))
                if api == "InitProducerId" and self.scene.ids_expire:
                    # A new id whose answer is lost, after the former was forgotten, looks like a successor's.
                    return
                faults.cut(api=api, before=rng.random() < 0.3, times=rng.choice((1, 1, 2)))
                self.scene.note(f"a connection ends instead of the answer to {api}")
            case 2:
                faults.delay_markers(rng.choice((0.02, 0.5, 3.0)))
                self.scene.note("markers are late")

    # -- one transaction

    async def _transaction(self) -> None:
        entry = Told(len(self.entries))
        self.entries.append(entry)
        self.committing = False
        by_hand = self.world.rng.random() < 0.3
        try:
            await (self._by_hand(entry) if by_hand else self._in_a_block(entry))
        except ChangedMindError:
            entry.fate = Fate.ABORTED
        except CommitOutcomeUnknownError:
            await self._settle(entry)
        except KafkaError as error:
            self._refused(entry, error)
        else:
            entry.fate = Fate.COMMITTED
        self.scene.note(f"transaction {entry.number}: {entry.fate.value} {'; '.join(entry.story)}")

    async def _in_a_block(self, entry: Told) -> None:
        transaction = self.producer.transaction()
        tx = await self._bounded("begin", transaction.__aenter__())
        try:
            await self._fill(entry)
            if self.world.rng.random() < 0.2:
                tx.send_offsets({(SOURCE, 0): entry.number}, GROUP)
                entry.offset = entry.number
        except BaseException as error:
            await self._bounded("abort", transaction.__aexit__(type(error), error, error.__traceback__))
            raise
        else:
            self.committing = True
            await self._bounded("commit", transaction.__aexit__(None, None, None), times=2)

    async def _by_hand(self, entry: Told) -> None:
        if not self.world.rng.randrange(3) or not entry.number:
            await self._patiently(self.producer.init_transactions)
        await self._bounded("begin", self.producer.begin_transaction())
        try:
            await self._fill(entry)
            self.committing = True
            await self._bounded("commit", self.producer.commit_transaction())
        except CommitOutcomeUnknownError:
            raise
        except (KafkaError, ChangedMindError):
            await self._abort(entry)
            raise

    async def _fill(self, entry: Told) -> None:
        """Send records; pause; send records."""
        rng, scene = self.world.rng, self.scene
        for _ in range(rng.choice((1, 1, 2))):
            topic, partition = scene.place()
            fault = rng.random()
            if fault < 0.15:
                scene.refuse(topic, partition)
            if 0.1 < fault < 0.25 and not self._must_find_its_coordinator:
                scene.lose_answers(topic, partition)
            for _ in range(rng.choice((1, 2, 3))):
                await self._send(entry, topic, partition)
            if rng.random() < 0.5:
                await self._send(entry, *scene.place())
            if rng.random() < 0.4:
                await self.producer.flush()
            if rng.random() < 0.4:
                seconds = min(scene.pause(), self._longest_inside())
                scene.note(f"a pause of {seconds:.3f} s in the transaction")
                await asyncio.sleep(seconds)
            if rng.random() < 0.2:
                scene.aside(scene.remake)
        if rng.random() < 0.2:
            raise ChangedMindError

    def _longest_inside(self) -> float:
        """A pause longer than the time of a transaction, where a time-out can be told from fencing."""
        return 1_000.0 if self.outlives else self.producer.config.transaction_timeout_ms / 4_000

    async def _send(self, entry: Told, topic: str, partition: int) -> None:
        """Send a record in the transaction; a refused record is no part of it."""
        number = self.numbers
        self.numbers += 1
        place = (topic, partition)
        entry.records.append((place, number))
        self.scene.note(f"record {number} for {topic}-{partition}")
        try:
            await self._bounded("send", self.producer.send(topic, value_of(number), partition=partition))
        except BaseException:
            entry.records.remove((place, number))
            raise

    async def _bounded(self, what: str, call: Awaitable[T], times: int = 1) -> T:
        """No call takes longer than its limit."""
        began = self.world.now
        try:
            return await call
        finally:
            lasted = self.world.now - began
            if lasted > times * self.producer.config.max_block_ms / 1000 + MOMENT:
                self.scene.broken.append(f"{what} lasted {lasted:.3f} s")

    # -- after an error

    async def _patiently(self, call: Any) -> None:
        for _ in range(ATTEMPTS):
            try:
                await call(timeout=2.0)
            except TransactionTimeoutError:
                continue
            return

    async def _settle(self, entry: Told) -> None:
        """Settle the transaction in one of the documented ways."""
        again = self.world.rng.random() < 0.6
        entry.story.append("unknown")
        for _ in range(ATTEMPTS):
            try:
                if again:
                    await self.producer.commit_transaction(timeout=2.0)
                    entry.fate = Fate.COMMITTED
                else:
                    await self.producer.init_transactions(timeout=2.0)
            except (CommitOutcomeUnknownError, TransactionTimeoutError):
                continue
            except KafkaError as error:
                self._refused(entry, error)
                await self._abort(entry)
            return

    async def _abort(self, entry: Told) -> None:
        try:
            await self._patiently(self.producer.abort_transaction)
        except StateError as error:
            entry.story.append(str(error)[:80])
        except KafkaError as error:
            self._refused(entry, error)

    def _refused(self, entry: Told, error: KafkaError) -> None:
        """The transaction is not committed, and its owner may rely on that where the error says so."""
        entry.story.append(f"{type(error).__name__} {error.outcome.value} {str(error)[:200]}")
        for one in (error, error.__cause__, error.__context__):
            if isinstance(one, ProducerFencedError):
                self.scene.broken.append(f"no other producer fenced it, and the error is: {one}")
        unsure = self.committing and error.outcome is Outcome.UNKNOWN
        entry.fate = Fate.UNKNOWN if unsure else Fate.ABORTED

    # -- the end

    async def end(self) -> None:
        """After the last fault every commit succeeds again."""
        scene = self.scene
        await scene.settle()
        scene.calm()
        await asyncio.sleep(LATE_BELIEF)
        scene.note("calm")
        # A recreated topic may have spoiled the sequence numbers, which may cost one transaction.
        if not any([await self._is_committed() for _ in range(2)]):
            scene.broken.append("nothing can be committed, though all is well")
        scene.look_at(self.producer)

    async def _is_committed(self) -> bool:
        entry = Told(len(self.entries))
        self.entries.append(entry)
        try:
            async with self.producer.transaction():
                for topic in sorted(self.world.kafka.topics.keys() - {SOURCE}):
                    for partition in range(self.scene.partitions(topic)):
                        await self._send(entry, topic, partition)
        except KafkaError as error:
            self._refused(entry, error)
            return False
        entry.fate = Fate.COMMITTED
        return True

    # -- for the judge

    def seen(self) -> tuple[list[Told], Seen]:
        """The results by incarnation, and the records that readers of committed records find in each."""
        topics, kafka = self.scene.topics, self.world.kafka
        records: dict[Place, list[int]] = {}
        where: dict[int, Place] = {}
        undecided: set[int] = set()
        for topic in topics.all():
            for partition in topic.partitions:
                place = (full_name(topic), partition.index)
                records[place] = [number_of(one.value) for one in topics.committed(topic, partition.index)]
                where.update(dict.fromkeys(records[place], place))
                if not topics.is_there(topic):
                    undecided |= _open_in(topics, topic, partition.index)
        placed = [_placed(entry, where, undecided) for entry in self.entries]
        hidden = [
            (topic.name, partition.index)
            for topic in topics.all()
            for partition in topic.partitions
            if topics.is_there(topic) and partition.log.stable_offset != partition.log.high_watermark
        ]
        return placed, Seen(records, kafka.committed_offset(GROUP, SOURCE, 0), hidden)


def _placed(entry: Told, where: dict[int, Place], undecided: set[int]) -> Told:
    """The records of a topic that was deleted before the transaction ended are not judged."""
    records = [
        (where.get(number, place), number)
        for place, number in entry.records
        if number in where or number not in undecided
    ]
    return attrs.evolve(entry, records=records)


def _open_in(topics: Incarnations, topic: Topic, partition: int) -> set[int]:
    """The records from the first undecided offset on."""
    stable = topic.partitions[partition].log.stable_offset
    return {number_of(one.value) for one in topics.records(topic, partition) if one.offset >= stable}


CHANGES: Final = (
    (), (), (), (), ("remake",), ("remake",), ("lag_once",), ("lag_once", "remake"), ("lag",), ("grow",), ("move",),
    ("restart",),
)  # fmt: skip
"""The faults around the time of a transaction, each at a random moment."""


async def live(world: World, lived: list[Life]) -> None:
    """One life, from the first topic to the quiet time at the end; it is put into `lived` when it begins."""
    rng = world.rng
    settings = settings_of(world)
    scene = Scene(world, settings, Incarnations(world.kafka), Past(world))
    world.forgotten.update((*TOPICS, SOURCE))
    world.kafka.create_topic(SOURCE, 1)
    for topic in TOPICS[: rng.choice((1, 2))]:
        scene.topics.make(topic, rng.choice((1, 2, 4)))
    producer = world.producer(**settings, topics=list(world.kafka.topics) if rng.random() < 0.3 else [])
    await producer.start()
    life = Life(scene, producer, outlives=rng.random() < 0.5)
    lived.append(life)
    await life.live()
    await life.end()


def options_of(seed: int) -> dict[str, Any]:
    """How long leaders and coordinators remember, and the rules of transactions."""
    return {
        "auto_create_topics": False,
        "transaction_version": 1 + seed % 2,
        "producer_expiration": DAY if seed // 2 % 4 == 0 else HOUR,
        "transactional_id_expiration": (7 * DAY, 20_000.0)[seed // 8 % 2],
    }


def verdict(life: Life) -> list[str]:
    """Every broken promise."""
    return [*map(str, judge_transactions(*life.seen())), *life.scene.broken]
