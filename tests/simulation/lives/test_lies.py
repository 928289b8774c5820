"""An answer that omits or invents a field ends no engine, hangs no call, and leads to no unproven outcome.

The lies are made from the declarations of the messages. A case is replayed by its name, such as
`-k "Metadata-MetadataResponse.brokers-emptied"`, and its seed, from which the start and the number of the lies are drawn.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

import aioproducer
from aioproducer import (
    CommitOutcomeUnknownError,
    KafkaError,
    Outcome,
    Producer,
    ProducerFencedError,
    TransactionError,
    committed_offsets,
    fence,
    list_transactions,
)
from aioproducer._net.resolving import resolver  # loaded by a thread otherwise, and time stands still here
from aioproducer._wire.apis import APIS
from aioproducer.config import ProducerConfig
from aioproducer.ledgers import Ledger, LedgerTopic
from aioproducer.records import Resolution
from aioproducer.testing import Fault
from tests.effort import PROOF, SEED_VARIABLE, seeds
from tests.judge.transactions import Fate, judge_transactions
from tests.simulation.bookkeeping import GROUP, NAME, PARTITIONS, SOURCE, Books, Program, Programs
from tests.simulation.fault_schedule import TOPIC
from tests.simulation.lies import DOCTOR, SASL, Lie, lies_of, version_at
from tests.simulation.world import World, simulate

PRODUCE, METADATA, OFFSET_FETCH, FIND_COORDINATOR, VERSIONS, INIT = 0, 3, 9, 10, 18, 22
ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS, DESCRIBE, LIST = 24, 25, 26, 28, 65, 66
PLAIN: Final = (PRODUCE, METADATA, VERSIONS, INIT)
TRANSACTIONAL: Final = {
    1: (*PLAIN, FIND_COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS, DESCRIBE),
    2: (*PLAIN, FIND_COORDINATOR, END, COMMIT_OFFSETS, DESCRIBE),
}
TELEMETRY: Final = (71, 72)
RESOLVING: Final = (1, 2)
LEDGERS: Final = (19,)
QUESTIONS: Final = (METADATA, OFFSET_FETCH, FIND_COORDINATOR, VERSIONS, INIT, LIST)
LASTS: Final = 12.0
"""The longest lie, in virtual seconds."""
CALL_LIMIT: Final = 5.0
TIME_LIMIT: Final = 3
"""Seconds that a transaction may be open."""
MOMENT: Final = 0.5
BOUND: Final = 200.0
"""Virtual seconds that a whole program may take: its transactions have time limits of their own."""
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
UNDONE: Final = {PRODUCE: (6, 19), METADATA: (5,), VERSIONS: (-1,), END: (14, 51)}
"""Errors that prove that nothing was done, by API."""
TRIES: Final = 200 if PROOF else 1
"""Runs of each lie."""

TRIED: Final = seeds(1) if SEED_VARIABLE in os.environ else range(TRIES)

Play = Callable[[World, Lie], Awaitable[None]]


def cases(apis: tuple[int, ...], level: int) -> list[Any]:
    """Every lie in an answer of these."""
    return [
        pytest.param(lie, level, id=f"{lie.name}-level{level}")
        for api in apis
        for lie in lies_of(api, version_at(api, level))
    ]


async def bounded(work: Awaitable[Any], limit: float) -> Any:
    """The call ends in time; a KafkaError is a result."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=limit)
    assert task.done(), f"nothing came of it within {limit:g} s"
    try:
        return task.result()
    except KafkaError as error:
        return error


def armed(world: World, lie: Lie) -> Fault:
    """The lie begins now: once, a few times, or until it is healed; the request may not even be handled."""
    times = world.rng.choice((1, 1, 3, None))
    if world.rng.random() < 0.4:
        undone = world.rng.choice(UNDONE.get(lie.api, (COORDINATOR_LOAD_IN_PROGRESS,)))
        world.kafka.faults.error(undone, api=APIS[lie.api].name, times=times)
    world.loop.call_later(LASTS, world.kafka.faults.heal)
    return world.kafka.faults.alter(
        lambda answer: lie.altered(answer, world.rng), api=APIS[lie.api].name, times=times
    )


