"""The same calls to a `MockProducer` and to a `Producer`: what a test sees is what the program will meet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from aioproducer import BatchResult, KafkaError, Producer, Record
from aioproducer.interceptors import Interceptor
from aioproducer.testing import EmbeddedKafka, MockProducer

AnyProducer = Producer[Any, Any] | MockProducer[Any, Any]
LISTED = [b"1", b"2"]


class Elsewhere(Interceptor):
    """Moves one record to another topic."""

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        """Only that record."""
        return attrs.evolve(record, topic="other") if record.value == b"2" else record


def same(value: bytes) -> bytes:
    """A serializer."""
    return value


async def cancelled(value: bytes) -> bytes:
    """A coroutine serializer that waits for something which is cancelled by somebody else."""
    if value == b"2":
        raise asyncio.CancelledError
    return value


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "serializer": {"value_serializer": same},
    "coroutine serializer": {"value_serializer": cancelled},
    "interceptor": {"interceptors": [Elsewhere()]},
    "partitioner": {"partitioner": lambda *_: 0},
}
COLUMNS: list[dict[str, Any]] = [
    {"values": LISTED},
    {"values": LISTED, "partition": -1},
    {"values": LISTED, "partition": "0"},
    {"values": LISTED, "partition": range(1, -1, -1)},
    {"values": LISTED, "partition": [0]},
    {"values": LISTED, "partition": [0, 7]},
    {"values": LISTED, "headers": {"name": 5}},
    {"values": LISTED, "headers": "name"},
    {"values": LISTED, "headers": [[("name", b"1")], None]},
    {"values": LISTED, "headers": [[("name", b"1")]]},
    {"values": LISTED, "keys": [b"a"]},
    {"values": LISTED, "keys": 7},
    {"values": LISTED, "timestamps": "12"},
    {"values": b"12"},
    {"values": []},
    {"values": [], "partition": -1},
]


def told(error: BaseException) -> tuple[Any, ...]:
    """What a program looks at of an error."""
    assert isinstance(error, KafkaError)
    return (type(error), error.outcome, error.retriable, error.topic)


async def became(producer: AnyProducer, columns: dict[str, Any]) -> tuple[Any, ...]:
    """What a bulk send is told of its records."""
    try:
        result: BatchResult = await (await producer.send_batch("t", **columns))
    except KafkaError as error:
        return ("refused", *told(error))
    errors = {at: told(error) for at, error in sorted(result.errors.items())}
    return (result.acked, result.not_written, result.unknown, errors)


@pytest.fixture(params=SETTINGS)
async def both(
    request: pytest.FixtureRequest, kafka: EmbeddedKafka
) -> AsyncIterator[tuple[AnyProducer, AnyProducer]]:
    """A producer and a mock with the same settings."""
    settings = SETTINGS[request.param]
    async with (
        Producer(kafka.bootstrap_servers, max_block_ms=300, topics=["t", "other"], **settings) as real,
        MockProducer(max_block_ms=300, partitions={"t": 2}, **settings) as mock,
    ):
        yield real, mock


async def test_columns_end_the_same(both: tuple[AnyProducer, AnyProducer]) -> None:
    """A bulk send is refused as a whole, or in part, with the same errors."""
    real, mock = both
    for columns in COLUMNS:
        assert await became(mock, columns) == await became(real, columns), columns


async def test_headers_that_can_be_read_once_are_those_of_each_record(
    both: tuple[AnyProducer, AnyProducer], kafka: EmbeddedKafka
) -> None:
    """An iterator over one set of headers for all records is read once, and not by the first record."""
    real, mock = both
    pairs = [("name", b"1")]
    for producer in (real, mock):
        await (await producer.send_batch("t", [b"1", b"3"], headers=iter(pairs)))
    assert isinstance(mock, MockProducer)
    assert [record.headers for record in kafka.records("t")] == [tuple(pairs)] * 2
    assert [record.headers for record in mock.history] == [tuple(pairs)] * 2
