"""Whatever an answer leaves out or makes up: no engine ends by it, no call hangs, and nobody is told what was not proven.

The lies are made from the declarations of the messages. A case is replayed by its name, `-k "Metadata-MetadataResponse.brokers-emptied"`,
and its seed; when the lie begins, and how often it is told, are drawn from both.
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
from aioproducer._wire.apis import APIS
from aioproducer.testing import Fault
from tests.effort import PROOF, SEED_VARIABLE, seeds
from tests.judge.transactions import Fate, judge_transactions
from tests.simulation.bookkeeping import GROUP, NAME, PARTITIONS, SOURCE, Books, Clerk, Office
from tests.simulation.fault_schedule import TOPIC
from tests.simulation.lies import SASL, Lie, lies_of, version_at
from tests.simulation.world import World, simulate

PRODUCE, METADATA, OFFSET_FETCH, FIND_COORDINATOR, VERSIONS, INIT = 0, 3, 9, 10, 18, 22
ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS, DESCRIBE, LIST = 24, 25, 26, 28, 65, 66
PLAIN: Final = (PRODUCE, METADATA, VERSIONS, INIT)
TRANSACTIONAL: Final = {
    1: (*PLAIN, FIND_COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS, DESCRIBE),
    2: (*PLAIN, FIND_COORDINATOR, END, COMMIT_OFFSETS, DESCRIBE),
}
QUESTIONS: Final = (METADATA, OFFSET_FETCH, FIND_COORDINATOR, VERSIONS, INIT, LIST)
LASTS: Final = 12.0
"""Virtual seconds for which a lie is told, at most."""
PATIENCE: Final = 5.0
TIME_LIMIT: Final = 3
"""Seconds that a transaction may be open."""
MOMENT: Final = 0.5
BOUND: Final = 200.0
"""Virtual seconds that a whole program may take: its transactions have time limits of their own."""
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
UNDONE: Final = {PRODUCE: (6, 19), METADATA: (5,), VERSIONS: (-1,), END: (14, 51)}
"""Errors after which nothing was done, by API."""
TRIES: Final = 200 if PROOF else 1
"""Of each lie."""

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
    """It ends in time; a KafkaError is a result."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=limit)
    assert task.done(), f"nothing came of it within {limit:g} s"
    try:
        return task.result()
    except KafkaError as error:
        return error


def armed(world: World, lie: Lie) -> Fault:
    """The lie is told from now on, once, a few times, or until it is healed; perhaps of what was not even done."""
    times = world.rng.choice((1, 1, 3, None))
    if world.rng.random() < 0.4:
        undone = world.rng.choice(UNDONE.get(lie.api, (COORDINATOR_LOAD_IN_PROGRESS,)))
        world.kafka.faults.error(undone, api=APIS[lie.api].name, times=times)
    world.loop.call_later(LASTS, world.kafka.faults.heal)
    return world.kafka.faults.alter(
        lambda answer: lie.told(answer, world.rng), api=APIS[lie.api].name, times=times
    )


def ask_anew(world: World) -> None:
    """Leaders move and connections end, so that everything is asked once more."""
    rng = world.rng
    for partition in range(PARTITIONS):
        world.kafka.faults.move_leader(TOPIC, partition, rng.randrange(1, 4))
    world.kafka.faults.move_coordinator(NAME, rng.randrange(1, 4))
    for broker in (1, 2, 3):
        world.kafka.faults.drop_connections(broker)


def sound(world: World) -> None:
    """No line of the log tells of a bug."""
    bugs = [(line.getMessage(), line.exc_info) for line in world.log if line.exc_info]
    assert not bugs, bugs


def played(play: Play, lie: Lie, level: int, seed: int) -> World:
    """Play it in a world that depends on the case and the seed alone."""
    drawn = random.Random(f"{lie.name} {level} {seed}").getrandbits(32)
    return simulate(lambda world: play(world, lie), drawn, transaction_version=level)


# -- records


async def send_some(world: World, producer: Producer[Any, Any], rounds: int) -> None:
    """Records for each partition, and for any; each call ends in its time."""
    for _ in range(rounds):
        calls = [world.ledger.send(producer, TOPIC, partition=partition) for partition in range(PARTITIONS)]
        calls.append(world.ledger.send(producer, TOPIC))
        limit = producer.config.max_block_ms / 1000 + MOMENT
        for call in [asyncio.ensure_future(call) for call in calls]:
            await bounded(call, limit)
        await asyncio.sleep(world.rng.choice((0.0, 0.01, 1.0)))


async def plain(world: World, lie: Lie) -> None:
    """An idempotent producer, lied to from its start or in the middle of its life; afterwards it works as ever."""
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
        # Nothing may have been out of date: a new topic has to be asked for.
        await bounded(producer.partitions_for("another"), producer.config.max_block_ms / 1000 + MOMENT)
    assert fault is not None
    await asyncio.sleep(world.rng.choice((1.0, LASTS + 1.0)))
    world.kafka.faults.heal()
    await bounded(producer.flush(), producer.config.delivery_timeout_ms / 1000 + MOMENT)
    # A pause as long as the longest between two attempts.
    await asyncio.sleep(5.0)
    sound(world)
    assert producer.health().state == "running", world.warnings()
    assert fault.hits, "the lie was never told"
    entries = len(world.ledger.entries)
    await send_some(world, producer, 1)
    for entry in world.ledger.entries[entries:]:
        assert entry.delivery is not None, entry.error
        assert await entry.delivery.wait(10.0) is Outcome.ACKED, entry.delivery


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(PLAIN, 2))
def test_records(lie: Lie, level: int, seed: int) -> None:
    """The judge of records finds nothing, and the producer goes on."""
    played(plain, lie, level, seed)


