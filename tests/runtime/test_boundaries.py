"""Exact limits of records: one byte below, at and above them, and every empty or odd part that a record may have."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import Outcome, Producer, RecordError, RecordTooLargeError
from aioproducer._core import BATCH_OVERHEAD, record_size
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, memory_in_use, warm
from tests.runtime.support import sound

LIMIT_BYTES = 5_000
TOPICS = pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
SETTINGS = pytest.mark.parametrize("setting", ["max_request_size", "buffer_memory"])


def of_size(size: int, headers: Any = None) -> bytes:
    """A value whose record, in a batch of its own, has exactly this size."""
    empty = BATCH_OVERHEAD + record_size(None, b"", headers)
    for length in range(size - empty - 16, size - empty + 1):
        if BATCH_OVERHEAD + record_size(None, bytes(length), headers) == size:
            return bytes(length)
    raise AssertionError(f"no value makes a record of {size} bytes")


async def limited(make: Make, kafka: EmbeddedKafka, setting: str) -> Producer[Any, Any]:
    """A producer with this limit, and no other in the way."""
    settings: dict[str, Any] = {"buffer_memory": 100_000, "max_request_size": 50_000, "batch_size": 100}
    return await warm(make(kafka, **{**settings, setting: LIMIT_BYTES}), "one")


@SETTINGS
@TOPICS
@pytest.mark.parametrize("way", ["send", "send_and_wait", "send_nowait", "send_batch"])
async def test_f16_around_the_limit(
    way: str, topic: str, setting: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """At the limit and one byte below a record is written; one byte above it is refused, with both numbers."""
    producer = await limited(make, kafka, setting)
    written = []
    for size in (LIMIT_BYTES - 1, LIMIT_BYTES):
        where = topic if topic == "one" else f"{topic}-{size}"
        assert await error_of(producer, way, where, of_size(size)) is None
        written.append(len(kafka.records(where)[-1].value or b""))
    assert written == [len(of_size(LIMIT_BYTES - 1)), len(of_size(LIMIT_BYTES))]
    error = await error_of(producer, way, topic, of_size(LIMIT_BYTES + 1))
    assert isinstance(error, RecordTooLargeError)
    assert error.outcome is Outcome.NOT_WRITTEN
    assert str(LIMIT_BYTES + 1) in str(error)
    assert str(LIMIT_BYTES) in str(error)
    assert setting in str(error)
    await sound(producer)
    assert memory_in_use(producer) == 0


async def error_of(producer: Producer[Any, Any], way: str, topic: str, value: bytes) -> BaseException | None:
    """The error of one record, or None if it is written."""
    if way == "send_batch":
        return (await (await producer.send_batch(topic, [value]))).errors.get(0)
    try:
        if way == "send_nowait":
            await producer.send_nowait(topic, value)
        elif way == "send":
            await (await producer.send(topic, value))
        else:
            await producer.send_and_wait(topic, value)
    except RecordError as error:
        return error
    return None


@SETTINGS
async def test_f16_headers_count(setting: str, make: Make, kafka: EmbeddedKafka) -> None:
    """The bytes of headers count to the last one."""
    producer = await limited(make, kafka, setting)
    headers = (("name", b"content"), ("name", None), ("größe", b""))
    await producer.send_and_wait("one", of_size(LIMIT_BYTES, headers), headers=headers)
    with pytest.raises(RecordTooLargeError):
        await producer.send("one", of_size(LIMIT_BYTES + 1, headers), headers=headers)
    (record,) = kafka.records("one")
    assert tuple(record.headers) == headers


@TOPICS
@pytest.mark.parametrize("key", [None, b"", b"k"])
@pytest.mark.parametrize("value", [None, b"", b"v"])
async def test_f16_empty_parts(
    key: bytes | None, value: bytes | None, topic: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """None and empty stay what they are, in keys, values and headers; no headers are none."""
    producer = await warm(make(kafka), "one")
    for headers in (None, [], {}, (), [("", b"")], [("h", None)], {"h": b""}):
        await producer.send(topic, value, key=key, headers=headers)
    await (await producer.send_batch(topic, [value], keys=[key]))
    await producer.flush()
    records = kafka.records(topic)
    assert {(record.key, record.value) for record in records} == {(key, value)}
    assert [list(record.headers) for record in records] == [
        *[[]] * 4,
        [("", b"")],
        [("h", None)],
        [("h", b"")],
        [],
    ]


@TOPICS
async def test_f16_32k_headers(topic: str, make: Make, kafka: EmbeddedKafka) -> None:
    """A record may have 32,768 headers; all are written, in order, repeated names as well."""
    producer = await warm(make(kafka), "one")
    headers = [(f"h{number % 1000}", b"%d" % number) for number in range(32_768)]
    await producer.send_and_wait(topic, b"v", headers=headers)
    (record,) = kafka.records(topic)
    assert list(record.headers) == headers


@TOPICS
@pytest.mark.parametrize(
    "name", ["\ud800", "a\udfffb", b"\xff", 7, None], ids=["surrogate", "inside", "bytes", "int", "None"]
)
async def test_f16_header_names(topic: str, name: Any, make: Make, kafka: EmbeddedKafka) -> None:
    """A name that is no UTF-8 text is refused with NOT_WRITTEN; the records round it are written."""
    producer = await warm(make(kafka), "one")
    await producer.send(topic, b"before")
    for way in (producer.send, producer.send_and_wait):
        with pytest.raises(RecordError, match="header") as caught:
            await way(topic, b"bad", headers=[("good", b""), (name, b"")])
        assert caught.value.outcome is Outcome.NOT_WRITTEN
    with pytest.raises(RecordError, match="header"):
        producer.send_nowait(topic, b"bad", headers=[(name, b"")])
    await producer.send(topic, b"after", headers=[("\U0001f34e", b"apple")])
    await sound(producer)
    assert [record.value for record in kafka.records(topic)] == [b"before", b"after"]
