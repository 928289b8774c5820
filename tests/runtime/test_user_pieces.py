"""Code of the user's that is called by the producer: it raises, blocks, lies, calls back, or changes what it gave."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest

from aioproducer import Outcome, Producer, Record, RecordError, RecordMetadata, SerializationError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, memory_in_use, turns, until, warm
from tests.runtime.support import History, sound
from tests.seeds import fresh_seed

# -- F13: serializers and headers


class Insidious:
    """A serializer that does as configured to `bad` values, and leaves others alone."""

    def __init__(self, deed: Callable[[], Any]) -> None:
        self._deed = deed

    def __call__(self, value: bytes) -> Any:
        return self._deed() if value == b"bad" else value


def raise_(error: BaseException) -> Callable[[], Any]:
    """A function that raises it."""

    def raising() -> Any:
        raise error

    return raising


@pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
@pytest.mark.parametrize(
    "deed",
    [raise_(ZeroDivisionError()), raise_(MemoryError()), raise_(StopIteration()), lambda: "text", lambda: 7],
    ids=["raises", "has no memory", "raises StopIteration", "makes a str", "makes an int"],
)
async def test_f13_serializer_that_fails(
    topic: str, deed: Callable[[], Any], make: Make, kafka: EmbeddedKafka
) -> None:
    """It is a SerializationError with NOT_WRITTEN, from every way to send; the records round it are written."""
    producer = await warm(make(kafka, value_serializer=Insidious(deed)), "one")
    ways: list[Callable[[bytes], Any]] = [
        lambda value: producer.send(topic, value),
        lambda value: producer.send_and_wait(topic, value),
        lambda value: producer.send(topic, value, headers={"a": b"b"}, timeout=5),
        lambda value: nowait(producer, topic, value),
    ]
    for way in ways:
        await way(b"before")
        with pytest.raises(SerializationError) as caught:
            await way(b"bad")
        assert caught.value.outcome is Outcome.NOT_WRITTEN
        await way(b"after")
    result = await (await producer.send_batch(topic, [b"before", b"bad", b"after"]))
    assert (result.acked, list(result.errors)) == (2, [1])
    await sound(producer)
    assert [record.value for record in kafka.records(topic)] == [b"before", b"after"] * 5


async def nowait(producer: Producer[Any, Any], topic: str, value: bytes) -> None:
    """send_nowait(), as something to be awaited."""
    producer.send_nowait(topic, value)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt])
async def test_f13_serializer_that_raises_no_exception(
    kind: type[BaseException], make: Make, kafka: EmbeddedKafka
) -> None:
    """An exception outside Exception goes through to the caller, and leaves nothing behind."""
    producer = await warm(make(kafka, value_serializer=Insidious(raise_(kind()))), "one")
    for topic in ("one", "new"):
        with pytest.raises(kind):
            await producer.send(topic, b"bad")
    await sound(producer)
    assert kafka.records("one") == []


async def test_f13_coroutine_serializer_that_is_cancelled(make: Make, kafka: EmbeddedKafka) -> None:
    """A coroutine serializer whose own work was cancelled fails its record, and no other; the producer lives."""

    async def asks(value: bytes) -> bytes:
        if value == b"bad":
            lookup = asyncio.ensure_future(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(lookup.cancel)
            await lookup
        return value

    producer = await warm(make(kafka, value_serializer=asks), "one")
    sends = [asyncio.ensure_future(producer.send("one", value)) for value in (b"0", b"bad", b"1")]
    results = await asyncio.gather(*sends, return_exceptions=True)
    assert isinstance(results[1], SerializationError)
    assert isinstance(results[1].cause, asyncio.CancelledError)
    batch = await (await producer.send_batch("one", [b"2", b"bad", b"3"]))
    assert (batch.acked, list(batch.errors)) == (2, [1])
    await sound(producer)
    assert [record.value for record in kafka.records("one")] == [b"0", b"1", b"2", b"3"]


async def test_f13_serializer_that_blocks(make: Make, kafka: EmbeddedKafka) -> None:
    """One that holds up the loop for longer than the request timeout costs time, no record and no connection."""

    def sleepy() -> bytes:
        # A user's code that holds up its thread.
        time.sleep(0.3)
        return b"slow"

    slow = Insidious(sleepy)
    producer = await warm(make(kafka, value_serializer=slow, request_timeout_ms=100, batch_size=1), "one")
    deliveries = [await producer.send("one", value) for value in (b"0", b"bad", b"1")]
    assert [await one.wait(LIMIT) for one in deliveries] == [Outcome.ACKED] * 3
    assert producer.stats().connections[0].connects == 1
    assert [record.value for record in kafka.records("one")] == [b"0", b"slow", b"1"]


async def test_f13_serializer_that_calls_back(make: Make, kafka: EmbeddedKafka) -> None:
    """A serializer may send, flush, purge and ask for statistics; its own records come first."""
    tasks: list[asyncio.Future[Any]] = []

    def busy(value: bytes) -> bytes:
        if value.startswith(b"outer"):
            producer.send_nowait("one", b"inner " + value)
            tasks.append(asyncio.ensure_future(producer.flush()))
            tasks.append(asyncio.ensure_future(producer.send("one", b"later")))
            assert producer.stats().records_buffered
            repr(producer)
        return value

    producer = await warm(make(kafka, value_serializer=busy, linger_ms=50), "one")
    for number in range(3):
        await producer.send("one", b"outer %d" % number)
    await asyncio.gather(*tasks)
    await sound(producer)
    written = [record.value or b"" for record in kafka.records("one")]
    assert [value for value in written if value != b"later"] == [
        each for n in range(3) for each in (b"inner outer %d" % n, b"outer %d" % n)
    ]
    assert written.count(b"later") == 3


class BadMapping(Mapping[str, bytes]):
    """Headers that cannot be read."""

    def __getitem__(self, key: str) -> bytes:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 1


class BadNames(list[tuple[str, bytes]]):
    """Headers that raise when they have been read in part."""

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        yield "a", b"1"
        raise ZeroDivisionError


@pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
@pytest.mark.parametrize("headers", [BadMapping(), BadNames()], ids=["unreadable", "unreadable in part"])
async def test_f13_headers_that_fail(topic: str, headers: Any, make: Make, kafka: EmbeddedKafka) -> None:
    """Headers that raise while they are read refuse the record, with that as the cause; nothing is sent or kept."""
    producer = await warm(make(kafka), "one")
    for call in (producer.send, producer.send_nowait, producer.send_and_wait):
        with pytest.raises(RecordError) as caught:
            await call(topic, b"v", headers=headers)
        assert caught.value.outcome is Outcome.NOT_WRITTEN
        assert isinstance(caught.value.cause, ZeroDivisionError)
    await sound(producer)
    assert kafka.records("one") == []


# -- F14: interceptors and callbacks


@attrs.define
class Meddling:
    """An interceptor that acts on each report of a record."""

    deed: Callable[[], Any]
    told: list[tuple[Any, Any]] = attrs.Factory(list)

    def on_send(self, record: Record[Any, Any]) -> Record[Any, Any]:
        return record

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.told.append((metadata, error))
        self.deed()

    def close(self) -> None:
        self.deed()


@pytest.mark.parametrize("how", ["raises", "cancels", "is slow", "sends", "flushes", "closes"])
@pytest.mark.parametrize("what", ["interceptor", "callback"])
async def test_f14_deeds(what: str, how: str, make: Make, kafka: EmbeddedKafka) -> None:
    """Whatever an interceptor or a callback does, each is called once, in offset order, and the outcomes are the same."""
    tasks: list[asyncio.Future[Any]] = []
    begun: list[asyncio.Future[Any]] = []

    def send_more() -> None:
        # The record that it sends is reported as well: bounded in number.
        if len(tasks) < 40:
            tasks.append(asyncio.ensure_future(producer.send("four", b"more", partition=3)))

    deeds: dict[str, Callable[[], Any]] = {
        "raises": raise_(ZeroDivisionError()),
        "cancels": lambda: [task.cancel() for task in begun],
        # A callback that holds up the loop.
        "is slow": lambda: time.sleep(0.002),
        "sends": send_more,
        "flushes": lambda: tasks.append(asyncio.ensure_future(producer.flush())),
        "closes": lambda: tasks.append(asyncio.ensure_future(producer.close())),
    }
    meddling = Meddling(deeds[how])
    with_interceptor = {"interceptors": [meddling]} if what == "interceptor" else {}
    producer = await warm(make(kafka, batch_size=200, **with_interceptor), "one", "four")
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=3)
    deliveries = []
    for number in range(60):
        delivery = await producer.send("four", b"%d" % number, partition=number % 3)
        deliveries.append(delivery)
        if what == "callback":
            delivery.add_done_callback(lambda one: meddling.on_acknowledgement(one.result(), None))
    begun.append(asyncio.ensure_future(asyncio.Event().wait()))
    assert [await one.wait(LIMIT) for one in deliveries] == [Outcome.ACKED] * 60
    await asyncio.gather(*tasks, return_exceptions=True)
    begun[0].cancel()
    # The record that it has sent itself, to partition 3, is reported as well.
    await until(lambda: sum(told is not None and told.partition != 3 for told, _ in meddling.told) >= 60)
    first = [metadata for metadata, _ in meddling.told if metadata is not None and metadata.partition != 3]
    for partition in range(3):
        offsets = [metadata.offset for metadata in first if metadata.partition == partition]
        assert offsets == list(range(20))
    if how != "closes":
        await sound(producer)
    else:
        assert producer.health().state == "closed"
    await producer.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_f14_interceptor_that_raises_is_logged_once_a_record(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing interceptor is logged, once for each call, with the traceback."""
    meddling = Meddling(raise_(ZeroDivisionError("inside")))
    producer = await warm(make(kafka, interceptors=[meddling]), "one")
    await producer.send_and_wait("one", b"v")
    await turns()
    lines = [record for record in caplog.records if "on_acknowledgement() of Meddling" in record.getMessage()]
    assert [line.exc_info is not None for line in lines] == [True]
    assert len(meddling.told) == 1


