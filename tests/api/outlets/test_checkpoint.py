"""Checkpoints: the position moves over marks before which everything is acknowledged, and over nothing else."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from aioproducer import (
    BufferFullError,
    CheckpointStoppedError,
    ConfigurationError,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    Producer,
    RecordError,
    StateError,
)
from aioproducer._core import BatchDelivery, PrefixPart
from aioproducer.outlets import Checkpoint, DeadLetters, SentRecord
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.conftest import Make
from tests.api.support import LIMIT, turns, values, warm
from tests.net.support import until

DEAD = "dead"
TOO_LARGE = b"x" * 2_000_000


@pytest.fixture(autouse=True)
def topic_of_dead_letters(kafka: EmbeddedKafka) -> None:
    """The topic exists."""
    kafka.create_topic(DEAD, 1)


@pytest.fixture
async def producer(make: Make) -> Producer[Any, Any]:
    """A producer that knows the topics."""
    return await warm(make())


def position_of(checkpoint: Checkpoint[Any]) -> Any:
    """The position; type checkers think that it stays None."""
    return checkpoint.position


async def test_marks_are_reached_in_their_order() -> None:
    """A broker that is early moves nothing over one that is late."""
    async with EmbeddedKafka(2) as kafka, Producer(kafka.bootstrap_servers, acks="all") as producer:
        kafka.create_topic("wide", 2)
        await producer.partitions_for("wide")
        checkpoint: Checkpoint[int] = Checkpoint(producer)
        assert position_of(checkpoint) is None
        await checkpoint.send("wide", b"0", partition=0)
        checkpoint.mark(0)
        await checkpoint.reached(0, timeout=LIMIT)
        held = kafka.faults.delay(api="Produce", topic="wide", partition=1, times=None)
        late = await checkpoint.send("wide", b"1", partition=1)
        checkpoint.mark(1)
        early = await checkpoint.send("wide", b"2", partition=0)
        checkpoint.mark(2)
        await early
        assert late.outcome is Outcome.PENDING
        assert checkpoint.position == 0
        held.release()
        await checkpoint.reached(timeout=LIMIT)
        assert checkpoint.position == 2
        assert repr(checkpoint) == "<Checkpoint open: 3 of 3 marks reached>"
        await checkpoint.close()


async def test_a_mark_without_records(producer: Producer[Any, Any]) -> None:
    """It is reached with those before it: at once, if there are none."""
    checkpoint: Checkpoint[str] = Checkpoint(producer)
    checkpoint.mark("a")
    assert checkpoint.position == "a"
    delivery = await checkpoint.send("one", b"1")
    checkpoint.mark("b")
    checkpoint.mark("c")
    assert checkpoint.position == "a"
    await delivery
    assert checkpoint.position == "c"
    await checkpoint.reached(timeout=LIMIT)


async def test_every_way_to_send(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """`send`, `send_nowait`, `send_batch`, and deliveries of the producer itself, settled or not."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    watched = await producer.send("one", b"0")
    await watched
    checkpoint.watch(watched)
    checkpoint.mark(0)
    assert checkpoint.position == 0
    held = kafka.faults.delay(times=None)
    await checkpoint.send("one", b"1", key=b"k", headers={"a": b"1"}, timestamp=5)
    checkpoint.mark(1)
    checkpoint.send_nowait("four", b"2", partition=2)
    checkpoint.mark(2)
    many = await checkpoint.send_batch("four", [b"3", b"4", b"5"], partition=[0, 1, 3])
    assert isinstance(many, BatchDelivery)
    checkpoint.mark(3)
    checkpoint.watch(await producer.send("one", b"6"))
    checkpoint.mark(4)
    checkpoint.watch(await producer.send_batch("one", [b"7"]))
    checkpoint.mark(5)
    await turns(5)
    assert checkpoint.position == 0
    held.release()
    await checkpoint.reached(timeout=LIMIT)
    assert checkpoint.position == 5
    assert sorted(values(kafka) + values(kafka, "four")) == [b"%d" % at for at in range(8)]  # type: ignore[type-var]
    with pytest.raises(TypeError, match="watch\\(\\) takes a Delivery"):
        checkpoint.watch(object())  # type: ignore[arg-type]


async def test_records_that_wait_for_their_place(kafka: EmbeddedKafka, make: Make) -> None:
    """The mark waits for them, and for their outcomes, in all ways to send."""
    producer = await warm(make())
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    held = kafka.faults.delay(api="Metadata", topic="new", times=None)
    sending = asyncio.create_task(checkpoint.send("new", b"0"))
    checkpoint.mark(0)
    checkpoint.send_nowait("new", b"1")
    checkpoint.mark(1)
    bulk = asyncio.create_task(checkpoint.send_batch("new", [b"2", b"3"]))
    checkpoint.mark(2)
    await checkpoint.send("one", b"4")
    checkpoint.mark(3)
    await producer.send("one", b"5")
    await turns(20)
    assert position_of(checkpoint) is None
    held.release()
    await checkpoint.reached(timeout=LIMIT)
    assert checkpoint.position == 3
    await asyncio.gather(sending, bulk)
    assert values(kafka, "new") == [b"0", b"1", b"2", b"3"]