# -- transactions


async def transactional(world: World, lie: Lie) -> None:
    """Two owners, one after the other, whose transactions are also out of time; what they were told is judged."""
    rng = world.rng
    world.forgotten.update((TOPIC, SOURCE))
    world.kafka.create_topic(TOPIC, PARTITIONS, min_insync_replicas=2)
    world.kafka.create_topic(SOURCE, 1)
    books = Books(world)
    office = Office(books, {"linger_ms": 0, "transaction_timeout_ms": TIME_LIMIT * 1000})
    fault = armed(world, lie) if rng.random() < 0.7 else None
    for _ in range(2):
        clerk = await office.hire()
        await bounded(clerk.work(2), BOUND)
        fault = armed(world, lie) if fault is None else fault
        await bounded(out_of_time(clerk), BOUND)
        ask_anew(world)
        await bounded(clerk.work(1), BOUND)
    assert fault is not None
    world.kafka.faults.heal()
    sound(world)
    for clerk in office.clerks:
        ends_in_order(clerk.producer, lie)
    await bounded(office.last_words(), BOUND)
    last = office.clerks[-1]
    await bounded(one_more(last), BOUND)
    assert books.told[-1].fate is Fate.COMMITTED, books.told[-1].story
    findings = judge_transactions(books.told, books.seen())
    assert not findings, findings


async def out_of_time(clerk: Clerk) -> None:
    """The coordinator aborts a transaction by itself, and its owner goes on sending, or commits."""
    if clerk.retired:
        return
    try:
        async with clerk.producer.transaction(timeout=PATIENCE) as tx:
            entry = clerk.books.open("out of time")
            entry.fate = Fate.ABORTED
            await clerk.books.send(clerk.producer, entry)
            await asyncio.sleep(TIME_LIMIT + 1.0)
            await clerk.books.send(clerk.producer, entry)
            entry.offset = entry.number
            tx.send_offsets({(SOURCE, 0): entry.number}, GROUP)
            entry.fate = Fate.UNKNOWN
        entry.fate = Fate.COMMITTED
    except CommitOutcomeUnknownError:
        pass
    except KafkaError as error:
        if clerk.books.told and clerk.books.told[-1].story == ["out of time"]:
            told = clerk.books.told[-1]
            sure = error.outcome is not Outcome.UNKNOWN
            told.fate = Fate.ABORTED if sure else told.fate
        clerk.note_the_end(error)


async def one_more(clerk: Clerk) -> None:
    """When nobody lies any more, a transaction is committed as ever."""
    entry = clerk.books.open("the last")
    async with clerk.producer.transaction(timeout=BOUND):
        await clerk.books.send(clerk.producer, entry)
    entry.fate = Fate.COMMITTED


def ends_in_order(producer: Producer[Any, Any], lie: Lie) -> None:
    """A producer ends where its coordinator says that it is not its own any more, and by no other answer.

    Nobody can see that a list of versions is incomplete when it was given twice.
    """
    engine = producer._engine
    assert engine is not None
    orderly = (TransactionError,) if lie.api == VERSIONS else (ProducerFencedError,)
    assert engine.crashed is None or isinstance(engine.crashed, orderly), repr(engine.crashed)


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), [*cases(TRANSACTIONAL[1], 1), *cases(TRANSACTIONAL[2], 2)])
def test_transactions(lie: Lie, level: int, seed: int) -> None:
    """The judge of transactions finds nothing."""
    played(transactional, lie, level, seed)


# -- questions without a producer


async def questions(world: World, lie: Lie) -> None:
    """Each ends in its time, with an answer or an error of this library."""
    world.kafka.create_topic(SOURCE, 2)
    servers = world.kafka.bootstrap_servers
    armed(world, lie)
    for ask in (
        lambda: fence([NAME, "another"], servers, timeout=PATIENCE),
        lambda: list_transactions(NAME, servers, timeout=PATIENCE),
        lambda: committed_offsets(GROUP, [(SOURCE, 0), (SOURCE, 1)], servers, timeout=PATIENCE),
    ):
        await bounded(ask(), PATIENCE + MOMENT)
    world.kafka.faults.heal()
    sound(world)
    await fence([NAME], servers)
    assert [one.transactional_id for one in await list_transactions(NAME, servers)] == [NAME]
    assert await committed_offsets(GROUP, [(SOURCE, 0)], servers) == {}


@pytest.mark.parametrize("seed", TRIED)
@pytest.mark.parametrize(("lie", "level"), cases(QUESTIONS, 2))
def test_questions(lie: Lie, level: int, seed: int) -> None:
    """Nobody waits longer than was asked for, and nothing but a KafkaError is raised."""
    played(questions, lie, level, seed)


def test_every_answer_that_is_read_is_lied_about() -> None:
    """What the client decodes is what its modules import."""
    root = Path(aioproducer.__file__).parent
    sources = "".join(
        path.read_text() for folder in ("_net", "_state") for path in (root / folder).rglob("*.py")
    )
    read = {api.key for api in APIS.values() if re.search(rf"\b{api.response.__name__}\b", sources)}
    assert read == {*TRANSACTIONAL[1], *TRANSACTIONAL[2], *QUESTIONS, *SASL}