# -- F15: partitioners


class LikeNumpy:
    """An integer that is none of Python's, as numpy's are."""

    def __index__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "answer",
    [-1, 4, 2**63, True, LikeNumpy(), 1.0],
    ids=["negative", "too large", "huge", "bool", "like numpy", "float"],
)
async def test_f15_answers_of_a_partitioner(answer: Any, make: Make, kafka: EmbeddedKafka) -> None:
    """Each is a ValueError with NOT_WRITTEN, from every way to send, without an effect on other records."""
    producer = await warm(make(kafka, partitioner=lambda _, key, *__: None if key else answer), "four")
    for topic in ("four", "new"):
        for way in (producer.send, producer.send_and_wait):
            with pytest.raises(ValueError, match="partitioner returned") as caught:
                await way(topic, b"bad")
            assert isinstance(caught.value, RecordError)
            assert caught.value.outcome is Outcome.NOT_WRITTEN
    with pytest.raises(ValueError, match="partitioner returned"):
        producer.send_nowait("four", b"bad")
    queued = producer.send_nowait("newer", b"bad")
    assert await queued.wait(LIMIT) is Outcome.NOT_WRITTEN
    result = await (await producer.send_batch("four", [b"bad", b"good"], keys=[None, b"k"]))
    assert (result.acked, list(result.errors)) == (1, [0])
    assert isinstance(result.errors[0], ValueError)
    assert memory_in_use(producer) == 0
    assert [record.value for record in kafka.records("four")] == [b"good"]