def ask_anew(world: World) -> None:
    """Move leaders and end connections, so that every request is repeated."""
    rng = world.rng
    for partition in range(PARTITIONS):
        world.kafka.faults.move_leader(TOPIC, partition, rng.randrange(1, 4))
    world.kafka.faults.move_coordinator(NAME, rng.randrange(1, 4))
    for broker in (1, 2, 3):
        world.kafka.faults.drop_connections(broker)


def sound(world: World) -> None:
    """No line of the log reports a bug."""
    bugs = [(line.getMessage(), line.exc_info) for line in world.log if line.exc_info]
    assert not bugs, bugs


def played(play: Play, lie: Lie, level: int, seed: int, **options: Any) -> World:
    """Play it in a world that depends only on the case and the seed."""
    drawn = random.Random(f"{lie.name} {level} {seed}").getrandbits(32)
    return simulate(lambda world: play(world, lie), drawn, transaction_version=level, **options)


# -- records


async def send_some(world: World, producer: Producer[Any, Any], rounds: int) -> None:
    """Send records for each partition, and for any; each call ends in its time."""
    for _ in range(rounds):
        calls = [world.ledger.send(producer, TOPIC, partition=partition) for partition in range(PARTITIONS)]
        calls.append(world.ledger.send(producer, TOPIC))
        limit = producer.config.max_block_ms / 1000 + MOMENT
        for call in [asyncio.ensure_future(call) for call in calls]:
            await bounded(call, limit)
        await asyncio.sleep(world.rng.choice((0.0, 0.01, 1.0)))


async def plain(world: World, lie: Lie) -> None:
    """An idempotent producer, lied to from its start or in the middle of its life; afterwards it works as before."""
    world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
    producer = world.producer(linger_ms=world.rng.choice((0, 5)), batch_size=world.rng.choice((100, 16_384)))
    late = world.rng.random() < 0.5 and lie.api != INIT
    fault = None if late else armed(world, lie)
    await producer.start()
    await send_some(world, producer, 2)
    if late:
        fault = armed(world, lie)
        ask_anew(world)
        await send_some(world, producer, 3)
        # Perhaps no metadata was out of date: a new topic needs a request.
        await bounded(producer.partitions_for("another"), producer.config.max_block_ms / 1000 + MOMENT)
    assert fault is not None
    await asyncio.sleep(world.rng.choice((1.0, LASTS + 1.0)))
    world.kafka.faults.heal()
    await bounded(producer.flush(), producer.config.delivery_timeout_ms / 1000 + MOMENT)
    # A pause as long as the longest between two attempts.
    await asyncio.sleep(5.0)
    sound(world)
    assert producer.health().state == "running", world.warnings()
    assert fault.hits, "the lie was never used"
    entries = len(world.ledger.entries)
    await send_some(world, producer, 1)
    for entry in world.ledger.entries[entries:]:
        assert entry.delivery is not None, entry.error
        assert await entry.delivery.wait(10.0) is Outcome.ACKED, entry.delivery


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(PLAIN, 2))
def test_records(lie: Lie, level: int, seed: int) -> None:
    """The judge of records finds no fault, and the producer continues."""
    played(plain, lie, level, seed)


# -- metrics of clients


async def pushing(world: World, lie: Lie) -> None:
    """A producer whose cluster asks for metrics: no lie about these touches a record, and it closes in time."""
    world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
    world.kafka.subscribe_metrics(["*"], 1_000)
    producer = world.producer(linger_ms=0)
    fault = armed(world, lie)
    await producer.start()
    for _ in range(4):
        await send_some(world, producer, 1)
        await asyncio.sleep(world.rng.choice((0.5, 2.0, LASTS / 2)))
    sound(world)
    assert fault.hits, "the lie was never used"
    assert producer.health().state == "running", world.warnings()
    for entry in world.ledger.entries:
        assert entry.delivery is not None, entry.error
        assert await entry.delivery.wait(10.0) is Outcome.ACKED, entry.delivery
    await bounded(producer.close(), 1.0 + MOMENT)


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(TELEMETRY, 2))
def test_metrics(lie: Lie, level: int, seed: int) -> None:
    """The judge of records finds no fault, each record is acknowledged, and the producer continues."""
    played(pushing, lie, level, seed, telemetry=True)


