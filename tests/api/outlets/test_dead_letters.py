"""Dead letters: each record ends in exactly one way, and only records that can never be written are set aside."""

from __future__ import annotations

import asyncio
import datetime
import gc
import json
import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import generate_latest

from aioproducer import (
    BatchReport,
    BufferFullError,
    ConfigurationError,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    Producer,
    Record,
    RecordError,
    RecordTooLargeError,
    SerializationError,
    StateError,
    TransactionAbortedError,
)
from aioproducer.interceptors import Interceptor
from aioproducer.outlets import Checkpoint, DeadLetters, SentRecord
from aioproducer.prometheus import ProducerCollector
from aioproducer.serializers import NotPrepared
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.conftest import Make
from tests.api.support import LIMIT, turns, values, warm
from tests.net.support import until

DEAD = "dead"
TOO_LARGE = b"x" * 2_000_000


def headers_of(record: Any) -> dict[str, bytes | None]:
    """The headers of a written record."""
    return dict(record.headers)


@pytest.fixture(autouse=True)
def topic_of_dead_letters(kafka: EmbeddedKafka) -> None:
    """The topic exists."""
    kafka.create_topic(DEAD, 1)


@pytest.fixture
async def producer(make: Make) -> Producer[Any, Any]:
    """A producer that knows the topics."""
    return await warm(make())


@pytest.fixture
def letters(producer: Producer[Any, Any]) -> DeadLetters:
    """Its dead letters."""
    return DeadLetters(producer, DEAD)


