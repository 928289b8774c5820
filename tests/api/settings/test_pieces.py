"""Callables of the user: serializers and interceptors."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from aioproducer import (
    BrokerError,
    BufferFullError,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Outcome,
    Record,
    RecordError,
    RecordMetadata,
    SerializationError,
    serializers,
)
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_answers, started, turns, unknown_topic, values, warm


async def test_string_serializers(make: Make, kafka: EmbeddedKafka) -> None:
    """serializers.string() makes UTF-8 of keys and values; None stays a tombstone."""
    producer = await warm(make(key_serializer=serializers.string(), value_serializer=serializers.string()))
    await producer.send_and_wait("one", "grün", key="ä")
    await producer.send_and_wait("one", None, key="ä")
    assert [(record.key, record.value) for record in kafka.records("one")] == [
        ("ä".encode(), "grün".encode()),
        ("ä".encode(), None),
    ]


async def test_json_serializer(make: Make, kafka: EmbeddedKafka) -> None:
    """serializers.json() makes JSON."""
    producer = await warm(make(value_serializer=serializers.json()))
    await producer.send_and_wait("one", {"a": [1, None]})
    assert values(kafka) == [b'{"a":[1,null]}']


class WithTopic:
    """A serializer that takes topic and headers."""

    def serialize(self, topic: str, headers: Any, data: Any) -> bytes:
        """Returns all arguments, for the test to read."""
        return repr((topic, headers, data)).encode()


async def test_serializer_with_topic_and_headers(make: Make, kafka: EmbeddedKafka) -> None:
    """An object with serialize() gets the topic and the headers."""
    producer = await warm(make(value_serializer=WithTopic()))
    await producer.send_and_wait("one", 7, headers={"h": b"1"})
    assert values(kafka) == [b"('one', (('h', b'1'),), 7)"]


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_failing_serializer(make: Make, kafka: EmbeddedKafka, part: str, asynchronous: bool) -> None:
    """A serializer that fails is a SerializationError with its cause; the next record is written."""

    def fails(data: bytes) -> bytes:
        if data == b"bad":
            raise ZeroDivisionError("inside")
        return data

    async def fails_later(data: bytes) -> bytes:
        await asyncio.sleep(0)
        return fails(data)

    setting = {f"{part}_serializer": fails_later if asynchronous else fails}
    producer = await warm(make(**setting))
    with pytest.raises(SerializationError, match="one") as caught:
        await producer.send("one", b"bad", key=b"bad")
    error = caught.value
    assert (error.part, error.topic, error.outcome) == (part, "one", Outcome.NOT_WRITTEN)
    assert isinstance(error.cause, ZeroDivisionError)
    await producer.send_and_wait("one", b"good", key=b"good")
    assert values(kafka) == [b"good"]


@pytest.mark.parametrize("made", ["text", 7, [1]])
async def test_serializer_that_makes_no_bytes(make: Make, made: Any) -> None:
    """A serializer with a result of another type gives a SerializationError that names the type."""
    producer = await warm(make(value_serializer=lambda _: made))
    with pytest.raises(SerializationError, match=type(made).__name__):
        await producer.send("one", b"v")


async def test_coroutine_serializer_is_not_blocking_others(make: Make, kafka: EmbeddedKafka) -> None:
    """A serializer that waits for one topic does not hold up another topic."""
    gate = asyncio.Event()

    class Gated:
        """Waits for one topic only."""

        async def serialize(self, topic: str, headers: Any, data: bytes) -> bytes:
            if topic == "one":
                await gate.wait()
            return data

    producer = await warm(make(value_serializer=Gated()))
    held = started(producer.send_and_wait("one", b"v"))
    await asyncio.wait_for(producer.send_and_wait("four", b"w"), LIMIT)
    assert not held.done()
    gate.set()
    await held


class Watcher:
    """An interceptor that records every call."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.acknowledgements: list[tuple[Any, Any]] = []
        self.closed = 0

    def on_send(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """Record it, and mark the value."""
        self.sent.append(record.value)
        return attrs.evolve(record, value=(record.value or b"") + b"!")

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        """Record it."""
        self.acknowledgements.append((metadata, error))

    def close(self) -> None:
        """Count it."""
        self.closed += 1


class Broken(Watcher):
    """An interceptor that fails in every call."""

    def on_send(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """Fail."""
        raise ZeroDivisionError

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        """Fail."""
        raise ZeroDivisionError

    def close(self) -> None:
        """Fail."""
        raise ZeroDivisionError


async def test_interceptors_run_in_order(make: Make, kafka: EmbeddedKafka) -> None:
    """Each interceptor receives the result of the one before, before serializing."""
    first, second = Watcher(), Watcher()
    producer = await warm(make(interceptors=[first, second]))
    metadata = await producer.send_and_wait("one", b"v")
    await producer.flush()
    assert (first.sent, second.sent, values(kafka)) == ([b"v"], [b"v!"], [b"v!!"])
    assert first.acknowledgements == second.acknowledgements == [(metadata, None)]
    assert isinstance(metadata, RecordMetadata)


async def test_broken_interceptor_is_left_out(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The exception of an interceptor is logged; the chain continues with the last good record."""
    watcher = Watcher()
    producer = await warm(make(interceptors=[Broken(), watcher]))
    await producer.send_and_wait("one", b"v")
    await producer.close()
    assert values(kafka) == [b"v!"]
    assert len(watcher.acknowledgements) == watcher.closed == 1
    assert "Broken" in caplog.text


async def test_interceptors_get_failures(make: Make, kafka: EmbeddedKafka) -> None:
    """on_acknowledgement gets the error of a record that failed, or was refused."""
    watcher = Watcher()
    producer = await warm(make(interceptors=[watcher]))
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    await (await producer.send("one", b"v")).wait()
    with pytest.raises(RecordError):
        await producer.send("one", b"v", partition=-1)
    await turns()
    assert [(metadata, type(error)) for metadata, error in watcher.acknowledgements] == [
        (None, BrokerError),
        (None, RecordError),
    ]


async def test_interceptors_get_failures_of_queued_records(make: Make, kafka: EmbeddedKafka) -> None:
    """Records of send_nowait() that fail in the queue are reported once."""
    watcher = Watcher()
    producer = await warm(make(interceptors=[watcher]))
    unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v", timeout=0.02)
    await delivery.wait()
    await turns()
    assert [type(error) for _, error in watcher.acknowledgements] == [DeliveryTimeoutError]


async def test_interceptors_get_refusals_of_send_nowait(make: Make, kafka: EmbeddedKafka) -> None:
    """Refusals of send_nowait() are reported as well, once for each record that the interceptors saw."""
    watcher = Watcher()
    real = await warm(make(interceptors=[watcher], buffer_memory=100_000, linger_ms=10_000))
    raised = []
    wrongs: list[dict[str, Any]] = [
        {"headers": 5},
        {"partition": -1},
        {"timestamp": "now"},
        {"value": bytes(2_000_000)},
    ]
    for wrong in wrongs:
        with pytest.raises(RecordError) as caught:
            real.send_nowait("one", **{"value": b"v", **wrong})
        raised.append(caught.value)
    await real.send("one", bytes(90_000))
    with pytest.raises(BufferFullError) as full:
        real.send_nowait("one", bytes(90_000))
    assert watcher.acknowledgements == [(None, error) for error in [*raised, full.value]]
    assert len(watcher.sent) == 6
    mock_watcher = Watcher()
    async with MockProducer(interceptors=[mock_watcher]) as mock:
        with pytest.raises(RecordError) as refused:
            mock.send_nowait("one", b"v", partition=-1)
    assert mock_watcher.acknowledgements == [(None, refused.value)]


async def test_interceptors_get_withdrawn_records(make: Make, kafka: EmbeddedKafka) -> None:
    """A send() that is cancelled before acceptance is reported as not written, once."""
    watcher = Watcher()
    producer = await warm(make(interceptors=[watcher]))
    unknown_topic(kafka)
    task = started(producer.send("new", b"v"))
    await turns()
    task.cancel()
    await asyncio.wait([task])
    await turns()
    ((metadata, error),) = watcher.acknowledgements
    assert (metadata, error.outcome, error.topic) == (None, Outcome.NOT_WRITTEN, "new")


async def test_interceptors_are_closed_once(make: Make) -> None:
    """close() of the producer closes its interceptors, once, after all outcomes were reported."""
    watcher = Watcher()
    producer = await warm(make(interceptors=[watcher]))
    await producer.send("one", b"v")
    await producer.close()
    await producer.close()
    assert (len(watcher.acknowledgements), watcher.closed) == (1, 1)


async def test_interceptors_do_not_hurry(make: Make) -> None:
    """Interceptors do not make batches leave before their linger time."""
    producer = await warm(make(interceptors=[Watcher()], linger_ms=10_000))
    delivery = await producer.send("one", b"v")
    assert await asyncio.wait({started(turns(20))})
    assert delivery.outcome is Outcome.PENDING


class Asked:
    """A text serializer that keeps its arguments."""

    def __init__(self) -> None:
        self.times: list[Any] = []

    def __call__(self, data: Any) -> bytes:
        """Its bytes."""
        self.times.append(data)
        return str(data).encode()


async def test_a_serializer_that_answers_at_once_keeps_the_call_at_once(make: Make) -> None:
    """Topic known, room in the buffer: the record is accepted inside the call, as without serializers."""
    producer = await warm(make(value_serializer=serializers.string()))
    accepted = producer.send("one", "x")
    waited = producer.send_and_wait("one", "y", headers=[("h", b"1")])
    assert [sending.delivery is not None for sending in (accepted, waited)] == [True, True]
    await accepted
    assert (await waited).serialized_value_size == 1


async def test_a_serializer_is_asked_once(make: Make, kafka: EmbeddedKafka) -> None:
    """Holds also for a record that has to wait for memory, for an unknown topic, or for a missing partition."""
    asked = Asked()
    producer = await warm(
        make(value_serializer=asked, buffer_memory=4096, batch_size=1024, max_request_size=1024)
    )
    held = held_answers(kafka)
    sendings = [producer.send("one", f"{number:0900}") for number in range(8)]
    assert sendings[0].delivery is not None
    assert sendings[-1].delivery is None
    assert len(asked.times) == 8
    held.release()
    await asyncio.gather(*sendings)
    await producer.send("auto", "unknown")
    with pytest.raises(MetadataTimeoutError):
        await producer.send("one", "nowhere", partition=99, max_block=0.05)
    await producer.flush()
    assert asked.times == [f"{number:0900}" for number in range(8)] + ["unknown", "nowhere"]
    assert values(kafka) == [time.encode() for time in asked.times[:8]]


async def test_a_serializer_may_send(make: Make, kafka: EmbeddedKafka) -> None:
    """The serializer's own records are written before the serialized one, and no record is lost between the two."""

    def audited(data: bytes) -> bytes:
        if not data.startswith(b"audit"):
            producer.send_nowait("one", b"audit of " + data)
        return data

    producer = await warm(make(value_serializer=audited))
    for number in range(3):
        await producer.send("one", b"%d" % number)
    await producer.flush()
    assert values(kafka) == [b"audit of 0", b"0", b"audit of 1", b"1", b"audit of 2", b"2"]


async def test_a_serializer_may_fill_the_batch(make: Make, kafka: EmbeddedKafka) -> None:
    """Records that the serializer sends may close the batch that had room for the record."""

    def greedy(data: bytes) -> bytes:
        if data == b"hungry":
            for _ in range(3):
                producer.send_nowait("one", bytes(300))
        return data

    producer = await warm(
        make(value_serializer=greedy, batch_size=512, buffer_memory=4096, max_request_size=1024)
    )
    written = [producer.send("one", b"hungry") for _ in range(2)]
    await producer.flush()
    assert [(await (await sending)).topic for sending in written] == ["one", "one"]
    assert [len(value or b"") for value in values(kafka)].count(300) == 6


@pytest.mark.parametrize("headers", [{"h": b"1"}, [("h", b"1")], (("h", b"1"),), [["h", bytearray(b"1")]]])
async def test_a_serializer_gets_the_headers_as_pairs(make: Make, kafka: EmbeddedKafka, headers: Any) -> None:
    """Holds for every form of the argument."""
    producer = await warm(make(value_serializer=WithTopic()))
    await producer.send_and_wait("one", 1, headers=headers)
    await producer.send_and_wait("one", 2, headers=type(headers)())
    assert values(kafka) == [b"('one', (('h', b'1'),), 1)", b"('one', None, 2)"]
    assert kafka.records("one")[0].headers == (("h", b"1"),)
