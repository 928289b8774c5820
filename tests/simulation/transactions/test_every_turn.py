"""A transaction is interrupted in each turn of the loop: killed, taken over, or left by its waiting task."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from aioproducer import KafkaError, Producer, ProducerFencedError, StateError, TransactionAbortedError
from tests.effort import EVERY_TURN, LONG_TEST
from tests.judge.transactions import Fate, Told, judge_transactions
from tests.simulation.bookkeeping import GROUP, NAME, PARTITIONS, SOURCE, Books
from tests.simulation.fault_schedule import TOPIC
from tests.simulation.world import World, simulate


class ChangedMindError(Exception):
    """The program drops the transaction."""


@attrs.define(eq=False)
class Script:
    """Three transactions of one producer, the second of which is aborted; the script never changes."""

    books: Books
    producer: Producer[Any, Any]
    entry: Told | None = None
    committing: bool = False

    async def play(self) -> None:
        """Run them one after the other."""
        for number in range(3):
            await self.transaction(aborts=number == 1)

    async def transaction(self, *, aborts: bool = False) -> None:
        """Some records, an offset, and the end."""
        self.entry = None
        try:
            async with self.producer.transaction() as tx:
                entry = self.entry = self.books.open("script")
                self.committing = False
                for _ in range(2):
                    await self.books.send(self.producer, entry)
                # The request that opens the transaction is in flight before one ends it.
                await self.producer.flush()
                for _ in range(2):
                    await self.books.send(self.producer, entry)
                tx.send_offsets({(SOURCE, 0): entry.number}, GROUP)
                entry.offset = entry.number
                if aborts:
                    raise ChangedMindError
                self.committing = True
        except ChangedMindError:
            entry.fate = Fate.ABORTED
        else:
            entry.fate = Fate.COMMITTED

    def broken_off(self) -> None:
        """After the interruption a transaction that was not being committed stays uncommitted."""
        if self.entry is not None and self.entry.fate is Fate.UNKNOWN and not self.committing:
            self.entry.fate = Fate.ABORTED


Interruption = Callable[[World, Script, "asyncio.Task[None]"], Awaitable[None]]


async def killed(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """The process is gone, and another takes its place."""
    await script.producer.close(timeout=0)
    await asyncio.wait([playing])
    script.broken_off()
    await _successor(world, script.books)


async def taken_over(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """Another producer of the same name begins while this one does not know it."""
    await asyncio.gather(_successor(world, script.books), asyncio.wait([playing]))
    script.broken_off()


async def left(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """The task is cancelled; the next one settles the transaction, and continues with the same producer."""
    playing.cancel()
    await asyncio.wait([playing])
    entry = script.entry
    try:
        await script.producer.commit_transaction()
    except StateError:
        script.broken_off()
    else:
        assert entry is not None
        entry.fate = Fate.COMMITTED
    await script.transaction()


async def out_of_time(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """The cluster aborts the expired transaction; the same producer continues with the next."""
    transactions = world.kafka._cluster.transactions
    known = transactions.get(NAME)
    if known is not None:
        known.started_at = -math.inf
        transactions.tick()
    await asyncio.wait([playing])
    if isinstance(playing.exception(), TransactionAbortedError) and script.entry is not None:
        script.entry.fate = Fate.ABORTED
    script.broken_off()
    await script.transaction()


async def left_twice(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """The task is cancelled again while it aborts or joins the end of its transaction."""
    playing.cancel()
    for _ in range(_some(world)):
        await asyncio.sleep(0)
    await left(world, script, playing)


async def started_again(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """The task is cancelled, and another one calls `init_transactions()` before or after it has ended."""
    playing.cancel()
    for _ in range(_some(world)):
        await asyncio.sleep(0)
    with contextlib.suppress(KafkaError):
        await script.producer.init_transactions()
    await asyncio.wait([playing])
    await _next_transaction(script)


async def aborted_elsewhere(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """Another task aborts the transaction."""
    with contextlib.suppress(KafkaError):
        await script.producer.abort_transaction()
    await asyncio.wait([playing])
    await _next_transaction(script)


async def closing(world: World, script: Script, playing: asyncio.Task[None]) -> None:
    """Another task closes the producer, which has some time for the end of the transaction or none."""
    await script.producer.close(timeout=0.02 * _some(world))
    await asyncio.wait([playing])
    script.broken_off()
    await _successor(world, script.books)


async def _next_transaction(script: Script) -> None:
    script.broken_off()
    # One of them is refused, by the state that the producer was left in.
    for end in (script.producer.init_transactions, script.producer.abort_transaction):
        with contextlib.suppress(KafkaError):
            await end()
    await script.transaction()


def _some(world: World) -> int:
    return random.Random(world.loop.turns).randrange(12)


async def _successor(world: World, books: Books) -> None:
    producer = world.producer(transactional_id=NAME)
    await producer.start()
    script = Script(books, producer)
    # The other producer may come last, if it had not begun.
    with contextlib.suppress(ProducerFencedError, TransactionAbortedError):
        await script.transaction()
    script.broken_off()


@pytest.mark.parametrize(
    "interruption",
    [killed, taken_over, left, out_of_time, left_twice, started_again, aborted_elsewhere, closing],
)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.timeout(LONG_TEST)
def test_interrupted_in_each_turn(version: int, interruption: Interruption) -> None:
    """The log has a row of whole transactions, and the results of the owner's calls are true."""
    first, last = _turns(version)
    for turn in range(first, last, EVERY_TURN):
        books = _life(version, turn, interruption)
        findings = judge_transactions(books.entries, books.seen())
        assert not findings, "\n".join([f"in turn {turn} of {first} to {last}:", *map(str, findings)])


def _turns(version: int) -> tuple[int, int]:
    """The turns in which an undisturbed script begins and ends."""
    seen: list[int] = []

    async def play(world: World) -> None:
        script = await _script(world)
        seen.append(world.loop.turns)
        await script.play()
        seen.append(world.loop.turns)

    simulate(play, 1, transaction_version=version)
    return seen[0], seen[1]


def _life(version: int, turn: int, interruption: Interruption) -> Books:
    lived: list[Books] = []

    async def play(world: World) -> None:
        script = await _script(world)
        lived.append(script.books)
        now = asyncio.Event()
        world.loop.in_turn[turn] = now.set
        playing = asyncio.create_task(script.play())
        coming = asyncio.create_task(now.wait())
        await asyncio.wait([playing, coming], return_when=asyncio.FIRST_COMPLETED)
        coming.cancel()
        await interruption(world, script, playing)
        if not playing.cancelled():
            assert playing.exception() is None or isinstance(playing.exception(), KafkaError)

    # Each script has other partitions, and another network; all take about as long as the first.
    simulate(play, turn, transaction_version=version)
    return lived[0]


async def _script(world: World) -> Script:
    world.forgotten.update((TOPIC, SOURCE))
    world.kafka.create_topic(TOPIC, PARTITIONS)
    world.kafka.create_topic(SOURCE, 1)
    producer = world.producer(transactional_id=NAME, linger_ms=0)
    await producer.start()
    return Script(Books(world), producer)