# -- F17: what the caller changes afterwards


def mutable(kind: str, content: bytes) -> tuple[bytearray, Any]:
    """Some bytes, and the mutable object with them for the producer."""
    own = bytearray(content)
    return own, own if kind == "bytearray" else memoryview(own)


@pytest.mark.parametrize("kind", ["bytearray", "memoryview"])
@pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
async def test_f17_changed_after_the_call(kind: str, topic: str, make: Make, kafka: EmbeddedKafka) -> None:
    """The written record is the one at the time of the call, in every part and for every way to send."""
    producer = await warm(make(kafka, linger_ms=20), "one")
    kafka.faults.delay(0.01, api="Metadata", topic="new", times=None)
    key, value, header = b"key", b"value" * 100, b"header"
    sendings: list[Any] = []
    for way in range(3):
        parts = [mutable(kind, part) for part in (key, value, header)]
        given = [part for _, part in parts]
        if way == 0:
            sendings.append(asyncio.ensure_future(producer.send(topic, given[1], key=given[0])))
            await turns(1)
        elif way == 1:
            sendings.append(producer.send(topic, given[1], key=given[0], headers=[("h", given[2])]))
        else:
            sendings.append(
                producer.send_batch(topic, [given[1]], keys=[given[0]], headers=[("h", given[2])])
            )
        for own, _ in parts:
            own[:] = b"x" * len(own)
    for sending in sendings:
        await (await sending)
    plain, *others = kafka.records(topic)
    assert (plain.key, plain.value, plain.headers) == (key, value, ())
    for record in others:
        assert (record.key, record.value, tuple(record.headers)) == (key, value, (("h", header),))
    assert len(others) == 2


