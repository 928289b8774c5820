"""Outlets, outbox and registry with arguments that lie, at random: no position, row or record is wrong by them."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Delivery, KafkaError, Outcome, Producer, Record
from aioproducer.outbox import Relay, SqliteStore
from aioproducer.outlets import Checkpoint, DeadLetters, SentRecord
from aioproducer.registry import AvroSerializer, JsonSerializer, Registry, Schema
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry
from tests.callers.parts import (
    CHECKPOINT,
    CONSTRUCTING,
    LETTERS,
    REGISTRY,
    SENT,
    SERIALIZER,
    STORE,
    TEXT,
    added,
    registry_made,
)
from tests.callers.table import Wild
from tests.callers.zoo import OWN_ERRORS
from tests.net.support import LIMIT, Make, warm
from tests.runtime.support import sound
from tests.seeds import fresh_seed

CALLS_OF_A_TEST = 60
ROWS_OF_A_TEST = 25


async def tried(name: str, wild: Wild, call: Callable[[], Any], *others: type[BaseException]) -> None:
    """Make the call, to its end; it may raise an error of the library, or what an object of the caller raises."""
    bound = asyncio.timeout(LIMIT)
    allowed: tuple[type[BaseException], ...] = (KafkaError, *OWN_ERRORS, *others)
    try:
        made = call()
        if hasattr(made, "__await__"):
            async with bound:
                made = await made
                if isinstance(made, Delivery | SentRecord):
                    await made.wait(LIMIT)
    except allowed as error:
        if bound.expired():
            raise AssertionError(f"{name} with {wild.drawn} did not end") from error
    except RuntimeError as error:
        # So Python has it, where a generator would end with one.
        if not isinstance(error.__cause__, StopIteration):
            raise
    except BaseException as error:
        error.add_note(f"{name} with {wild.drawn}")
        raise


async def ready(make: Make, kafka: EmbeddedKafka, **settings: Any) -> Producer[Any, Any]:
    """A producer that knows the topics."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    kafka.create_topic("zoo", 1)
    kafka.create_topic("dead", 1)
    return await warm(make(kafka, buffer_memory=200_000, batch_size=500, **settings), "one", "zoo", "dead")


def good(kafka: EmbeddedKafka) -> list[bytes]:
    """The records of `one` that do not lie."""
    return [
        record.value or b"" for record in kafka.records("one") if (record.value or b"").startswith(b"good")
    ]


async def test_dead_letters(make: Make, kafka: EmbeddedKafka) -> None:
    """Each handle ends in one way, and good records between them are written."""
    producer = await ready(make, kafka)
    wild = Wild(random.Random(fresh_seed()))
    letters: DeadLetters[Any, Any] = DeadLetters(producer, "dead")
    for number in range(CALLS_OF_A_TEST):
        wild.drawn.clear()
        name = wild.rng.choice([*LETTERS])
        await tried(name, wild, lambda name=name: LETTERS[name](wild, producer, letters))  # type: ignore[misc]
        sent = letters.send("one", b"good %d" % number, partition=0)
        call = wild.rng.choice([*SENT])
        await tried(call, wild, lambda call=call, sent=sent: SENT[call](wild, producer, sent))  # type: ignore[misc]
        assert await sent.wait(LIMIT) is Outcome.ACKED
        assert producer.health().state == "running"
    assert good(kafka) == [b"good %d" % number for number in range(CALLS_OF_A_TEST)]
    await sound(producer)


@pytest.mark.parametrize("with_letters", [False, True], ids=["plain", "letters"])
async def test_checkpoints(with_letters: bool, make: Make, kafka: EmbeddedKafka) -> None:
    """No call that lies moves a position over a record without an acknowledgement, or keeps one from ending."""
    producer = await ready(make, kafka)
    wild = Wild(random.Random(fresh_seed()))
    letters: Any = DeadLetters(producer, "dead") if with_letters else None
    checkpoint: Checkpoint[Any, Any] = Checkpoint(producer, lambda _: None, every=0.01, dead_letters=letters)
    for number in range(CALLS_OF_A_TEST):
        wild.drawn.clear()
        name = wild.rng.choice([*CHECKPOINT])
        call = CHECKPOINT[name]
        # As arrays of NumPy do not say whether they are equal.
        others = (TimeoutError, ValueError, TypeError)
        await tried(name, wild, lambda call=call, one=checkpoint: call(wild, producer, one), *others)  # type: ignore[misc]
        assert producer.health().state == "running"
        if checkpoint.error is not None or name == "close":
            await checkpoint.close(LIMIT)
            checkpoint = Checkpoint(producer, lambda _: None, every=0.01, dead_letters=letters)
        await checkpoint.send("one", b"good %d" % number, partition=0)
        place = ("good", number)
        checkpoint.mark(place)
        try:
            await checkpoint.reached(place, LIMIT)
        except KafkaError:
            # A call before it had failed.
            assert checkpoint.error is not None
            assert checkpoint.position != place
        else:
            assert checkpoint.position is place
    await producer.flush(LIMIT)
    await checkpoint.close(LIMIT)
    assert good(kafka) == [b"good %d" % number for number in range(CALLS_OF_A_TEST)]
    await sound(producer)


