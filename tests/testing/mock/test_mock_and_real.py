"""The same calls to a `MockProducer` and to a `Producer`: what a test sees is what the program will meet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from aioproducer import BatchResult, Delivery, KafkaError, Outcome, Producer, Record, StateError
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


async def step(producer: AnyProducer, value: bytes, **more: Any) -> tuple[Any, ...]:
    """What a send() is told, before its record is written."""
    try:
        await producer.send("t", value, partition=0, **more)
    except KafkaError as error:
        return told(error)
    return ()


async def test_memory_is_waited_for_the_same(kafka: EmbeddedKafka) -> None:
    """A send() waits `max_block` for memory, and is accepted in the order of the calls when there is some."""
    small: dict[str, Any] = {"buffer_memory": 1000, "max_request_size": 1000, "linger_ms": 0}
    async with (
        Producer(kafka.bootstrap_servers, topics=["t"], **small) as real,
        MockProducer(auto_complete=False, partitions={"t": 2}, **small) as mock,
    ):
        await real.partitions_for("t")
        hold = kafka.faults.delay(before=True)
        ends: list[list[Any]] = []
        for producer in (real, mock):
            assert await step(producer, bytes(800)) == ()
            refused = await step(producer, bytes(800), max_block=0.05)
            waiting = [asyncio.create_task(step(producer, b"%d" % number + bytes(400))) for number in (1, 2)]
            # Until both have their places in the line; the second fits, and does not pass the first.
            await asyncio.sleep(0)
            blocked = await step(producer, bytes(400), max_block=0.05)
            pending = [task.done() for task in waiting]
            if isinstance(producer, MockProducer):
                producer.complete_all()
            hold.heal()
            accepted = await asyncio.gather(*waiting)
            if isinstance(producer, MockProducer):
                producer.complete_all()
            await producer.flush()
            ends.append([refused, blocked, *pending, *accepted])
        assert ends[0] == ends[1]
        assert [record.value for record in mock.written] == [record.value for record in kafka.records("t", 0)]
        assert len(mock.written) == 3


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


async def test_only_the_own_loop_takes_a_record_back(kafka: EmbeddedKafka) -> None:
    """try_cancel() in another thread, with a loop of its own or without, says so and leaves the record where it is."""

    async def taken(delivery: Delivery) -> bool:
        return delivery.try_cancel()

    kafka.faults.delay(api="Metadata", topic="unknown", times=None)
    async with (
        Producer[Any, Any](kafka.bootstrap_servers, topics=["t"], linger_ms=10_000) as real,
        MockProducer[Any, Any](auto_complete=False) as mock,
    ):
        await real.ready()
        held = [await real.send("t", b"1"), real.send_nowait("unknown", b"1"), await mock.send("t", b"1")]
        for delivery in held:
            with pytest.raises(StateError, match="call_soon_threadsafe"):
                await asyncio.to_thread(delivery.try_cancel)
            with pytest.raises(StateError, match="call_soon_threadsafe"):
                await asyncio.to_thread(asyncio.run, taken(delivery))
            assert delivery.outcome is Outcome.PENDING
            assert delivery.try_cancel()
            assert not await asyncio.to_thread(delivery.try_cancel)
