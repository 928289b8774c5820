"""`send_all()`: a stream of records with bounded memory, and counts with sparse errors at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aioproducer import BatchResult, DeliveryError, Producer, Record, RecordError, StateError
from aioproducer._core import Delivery
from aioproducer._net.accepting.stream import Stream
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, started, values, warm


def records(count: int) -> Iterator[Record[Any, Any]]:
    """Numbered records."""
    return (Record("one", b"%d" % i) for i in range(count))


async def stream(count: int) -> AsyncIterator[Record[Any, Any]]:
    """The same, asynchronously."""
    for record in records(count):
        await asyncio.sleep(0)
        yield record


async def test_iterable(producer: Producer, kafka: EmbeddedKafka) -> None:
    """All records of an iterable are written in order, and counted when all are resolved."""
    result = await producer.send_all(records(500))
    assert isinstance(result, BatchResult)
    assert (result.acked, result.not_written, result.unknown, dict(result.errors)) == (500, 0, 0, {})
    assert values(kafka) == [b"%d" % i for i in range(500)]


async def test_async_iterable(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records of an async iterable are written and counted in the same way."""
    result = await producer.send_all(stream(50))
    assert result.acked == 50
    assert values(kafka) == [b"%d" % i for i in range(50)]


async def test_everything_of_a_record(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Key, partition, timestamp and headers of each record are sent."""
    record: Record[Any, Any] = Record(
        "four", b"v", key=b"k", partition=2, timestamp=1_700_000_000_000, headers={"h": b"1"}
    )
    await producer.send_all([record])
    (stored,) = kafka.records("four", 2)
    assert (stored.key, stored.timestamp, stored.headers) == (b"k", 1_700_000_000_000, (("h", b"1"),))


async def test_empty(producer: Producer) -> None:
    """A call without records has an empty result."""
    assert await producer.send_all([]) == BatchResult()


async def test_errors_are_sparse(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A record that cannot be accepted is an entry by its index; the others are written."""
    given: list[Record[Any, Any]] = [
        Record("one", b"0"),
        Record("one", 7),
        Record("a/b"),
        Record("one", b"3"),
    ]
    result = await producer.send_all(given)
    assert sorted(result.errors) == [1, 2]
    assert all(isinstance(error, RecordError) for error in result.errors.values())
    assert (result.acked, result.not_written) == (2, 2)
    assert values(kafka) == [b"0", b"3"]
    with pytest.raises(DeliveryError):
        result.raise_for_errors()


async def test_refused_by_the_broker(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records that the broker refuses are entries as well."""
    kafka.faults.error("INVALID_REQUIRED_ACKS", topic="four")
    result = await producer.send_all([Record("one", b"v"), Record("four", b"v"), Record("one", b"v")])
    assert (result.acked, sorted(result.errors)) == (2, [1])


async def test_memory_is_bounded(make: Make, kafka: EmbeddedKafka) -> None:
    """Far more than the memory passes through, and the source is read no faster than room comes back."""
    producer = await warm(make(buffer_memory=20_000))
    hold = held_requests(kafka)
    read = 0

    def source() -> Iterator[Record[Any, Any]]:
        nonlocal read
        for read in range(1, 201):  # noqa: B007  # read from outside
            yield Record("one", bytes(1000))

    task = started(producer.send_all(source()))
    await hold.reached()
    early = read
    hold.heal()
    assert (await task).acked == 200
    assert early <= 25


async def test_memory_is_bounded_behind_one_partition_that_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records of other partitions are counted, and their deliveries are not kept, while the first record waits."""
    monkeypatch.setattr("aioproducer._net.accepting.stream.IN_ORDER", 100)
    kept: list[int] = []
    progress: list[int] = []
    sent = Stream.sent

    def watched(self: Stream, index: int, delivery: Delivery) -> None:
        sent(self, index, delivery)
        kept.append(len(self.waiting))

    monkeypatch.setattr(Stream, "sent", watched)
    async with EmbeddedKafka(2) as kafka:
        kafka.create_topic("two", 2)
        async with Producer(kafka.bootstrap_servers, linger_ms=0) as producer:
            await producer.send_and_wait("two", b"", partition=1)
            hold = kafka.faults.delay(api="Produce", topic="two", partition=0)

            async def source() -> AsyncIterator[Record[Any, Any]]:
                yield Record("two", b"", partition=0)
                for _ in range(5000):
                    yield Record("two", b"", partition=1)
                    await asyncio.sleep(0)
                assert progress[-1] >= 4000
                hold.release()

            result = await producer.send_all(source(), on_progress=progress.append)
    assert result.acked == 5001
    assert max(kept) < 1000
    assert progress[-1] == 5001


async def test_progress(producer: Producer) -> None:
    """on_progress is called with growing numbers, and at the end with all."""
    progress_counts: list[int] = []
    await producer.send_all(records(5000), on_progress=progress_counts.append)
    assert progress_counts == sorted(progress_counts)
    assert progress_counts[-1] == 5000
    assert len(progress_counts) > 1


async def test_source_that_fails(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The exception of the source is raised; earlier records are written."""

    def source() -> Iterator[Record[Any, Any]]:
        yield from records(3)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await producer.send_all(source())
    await producer.flush()
    assert values(kafka) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("given", [None, 7, Record("one", b"v")])
async def test_bad_source(producer: Producer, given: Any) -> None:
    """A source that is no iterable is a RecordError that names its type."""
    with pytest.raises(RecordError, match=type(given).__name__):
        await producer.send_all(given)


async def test_items_that_are_no_records(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Items that are no Record are entries of errors, and do not stop the others."""
    given: list[Any] = [b"bytes", ("one", b"v"), Record("one", b"2")]
    result = await producer.send_all(given)
    assert sorted(result.errors) == [0, 1]
    assert "tuple" in str(result.errors[1])
    assert values(kafka) == [b"2"]


async def test_cancelled(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Accepted records of a cancelled call are written, and nothing is left waiting."""
    task = started(producer.send_all(stream(1_000_000)))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await producer.flush()
    assert len(values(kafka)) == producer.stats().records_accepted
    assert producer.stats().waiting_calls == 0


async def test_closed_meanwhile(producer: Producer) -> None:
    """When the producer is closed meanwhile, it ends with a StateError."""
    task = started(producer.send_all(stream(1_000_000)))
    for _ in range(20):
        await asyncio.sleep(0)
    await producer.close()
    done, _ = await asyncio.wait([task], timeout=2)
    assert done
    assert isinstance(task.exception(), StateError)
