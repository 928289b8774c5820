"""A missing topic or partition, in every call that may name one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aioproducer import (
    BrokerError,
    BrokerUnavailableError,
    DeliveryError,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    Record,
    TransactionAbortedError,
)
from aioproducer.interceptors import Interceptor
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.net.support import Make, numbers, warm
from tests.ports import unused_port

SOON = 5.0
"""Far from `max_block_ms` (a minute) and `delivery_timeout_ms` (two)."""


@pytest.fixture
async def strict(nothing_left: None) -> AsyncIterator[EmbeddedKafka]:
    """A broker that does not create topics automatically; `one` has 1 partition, `four` has 4."""
    async with EmbeddedKafka(auto_create_topics=False) as kafka:
        kafka.create_topic("one", 1)
        kafka.create_topic("four", 4)
        yield kafka


def code_of(error: BaseException | None) -> int | None:
    """The broker's code behind an error."""
    cause = None if error is None else error.__cause__
    return cause.code if isinstance(cause, BrokerError) else None


CALLS: dict[str, Callable[[Producer[Any, Any]], Awaitable[Any]]] = {
    "send": lambda producer: producer.send("none", b"0", max_block=0.1),
    "send_and_wait": lambda producer: producer.send_and_wait("none", b"0", max_block=0.1),
    "partitions_for": lambda producer: producer.partitions_for("none", timeout=0.1),
}


@pytest.mark.parametrize("name", CALLS)
async def test_topic_of_a_call_that_waits(make: Make, strict: EmbeddedKafka, name: str) -> None:
    """Its error has the code of the brokers; the topic may exist at the next call."""
    producer = await warm(make(strict))
    with pytest.raises(MetadataTimeoutError, match=r"'none'.*UNKNOWN_TOPIC_OR_PARTITION") as caught:
        await CALLS[name](producer)
    assert (code_of(caught.value), caught.value.retriable, caught.value.partition_count) == (3, True, None)
    await producer.close()


async def test_topic_of_queued_and_bulk_records(make: Make, strict: EmbeddedKafka) -> None:
    """The delivery of send_nowait(), and each record of send_batch() and send_all(), has the error as well."""
    producer = await warm(make(strict, max_block_ms=200))
    queued = producer.send_nowait("none", b"0", timeout=0.1)
    with pytest.raises(DeliveryTimeoutError) as caught:
        await queued
    assert (code_of(caught.value), queued.outcome) == (3, Outcome.NOT_WRITTEN)
    result = await (await producer.send_batch("none", [b"0", b"1"]))
    assert [code_of(error) for error in result.errors.values()] == [3, 3]
    result = await producer.send_all([Record("none", b"0"), Record("one", b"1")])
    assert (result.acked, [code_of(error) for error in result.errors.values()]) == (1, [3])
    await producer.close()


async def test_topic_in_a_transaction(make: Make, strict: EmbeddedKafka) -> None:
    """Only an abort is possible then, and the error has the reason."""
    producer = make(strict, transactional_id="t", max_block_ms=300)
    await producer.start()
    await producer.init_transactions(timeout=SOON)
    await producer.begin_transaction()
    with pytest.raises(MetadataTimeoutError):
        await producer.send("none", b"0", max_block=0.05)
    with pytest.raises(TransactionAbortedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await producer.commit_transaction(timeout=SOON)
    await producer.abort_transaction(timeout=SOON)
    await producer.close()


async def test_partition_of_single_sends(make: Make, strict: EmbeddedKafka) -> None:
    """The record is refused soon; with send_nowait(), the delivery has the error of send() as its cause."""
    producer = await warm(make(strict), "four")
    async with asyncio.timeout(SOON):
        with pytest.raises(MetadataTimeoutError, match="partition 4") as caught:
            await producer.send_and_wait("four", b"0", partition=4)
        assert (code_of(caught.value), caught.value.partition_count) == (3, 4)
        queued = producer.send_nowait("four", b"0", partition=4)
        assert await queued.wait(None) is Outcome.NOT_WRITTEN
    error = queued.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.cause, MetadataTimeoutError)
    assert error.cause.partition_count == 4
    assert producer.stats().bytes_buffered == 0
    await producer.close()