async def test_constructors(make: Make, kafka: EmbeddedKafka) -> None:
    """A wrong argument is a ConfigurationError, or is found by the first use."""
    producer = await ready(make, kafka, gapless=True)
    wild = Wild(random.Random(fresh_seed()))
    for _ in range(CALLS_OF_A_TEST):
        wild.drawn.clear()
        name = wild.rng.choice([*CONSTRUCTING])
        await tried(name, wild, lambda name=name: CONSTRUCTING[name](wild, producer), TypeError)  # type: ignore[misc]
    await sound(producer)


async def test_a_registry() -> None:
    """The client serves good questions between those that lie."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    wild = Wild(random.Random(fresh_seed()))
    async with EmbeddedRegistry() as embedded, Registry(embedded.url, timeout=LIMIT) as registry:
        expected = await registry.register("good", Schema(TEXT))
        serializers: list[Any] = [
            AvroSerializer(registry, TEXT),
            JsonSerializer(registry, '{"type": "object"}'),
        ]
        for _ in range(CALLS_OF_A_TEST):
            wild.drawn.clear()
            name = wild.rng.choice([*REGISTRY, *SERIALIZER])
            if name in REGISTRY:
                await tried(name, wild, lambda name=name: REGISTRY[name](wild, None, registry))  # type: ignore[misc]
            else:
                one = wild.rng.choice(serializers).for_part("value")
                await tried(name, wild, partial(SERIALIZER[name], wild, None, one), Exception)
            assert await registry.register("good", Schema(TEXT)) == expected
        for _ in range(CALLS_OF_A_TEST // 5):
            wild.drawn.clear()
            await tried("Registry", wild, lambda: registry_made(wild, embedded.url))


async def test_an_outbox(make: Make, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A row that was accepted is sent, or set aside; a store that was asked wrongly still serves."""
    producer = await ready(make, kafka, gapless=True)
    wild = Wild(random.Random(fresh_seed()))
    store = SqliteStore(tmp_path / "zoo.db")
    connection = sqlite3.connect(tmp_path / "zoo.db")
    connection.executescript(store.schema_sql())
    for number in range(ROWS_OF_A_TEST):
        wild.drawn.clear()
        await tried(
            "add", wild, lambda: added(wild, connection, store), AttributeError, TypeError, sqlite3.Error
        )
        name = wild.rng.choice([*STORE])
        await tried(name, wild, lambda name=name: STORE[name](wild, None, store), Exception)  # type: ignore[misc]
        store.add(connection, "one", b"good %d" % number, partition=0)
        connection.commit()
    # Rows of ids that were drawn may be deleted.
    rows = connection.execute("SELECT value FROM outbox WHERE topic = 'one' ORDER BY id").fetchall()
    kept = [value for (value,) in rows if isinstance(value, bytes) and value.startswith(b"good")]
    assert kept
    await store.release()
    relay = Relay(producer, store, poll=0.05, dead_letters=DeadLetters(producer, "dead"))
    async with asyncio.timeout(LIMIT), relay:
        while connection.execute("SELECT count(*) FROM outbox").fetchone() != (0,):
            assert relay.error is None, relay.error
            await asyncio.sleep(0.01)
    connection.close()
    assert good(kafka) == kept
    await sound(producer)


async def test_headers_without_an_end(make: Make, kafka: EmbeddedKafka) -> None:
    """The record is set aside without them; its dead letter filled the memory."""
    producer = await ready(make, kafka)
    letters: DeadLetters[Any, Any] = DeadLetters(producer, "dead")
    delivery = letters.put(Record("one", b"v", headers=iter(int, 1)), ValueError("bad"))  # type: ignore[arg-type]
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    metadata = await letters.send_and_wait("one", b"v", headers=iter(int, 1))  # type: ignore[arg-type]
    assert metadata.topic == "dead"


async def test_the_rows_of_a_letter(make: Make, kafka: EmbeddedKafka) -> None:
    """A dead letter names the topic of its record, also one that is no text."""
    producer = await ready(make, kafka)
    letters: DeadLetters[Any, Any] = DeadLetters(
        producer, lambda record: f"{record.topic}", when=lambda _: True
    )
    sent = letters.send("\ud800", b"v")
    with pytest.raises(KafkaError):
        await sent
    delivery = DeadLetters(producer, "dead").put(Record("\ud800", b"v"), ValueError("bad"))
    assert await delivery.wait(LIMIT) is Outcome.ACKED
