"""The setting `tracing`: what a tracer adds to records, which contexts a report has, and that a tracer changes no outcome."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import (
    BatchReport,
    ConfigurationError,
    DeliveryError,
    Outcome,
    Producer,
    Record,
)
from aioproducer.interceptors import Interceptor
from aioproducer.serializers import Encoded
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_requests, unknown_topic, until, warm

Answer = tuple[tuple[tuple[str, bytes], ...], object]


class Token:
    """A token that a test can watch."""


class Tracer:
    """A tracer whose present context is a variable."""

    def __init__(self, *, bulk: bool = False) -> None:
        self.bulk = bulk
        self.present: contextvars.ContextVar[Answer | None] = contextvars.ContextVar("present", default=None)
        self.reports: list[BatchReport] = []
        self.calls = 0

    def context(self) -> Answer | None:
        self.calls += 1
        return self.present.get()

    def on_batch(self, report: BatchReport) -> None:
        self.reports.append(report)

    def enter(self, name: str = "trace", value: bytes = b"1") -> Token:
        """Make a new context the present one."""
        token = Token()
        self.present.set((((name, value),), token))
        return token

    @property
    def contexts(self) -> list[object]:
        """The contexts of all reports."""
        return [context for report in self.reports for context in report.contexts]


def headers(kafka: EmbeddedKafka, topic: str = "one") -> list[Any]:
    """The headers of the written records, in order."""
    return [record.headers for record in kafka.records(topic)]


# -- headers


async def test_the_context_of_a_call_becomes_headers(make: Make, kafka: EmbeddedKafka) -> None:
    """They are behind the headers of the record, which keep their object. Without a context none is added."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer))
    own = [("a", b"0")]
    await producer.send("one", b"without", headers=own)
    tracer.enter()
    await producer.send("one", b"behind", headers=own)
    await producer.send("one", b"alone")
    producer.send_nowait("one", b"at once", headers={"a": b"0"})
    await producer.send_and_wait("one", b"awaited", headers=tuple(own))
    added = ("trace", b"1")
    assert headers(kafka) == [
        (("a", b"0"),),
        (("a", b"0"), added),
        (added,),
        (("a", b"0"), added),
        (("a", b"0"), added),
    ]
    assert own == [("a", b"0")]


@pytest.mark.parametrize("timeout", [None, LIMIT], ids=["fast path", "slow path"])
async def test_a_record_keeps_its_own_header(make: Make, kafka: EmbeddedKafka, timeout: float | None) -> None:
    """A header of the context is not added beside one of this name. A tracestate belongs to its traceparent."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer))
    ours = (("traceparent", b"ours"), ("tracestate", b"ours"), ("baggage", b"ours"))
    tracer.present.set((ours, Token()))
    for own in ([("traceparent", b"own")], [("baggage", b"own")], [("tracestate", b"own")]):
        await producer.send("one", b"", headers=own, timeout=timeout)
    await producer.flush()
    assert headers(kafka) == [
        (("traceparent", b"own"), ("baggage", b"ours")),
        (("baggage", b"own"), *ours[:2]),
        (("tracestate", b"own"), ours[0], ours[2]),
    ]


async def test_the_context_is_that_of_the_call(make: Make, kafka: EmbeddedKafka) -> None:
    """Not that of the task which awaits it, nor that of the time when the topic is known."""
    tracer = Tracer()
    producer = make(tracing=tracer)
    fault = unknown_topic(kafka, "one")
    await producer.start()
    first = tracer.enter(value=b"first")
    waiting = producer.send("one", b"send")
    queued = producer.send_nowait("one", b"nowait")
    second = tracer.enter(value=b"second")
    fault.release()
    await asyncio.gather(waiting)
    await queued
    await producer.flush()
    assert headers(kafka) == [(("trace", b"first"),)] * 2
    await until(lambda: len(tracer.contexts) == len(tracer.reports))
    assert set(map(id, tracer.contexts)) == {id(first)}
    assert second not in tracer.contexts


async def test_the_context_of_another_thread(make: Make, kafka: EmbeddedKafka) -> None:
    """`send_threadsafe()` adds the context of the calling thread."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer))
    tracer.enter(value=b"loop")

    def elsewhere() -> None:
        tracer.enter(value=b"thread")
        producer.send_threadsafe("one", b"").result(LIMIT)

    # Without the context of this task.
    await asyncio.get_running_loop().run_in_executor(None, elsewhere)
    assert headers(kafka) == [(("trace", b"thread"),)]


