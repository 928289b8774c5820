"""Records that can never fit are refused at once, even without metadata of their topic."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from aioproducer import Outcome, Producer, RecordTooLargeError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, unknown_topic, values, warm

MOST = 1_048_576
LARGE = bytes(2_000_000)


async def send_nowait(producer: Producer[Any, Any], **arguments: Any) -> None:
    producer.send_nowait("new", **arguments)


async def send(producer: Producer[Any, Any], **arguments: Any) -> None:
    await producer.send("new", **arguments)


async def send_and_wait(producer: Producer[Any, Any], **arguments: Any) -> None:
    await producer.send_and_wait("new", **arguments)


@pytest.mark.parametrize("call", [send, send_and_wait, send_nowait])
@pytest.mark.parametrize("part", ["value", "key", "headers"])
async def test_unknown_topic(
    producer: Producer, kafka: EmbeddedKafka, call: Callable[..., Any], part: str
) -> None:
    """It is refused before metadata of the topic, and neither waits nor holds memory."""
    unknown_topic(kafka)
    with pytest.raises(RecordTooLargeError, match="max_request_size is 1048576") as caught:
        await asyncio.wait_for(call(producer, **{part: {"h": LARGE} if part == "headers" else LARGE}), LIMIT)
    error = caught.value
    assert (error.topic, error.outcome, error.limit) == ("new", Outcome.NOT_WRITTEN, MOST)
    assert (error.size or 0) > len(LARGE)
    stats = producer.stats()
    assert (stats.waiting_calls, stats.records_buffered, stats.bytes_buffered) == (0, 0, 0)


async def test_unknown_topic_and_little_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """Larger than all of buffer_memory is refused in the same way, with that setting's name."""
    producer = await warm(make(buffer_memory=50_000))
    unknown_topic(kafka)
    with pytest.raises(RecordTooLargeError, match="buffer_memory is 50000"):
        producer.send_nowait("new", bytes(60_000))


async def test_exactly_at_the_limit(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The limit is the same for known and unknown topics: a record of exactly this size is written, a byte more is refused."""
    hold = unknown_topic(kafka)
    with pytest.raises(RecordTooLargeError) as caught:
        producer.send_nowait("new", bytes(MOST - 20))
    overhead = (caught.value.size or 0) - (MOST - 20)
    fits = bytes(MOST - overhead)
    delivery = producer.send_nowait("new", fits)
    for topic in ("new", "one"):
        with pytest.raises(RecordTooLargeError) as caught:
            producer.send_nowait(topic, fits + b"+")
        assert caught.value.size == MOST + 1
    hold.release()
    await delivery
    await producer.send_and_wait("one", fits)
    assert [len(value or b"") for value in values(kafka, "new") + values(kafka)] == [len(fits)] * 2


async def test_what_the_serializer_makes_counts(make: Make, kafka: EmbeddedKafka) -> None:
    """The limit applies to the result of the serializer, not to its argument."""
    producer = await warm(make(value_serializer=zlib.compress, key_serializer=zlib.decompress))
    hold = unknown_topic(kafka)
    small_made_of_large = producer.send_nowait("new", LARGE, key=zlib.compress(b"k"))
    with pytest.raises(RecordTooLargeError):
        producer.send_nowait("new", b"v", key=zlib.compress(LARGE))
    hold.release()
    await small_made_of_large
    assert values(kafka, "new") == [zlib.compress(LARGE)]


async def inflated(value: bytes) -> bytes:
    await asyncio.sleep(0)
    return value * 1000


async def test_what_a_coroutine_serializer_makes_counts(make: Make, kafka: EmbeddedKafka) -> None:
    """With a coroutine function the refusal comes as soon as it has ended, for single records and for many."""
    producer = await warm(make(value_serializer=inflated))
    unknown_topic(kafka)
    with pytest.raises(RecordTooLargeError):
        await asyncio.wait_for(producer.send("new", bytes(2000)), LIMIT)
    result = await asyncio.wait_for(await producer.send_batch("new", [bytes(2000)] * 2), LIMIT)
    assert [type(error) for error in result.errors.values()] == [RecordTooLargeError] * 2
    assert producer.stats().waiting_calls == 0


COLUMNS: dict[str, Callable[[], dict[str, Any]]] = {
    "values": lambda: {"values": [b"0", LARGE, b"2"]},
    "an Arrow array": lambda: {"values": pa.array([b"0", LARGE, b"2"])},
    "keys": lambda: {"values": [b"0", b"1", b"2"], "keys": [None, LARGE, b"k"]},
    "value and key": lambda: {"values": [b"0", LARGE[:600_000], b"2"], "keys": [b"k", LARGE[:600_000], None]},
    "headers": lambda: {"values": [b"0", b"1", b"2"], "headers": [None, {"h": LARGE}, {"h": b""}]},
}


@pytest.mark.parametrize("kind", COLUMNS)
async def test_one_of_many(producer: Producer, kafka: EmbeddedKafka, kind: str) -> None:
    """In a bulk send it is refused alone: the others wait for their topic, and are written."""
    hold = unknown_topic(kafka)
    sending = producer.send_batch("new", **COLUMNS[kind]())
    refused = repr(sending.delivery)
    hold.release()
    result = await (await sending)
    assert "0 of 3 accepted, 1 refused" in refused
    assert [type(error) for error in result.errors.values()] == [RecordTooLargeError]
    assert (list(result.errors), result.acked) == ([1], 2)
    assert values(kafka, "new") == [b"0", b"2"]


async def test_headers_of_all(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Headers that all records share count for each of them; when all are refused, nothing waits for the topic."""
    unknown_topic(kafka)
    many = await asyncio.wait_for(producer.send_batch("new", [b"0", b"1"], headers={"h": LARGE}), LIMIT)
    result = await many
    assert [type(error) for error in result.errors.values()] == [RecordTooLargeError] * 2
    assert producer.stats().waiting_calls == 0