@pytest.mark.parametrize("pieces", [[], [Interceptor()]], ids=["whole-runs", "record-by-record"])
async def test_partition_of_bulk_sends(make: Make, strict: EmbeddedKafka, pieces: list[Any]) -> None:
    """Records for missing partitions are entries of `errors`; the others are written in their order."""
    producer = await warm(make(strict, interceptors=pieces), "four")
    async with asyncio.timeout(SOON):
        call = producer.send_batch("four", [b"0", b"1", b"2", b"3"], partition=[0, 9, 0, 4])
        result = await (await call)
        assert sorted(result.errors) == [1, 3]
        assert [error.partition for error in result.errors.values()] == [9, 4]
        assert [code_of(error) for error in result.errors.values()] == [3, 3]
        result = await producer.send_all(Record("four", b"%d" % at, partition=at) for at in range(6))
    assert (result.acked, sorted(result.errors)) == (4, [4, 5])
    assert numbers(strict, "four", 0) == [0, 2, 0]
    await producer.close()


async def test_partition_in_a_transaction(make: Make, strict: EmbeddedKafka) -> None:
    """Only an abort is possible then; the next transaction works."""
    producer = make(strict, transactional_id="t")
    await producer.start()
    await producer.init_transactions(timeout=SOON)
    with pytest.raises(MetadataTimeoutError, match="partition 4"):
        async with asyncio.timeout(SOON), producer.transaction():
            await producer.send("four", b"0", partition=0)
            await producer.send("four", b"1", partition=4)
    async with asyncio.timeout(SOON), producer.transaction():
        await producer.send("four", b"2", partition=3)
    assert numbers(strict, "four") == [2]
    await producer.close()


async def test_calls_that_are_cancelled_or_closed_meanwhile(make: Make, strict: EmbeddedKafka) -> None:
    """A call that was withdrawn before its refusal delays no other call, and close() ends the others."""
    producer = await warm(make(strict, retry_backoff_ms=500, retry_backoff_max_ms=500), "four")
    first = asyncio.ensure_future(producer.send("four", b"0", partition=4))
    await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(SOON):
        assert (await producer.send_and_wait("four", b"1", partition=0)).partition == 0
        last = asyncio.ensure_future(producer.send("four", b"0", partition=5))
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(Exception, match="closed before the record was accepted"):
            await last
    assert first.cancelled()


async def test_a_mock_says_the_same() -> None:
    """`MockProducer` refuses a partition beyond its last one with the same class and facts."""
    async with MockProducer(partitions=3) as mock:
        with pytest.raises(MetadataTimeoutError, match="the topic has 3 partitions") as caught:
            await mock.send("any", b"0", partition=3)
        assert (caught.value.partition, caught.value.partition_count) == (3, 3)
        assert len(await mock.partitions_for("any", timeout=1)) == 3
        delivery = mock.send_nowait("any", b"0", partition=3)
        await delivery.wait()
        error = delivery.exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, MetadataTimeoutError)


async def test_the_errors_of_an_unreachable_cluster_do_not_refer_to_each_other() -> None:
    """Each record has the error of the connection as its cause, and not the error of the record before."""
    with unused_port() as port:
        soon: dict[str, Any] = {"max_block_ms": 20, "delivery_timeout_ms": 20, "request_timeout_ms": 10}
        late: dict[str, Any] = {"reconnect_backoff_ms": 60_000, "reconnect_backoff_max_ms": 60_000}
        async with Producer(f"127.0.0.1:{port}", linger_ms=0, **soon, **late) as producer:
            for _ in range(3):
                delivery = producer.send_nowait("none", b"v")
                await delivery.wait()
            error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.cause, BrokerUnavailableError)