async def test_a_stream_has_the_context_of_each_record(make: Make, kafka: EmbeddedKafka) -> None:
    """The context counts where `send_all()` takes a record."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer))

    def records() -> Any:
        for value in (b"1", b"2"):
            tracer.enter(value=value)
            yield Record("one", value)

    await producer.send_all(records())
    assert headers(kafka) == [(("trace", b"1"),), (("trace", b"2"),)]


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("singly", [False, True], ids=["columns", "one by one"])
async def test_many_records_in_one_call(make: Make, kafka: EmbeddedKafka, bulk: bool, singly: bool) -> None:
    """`send_batch()` adds the context only for a tracer with `bulk`."""
    tracer = Tracer(bulk=bulk)
    producer = await warm(make(tracing=tracer, interceptors=[Interceptor()] if singly else []))
    token = tracer.enter()
    await (await producer.send_batch("one", [b"1", b"2"]))
    await (await producer.send_batch("one", [b"3", b"4"], headers=[("a", b"0")]))
    await (await producer.send_batch("one", [b"5", b"6"], headers=[[("a", b"0")], None]))
    added = (("trace", b"1"),) if bulk else ()
    own = (("a", b"0"), *added)
    assert headers(kafka) == [added, added, own, own, own, added]
    await until(lambda: len(tracer.reports) == 3)
    assert tracer.contexts == ([token] * 3 if bulk else [])


async def test_serializers_and_interceptors(make: Make, kafka: EmbeddedKafka) -> None:
    """Headers of interceptors are before those of the context, and headers of serializers behind them."""

    class Stamp(Interceptor):
        def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
            return Record(record.topic, record.value, headers=[("interceptor", b"")])

    seen: list[Any] = []

    def plain(topic: str, given: Any, data: Any) -> Any:
        seen.append(given)
        return Encoded(data, (("serializer", b""),))

    class Plain:
        serialize = staticmethod(plain)

    async def slow(data: bytes) -> bytes:
        await asyncio.sleep(0)
        return data

    tracer = Tracer()
    token = tracer.enter()
    added = ("trace", b"1")
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"value_serializer": Plain()}, (added, ("serializer", b""))),
        ({"value_serializer": slow}, (added,)),
        ({"interceptors": [Stamp()]}, (("interceptor", b""), added)),
    ]
    for settings, expected in cases:
        producer = await warm(make(tracing=tracer, **settings))
        for _ in range(2):
            await producer.send_and_wait("one", b"")
        assert headers(kafka)[-2:] == [expected] * 2
    assert seen == [(added,)] * 2
    await until(lambda: len(tracer.reports) == 6)
    assert tracer.contexts == [token] * 6


# -- reports


async def test_a_report_has_the_distinct_contexts(make: Make) -> None:
    """Records without a context add none; an object that two records share is there once."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer, linger_ms=10_000))
    await producer.send("one", b"")
    first = tracer.enter()
    await producer.send("one", b"")
    await producer.send("one", b"")
    second = tracer.enter()
    await producer.send("one", b"")
    tracer.present.set(None)
    await producer.send("one", b"")
    await producer.flush()
    await until(lambda: tracer.reports)
    assert [report.contexts for report in tracer.reports] == [(first, second)]


async def test_the_contexts_of_records_that_end_one_by_one(make: Make) -> None:
    """Their report has their contexts; the report of the batch has those of the others."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer, linger_ms=10_000))
    tokens = [tracer.enter() for _ in range(3)]
    deliveries = []
    for token in tokens:
        tracer.present.set(((), token))
        deliveries.append(await producer.send("one", b""))
    assert deliveries[1].try_cancel()
    with pytest.raises(DeliveryError):
        await deliveries[1]
    await producer.flush()
    await until(lambda: len(tracer.reports) == 2)
    assert [report.contexts for report in tracer.reports] == [(tokens[1],), (tokens[0], tokens[2])]


async def test_the_contexts_of_a_split_batch(make: Make, kafka: EmbeddedKafka) -> None:
    """Each part has the contexts of its records."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer, linger_ms=10_000, batch_size=100_000))
    kafka.faults.error("MESSAGE_TOO_LARGE", times=1)
    tokens = []
    for _ in range(2):
        tokens.append(tracer.enter())
        await producer.send("one", bytes(30_000))
    await producer.flush()
    await until(lambda: len(tracer.reports) == 2)
    assert [report.contexts for report in tracer.reports] == [(tokens[0],), (tokens[1],)]


