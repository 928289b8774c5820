"""Compression of a running producer: in the loop or in a thread, in order, and never larger than the plain bytes."""

from __future__ import annotations

import os
import threading
from typing import Any

import anyio.to_thread
import pytest

from aioproducer import DeliveryError, Outcome, Producer
from aioproducer._codecs import compress
from aioproducer._net.producing.compression import Compressor
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, all_acked, memory_in_use, numbers, send_all, warm

COMPRESS = "aioproducer._net.producing.compression.compress"
CODECS = ["gzip", "snappy", "lz4", "zstd"]


class Watched:
    """The real compressor, with a list of the threads it ran in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[bool] = []
        monkeypatch.setattr(COMPRESS, self)

    def __call__(self, plain: bytes, codec: int, level: int | None) -> bytes:
        self.threads.append(threading.current_thread() is not threading.main_thread())
        return compress(plain, codec, level)


@pytest.mark.parametrize("codec", CODECS)
async def test_small_and_large_batches_keep_their_order(
    codec: str, make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small batches are compressed in the loop, large ones in a thread; all are written in the order of the calls."""
    watched = Watched(monkeypatch)
    producer = await warm(make(kafka, compression_type=codec, batch_size=60_000), "one")
    deliveries = []
    for number in range(0, 60, 2):
        value = (b"%d" % number).ljust(40_000 if number % 3 else 10)
        deliveries.append(await producer.send("one", value))
        deliveries.append(await producer.send("one", b"%d" % (number + 1)))
        if number % 10 == 0:
            await deliveries[-1]
    assert await all_acked(deliveries)
    assert numbers(kafka) == list(range(60))
    assert set(watched.threads) == {True, False}
    sizes = [batch.size for request in kafka.requests for batch in request.batches]
    assert max(sizes) < 20_000
    assert memory_in_use(producer) == 0


@pytest.mark.parametrize("codec", CODECS)
async def test_what_cannot_be_compressed_is_sent_as_it_is(
    codec: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """A batch that compression would not make smaller is sent uncompressed."""
    producer = await warm(make(kafka, compression_type=codec), "one")
    noise = os.urandom(20_000)
    await producer.send_and_wait("one", noise)
    assert [record.value for record in kafka.records("one")] == [noise]
    (size,) = [batch.size for request in kafka.requests for batch in request.batches]
    assert 20_000 < size < 20_200


@pytest.mark.parametrize("size", [10, 50_000], ids=["in the loop", "in a thread"])
async def test_compressor_that_fails(
    size: int, make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A codec that raises fails that batch only, as NOT_WRITTEN with the cause; those behind it are written."""
    failures = [MemoryError("no memory for the compressor")]

    def fragile(plain: bytes, codec: int, level: int | None) -> bytes:
        if failures and len(plain) >= size:
            raise failures.pop()
        return compress(plain, codec, level)

    monkeypatch.setattr(COMPRESS, fragile)
    producer = await warm(make(kafka, compression_type="lz4", batch_size=1), "one")
    first = await producer.send("one", b"0".ljust(size))
    others = await send_all(producer, range(1, 6))
    assert await first.wait(LIMIT) is Outcome.NOT_WRITTEN
    error = first.exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, MemoryError)
    assert await all_acked(others)
    assert numbers(kafka) == [1, 2, 3, 4, 5]
    assert memory_in_use(producer) == 0


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
async def test_no_thread_to_be_had(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """When the system gives no thread, the loop compresses."""

    async def no_thread(*_: Any, **__: Any) -> None:
        raise error

    producer = await warm(make(kafka, compression_type="lz4"), "one")
    monkeypatch.setattr(anyio.to_thread, "run_sync", no_thread)
    await producer.send_and_wait("one", b"0".ljust(50_000))
    assert numbers(kafka) == [0]


async def test_without_memory_for_the_compressed_records(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain ones are sent, and the producer goes on."""

    def starved(*_: Any) -> None:
        raise MemoryError

    producer = await warm(make(kafka, compression_type="lz4"), "one")
    with monkeypatch.context() as patch:
        patch.setattr(QueuedBatch, "replace_records", starved)
        await producer.send_and_wait("one", b"0".ljust(50_000))
    await producer.send_and_wait("one", b"1".ljust(50_000))
    assert numbers(kafka) == [0, 1]


async def test_compressed_batches_are_sent_again_as_they_were(make: Make, kafka: EmbeddedKafka) -> None:
    """A retry sends the same bytes: nothing is compressed twice."""
    producer = await warm(make(kafka, compression_type="zstd"), "one")
    kafka.faults.error("NOT_ENOUGH_REPLICAS_AFTER_APPEND", times=2)
    await producer.send_and_wait("one", b"0".ljust(50_000))
    assert len({batch.crc for request in kafka.requests for batch in request.batches}) == 1
    assert numbers(kafka) == [0]


async def test_closing_while_a_thread_compresses(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close that runs out of time does not wait for the thread; the records are NOT_WRITTEN."""
    let_go = threading.Event()

    def slow(plain: bytes, codec: int, level: int | None) -> bytes:
        let_go.wait(10)
        return compress(plain, codec, level)

    monkeypatch.setattr(COMPRESS, slow)
    producer = await warm(make(kafka, compression_type="lz4"), "one")
    delivery = await producer.send("one", b"0".ljust(50_000))
    report = await producer.close(timeout=0.1)
    let_go.set()
    assert (report.not_written, delivery.outcome) == (1, Outcome.NOT_WRITTEN)


async def loses_three_and_goes_on(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """A batch of three records ends on its way; the next record is written, and no memory is held."""
    gone = [producer.send_nowait("one", bytes(500)) for _ in range(3)]
    await producer.flush(timeout=LIMIT)
    assert [delivery.outcome for delivery in gone] == [Outcome.NOT_WRITTEN] * 3
    after = await producer.send("one", b"7")
    assert await all_acked([after])
    assert numbers(kafka) == [7]
    assert memory_in_use(producer) == 0


async def test_a_batch_that_ends_between_its_closing_and_its_compression(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer may purge it just then: it is not compressed, and the producer goes on."""
    producer = await warm(make(kafka, compression_type="gzip", linger_ms=60_000), "one")
    take = Compressor.take
    purged: list[int] = []

    def late(compressor: Compressor, batch: QueuedBatch) -> None:
        if not purged:
            purged.append(producer.purge())
        take(compressor, batch)

    monkeypatch.setattr(Compressor, "take", late)
    await loses_three_and_goes_on(producer, kafka)
    assert purged == [3]


async def test_a_batch_that_ends_as_its_compressed_records_arrive(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer may purge it just then: it takes no compressed bytes, and the producer goes on."""
    producer = await warm(make(kafka, compression_type="gzip", linger_ms=60_000), "one")
    replace = QueuedBatch.replace_records
    ended: list[QueuedBatch] = []

    def late(batch: QueuedBatch, payload: bytes, compression: int) -> None:
        if not ended:
            ended.append(batch)
            assert producer.purge() == 3
        replace(batch, payload, compression)

    monkeypatch.setattr(QueuedBatch, "replace_records", late)
    await loses_three_and_goes_on(producer, kafka)
    with pytest.raises(ValueError, match="settled"):
        ended[0].plain_records()