async def test_a_record_that_is_written(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """Its metadata are those of the record, and there is no dead letter."""
    metadata = await letters.send_and_wait("one", b"a", key=b"k")
    assert (metadata.topic, metadata.offset) == ("one", 0)
    sent = letters.send("one", b"b")
    assert sent.outcome is Outcome.PENDING
    assert await sent.wait(LIMIT) is Outcome.ACKED
    assert not sent.dead_lettered
    assert values(kafka, DEAD) == []
    assert letters.producer.stats().dead_letters == {}


async def test_a_record_that_is_too_large(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """Its value is cut, and the headers tell everything."""
    sent = letters.send("one", TOO_LARGE, key=b"k", partition=0, timestamp=5, headers=[("a", b"1")])
    metadata = await sent
    assert (metadata.topic, sent.dead_lettered, sent.outcome) == (DEAD, True, Outcome.NOT_WRITTEN)
    (letter,) = kafka.records(DEAD)
    assert letter.value == b"x" * 65_536
    assert letter.key == b"k"
    found = headers_of(letter)
    assert b"2000" in (found.pop("aioproducer.error") or b"")
    assert found == {
        "a": b"1",
        "aioproducer.topic": b"one",
        "aioproducer.partition": b"0",
        "aioproducer.timestamp": b"5",
        "aioproducer.error.class": b"RecordTooLargeError",
        "aioproducer.outcome": b"not_written",
        "aioproducer.value.bytes": b"2000000",
    }
    assert values(kafka) == []
    assert letters.producer.stats().dead_letters == {"one": 1}


@pytest.mark.parametrize("name", ["MESSAGE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"])
async def test_a_broker_that_refuses_the_record(
    kafka: EmbeddedKafka, letters: DeadLetters, name: str
) -> None:
    """The dead letter has the bytes of the record, and the broker's error."""
    kafka.faults.error(name, api="Produce", topic="one")
    sent = letters.send("one", b"a", key=b"k", headers={"a": b"1"})
    assert (await sent).topic == DEAD
    (letter,) = kafka.records(DEAD)
    assert (letter.key, letter.value) == (b"k", b"a")
    assert headers_of(letter)["aioproducer.partition"] == b"0"
    assert name.encode() in (headers_of(letter)["aioproducer.error"] or b"")
    assert values(kafka) == []


@pytest.mark.parametrize(
    "name", ["TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_REQUIRED_ACKS"]
)
async def test_other_refusals_are_raised(kafka: EmbeddedKafka, letters: DeadLetters, name: str) -> None:
    """The fault is not that of the record."""
    kafka.faults.error(name, api="Produce", topic="one", times=None)
    with pytest.raises(KafkaError, match=name):
        await letters.send_and_wait("one", b"a")
    assert values(kafka, DEAD) == []


async def test_an_unknown_outcome_is_never_set_aside(kafka: EmbeddedKafka, make: Make) -> None:
    """The record may be written: not even `when` may set it aside, nor `put()`."""
    producer = await warm(make(request_timeout_ms=1_000, delivery_timeout_ms=10_000))
    letters = DeadLetters(producer, DEAD, when=lambda _: True)
    kafka.faults.delay(topic="one", times=None)
    sent = letters.send("one", b"a", timeout=0.2)
    with pytest.raises(DeliveryTimeoutError) as raised:
        await sent
    assert (sent.outcome, sent.dead_lettered) == (Outcome.UNKNOWN, False)
    with pytest.raises(RecordError, match="may be written"):
        letters.put(Record("one", b"a"), raised.value)
    kafka.faults.heal()
    assert values(kafka, DEAD) == []


async def test_causes_with_an_unknown_outcome(kafka: EmbeddedKafka, make: Make) -> None:
    """The time limit of the program has cancelled the wait for a record, or an exception of its own is raised from the error."""
    producer = await warm(make(request_timeout_ms=1_000, delivery_timeout_ms=10_000))
    letters = DeadLetters(producer, DEAD)
    kafka.faults.delay(topic="one", times=None)
    with pytest.raises(DeliveryTimeoutError) as unknown:
        await producer.send_and_wait("one", b"a", timeout=0.2)
    with pytest.raises(TimeoutError) as late:
        async with asyncio.timeout(0.1):
            await producer.send_and_wait("one", b"a")
    own = LookupError("could not store it")
    own.__cause__ = unknown.value
    for wrong in (late.value, own, asyncio.CancelledError()):
        with pytest.raises(RecordError, match="may be written"):
            letters.put(Record("one", b"a"), wrong)
    kafka.faults.heal()
    full, circle = LookupError("no room"), ValueError("a circle")
    full.__cause__ = BufferFullError("full")
    circle.__cause__ = circle
    for right in (TimeoutError("the customer was not found in time"), full, circle):
        await letters.put(Record("one", b"a"), right)


async def test_time_outs_are_not_set_aside(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """A topic that does not become known is no fault of the record."""
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    with pytest.raises(TimeoutError):
        await letters.send_and_wait("new", b"a", max_block=0.05)
    kafka.faults.heal()
    assert values(kafka, DEAD) == []


async def test_a_rule_of_the_user(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """`when` replaces the rule, is asked once, and its own failure sets nothing aside."""
    asked: list[KafkaError] = []

    def only_authorization(error: KafkaError) -> bool:
        asked.append(error)
        return "AUTHORIZATION" in str(error)

    letters = DeadLetters(producer, DEAD, when=only_authorization)
    with pytest.raises(RecordTooLargeError):
        await letters.send_and_wait("one", TOO_LARGE)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="one")
    assert (await letters.send_and_wait("one", b"a")).topic == DEAD
    assert len(asked) == 2

    def broken(_: KafkaError) -> bool:
        raise ZeroDivisionError

    with pytest.raises(RecordTooLargeError):
        await DeadLetters(producer, DEAD, when=broken).send_and_wait("one", TOO_LARGE)
    assert "when() of DeadLetters failed" in caplog.text


class Own(BaseException):
    """An exception that is no Exception."""


class Unprintable:
    """Its `repr` raises."""

    def __repr__(self) -> str:
        raise Own


@pytest.mark.parametrize("failure", [ZeroDivisionError, Own, asyncio.CancelledError])
async def test_functions_that_raise_end_no_more_than_a_letter(
    kafka: EmbeddedKafka, producer: Producer[Any, Any], failure: type[BaseException]
) -> None:
    """Called in a task of the producer, any exception of theirs is that of the letter; the record has its own error."""

    def raises(_: object) -> Any:
        raise failure

    for letters in (DeadLetters(producer, raises), DeadLetters(producer, DEAD, when=raises)):
        with pytest.raises(RecordTooLargeError):
            await letters.send_and_wait("one", TOO_LARGE)
        kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
        sent = letters.send("one", b"a")
        assert await sent.wait(LIMIT) is Outcome.NOT_WRITTEN
        assert not sent.dead_lettered
    metadata = await DeadLetters(producer, DEAD).send_and_wait("one", Unprintable())
    assert metadata.topic == DEAD
    assert values(kafka, DEAD) == [b"<Unprintable: repr() raised Own>"]
    assert producer.health().state == "running"


async def test_a_topic_by_record(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """The function gets the record as it was given; if it fails, the record's own error is raised."""
    letters = DeadLetters(producer, lambda record: f"{record.topic}.dead")
    assert (await letters.send_and_wait("one", TOO_LARGE)).topic == "one.dead"

    def broken(_: Record[Any, Any]) -> str:
        raise ZeroDivisionError("of the user")

    with pytest.raises(RecordTooLargeError) as raised:
        await DeadLetters(producer, broken).send_and_wait("one", TOO_LARGE)
    assert raised.value.__notes__ == ["its dead letter was not written: of the user"]


async def test_a_topic_by_a_function_that_is_cancelled(
    kafka: EmbeddedKafka, producer: Producer[Any, Any]
) -> None:
    """Its CancelledError does not end the task of the caller. An exception without a text is named."""

    def cancelled(_: Record[Any, Any]) -> str:
        raise asyncio.CancelledError

    with pytest.raises(StateError, match="was cancelled"):
        DeadLetters(producer, cancelled).put(Record("one", b"a"), ValueError("b"))

    def exhausted(_: Record[Any, Any]) -> str:
        raise StopIteration

    with pytest.raises(RecordTooLargeError) as raised:
        await DeadLetters(producer, exhausted).send_and_wait("one", TOO_LARGE)
    assert raised.value.__notes__ == ["its dead letter was not written: StopIteration"]


async def test_a_dead_letter_that_fails_leads_to_no_other(
    kafka: EmbeddedKafka, producer: Producer[Any, Any]
) -> None:
    """The error of the record is raised, with a note."""
    letters = DeadLetters(producer, DEAD, when=lambda _: True)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic=DEAD, times=None)
    sent = letters.send("one", TOO_LARGE)
    with pytest.raises(RecordTooLargeError) as raised:
        await sent
    assert "its dead letter was not written: INVALID_RECORD" in raised.value.__notes__[0]
    assert (sent.outcome, sent.dead_lettered) == (Outcome.NOT_WRITTEN, False)
    assert values(kafka, DEAD) == []
    assert producer.stats().dead_letters == {}
    # In the result of a stream, and as the cause of a checkpoint's end, too.
    result = await producer.send_all([Record("one", TOO_LARGE)], dead_letters=letters)
    assert "its dead letter was not written: INVALID_RECORD" in result.errors[0].__notes__[0]
    checkpoint = Checkpoint(producer, dead_letters=letters)
    sent = checkpoint.send_nowait("one", TOO_LARGE)
    await sent.wait()
    assert checkpoint.error is not None
    assert "its dead letter was not written: INVALID_RECORD" in checkpoint.error.__notes__[0]


class Seen(Interceptor):
    """Notes the topics of all records."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        self.topics.append(record.topic)
        return Record(record.topic, record.value, headers=[("by", b"interceptor")])

    def on_acknowledgement(self, metadata: Any, error: BaseException | None, /) -> None:
        self.topics.append(f"{metadata.topic if metadata else error.__class__.__name__}!")


async def test_serializers_and_interceptors_do_not_see_it(kafka: EmbeddedKafka, make: Make) -> None:
    """Its bytes are those that the serializer made; its headers those of the record."""
    seen = Seen()
    called: list[Any] = []

    def serialize(data: Any) -> bytes:
        called.append(data)
        return json.dumps(data).encode()

    producer = await warm(make(interceptors=[seen], value_serializer=serialize))
    letters = DeadLetters(producer, DEAD)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    assert (await letters.send_and_wait("one", {"a": 1})).topic == DEAD
    assert called == [{"a": 1}]
    assert seen.topics == ["one", "BrokerError!"]
    (letter,) = kafka.records(DEAD)
    assert letter.value == b'{"a": 1}'
    assert headers_of(letter)["by"] == b"interceptor"


class Spans:
    """A tracer with a span for each record: the topics of those that have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def context(self) -> None:
        """No context of the call."""

    def on_batch(self, report: BatchReport) -> None:
        """Nothing for a batch."""

    def begin(self, _topic: str, _began: int) -> Any:
        """The headers, the token and the span of one record."""
        return (), None, self

    def ready(self, _key: Any, _value: Any) -> None:
        """The record has its bytes."""

    def end(self, metadata: Any, _error: Any, _address: Any) -> None:
        """The record has its outcome."""
        self.ended.append(metadata.topic if metadata else "not written")


async def test_its_span_is_no_report_to_interceptors(kafka: EmbeddedKafka, make: Make) -> None:
    """With a span for each record, the letter has one as well, and interceptors do not see it."""
    seen, spans = Seen(), Spans()
    producer = await warm(make(interceptors=[seen], tracing=spans))
    letters = DeadLetters(producer, DEAD)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    assert (await letters.send_and_wait("one", b"v")).topic == DEAD
    await turns()
    assert spans.ended == ["not written", DEAD]
    assert seen.topics == ["one", "BrokerError!"]


async def test_what_could_not_be_encoded(kafka: EmbeddedKafka, make: Make) -> None:
    """Its repr is set aside, cut like a value."""

    def broken(data: Any) -> bytes:
        raise ValueError(f"no bytes for {len(data)} items")

    letters = DeadLetters(await warm(make(value_serializer=broken)), DEAD)
    await letters.send_and_wait("one", list(range(100_000)))
    (letter,) = kafka.records(DEAD)
    assert letter.value is not None
    assert letter.value.startswith(b"[0, 1, 2,")
    found = headers_of(letter)
    assert (len(letter.value), found["aioproducer.value.repr"]) == (65_536, b"list")
    assert found["aioproducer.value.bytes"] == str(len(repr(list(range(100_000))))).encode()
    assert found["aioproducer.error.class"] == b"SerializationError"


async def test_too_large_when_serialized(kafka: EmbeddedKafka, make: Make) -> None:
    """The bytes are kept, not the repr of the object."""
    letters = DeadLetters(await warm(make(value_serializer=lambda text: text.encode())), DEAD)
    await letters.send_and_wait("one", "y" * 2_000_000)
    (letter,) = kafka.records(DEAD)
    assert letter.value == b"y" * 65_536
    assert "aioproducer.value.repr" not in headers_of(letter)


async def test_a_serializer_that_may_succeed_later(kafka: EmbeddedKafka, make: Make) -> None:
    """A registry that is down is no fault of the record."""

    class Registry:
        def serialize(self, topic: str, headers: object, data: object) -> bytes:
            raise NotPrepared

        async def prepare(self, topic: str, headers: object, data: object) -> None:
            raise SerializationError("the registry is down", retriable=True)

    letters = DeadLetters(await warm(make(value_serializer=Registry())), DEAD)
    with pytest.raises(SerializationError):
        await letters.send_and_wait("one", "a")
    assert values(kafka, DEAD) == []


async def test_the_bytes_at_the_call_are_kept(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """A buffer that the caller changes later does not change the dead letter."""
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    value = bytearray(b"before")
    sent = letters.send("one", value)
    value[:] = b"behind"
    await sent
    assert values(kafka, DEAD) == [b"before"]


async def test_a_gapless_producer_after_a_letter_that_failed(kafka: EmbeddedKafka, make: Make) -> None:
    """The program has learned of it by its record, and has no other way: the next dead letters are written."""
    letters = DeadLetters(await warm(make(gapless=True)), DEAD)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", topic=DEAD)
    with pytest.raises(RecordTooLargeError):
        await letters.send_and_wait("one", TOO_LARGE)
    metadata = await letters.send_and_wait("one", TOO_LARGE)
    assert metadata.topic == DEAD


async def test_a_gapless_stream_with_a_loss(kafka: EmbeddedKafka, make: Make) -> None:
    """Nothing is written behind a record that is lost, before the program has the result."""
    producer = await warm(make(gapless=True))

    async def records() -> AsyncIterator[Record[Any, Any]]:
        for number in range(50):
            if number == 5:
                kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", topic="one")
            yield Record("one", b"%d" % number)
            await turns(3)

    result = await producer.send_all(records(), dead_letters=DeadLetters(producer, DEAD))
    written = values(kafka)
    assert written == [b"%d" % number for number in range(len(written))]
    assert (result.acked, result.not_written) == (len(written), 50 - len(written))
    assert len(written) < 50
    await producer.send_and_wait("one", b"after")


@pytest.mark.parametrize("reads", ["the refused one", "another one"])
async def test_a_gapless_producer_behind_a_record_that_is_set_aside(
    reads: str, kafka: EmbeddedKafka, make: Make
) -> None:
    """Records that were sent meanwhile are lost with it: no later one is written before the program has read of it."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    producer = await warm(make(gapless=True, batch_size=1))
    await producer.send_and_wait("compacted", b"first", key=b"k")
    letters = DeadLetters(producer, DEAD)
    sent = [
        letters.send("compacted", b"%d" % number, key=None if number == 2 else b"k") for number in range(8)
    ]
    await until(lambda: all(each.done() for each in sent))
    assert sent[2].dead_lettered
    later = letters.send("compacted", b"later", key=b"k")
    await until(later.done)
    assert values(kafka, "compacted") == [b"first", b"0", b"1"]
    assert await sent[2 if reads == "the refused one" else 5].wait() is Outcome.NOT_WRITTEN
    await letters.send_and_wait("compacted", b"again", key=b"k")
    assert values(kafka, "compacted") == [b"first", b"0", b"1", b"again"]


async def test_a_gapless_producer_behind_a_record_that_is_set_aside_alone(
    kafka: EmbeddedKafka, make: Make
) -> None:
    """Nothing else is missing: the next record is written."""
    kafka.create_topic("compacted", 1, cleanup_policy="compact")
    producer = await warm(make(gapless=True))
    await producer.send_and_wait("compacted", b"first", key=b"k")
    letters = DeadLetters(producer, DEAD)
    sent = letters.send("compacted", b"refused")
    await until(sent.done)
    letters.send("compacted", b"next", key=b"k")
    await until(lambda: values(kafka, "compacted") == [b"first", b"next"])


async def test_a_long_error_is_cut_between_characters(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """At most 2 KiB, which readers can decode."""
    await letters.put(Record("one", b"a"), ValueError("-" + "ü" * 2_000))
    (letter,) = kafka.records(DEAD)
    assert (headers_of(letter)["aioproducer.error"] or b"").decode() == "-" + "ü" * 1_023


@pytest.mark.parametrize("kind", [list, dict])
async def test_the_headers_at_the_call_are_kept(
    kind: type[Any], kafka: EmbeddedKafka, letters: DeadLetters
) -> None:
    """A list or mapping of headers that the caller fills again does not change the dead letter."""
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    value = bytearray(b"before")
    headers = kind([("a", value), ("b", b"1")])
    sent = letters.send("one", b"v", headers=headers)
    value[:] = b"behind"
    headers.clear()
    await sent
    (letter,) = kafka.records(DEAD)
    assert (headers_of(letter)["a"], headers_of(letter)["b"]) == (b"before", b"1")


class Readable:
    """Iterators of headers, as a program may give them."""

    @staticmethod
    def names(count: int = 3) -> Any:
        """Each of these may be read once."""
        yield from ((f"h{index}", b"1") for index in range(count))

    @staticmethod
    def broken() -> Any:
        """An exception comes behind the first."""
        yield "h0", b"1"
        raise ValueError("no more headers")


@pytest.mark.parametrize("way", ["send", "send_and_wait", "send_all", "put"])
async def test_headers_that_can_be_read_once(way: str, kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """The record and its dead letter have all of them."""
    names = ["h0", "h1", "h2"]
    record: Record[Any, Any] = Record("one", TOO_LARGE, headers=Readable.names())
    if way == "send_all":
        await letters.producer.send_all([record], dead_letters=letters)
    elif way == "put":
        await letters.put(record, ValueError())
    else:
        await getattr(letters, way)("one", TOO_LARGE, headers=Readable.names())
        await letters.send_and_wait("one", b"small", headers=Readable.names())
        assert [name for name, _ in kafka.records("one")[0].headers] == names
    (letter,) = kafka.records(DEAD)
    assert [name for name, _ in letter.headers][:3] == names


async def test_headers_that_no_call_has_read_to_their_end(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """The dead letter has them up to an exception, and also where the record was refused before its headers were read."""
    await letters.send_and_wait("one", b"a", headers=Readable.broken())
    await letters.send_and_wait("not a topic!", b"a", headers=Readable.names())
    broken, refused = kafka.records(DEAD)
    assert broken.headers[0] == ("h0", b"1")
    assert b"no more headers" in (headers_of(broken)["aioproducer.error"] or b"")
    assert [name for name, _ in refused.headers][:3] == ["h0", "h1", "h2"]


async def test_a_header_that_is_too_large(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """It is left out, and the others are not, such as the id of an outbox behind it."""
    await letters.send_and_wait("one", b"a", headers=[("a", b"1"), ("large", TOO_LARGE), ("z", b"2")])
    (letter,) = kafka.records(DEAD)
    assert list(letter.headers[:2]) == [("a", b"1"), ("z", b"2")]
    assert "large" not in headers_of(letter)


async def test_headers_that_fill_their_part(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """All that are kept have at most 64 KiB."""
    await letters.send_and_wait(
        "one", TOO_LARGE, headers=[(f"h{index}", b"x" * 10_000) for index in range(100)]
    )
    (letter,) = kafka.records(DEAD)
    assert [name for name, _ in letter.headers][:7] == [
        *(f"h{index}" for index in range(6)),
        "aioproducer.topic",
    ]


class Textless:
    """An object without a text, in place of a number or a name."""

    def __str__(self) -> str:
        raise ValueError("of the user")

    __repr__ = __str__


@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": Textless()},
        {"partition": Textless()},
        {"partition": 10**5_000},
        {"timestamp": Textless()},
        {"timestamp": datetime.datetime.fromisoformat("0001-01-01")},
        {"key": Textless(), "value": Textless()},
    ],
    ids=["topic", "partition", "large partition", "timestamp", "moment", "value"],
)
async def test_arguments_without_a_text(
    arguments: dict[str, Any], kafka: EmbeddedKafka, letters: DeadLetters
) -> None:
    """They are the fault of their record, which is set aside all the same."""
    await letters.send_and_wait(**({"topic": "one", "value": b"a"} | arguments))
    assert len(kafka.records(DEAD)) == 1
    assert sum(letters.producer.stats().dead_letters.values()) == 1


@pytest.mark.parametrize("topic", ["\ud800", "not a name", "", "x" * 300, 4711, b"value", None])
async def test_what_is_no_name_is_counted_without_one(
    topic: Any, kafka: EmbeddedKafka, letters: DeadLetters
) -> None:
    """It may be the value of the record. A page of metrics with a lone surrogate cannot be encoded."""
    await letters.send_and_wait(topic, b"a")
    letters.put(Record(topic, b"b"), ValueError())
    await letters.producer.flush()
    assert len(kafka.records(DEAD)) == 2
    assert letters.producer.stats().dead_letters == {"_other": 2}
    page = generate_latest(ProducerCollector(letters.producer)).decode()
    assert re.search(r'aioproducer_dead_letters_total{.*topic="_other"} 2', page)


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(), TimeoutError(), MemoryError(), asyncio.CancelledError()]
)
@pytest.mark.parametrize("step", ["serialize", "prepare"])
async def test_a_serializer_that_needs_more_than_its_record(
    step: str, error: BaseException, kafka: EmbeddedKafka, make: Make
) -> None:
    """While a service that it asks is down, its records are no dead letters: all of them would be."""

    class Asking:
        async def serialize(self, topic: str, headers: object, data: object) -> bytes:
            raise error if step == "serialize" else NotPrepared

        async def prepare(self, topic: str, headers: object, data: object) -> None:
            raise error

    letters = DeadLetters(await warm(make(value_serializer=Asking())), DEAD)
    with pytest.raises(SerializationError):
        await letters.send_and_wait("one", "a")
    assert values(kafka, DEAD) == []


async def test_a_serializer_that_is_never_prepared(kafka: EmbeddedKafka, make: Make) -> None:
    """It cannot encode any record, so that none is set aside for it."""

    class Never:
        def serialize(self, topic: str, headers: object, data: object) -> bytes:
            raise NotPrepared

        async def prepare(self, topic: str, headers: object, data: object) -> None:
            """Learn nothing."""

    letters = DeadLetters(await warm(make(value_serializer=Never())), DEAD)
    with pytest.raises(SerializationError, match="again after prepare"):
        await letters.send_and_wait("one", "a")
    assert values(kafka, DEAD) == []


async def test_a_dead_letter_without_an_answer(kafka: EmbeddedKafka, make: Make) -> None:
    """The note of its record does not say that it was not written: it may be."""
    letters = DeadLetters(
        await warm(make(delivery_timeout_ms=300, request_timeout_ms=100, linger_ms=0)), DEAD
    )
    await letters.put(Record("one", b"a"), ValueError())
    kafka.faults.drop_answer(api="Produce", times=None)
    with pytest.raises(RecordTooLargeError) as raised:
        await letters.send_and_wait("one", TOO_LARGE)
    assert "its dead letter may not be written: " in raised.value.__notes__[0]


async def test_put(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """A record is set aside with any error, at once."""
    record = Record("one", b"a", key=b"k", timestamp=7, headers=[("a", None)])
    delivery = letters.put(record, ValueError("the order has no customer"))
    metadata = await delivery
    assert metadata.topic == DEAD
    (letter,) = kafka.records(DEAD)
    assert (letter.key, letter.value) == (b"k", b"a")
    assert headers_of(letter) == {
        "a": None,
        "aioproducer.topic": b"one",
        "aioproducer.timestamp": b"7",
        "aioproducer.error": b"the order has no customer",
        "aioproducer.error.class": b"ValueError",
        "aioproducer.outcome": b"not_written",
    }
    assert letters.producer.stats().dead_letters == {"one": 1}
    with pytest.raises(RecordError, match="takes a Record"):
        letters.put({"topic": "one"}, ValueError())  # type: ignore[arg-type]


async def test_one_that_was_put_and_is_not_written(
    kafka: EmbeddedKafka, letters: DeadLetters, caplog: pytest.LogCaptureFixture
) -> None:
    """Its delivery raises, it is not counted, and the log tells it."""
    kafka.faults.error("INVALID_RECORD", api="Produce", topic=DEAD)
    with pytest.raises(KafkaError):
        await letters.put(Record("one", b"a"), ValueError())
    await turns(2)
    assert letters.producer.stats().dead_letters == {}
    assert "a dead letter failed for 1 record" in caplog.text


async def test_in_a_transaction_it_is_a_part_of_it(kafka: EmbeddedKafka, make: Make) -> None:
    """The transaction is committed with the dead letter, or aborted with it."""
    producer = make(transactional_id="tx", value_serializer=lambda data: data.encode())
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, DEAD)
    async with producer.transaction():
        assert (await letters.send_and_wait("one", "a")).topic == "one"
        assert (await letters.send_and_wait("one", None)).topic == DEAD
        sent = letters.send("one", "z" * 2_000_000)
    assert await sent.wait(LIMIT) is Outcome.NOT_WRITTEN
    assert sent.dead_lettered
    assert (values(kafka), len(values(kafka, DEAD))) == ([b"a"], 2)
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            assert (await letters.send_and_wait("one", 5)).topic == DEAD
            raise ZeroDivisionError
    assert len(values(kafka, DEAD)) == 2


async def test_a_refusal_by_a_broker_ends_the_transaction(kafka: EmbeddedKafka, make: Make) -> None:
    """It can only be aborted then, and takes no dead letter: the error of the record is raised."""
    producer = make(transactional_id="tx")
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, DEAD)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    with pytest.raises(TransactionAbortedError):
        async with producer.transaction():
            sent = letters.send("one", b"a")
            await sent.wait(LIMIT)
    assert (sent.outcome, sent.dead_lettered) == (Outcome.NOT_WRITTEN, False)
    assert values(kafka, DEAD) == []


async def test_a_transaction_fails_with_what_is_not_set_aside(make: Make) -> None:
    """As without dead letters."""
    producer = make(transactional_id="tx")
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, DEAD, when=lambda _: False)
    with pytest.raises(TransactionAbortedError):
        async with producer.transaction():
            with pytest.raises(RecordTooLargeError):
                await letters.send_and_wait("one", TOO_LARGE)


async def test_a_refusal_while_the_transaction_is_committed(kafka: EmbeddedKafka, make: Make) -> None:
    """The commit waits for the record, and contains its dead letter."""
    refused = asyncio.Event()

    async def serialize(data: Any) -> bytes:
        await refused.wait()
        raise ValueError(data)

    producer = make(transactional_id="tx", value_serializer=serialize)
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, DEAD)
    await producer.init_transactions()
    await producer.begin_transaction()
    sent = letters.send("one", b"a")
    committing = asyncio.create_task(producer.commit_transaction())
    await turns(3)
    refused.set()
    await committing
    assert (sent.dead_lettered, values(kafka), len(values(kafka, DEAD))) == (True, [], 1)


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_a_transaction_fails_where_no_letter_can_be_sent(
    kafka: EmbeddedKafka, make: Make, is_awaited: bool
) -> None:
    """A commit would have neither the record nor its dead letter."""

    def no_route(record: Record[Any, Any]) -> str:
        raise LookupError(record.topic)

    producer = make(transactional_id="tx")
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, no_route)
    with pytest.raises(TransactionAbortedError, match="too large") as caught:
        async with producer.transaction():
            await producer.send("one", b"a")
            sent = letters.send("one", TOO_LARGE)
            if is_awaited:
                await sent.wait(LIMIT)
    assert not caught.value.retriable
    assert (sent.outcome, sent.dead_lettered, values(kafka)) == (Outcome.NOT_WRITTEN, False, [])


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (Record("one", b"b"), ValueError("no customer")),
        ({"topic": "four"}, ValueError("no customer")),
        (Record("four", b"b"), DeliveryTimeoutError(topic="four", partition=0, outcome=Outcome.UNKNOWN)),
    ],
    ids=["no route", "no record", "unknown outcome"],
)
async def test_a_transaction_fails_where_put_raises(
    kafka: EmbeddedKafka, make: Make, record: Any, error: Exception
) -> None:
    """A program that goes on after the exception commits no transaction without the dead letter."""

    def topic_of(record: Record[Any, Any]) -> str:
        return {"four": DEAD}[record.topic]

    producer = make(transactional_id="tx")
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, topic_of)
    with pytest.raises(TransactionAbortedError) as caught:
        async with producer.transaction():
            await producer.send("one", b"a")
            with pytest.raises((LookupError, RecordError)):
                letters.put(record, error)
    assert not caught.value.retriable
    async with producer.transaction():
        letters.put(Record("four", b"c"), ValueError("no customer"))
    assert (values(kafka), values(kafka, DEAD)) == ([], [b"c"])


async def test_put_without_room_may_be_repeated_in_a_transaction(kafka: EmbeddedKafka, make: Make) -> None:
    """As that of `send_nowait()`, its `BufferFullError` says that it came too early."""
    producer = make(transactional_id="tx", buffer_memory=3_000, batch_size=1_000, max_request_size=2_000)
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, DEAD)
    record: Record[Any, Any] = Record("one", bytes(400))
    async with producer.transaction():
        await letters.put(record, ValueError())
        with pytest.raises(BufferFullError):
            while True:
                letters.put(record, ValueError())
        await producer.flush(LIMIT)
        await letters.put(record, ValueError())
    assert len(values(kafka, DEAD)) == producer.stats().dead_letters["one"] >= 3


async def test_a_letter_of_a_call_that_came_too_late(kafka: EmbeddedKafka, make: Make) -> None:
    """The record is no part of the transaction that is being committed, and neither is a letter of it."""
    producer = make(transactional_id="tx")
    await producer.start(wait_ready=LIMIT)
    letters = DeadLetters(producer, DEAD, when=lambda _: True)
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send("one", b"a")
    committing = asyncio.create_task(producer.commit_transaction())
    await turns(1)
    sent = letters.send("one", b"b")
    assert (sent.done(), await sent.wait(LIMIT), sent.dead_lettered) == (True, Outcome.NOT_WRITTEN, False)
    await committing
    assert (values(kafka), values(kafka, DEAD)) == ([b"a"], [])


async def test_a_cancelled_wait(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A record that is not accepted yet is withdrawn, and not set aside; an accepted one goes on."""
    letters = DeadLetters(producer, DEAD, when=lambda _: True)
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    task = asyncio.create_task(letters.send_and_wait("new", b"a"))
    await turns(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kafka.faults.heal()
    task = asyncio.create_task(letters.send_and_wait("one", b"b"))
    await turns(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await producer.flush(LIMIT)
    assert (values(kafka), values(kafka, "new"), values(kafka, DEAD)) == ([b"b"], [], [])


async def test_a_handle_outlives_its_waits(kafka: EmbeddedKafka, letters: DeadLetters) -> None:
    """Waiting with a time limit, or a cancelled wait, changes nothing."""
    held = kafka.faults.delay(times=None)
    sent = letters.send("one", b"a")
    assert await sent.wait(0.01) is Outcome.PENDING
    assert not sent.done()
    assert "pending" in repr(sent)
    task = asyncio.ensure_future(sent)
    await turns(1)
    task.cancel()
    held.release()
    assert (await sent).topic == "one"
    assert sent.done()
    assert "acked" in repr(sent)


async def test_a_closed_producer(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Its refusal is raised, whatever `when` says."""
    letters = DeadLetters(producer, DEAD, when=lambda _: True)
    await producer.close()
    with pytest.raises(StateError, match="closed"):
        await letters.send_and_wait("one", b"a")
    with pytest.raises(StateError, match="closed"):
        letters.put(Record("one", b"a"), ValueError())


async def test_an_outcome_that_nobody_reads(
    letters: DeadLetters, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss is logged, a record that was set aside is not."""
    letters.send("one", TOO_LARGE)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="one")
    letters.send("one", b"b")
    with caplog.at_level(logging.ERROR, "aioproducer"):
        await letters.producer.flush(LIMIT)
        await turns(5)
        gc.collect()
    lines = [line for line in caplog.messages if "neither written nor set aside" in line]
    assert len(lines) == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in lines[0]


async def test_gapless(kafka: EmbeddedKafka, make: Make) -> None:
    """A record that was set aside leaves no gap behind."""
    letters = DeadLetters(await warm(make(gapless=True)), DEAD)
    kafka.faults.error("INVALID_RECORD", api="Produce", topic="one")
    assert (await letters.send_and_wait("one", b"a")).topic == DEAD
    assert (await letters.send_and_wait("one", b"b")).topic == "one"


def test_wrong_arguments() -> None:
    """They are refused where they are given."""
    producer: Producer = Producer("localhost:1")

    async def later(_: object) -> bool:
        return True

    for arguments, text in [
        ((object(), DEAD), "takes a Producer"),
        ((producer, "no name"), "must consist of"),
        ((producer, 5), "topic must be a name"),
        ((producer, later), "topic must be a name"),
    ]:
        with pytest.raises(ConfigurationError, match=text):
            DeadLetters(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="when must be"):
        DeadLetters(producer, DEAD, when=later)  # type: ignore[arg-type]
    assert repr(DeadLetters(producer, DEAD)) == "<DeadLetters to 'dead'>"


async def test_the_mock() -> None:
    """The mock is a producer: orders of the test lead to dead letters as real refusals do."""
    async with MockProducer() as producer:
        letters: DeadLetters[Any, Any] = DeadLetters(producer, DEAD)
        assert (await letters.send_and_wait("one", b"a")).topic == "one"
        assert (await letters.send_and_wait("one", 5)).topic == DEAD
        assert await letters.put(Record("one", b"c"), ValueError())
        assert [record.value for record in producer.history if record.topic == DEAD] == [b"5", b"c"]
        assert producer.stats().dead_letters == {"one": 2}
    async with MockProducer(auto_complete=False) as producer:
        letters = DeadLetters(producer, DEAD)
        sent = letters.send("one", b"b")
        assert isinstance(sent, SentRecord)
        producer.fail_next(RecordTooLargeError("too large", size=10))
        await producer.wait_pending()
        producer.complete_next(topic=DEAD)
        assert (await sent).topic == DEAD


async def test_a_stream(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Records that are set aside are counted as such alone; others fail as without dead letters."""
    letters = DeadLetters(producer, DEAD)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="four", times=None)
    records = [
        Record("one", b"a"),
        Record("one", TOO_LARGE),
        Record("four", b"b"),
        Record("one", b"c"),
        "no record",
    ]
    result = await producer.send_all(records, dead_letters=letters)  # type: ignore[arg-type]
    counts = (result.acked, result.dead_lettered, result.not_written, result.unknown)
    assert counts == (2, 1, 2, 0)
    assert sorted(result.errors) == [2, 4]
    assert len(values(kafka, DEAD)) == 1
    with pytest.raises(ConfigurationError, match="takes DeadLetters"):
        await producer.send_all([], dead_letters=DEAD)  # type: ignore[arg-type]


async def test_a_stream_whose_producer_ends(make: Make, kafka: EmbeddedKafka) -> None:
    """The stream ends with it."""
    producer = await warm(make())

    async def records() -> AsyncIterator[Record[Any, Any]]:
        yield Record("one", b"a")
        await producer.close()
        yield Record("one", b"b")

    with pytest.raises(StateError, match="closed"):
        await producer.send_all(records(), dead_letters=DeadLetters(producer, DEAD))


async def test_a_stream_in_a_transaction(make: Make, kafka: EmbeddedKafka) -> None:
    """It takes the letters of its own producer only."""
    producer, other = make(transactional_id="tx"), make()
    await producer.start(wait_ready=LIMIT)
    async with producer.transaction():
        with pytest.raises(ConfigurationError, match="no part of"):
            await producer.send_all([], dead_letters=DeadLetters(other, DEAD))
        result = await producer.send_all(
            [Record("one", b"a"), Record("one", TOO_LARGE)], dead_letters=DeadLetters(producer, DEAD)
        )
    assert (result.acked, result.dead_lettered) == (1, 1)
    assert (values(kafka), len(values(kafka, DEAD))) == ([b"a"], 1)