# -- records of unknown outcome


async def resolving(world: World, lie: Lie) -> None:
    """No lie makes a written record NOT_WRITTEN, or gives it another place; without it the record is found."""
    assert resolver.CLOSED
    world.kafka.create_topic(TOPIC, 1, min_insync_replicas=2)
    producer = world.producer(linger_ms=0, delivery_timeout_ms=3_000)
    await producer.start()
    lost = world.kafka.faults.drop_answer(api="Produce", times=None)
    delivery = await world.ledger.send(producer, TOPIC)
    assert delivery is not None
    assert await delivery.wait(10.0) is Outcome.UNKNOWN
    lost.heal()
    fault = armed(world, lie)
    later = asyncio.ensure_future(world.ledger.send(producer, TOPIC))
    told = await bounded(delivery.resolve_unknown(CALL_LIMIT), CALL_LIMIT + MOMENT)
    assert told in (Resolution(Outcome.ACKED, 0), Resolution(Outcome.UNKNOWN, reason=told.reason))
    assert fault.hits, "the lie was never used"
    world.kafka.faults.heal()
    assert await delivery.resolve_unknown() == Resolution(Outcome.ACKED, 0)
    second = await later
    assert second is not None
    assert await second.wait(10.0) is Outcome.ACKED
    sound(world)
    assert producer.health().state == "running", world.warnings()


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(RESOLVING, 2))
def test_resolving(lie: Lie, level: int, seed: int) -> None:
    """The judge of records finds no fault, and the producer continues."""
    played(resolving, lie, level, seed)


# -- transactions


async def transactional(world: World, lie: Lie) -> None:
    """Two owners in succession, whose transactions also time out; the results of their calls are judged."""
    rng = world.rng
    world.forgotten.update((TOPIC, SOURCE))
    world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
    world.kafka.create_topic(SOURCE, 1)
    books = Books(world)
    programs = Programs(books, {"linger_ms": 0, "transaction_timeout_ms": TIME_LIMIT * 1000})
    fault = armed(world, lie) if rng.random() < 0.7 else None
    for _ in range(2):
        program = await programs.start()
        await bounded(program.work(2), BOUND)
        fault = armed(world, lie) if fault is None else fault
        await bounded(out_of_time(program), BOUND)
        ask_anew(world)
        await bounded(program.work(1), BOUND)
    assert fault is not None
    world.kafka.faults.heal()
    sound(world)
    for program in programs.all:
        ends_in_order(program.producer, lie)
        # An attempt of it to get a producer id, which goes on, would fence the last one.
        await program.producer.close(timeout=0)
    await bounded(programs.end_open_transaction(), BOUND)
    last = programs.all[-1]
    await bounded(one_more(last), BOUND)
    assert books.entries[-1].fate is Fate.COMMITTED, books.entries[-1].story
    findings = judge_transactions(books.entries, books.seen())
    assert not findings, findings


async def out_of_time(program: Program) -> None:
    """The coordinator aborts a transaction by itself, and its owner keeps sending, or commits."""
    if program.retired:
        return
    try:
        async with program.producer.transaction(timeout=CALL_LIMIT) as tx:
            entry = program.books.open("out of time")
            entry.fate = Fate.ABORTED
            await program.books.send(program.producer, entry)
            await asyncio.sleep(TIME_LIMIT + 1.0)
            await program.books.send(program.producer, entry)
            entry.offset = entry.number
            tx.send_offsets({(SOURCE, 0): entry.number}, GROUP)
            entry.fate = Fate.UNKNOWN
        entry.fate = Fate.COMMITTED
    except CommitOutcomeUnknownError:
        pass
    except KafkaError as error:
        if program.books.entries and program.books.entries[-1].story == ["out of time"]:
            entry = program.books.entries[-1]
            sure = error.outcome is not Outcome.UNKNOWN
            entry.fate = Fate.ABORTED if sure else entry.fate
        program.note_the_end(error)