async def test_the_contexts_at_the_end_of_the_producer(make: Make, kafka: EmbeddedKafka) -> None:
    """Records without an outcome end with the producer; the reports come before `close()` returns."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer))
    held = held_requests(kafka)
    token = tracer.enter()
    await producer.send("one", b"")
    await producer.close(timeout=0)
    held.release()
    assert [(report.outcome is Outcome.ACKED, report.contexts) for report in tracer.reports] == [
        (False, (token,))
    ]


async def test_no_context_is_kept(make: Make) -> None:
    """After the outcome nothing refers to the token, also while the program keeps the delivery."""
    tracer = Tracer()
    producer = await warm(make(tracing=tracer, interceptors=[]))
    alive = [weakref.ref(tracer.enter())]
    kept = [await producer.send("one", b""), producer.send_nowait("one", b"")]
    alive.append(weakref.ref(tracer.enter()))
    kept.append(await producer.send("one", b"", timeout=LIMIT))
    tracer.present.set(None)
    await producer.flush()
    await until(lambda: tracer.contexts)
    tracer.reports.clear()
    gc.collect()
    assert [one() for one in alive] == [None, None]
    assert all(delivery.done() for delivery in kept)


# -- a tracer that fails


@pytest.mark.parametrize(
    "answer",
    [
        lambda: 1 / 0,
        lambda: "text",
        lambda: ((("name", 1),), None),
        lambda: ((("\ud800", b""),), None),
        lambda: ((("name", b""),), None, None, None),
    ],
    ids=["raises", "no pair", "no bytes", "no UTF-8", "too long"],
)
async def test_a_tracer_that_fails(
    make: Make, kafka: EmbeddedKafka, answer: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its records are sent without a context, and its failures are logged at a limited rate."""

    class Failing(Tracer):
        def context(self) -> Any:
            return answer()

        def on_batch(self, report: BatchReport) -> None:
            raise RuntimeError

    with caplog.at_level(logging.ERROR):
        producer = await warm(make(tracing=Failing(bulk=True), linger_ms=0))
        for _ in range(5):
            await producer.send_and_wait("one", b"", headers=[("a", b"0")])
            producer.send_nowait("one", b"", headers=[("a", b"0")])
            await (await producer.send_batch("one", [b""], headers=[("a", b"0")]))
        await producer.flush()
    assert headers(kafka) == [(("a", b"0"),)] * 15
    lines = [record.getMessage() for record in caplog.records]
    assert sum("context() of" in line for line in lines) == 1


@pytest.mark.parametrize("known", [True, False])
async def test_a_tracer_that_sends(make: Make, kafka: EmbeddedKafka, known: bool) -> None:
    """The records that it sends in `context()` have no context; no call is repeated."""

    class Sending(Tracer):
        producer: Producer[Any, Any]

        def context(self) -> Answer | None:
            self.producer.send_nowait("four", b"", partition=0)
            return super().context()

    tracer = Sending()
    producer = tracer.producer = await warm(make(tracing=tracer)) if known else make(tracing=tracer)
    if not known:
        await producer.start()
    tracer.enter()
    await producer.send_and_wait("one", b"")
    await producer.flush()
    assert headers(kafka) == [(("trace", b"1"),)]
    assert headers(kafka, "four") == [()]


async def test_a_tracer_that_closes_the_producer(make: Make, kafka: EmbeddedKafka) -> None:
    """The call in which it happens is refused, and no record is written."""

    class Closing(Tracer):
        def context(self) -> Answer | None:
            if self.calls == 0:
                closing.append(asyncio.ensure_future(producer.close()))
                first_step(closing[0])
            return super().context()

    def first_step(task: asyncio.Future[Any]) -> None:
        producer._state, producer._accepting = "closing", False  # as the first step of close() does

    closing: list[asyncio.Future[Any]] = []
    producer = await warm(make(tracing=Closing()))
    with pytest.raises(Exception, match="closing"):
        await producer.send("one", b"")
    producer._state = "running"
    await closing[0]
    assert headers(kafka) == []


def test_no_tracer() -> None:
    """An object without the methods is refused by name."""
    for wrong, text in [(object(), "has no context"), (Tracer, "is a class"), ("otel", "not a name")]:
        with pytest.raises(ConfigurationError, match=text):
            Producer("localhost", tracing=wrong)


async def test_the_mock_has_contexts() -> None:
    """`MockProducer` adds the headers of the context as well."""
    tracer = Tracer()
    async with MockProducer(tracing=tracer) as producer:
        token = tracer.enter()
        await producer.send_and_wait("one", b"", headers=[("a", b"0")])
        assert producer.written[0].headers == (("a", b"0"), ("trace", b"1"))
    assert tracer.contexts == [token]