async def test_a_record_that_fails_stops_it(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """`position` stays before it, and calls raise the reason, until `rewind()`."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="four")
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    delivery = await checkpoint.send("four", b"1")
    checkpoint.mark(1)
    await checkpoint.send("one", b"2")
    checkpoint.mark(2)
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    for call in (
        lambda: checkpoint.send("one", b"3"),
        lambda: checkpoint.send_nowait("one", b"3"),
        lambda: checkpoint.send_batch("one", [b"3"]),
        lambda: checkpoint.watch(delivery),
        lambda: checkpoint.mark(3),
    ):
        with pytest.raises(CheckpointStoppedError, match="INVALID_RECORD") as raised:
            call()
        assert isinstance(raised.value, StateError)
        assert raised.value.outcome is Outcome.NOT_WRITTEN
    with pytest.raises(CheckpointStoppedError):
        await checkpoint.reached(timeout=LIMIT)
    await checkpoint.reached(0, timeout=LIMIT)
    assert checkpoint.position == 0
    assert "INVALID_RECORD" in str(checkpoint.error)
    assert "stopped" in repr(checkpoint)
    assert await checkpoint.rewind() == 0
    assert checkpoint.error is None
    await checkpoint.send("four", b"1 again")
    checkpoint.mark(1)
    await checkpoint.reached(1, timeout=LIMIT)
    assert checkpoint.position == 1


async def test_only_some_records_of_a_batch_fail(kafka: EmbeddedKafka, make: Make) -> None:
    """The position is exact also within a batch: up to the first record that failed."""
    producer = await warm(make(linger_ms=10_000))
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    others = []
    for at in range(4):
        others.append(await producer.send("one", b"other"))
        delivery = await checkpoint.send("one", b"%d" % at)
        checkpoint.mark(at)
        if at == 2:
            withdrawn = delivery
    # A record of another source in the same batch, whose loss is not one of the checkpoint's.
    assert others[1].try_cancel()
    assert not checkpoint._failure
    assert withdrawn.try_cancel()
    assert isinstance(checkpoint.error, KafkaError)
    with pytest.raises(CheckpointStoppedError):
        await checkpoint.reached(timeout=LIMIT)
    assert position_of(checkpoint) is None
    await checkpoint.reached(1, timeout=LIMIT)
    assert checkpoint.position == 1
    assert await checkpoint.rewind() == 1
    assert values(kafka) == [b"other", b"0", b"1", b"other", b"other", b"3"]


async def test_a_batch_that_is_split(kafka: EmbeddedKafka, make: Make) -> None:
    """Its parts have outcomes of their own."""
    kafka.create_topic("small", 1, max_message_bytes=2_000)
    producer = await warm(make(linger_ms=10_000, compression_type="none"))
    await producer.partitions_for("small")
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    for at in range(10):
        await checkpoint.send("small", b"%d" % at * (3_000 if at == 7 else 500))
        checkpoint.mark(at)
    with pytest.raises(CheckpointStoppedError, match="MESSAGE_TOO_LARGE"):
        await checkpoint.reached(timeout=LIMIT)
    assert await checkpoint.rewind() == 6


@pytest.mark.parametrize("way", ["send", "send_batch", "send_nowait"])
async def test_a_record_that_is_refused_stops_it(producer: Producer[Any, Any], way: str) -> None:
    """It was sent, and is not written: a program that ignores the error would lose it."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    checkpoint.mark(0)
    with pytest.raises(KafkaError, match="too large"):
        if way == "send":
            await checkpoint.send("one", TOO_LARGE)
        elif way == "send_nowait":
            checkpoint.send_nowait("one", TOO_LARGE)
        else:
            many = await checkpoint.send_batch("one", [b"1", TOO_LARGE])
            (await many).raise_for_errors()
    with pytest.raises(CheckpointStoppedError):
        checkpoint.mark(1)
    assert await checkpoint.rewind() == 0


async def test_a_call_that_may_be_repeated_does_not_stop_it(make: Make) -> None:
    """`send_nowait` without room has sent nothing: the source sends the same record again."""
    producer = await warm(make(buffer_memory=20_000, linger_ms=10_000))
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    with pytest.raises(BufferFullError):
        for _ in range(5):
            checkpoint.send_nowait("one", b"x" * 9_000)
    checkpoint.mark(0)
    await checkpoint.reached(0, timeout=LIMIT)


async def test_a_withdrawn_record_stops_it(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A send that was cancelled before its acceptance is not written."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    task = asyncio.create_task(checkpoint.send("new", b"0"))
    await turns(2)
    task.cancel()
    await asyncio.wait([task])
    with pytest.raises(CheckpointStoppedError, match="cancelled"):
        checkpoint.mark(0)
    kafka.faults.heal()


async def test_an_unknown_outcome_stops_it(kafka: EmbeddedKafka, make: Make) -> None:
    """A record with a deadline of its own is noticed at that deadline."""
    producer = await warm(make())
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    kafka.faults.delay(times=None)
    first = await checkpoint.send("one", b"0")
    await checkpoint.send("one", b"1", timeout=0.1)
    checkpoint.mark(0)
    with pytest.raises(CheckpointStoppedError) as raised:
        await checkpoint.reached(timeout=LIMIT)
    assert isinstance(raised.value.cause, DeliveryTimeoutError)
    assert first.outcome is Outcome.PENDING
    kafka.faults.heal()
    assert await checkpoint.rewind() is None


async def test_rewind_while_others_send(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """It waits for the records, refuses calls meanwhile, and several tasks get the same position."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    held = kafka.faults.delay(times=None)
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    await checkpoint.send("four", b"1", partition=0)
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    waiting = asyncio.create_task(checkpoint.send("new", b"2"))
    both = [asyncio.create_task(checkpoint.rewind()) for _ in range(2)]
    await turns(2)
    with pytest.raises(CheckpointStoppedError, match="rewound"):
        await checkpoint.send("one", b"3")
    with pytest.raises(CheckpointStoppedError, match="rewound"):
        checkpoint.mark(3)
    held.release()
    await turns(10)
    assert not any(task.done() for task in both)
    kafka.faults.heal()
    assert await asyncio.gather(*both) == [0, 0]
    assert waiting.done()
    assert checkpoint.position == 0
    await checkpoint.send("one", b"3")
    checkpoint.mark(3)
    await checkpoint.reached(timeout=LIMIT)


async def test_a_cancelled_rewind(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Nothing is forgotten, and the checkpoint goes on."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    held = kafka.faults.delay(times=None)
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    task = asyncio.create_task(checkpoint.rewind())
    reaching = asyncio.create_task(checkpoint.reached(0))
    await turns(2)
    task.cancel()
    await asyncio.wait([task])
    await checkpoint.send("one", b"1")
    checkpoint.mark(1)
    held.release()
    await reaching
    await checkpoint.reached(1, timeout=LIMIT)


async def test_a_forgotten_mark(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A task that waits for it gets an error."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    held = kafka.faults.delay(times=None)
    delivery = await checkpoint.send("one", b"0", timeout=0.05)
    checkpoint.mark(0)
    reaching = asyncio.create_task(checkpoint.reached(0))
    await turns(1)
    with pytest.raises(KafkaError):
        await delivery
    await checkpoint.rewind()
    with pytest.raises(CheckpointStoppedError):
        await reaching
    held.release()


async def test_reached_with_a_limit(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """TimeoutError, and nothing else changes. Without a mark there is nothing to wait for."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    await checkpoint.reached(timeout=LIMIT)
    held = kafka.faults.delay(times=None)
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    with pytest.raises(TimeoutError):
        await checkpoint.reached(0, timeout=0.01)
    held.release()
    await checkpoint.reached(0, timeout=LIMIT)


async def test_positions_that_cannot_be_compared(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """An array has no truth value: it is found as itself, among others."""
    checkpoint: Checkpoint[Any] = Checkpoint(producer)
    held = kafka.faults.delay(times=None)
    positions = [np.array([number, 0]) for number in range(3)]
    for position in positions:
        await checkpoint.send("one", b"0")
        checkpoint.mark(position)
    reaching = asyncio.create_task(checkpoint.reached(positions[0], timeout=LIMIT))
    await turns(5)
    assert not reaching.done()
    held.release()
    await reaching
    assert checkpoint.position is not None
    await checkpoint.close()


async def test_records_do_not_linger_when_they_are_waited_for(make: Make) -> None:
    """`reached`, `rewind` and `close` send the buffered records."""
    producer = await warm(make(linger_ms=60_000))
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    for end in (lambda: checkpoint.reached(timeout=LIMIT), checkpoint.rewind, checkpoint.close):
        await checkpoint.send("one", b"0")
        checkpoint.mark(0)
        await end()
        assert checkpoint.position == 0
    assert checkpoint._is_idle


async def test_the_end_of_the_producer(kafka: EmbeddedKafka, make: Make) -> None:
    """Records that it gives up stop the checkpoint, as does a send after its end."""
    producer = await warm(make())
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    kafka.faults.delay(times=None)
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    await producer.close(timeout=0)
    with pytest.raises(CheckpointStoppedError):
        checkpoint.mark(1)
    assert await checkpoint.rewind() is None
    with pytest.raises(StateError, match="closed"):
        await checkpoint.send("one", b"1")
    assert isinstance(checkpoint.error, StateError)
    await checkpoint.close()
    kafka.faults.heal()


async def test_a_producer_that_fails(kafka: EmbeddedKafka, make: Make) -> None:
    """Its background task was cancelled: every record has its outcome, and `close` ends."""
    producer = await warm(make())
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    kafka.faults.delay(times=None)
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    assert producer._engine is not None
    producer._engine.supervisor.task.cancel()  # type: ignore[union-attr]
    with pytest.raises(CheckpointStoppedError):
        await checkpoint.reached(timeout=LIMIT)
    await checkpoint.close()
    assert position_of(checkpoint) is None
    kafka.faults.heal()


async def test_closing_waits_and_tells(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A failure that no call has told is raised at the end of the block, and only such a one."""
    with pytest.raises(CheckpointStoppedError, match="INVALID_RECORD"):
        async with Checkpoint[int](producer) as checkpoint:
            kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
            await checkpoint.send("one", b"0")
            checkpoint.mark(0)
    async with Checkpoint[int](producer) as checkpoint:
        kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
        await checkpoint.send("one", b"0")
        checkpoint.mark(0)
        with pytest.raises(CheckpointStoppedError):
            await checkpoint.reached(timeout=LIMIT)
    for call in (lambda: checkpoint.send("one", b""), lambda: checkpoint.mark(1)):
        with pytest.raises(StateError):
            call()
    with pytest.raises(StateError, match="closed"):
        await checkpoint.rewind()
    with pytest.raises(StateError, match="closed"):
        async with checkpoint:
            pass
    await checkpoint.close()


async def test_an_error_in_the_block(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """It is the one that is raised; the position is exact all the same."""
    with pytest.raises(ZeroDivisionError):
        async with Checkpoint[int](producer) as checkpoint:
            await checkpoint.send("one", b"0")
            checkpoint.mark(0)
            raise ZeroDivisionError
    assert checkpoint.position == 0


async def test_closing_with_a_limit(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """It raises TimeoutError while records have no outcome; the position does not pass them."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    held = kafka.faults.delay(times=None)
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    with pytest.raises(TimeoutError, match="no outcome within"):
        await checkpoint.close(timeout=0.01)
    assert position_of(checkpoint) is None
    with pytest.raises(StateError, match="closed before"):
        await checkpoint.reached()
    held.release()


async def test_two_tasks_send_into_one(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """The marks are those of the checkpoint, in the order of the calls."""
    checkpoint: Checkpoint[tuple[int, int]] = Checkpoint(producer)
    made: list[tuple[int, int]] = []

    async def source(number: int) -> None:
        for at in range(200):
            await checkpoint.send("four", b"%d" % at)
            made.append((number, at))
            checkpoint.mark((number, at))

    await asyncio.gather(source(0), source(1))
    await checkpoint.reached(timeout=LIMIT)
    assert checkpoint.position == made[-1]
    await producer.flush()
    assert len(values(kafka, "four")) == 400


async def test_with_dead_letters(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A record that is set aside is passed when its dead letter is acknowledged; no sooner."""
    letters = DeadLetters(producer, DEAD)
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=letters)
    held = kafka.faults.delay(topic=DEAD, times=None)
    sent: Any = await checkpoint.send("one", TOO_LARGE)
    assert isinstance(sent, SentRecord)
    checkpoint.mark(0)
    checkpoint.send_nowait("one", b"1")
    checkpoint.mark(1)
    nowait: Any = checkpoint.send_nowait("one", TOO_LARGE)
    checkpoint.mark(2)
    many = await checkpoint.send_batch("one", [b"3", TOO_LARGE, b"4"], keys=[b"a", b"b", b"c"])
    checkpoint.mark(3)
    await turns(30)
    assert position_of(checkpoint) is None
    held.release()
    await checkpoint.reached(timeout=LIMIT)
    assert checkpoint.position == 3
    assert sent.dead_lettered
    assert isinstance(nowait, SentRecord)
    assert nowait.dead_lettered
    assert (await many).acked == 2
    assert [record.key for record in kafka.records(DEAD)] == [None, None, b"b"]
    assert values(kafka) == [b"1", b"3", b"4"]
    await checkpoint.close()


@pytest.mark.parametrize("later", [[], [b"another"] * 3], ids=["cleared", "filled again"])
async def test_columns_that_the_program_uses_again(
    later: list[bytes], kafka: EmbeddedKafka, producer: Producer[Any, Any]
) -> None:
    """The dead letter has the record as it was at the call."""
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    columns = [b"1", bytearray(TOO_LARGE), b"3"], [b"a", b"b", b"c"]
    sending = checkpoint.send_batch("one", columns[0], keys=columns[1])
    checkpoint.mark(0)
    columns[0][1][:] = b"changed"  # type: ignore[index]
    for column in columns:
        column[:] = later
    await sending
    await checkpoint.reached(timeout=LIMIT)
    (letter,) = kafka.records(DEAD)
    assert (letter.key, (letter.value or b"")[:9]) == (b"b", TOO_LARGE[:9])
    await checkpoint.close()


@pytest.fixture
def outside_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time is not UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("columns", "keys", "facts"),
    [
        ({"values": pd.Series([b"a", TOO_LARGE, b"c"], index=[1, 0, 2])}, None, {}),
        ({"values": pd.Series([b"a", TOO_LARGE, b"c"], index=[7, 8, 9])}, None, {}),
        ({"values": pa.array([b"a", TOO_LARGE, b"c"]), "keys": pa.array(["x", "y", "z"])}, b"y", {}),
        ({"partition": np.array([0, 0, 0])}, None, {"aioproducer.partition": b"0"}),
        ({"partition": pd.Series([0, 0, 0], index=[5, 6, 7])}, None, {"aioproducer.partition": b"0"}),
        ({"partition": range(3)}, None, {"aioproducer.partition": b"1"}),
        (
            {"timestamps": pa.array([1_000, 2_000, 3_000], pa.timestamp("ms"))},
            None,
            {"aioproducer.timestamp": b"2000"},
        ),
        ({"headers": [["h", b"1"], ["i", b"2"]]}, None, {"h": b"1", "i": b"2"}),
        ({"headers": iter([("h", b"1")])}, None, {"h": b"1"}),
        ({"headers": [None, {"h": b"1"}, None]}, None, {"h": b"1"}),
    ],
)
async def test_columns_of_every_kind(
    columns: dict[str, Any],
    keys: bytes | None,
    facts: dict[str, bytes],
    kafka: EmbeddedKafka,
    producer: Producer[Any, Any],
    outside_utc: None,
) -> None:
    """The dead letter has what its own record had: the place in a column counts, whatever the index of a Series."""
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    many = await checkpoint.send_batch("four", **{"values": [b"a", TOO_LARGE, b"c"], **columns})
    checkpoint.mark(0)
    await checkpoint.reached(timeout=LIMIT)
    assert (await many).acked == 2
    (letter,) = kafka.records(DEAD)
    headers = dict(letter.headers)
    assert (letter.key, (letter.value or b"")[:9]) == (keys, TOO_LARGE[:9])
    assert {name: headers.get(name) for name in facts} == facts
    assert "aioproducer.key.repr" not in headers
    await checkpoint.close()


async def test_headers_that_the_program_uses_again(
    kafka: EmbeddedKafka, producer: Producer[Any, Any]
) -> None:
    """The dead letters of a call have the headers of the call."""
    kafka.faults.error("INVALID_RECORD", topic="one")
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    first = [("h", bytearray(b"1"))]
    headers: list[Any] = [first, {"h": b"2"}]
    await checkpoint.send_batch("one", [b"a", b"b"], headers=headers)
    first[0][1][:] = b"changed"
    first[:] = []
    headers[1]["h"] = b"changed"
    checkpoint.mark(0)
    await checkpoint.reached(timeout=LIMIT)
    assert [dict(letter.headers)["h"] for letter in kafka.records(DEAD)] == [b"1", b"2"]
    await checkpoint.close()


@pytest.mark.parametrize("missing", [pd.NaT, pd.NA], ids=str)
async def test_a_missing_value_of_pandas_is_no_column(missing: Any, producer: Producer[Any, Any]) -> None:
    """It is refused as by the producer."""
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    with pytest.raises(RecordError) as expected:
        await producer.send_batch("one", missing)
    with pytest.raises(RecordError, match=re.escape(str(expected.value))):
        await checkpoint.send_batch("one", missing)
    await checkpoint.rewind()
    await checkpoint.close()


async def test_a_dead_letter_that_fails_stops_it(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """The record is neither written nor set aside."""
    kafka.faults.error("INVALID_RECORD", api="Produce", topic=DEAD, times=None)
    for way in ("send", "send_nowait", "send_batch"):
        checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
        if way == "send":
            await checkpoint.send("one", TOO_LARGE)
        elif way == "send_nowait":
            checkpoint.send_nowait("one", TOO_LARGE)
        else:
            await checkpoint.send_batch("one", [TOO_LARGE])
        checkpoint.mark(0)
        with pytest.raises(CheckpointStoppedError):
            await checkpoint.reached(timeout=LIMIT)
        assert await checkpoint.rewind() is None


async def test_a_refused_record_beside_others(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """The broker refuses a batch and names one record. The source goes on behind it, with one dead letter more."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    await producer.send_and_wait("compacted", b"first", key=b"k")
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    rounds = 0
    async with asyncio.timeout(LIMIT):
        while checkpoint.position != 20:
            rounds += 1
            try:
                for number in range(checkpoint.position or 0, 20):
                    await checkpoint.send("compacted", b"%d" % number, key=None if number == 7 else b"k")
                    if number % 4 == 3:
                        checkpoint.mark(number + 1)
                await checkpoint.reached()
            except CheckpointStoppedError:
                await checkpoint.rewind()
    assert rounds == 2
    assert values(kafka, "compacted")[1:] == [b"%d" % number for number in range(20) if number != 7]
    assert values(kafka, DEAD) == [b"7", b"7"]
    # With one mark more than before, records share batches again.
    for mark, most in ((21, 200), (22, 20)):
        requests = producer.stats().requests
        for number in range(100):
            await checkpoint.send("compacted", b"%d" % number, key=b"k")
        checkpoint.mark(mark)
        await checkpoint.reached(timeout=LIMIT)
        assert producer.stats().requests < requests + most
    await checkpoint.close()


async def test_a_failure_while_records_are_sent_one_by_one(
    kafka: EmbeddedKafka, producer: Producer[Any, Any]
) -> None:
    """`send` does not raise it: the checkpoint is stopped, as by any failure."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    await producer.partitions_for("compacted")
    for number in range(3):
        await checkpoint.send("compacted", b"%d" % number, key=None if number == 1 else b"k")
    checkpoint.mark(0)
    with pytest.raises(CheckpointStoppedError):
        await checkpoint.reached(timeout=LIMIT)
    await checkpoint.rewind()
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", topic="compacted")
    sent: Any = await checkpoint.send("compacted", b"0", key=b"k")
    assert sent.done()
    with pytest.raises(CheckpointStoppedError, match="AUTHORIZATION"):
        await checkpoint.send("compacted", b"1", key=b"k")
    await checkpoint.rewind()
    await checkpoint.send("compacted", b"0", key=b"k")
    checkpoint.mark(0)
    await checkpoint.reached(timeout=LIMIT)
    await checkpoint.close()


async def test_a_refused_record_of_a_gapless_producer(kafka: EmbeddedKafka, make: Make) -> None:
    """Records behind it are in batches of their own and were sent already. The only mark comes behind all of them."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    producer = await warm(make(gapless=True, batch_size=1))
    await producer.send_and_wait("compacted", b"first", key=b"k")
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    rounds = 0
    async with asyncio.timeout(LIMIT):
        while checkpoint.position is None:
            rounds += 1
            try:
                for number in range(20):
                    await checkpoint.send("compacted", b"%d" % number, key=None if number == 7 else b"k")
                checkpoint.mark(20)
                await checkpoint.reached()
            except CheckpointStoppedError:
                await checkpoint.rewind()
    assert rounds == 2
    written = values(kafka, "compacted")[1:]
    assert written[-19:] == [b"%d" % number for number in range(20) if number != 7]
    await checkpoint.close()


async def test_a_gapless_batch_with_a_loss(kafka: EmbeddedKafka, make: Make) -> None:
    """While a dead letter of the batch is written, nothing goes behind the records that were lost."""
    producer = await warm(make(gapless=True))
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", topic="one")
    held = kafka.faults.delay(topic=DEAD, times=None)
    many = checkpoint.send_batch("one", [b"0", TOO_LARGE, b"1"])
    await many
    await until(lambda: held.hits > 0)
    later = await producer.send("one", b"later")
    assert await later.wait() is Outcome.NOT_WRITTEN
    held.release()
    checkpoint.mark(0)
    with pytest.raises(CheckpointStoppedError, match="AUTHORIZATION"):
        await checkpoint.reached(timeout=LIMIT)
    await checkpoint.rewind()
    await checkpoint.send_batch("one", [b"0", b"1"])
    checkpoint.mark(0)
    await checkpoint.reached(timeout=LIMIT)
    assert values(kafka) == [b"0", b"1"]
    await checkpoint.close()


@pytest.mark.parametrize("way", ["send", "send_nowait", "send_batch"])
async def test_a_gapless_source_goes_on_after_a_failure(way: str, kafka: EmbeddedKafka, make: Make) -> None:
    """The program has learned of the failure by the checkpoint: its records may be sent again."""
    producer = await warm(make(gapless=True))
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", topic="one")
    rounds = 0
    async with asyncio.timeout(LIMIT):
        while checkpoint.position != 10:
            rounds += 1
            try:
                for number in range(checkpoint.position or 0, 10):
                    if way == "send":
                        await checkpoint.send("one", b"%d" % number)
                    elif way == "send_nowait":
                        checkpoint.send_nowait("one", b"%d" % number)
                    else:
                        await checkpoint.send_batch("one", [b"%d" % number])
                    checkpoint.mark(number + 1)
                await checkpoint.reached()
            except CheckpointStoppedError:
                await checkpoint.rewind()
    assert rounds == 2
    assert values(kafka) == [b"%d" % number for number in range(10)]
    await checkpoint.close()


async def test_what_is_not_set_aside_stops_it(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """As without dead letters; `send_nowait` without room may be repeated."""
    checkpoint: Checkpoint[int] = Checkpoint(producer, dead_letters=DeadLetters(producer, DEAD))
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="one")
    await checkpoint.send("one", b"0")
    checkpoint.mark(0)
    with pytest.raises(CheckpointStoppedError, match="AUTHORIZATION"):
        await checkpoint.reached(timeout=LIMIT)
    await checkpoint.rewind()
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    with pytest.raises(TimeoutError):
        await checkpoint.send("new", b"1", max_block=0.01)
    with pytest.raises(CheckpointStoppedError):
        checkpoint.mark(1)
    kafka.faults.heal()


async def test_memory(make: Make) -> None:
    """Between two marks it keeps nothing for a record: two objects for each open batch."""
    producer = await warm(make(linger_ms=60_000, batch_size=100_000, buffer_memory=1_000_000))
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    await checkpoint.send("one", b"first")
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(5_000):
        checkpoint.send_nowait("one", b"a")
    gc.collect()
    assert sys.getallocatedblocks() - before < 200
    checkpoint.mark(0)
    await checkpoint.close()
    assert checkpoint.position == 0
    assert checkpoint._open_marks() == ()


async def test_done_batches_are_let_go_behind_an_open_one() -> None:
    """A record without an outcome keeps its own batch, and not those of the records behind it."""
    gc.collect()
    of_other_tests = sum(type(one) is PrefixPart for one in gc.get_objects())
    async with MockProducer(auto_complete=False) as producer:
        checkpoint: Checkpoint[int] = Checkpoint(producer)
        await checkpoint.send("one", b"0")
        for _ in range(50):
            await checkpoint.send("four", b"1")
            producer.complete_next("four")
        assert position_of(checkpoint) is None
        gc.collect()
        assert sum(type(one) is PrefixPart for one in gc.get_objects()) <= of_other_tests + 1
        producer.complete_next()
        await checkpoint.close()


async def test_another_loop_and_thread(producer: Producer[Any, Any]) -> None:
    """A checkpoint belongs to the loop of its first call."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    checkpoint.mark(0)
    errors: list[BaseException] = []

    def other() -> None:
        try:
            asyncio.run(checkpoint.reached())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert "another event loop" in str(errors[0])


async def test_a_delivery_of_another_loop(producer: Producer[Any, Any]) -> None:
    """Its outcome would come in another thread: `watch` refuses it, and takes it when it has its outcome."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    deliveries: list[Any] = []
    is_sent, may_end = threading.Event(), threading.Event()

    async def send() -> None:
        async with MockProducer(auto_complete=False) as other:
            deliveries.append(await other.send("one", b"0"))
            deliveries.append(await other.send_batch("one", [b"1"]))
            is_sent.set()
            await asyncio.to_thread(may_end.wait)
            other.complete_all()

    thread = threading.Thread(target=asyncio.run, args=[send()])
    thread.start()
    try:
        await asyncio.to_thread(is_sent.wait)
        for delivery in deliveries:
            with pytest.raises(StateError, match="belongs to another event loop"):
                checkpoint.watch(delivery)
        checkpoint.mark(0)
        assert checkpoint.position == 0
    finally:
        may_end.set()
        await asyncio.to_thread(thread.join)
    for delivery in deliveries:
        checkpoint.watch(delivery)
    checkpoint.mark(1)
    assert checkpoint.position == 1
    await checkpoint.close()


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize("name", ["send", "reached", "rewind", "close", "block"])
@pytest.mark.parametrize("count", range(0, 12, 2))
async def test_a_call_may_be_cancelled_at_any_await(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], name: str, letters: bool, count: int
) -> None:
    """The checkpoint goes on, or is closed; nothing is saved before it is acknowledged."""
    saved: list[int] = []
    outlet = DeadLetters(producer, DEAD) if letters else None
    checkpoint: Checkpoint[int, Any] = Checkpoint(producer, saved.append, every=0, dead_letters=outlet)
    held = kafka.faults.delay(before=True, times=None)
    delivery = await checkpoint.send("one", b"0")
    checkpoint.mark(0)

    async def block() -> None:
        async with checkpoint:
            await checkpoint.send("one", b"1")
            checkpoint.mark(1)

    async def send() -> None:
        await checkpoint.send("four", b"1", partition=0)

    calls = {
        "send": send,
        "reached": checkpoint.reached,
        "rewind": checkpoint.rewind,
        "close": checkpoint.close,
        "block": block,
    }
    task = asyncio.ensure_future(calls[name]())
    await turns(count)
    task.cancel()
    if name == "block":
        # Its end waits for the record, and may be cancelled as well.
        await turns(count)
        task.cancel()
    async with asyncio.timeout(LIMIT):
        await asyncio.wait([task])
    assert saved == []
    assert position_of(checkpoint) is None
    held.release()
    kafka.faults.heal()
    await delivery.wait()
    if name in ("close", "block") and repr(checkpoint).startswith("<Checkpoint closed"):
        await checkpoint.close(timeout=LIMIT)
        assert set(saved) <= {0}
        return
    if checkpoint.error is None:
        await checkpoint.send("one", b"2")
        checkpoint.mark(2)
    else:
        await checkpoint.rewind()
        checkpoint.mark(2)
    await checkpoint.reached(timeout=LIMIT)
    await checkpoint.close(timeout=LIMIT)
    assert saved[-1] == 2


def test_wrong_arguments() -> None:
    """They are refused where they are given."""
    producer: Producer = Producer("localhost:1")
    transactional: Producer = Producer("localhost:1", transactional_id="a")
    for arguments, named, text in [
        ((object(),), {}, "takes a Producer"),
        ((transactional,), {}, "without transactional_id"),
        ((producer, "save"), {}, "save must be"),
        ((producer,), {"every": -1}, "every must be"),
        ((producer,), {"every": float("nan")}, "every must be"),
        ((producer,), {"every": True}, "every must be"),
        ((producer,), {"dead_letters": "dead"}, "dead_letters takes"),
    ]:
        with pytest.raises(ConfigurationError, match=text):
            Checkpoint(*arguments, **named)  # type: ignore[call-overload,arg-type]


async def test_the_mock() -> None:
    """The mock is a producer; its outcomes are there at once, or by order."""
    saved: list[int] = []
    async with MockProducer() as producer, Checkpoint[int](producer, saved.append) as checkpoint:
        await checkpoint.send("one", b"0")
        checkpoint.mark(0)
        assert checkpoint.position == 0
    assert saved == [0]
    async with MockProducer(auto_complete=False) as producer:
        checkpoint = Checkpoint(producer)
        for at in range(2):
            await checkpoint.send("one", b"%d" % at)
            checkpoint.mark(at)
        producer.complete_next()
        assert checkpoint.position == 0
        producer.fail_next(ValueError())
        with pytest.raises(CheckpointStoppedError):
            checkpoint.mark(2)
        assert checkpoint.position == 0
        await checkpoint.close()


async def test_gapless(kafka: EmbeddedKafka, make: Make) -> None:
    """rewind() is the look at the failure: the records behind it may be written again."""
    producer = await warm(make(gapless=True))
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    for at in range(3):
        await checkpoint.send("one", b"%d" % at)
        checkpoint.mark(at)
    with pytest.raises(CheckpointStoppedError):
        await checkpoint.reached(timeout=LIMIT)
    assert await checkpoint.rewind() is None
    for at in range(3):
        await checkpoint.send("one", b"%d" % at)
        checkpoint.mark(at)
    await checkpoint.reached(timeout=LIMIT)
    assert values(kafka) == [b"0", b"1", b"2"]


async def test_a_settled_delivery_that_failed(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Watching it stops the checkpoint at once."""
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    delivery = await producer.send("one", b"0")
    await delivery.wait(LIMIT)
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    checkpoint.mark(0)
    checkpoint.watch(delivery)
    with pytest.raises(CheckpointStoppedError, match="INVALID_RECORD"):
        checkpoint.mark(1)
    assert checkpoint.position == 0
    many = await producer.send_batch("one", [b"1", TOO_LARGE])
    await many
    other: Checkpoint[int] = Checkpoint(producer)
    other.watch(many)
    with pytest.raises(CheckpointStoppedError, match="too large"):
        other.mark(0)


async def test_flush_has_nothing_to_do_with_it(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A flush of the program reports its records, and the checkpoint follows them as before."""
    checkpoint: Checkpoint[int] = Checkpoint(producer)
    for at in range(3):
        await checkpoint.send("one", b"%d" % at)
        checkpoint.mark(at)
    report = await producer.flush(LIMIT)
    assert (report.acked, checkpoint.position) == (3, 2)