async def test_f17_changed_while_it_waits_for_memory_or_is_sent_again(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """Neither a record in the line for memory nor one that is retried follows later changes; the bytes are the same."""
    seed = fresh_seed()
    rng = random.Random(seed)
    producer = await warm(make(kafka, buffer_memory=2_000, batch_size=500), "one")
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=4)
    history, own = History(), bytearray(600)
    sends: list[tuple[bytes, asyncio.Future[Any]]] = []
    for _ in range(20):
        value = history.value(rng.randbytes(rng.randrange(500)))
        own[: len(value)] = value
        sends.append((value, asyncio.ensure_future(producer.send("one", memoryview(own)[: len(value)]))))
        await turns(1)
    own[:] = bytes(600)
    for value, send in sends:
        delivery = await send
        assert await delivery.wait(LIMIT) is Outcome.ACKED
        history.accepted(value, delivery)
    history.check(kafka, ["one"])
    assert isinstance(delivery.result(), RecordMetadata)


# -- F24: logging


SECRET = "s3cr3t-canary"


class Hostile(logging.Handler):
    """A handler that notes every line, and then blocks or fails."""

    def __init__(self, deed: Callable[[], Any]) -> None:
        super().__init__(logging.DEBUG)
        self.deed = deed
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))
        self.deed()


@pytest.fixture
def attached() -> Iterator[Callable[[Hostile], Hostile]]:
    """Add a handler to the library's logger, at level DEBUG."""
    log, added = logging.getLogger("aioproducer"), list[Hostile]()
    level = log.level

    def attach(handler: Hostile) -> Hostile:
        added.append(handler)
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        return handler

    yield attach
    log.setLevel(level)
    for handler in added:
        log.removeHandler(handler)


@pytest.mark.parametrize(
    "deed",
    # A user's code that holds up the loop.
    [raise_(ZeroDivisionError()), lambda: time.sleep(0.02)],
    ids=["raises", "blocks"],
)
async def test_f24_hostile_logging(
    deed: Callable[[], Any], make: Make, kafka: EmbeddedKafka, attached: Callable[[Hostile], Hostile]
) -> None:
    """A handler that raises or blocks changes no outcome: connections are lost, refused and made again as ever."""
    handler = attached(Hostile(deed))
    producer = await warm(make(kafka, batch_size=1, request_timeout_ms=200), "one")
    history = History()
    kafka.faults.cut(times=2)
    kafka.faults.cut(before=True, skip=4)
    kafka.faults.silence(api="Produce", times=1)
    kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=6)
    await kafka.faults.refuse_connections(1)
    kafka.faults.drop_connections(1)
    values = [history.value() for _ in range(20)]
    deliveries = [await producer.send("one", value) for value in values]
    await until(lambda: any("cannot connect" in line for line in handler.lines))
    await kafka.faults.accept_connections(1)
    for value, delivery in zip(values, deliveries, strict=True):
        assert await delivery.wait(LIMIT) is Outcome.ACKED
        history.accepted(value, delivery)
    history.check(kafka, ["one"])
    await sound(producer)


async def test_f24_no_record_in_the_log(
    make: Make, kafka: EmbeddedKafka, attached: Callable[[Hostile], Hostile]
) -> None:
    """With every line at DEBUG, through faults and a death: no line and no repr has a key, a value or a header."""
    handler = attached(Hostile(lambda: None))
    producer = await warm(make(kafka, batch_size=1), "one")
    canary = SECRET.encode()
    told = [repr(producer), repr(producer.config)]
    for fault in ("NOT_ENOUGH_REPLICAS", "INVALID_RECORD", "MESSAGE_TOO_LARGE", "INVALID_TIMESTAMP"):
        kafka.faults.error(fault)
        delivery = await producer.send("one", canary, key=canary, headers={SECRET: canary})
        await delivery.wait(LIMIT)
        told += [repr(delivery), repr(delivery.outcome)]
        if delivery.outcome is not Outcome.ACKED:
            told += [repr(delivery.exception()), str(delivery.exception())]
    for bad in ({"value": 7}, {"value": canary, "partition": -1}, {"value": canary, "timestamp": "x"}):
        with pytest.raises(RecordError) as caught:
            await producer.send("one", key=canary, **bad)
        told += [repr(caught.value), str(caught.value)]
    kafka.faults.silence(api="Produce")
    sending = producer.send("one", canary, key=canary, headers={SECRET: canary})
    told.append(repr(sending))
    delivery = await sending
    await producer.close(timeout=0.05)
    told += [repr(delivery.exception()), repr(producer)]
    assert handler.lines
    assert [line for line in [*handler.lines, *told] if SECRET in line] == []
