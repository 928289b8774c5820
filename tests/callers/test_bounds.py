"""The remains of calls, their errors after a wait that was too long, and invalid lengths of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aioproducer import BufferFullError, ConfigurationError, DeliveryError, Outcome, Producer, RecordError
from aioproducer._codecs import compress
from aioproducer._state.deadlines import TIDY_FROM
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, engine, memory_in_use, until, warm
from tests.runtime.support import sound

KILOBYTE = bytes(1000)


@pytest.mark.parametrize("step", [0, -0.01, 0.01], ids=["alike", "shorter and shorter", "longer and longer"])
async def test_records_with_a_timeout_leave_nothing(step: float, make: Make, kafka: EmbeddedKafka) -> None:
    """Batches that have ended are not kept until the deadlines of their records, however many they had."""
    producer = await warm(make(kafka, linger_ms=1), "one")
    for number in range(300):
        sendings = [producer.send("one", b"v", timeout=60 + step * (number * 5 + each)) for each in range(5)]
        deliveries = await asyncio.gather(*sendings)
        await asyncio.gather(*deliveries)
    assert not engine(producer).accumulator.live
    # One alarm of each queue may be set for its linger.
    assert len(engine(producer).accumulator.deadlines.heap) <= TIDY_FROM + 1


async def test_a_call_behind_a_bulk_send_is_told_of_the_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """The topic is known: what it waited for is a send_batch that waits for memory, and the error says so."""
    producer = await warm(
        make(kafka, buffer_memory=5_000, batch_size=1_000, max_block_ms=int(LIMIT * 1000)), "one"
    )
    kafka.faults.delay(before=True, times=None)
    many = asyncio.ensure_future(producer.send_batch("one", [KILOBYTE] * 50, timeout=LIMIT))
    await until(lambda: engine(producer).admission.memory.lines)
    with pytest.raises(BufferFullError, match=r"an earlier send_batch\(\) waits for memory"):
        await producer.send("one", b"v", max_block=0.02)
    with pytest.raises(BufferFullError, match=r"an earlier send_batch\(\) waits for memory"):
        await producer.send("one", b"v", partition=0, max_block=0.02)
    kafka.faults.heal()
    await (await many)
    await sound(producer)


async def test_a_call_behind_a_serializer_is_told_of_it(make: Make, kafka: EmbeddedKafka) -> None:
    """So is one that waited for the serializer of another record."""
    let_go = asyncio.Event()

    async def slow(value: bytes) -> bytes:
        if value == b"slow":
            await let_go.wait()
        return value

    producer = await warm(make(kafka, value_serializer=slow), "one")
    first = asyncio.ensure_future(producer.send("one", b"slow"))
    await until(lambda: engine(producer).admission.topic_lines)
    with pytest.raises(BufferFullError, match="the serializer of an earlier record"):
        await producer.send("one", b"v", max_block=0.02)
    let_go.set()
    await (await first)
    await sound(producer)


WRONG_TIMES: dict[str, Any] = {
    "negative": -1,
    "not a number": float("nan"),
    "endless": float("inf"),
    "too large": 10**400,
    "text": "1",
    "a bool": True,
}
CALLS: dict[str, Callable[[Producer[Any, Any], Any], Any]] = {
    "flush": lambda producer, time: producer.flush(time),
    "ready": lambda producer, time: producer.ready(time),
    "close": lambda producer, time: producer.close(time),
    "partitions_for": lambda producer, time: producer.partitions_for("one", timeout=time),
    "fence": lambda producer, time: producer.fence(["a"], timeout=time),
    "list_transactions": lambda producer, time: producer.list_transactions(timeout=time),
    "committed_offsets": lambda producer, time: producer.committed_offsets("g", [], timeout=time),
}


@pytest.mark.parametrize("wrong", WRONG_TIMES)
async def test_a_wrong_length_of_time(wrong: str, make: Make, kafka: EmbeddedKafka) -> None:
    """It is a ValueError of the call; only where it belongs to a record is it a RecordError."""
    producer = await warm(make(kafka), "one")
    time = WRONG_TIMES[wrong]
    for call in CALLS.values():
        with pytest.raises(ConfigurationError, match="must be a number of seconds"):
            await call(producer, time)
    for sending in (
        lambda: producer.send("one", b"v", timeout=time),
        lambda: producer.send("one", b"v", timeout=1, max_block=time),
        lambda: producer.send_batch("one", [b"v"], timeout=time),
    ):
        with pytest.raises(RecordError, match="must be a number of seconds"):
            await sending()
    await producer.flush(np.float64(LIMIT))
    await sound(producer)
    assert kafka.records("one") == []


async def test_a_topic_whose_calls_wait_for_memory_is_not_idle(make: Make, kafka: EmbeddedKafka) -> None:
    """`max_block_ms` may be above `metadata_max_idle_ms`: a partition that a call waits for has one queue all the same."""
    producer = await warm(make(kafka, buffer_memory=5_000, batch_size=1_000), "one", "four")
    kafka.faults.delay(before=True, times=None)
    blocking = [await producer.send("one", KILOBYTE, timeout=LIMIT) for _ in range(4)]
    waiting = asyncio.ensure_future(producer.send("four", KILOBYTE, partition=2))
    await until(lambda: engine(producer).admission.memory.lines)
    inside = engine(producer)
    queue = inside.accumulator.cluster.topics["four"].queue(2)
    idle = producer.config.metadata_max_idle_ms / 1000
    for later in (1, 2, 3):
        inside.cluster._drop_idle(inside.loop.time() + later * (idle + 1))
    # Not by any way.
    inside.accumulator.cluster.forget("four")
    assert inside.accumulator.cluster.topics["four"].queue(2) is queue
    kafka.faults.heal()
    assert (await (await waiting)).partition == 2
    assert [await one.wait(LIMIT) for one in blocking] == [Outcome.ACKED] * 4
    await sound(producer)


async def test_a_codec_that_raises_at_once_doubles_nothing(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that cannot be compressed fails, and what it held goes to the next in line, once."""
    fails: list[bool] = []

    def raising(plain: bytes, codec: int, level: int | None) -> bytes:
        if fails and fails.pop():
            raise ZeroDivisionError
        return compress(plain, codec, level)

    monkeypatch.setattr("aioproducer._net.producing.compression.compress", raising)
    producer = await warm(
        make(
            kafka,
            compression_type="gzip",
            batch_size=500,
            buffer_memory=1_200,
            linger_ms=10_000,
            max_in_flight_requests_per_connection=1,
        ),
        "four",
    )
    held = kafka.faults.delay(before=True, times=None)
    first = asyncio.ensure_future(producer.send_and_wait("four", bytes(300), partition=0))
    await held.reached()
    doomed = await producer.send("four", bytes(300), partition=1)
    other = await producer.send("four", bytes(300), partition=2)
    waiting = asyncio.ensure_future(producer.send("four", b"once".ljust(300), partition=1))
    await until(lambda: engine(producer).admission.memory.lines)
    fails.append(True)
    kafka.faults.heal()
    await first
    delivery = await waiting
    assert (await delivery).partition == 1
    assert await other.wait(LIMIT) is Outcome.ACKED
    with pytest.raises(DeliveryError) as caught:
        await doomed
    assert isinstance(caught.value.cause, ZeroDivisionError)
    assert [(record.value or b"")[:4] for record in kafka.records("four", 1)] == [b"once"]
    assert memory_in_use(producer) == 0