async def one_more(program: Program) -> None:
    """After the last lie a transaction is committed as before."""
    entry = program.books.open("the last")
    async with program.producer.transaction(timeout=BOUND):
        await program.books.send(program.producer, entry)
    entry.fate = Fate.COMMITTED


def ends_in_order(producer: Producer[Any, Any], lie: Lie) -> None:
    """A producer ends only when its coordinator answers that another producer owns the id.

    A list of versions that was incomplete twice cannot be recognized.
    """
    engine = producer._engine
    assert engine is not None
    orderly = (TransactionError,) if lie.api == VERSIONS else (ProducerFencedError,)
    assert engine.supervisor.crashed is None or isinstance(engine.supervisor.crashed, orderly), repr(
        engine.supervisor.crashed
    )


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), [*cases(TRANSACTIONAL[1], 1), *cases(TRANSACTIONAL[2], 2)])
def test_transactions(lie: Lie, level: int, seed: int) -> None:
    """The judge of transactions finds no fault."""
    played(transactional, lie, level, seed)


# -- calls without a producer


async def questions(world: World, lie: Lie) -> None:
    """Each call ends in its time, with an answer or an error of this library."""
    world.kafka.create_topic(SOURCE, 2)
    servers = world.kafka.bootstrap_servers
    armed(world, lie)
    for ask in (
        lambda: fence([NAME, "another"], servers, timeout=CALL_LIMIT),
        lambda: list_transactions(NAME, servers, timeout=CALL_LIMIT),
        lambda: committed_offsets(GROUP, [(SOURCE, 0), (SOURCE, 1)], servers, timeout=CALL_LIMIT),
    ):
        await bounded(ask(), CALL_LIMIT + MOMENT)
    world.kafka.faults.heal()
    sound(world)
    await fence([NAME], servers)
    assert [one.transactional_id for one in await list_transactions(NAME, servers)] == [NAME]
    assert await committed_offsets(GROUP, [(SOURCE, 0)], servers) == {}


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(QUESTIONS, 2))
def test_questions(lie: Lie, level: int, seed: int) -> None:
    """No call exceeds its limit, and each error is a KafkaError."""
    played(questions, lie, level, seed)


# -- ledgers


async def ledgers(world: World, lie: Lie) -> None:
    """A ledger is created, or an error tells that it is not; the next call without a lie creates it or finds it."""
    config = ProducerConfig(world.kafka.bootstrap_servers)
    armed(world, lie)
    topic = LedgerTopic("ledger", PARTITIONS, {"cleanup.policy": "compact"})
    async with Ledger(config, topic) as ledger:
        await bounded(ledger.require(timeout=CALL_LIMIT), CALL_LIMIT + MOMENT)
        world.kafka.faults.heal()
        await ledger.require(timeout=CALL_LIMIT)
        assert await ledger.last_values(range(PARTITIONS), lambda _: True, timeout=CALL_LIMIT) == {}


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(LEDGERS, 2))
def test_ledgers(lie: Lie, level: int, seed: int) -> None:
    """No call exceeds its limit, and each error is a KafkaError."""
    played(ledgers, lie, level, seed)


def test_every_answer_that_is_read_is_lied_about() -> None:
    """The decoded answers are those whose modules the client imports."""
    root = Path(aioproducer.__file__).parent
    sources = "".join(
        path.read_text() for folder in ("_net", "_state") for path in (root / folder).rglob("*.py")
    )
    read = {api.key for api in APIS.values() if re.search(rf"\b{api.response.__name__}\b", sources)}
    assert read == {
        *TRANSACTIONAL[1],
        *TRANSACTIONAL[2],
        *QUESTIONS,
        *TELEMETRY,
        *RESOLVING,
        *LEDGERS,
        *DOCTOR,
        *SASL,
    }
