"""Spans of batches and records, read back by OpenTelemetry's SDK, over an embedded Kafka with faults."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import weakref
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aioproducer import ConfigurationError, KafkaError, Outcome, RecordError
from aioproducer.otel import Tracing, extract
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, until, warm

CANARY = "canary-4711"


class Spans:
    """OpenTelemetry's SDK, with an exporter in memory."""

    def __init__(self, **settings: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**settings)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.enter = self.provider.get_tracer("test").start_as_current_span

    def tracing(self, **options: Any) -> Tracing:
        """The setting."""
        return Tracing(self.provider, **options)

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        """The ended spans of this kind."""
        return [span for span in self.exporter.get_finished_spans() if span.kind is kind]

    @property
    def batches(self) -> list[ReadableSpan]:
        """The ended spans of batches."""
        return self.of(SpanKind.CLIENT)

    @property
    def records(self) -> list[ReadableSpan]:
        """The ended spans of records."""
        return self.of(SpanKind.PRODUCER)


@pytest.fixture
def spans() -> Spans:
    """An SDK that samples everything."""
    return Spans()


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    """The attributes of a span."""
    return span.attributes or {}


def traceparent(span: Any) -> tuple[str, bytes]:
    """The header of a span."""
    found = span.get_span_context()
    text = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"
    return "traceparent", text.encode()


# -- propagation


async def test_the_context_in_headers_and_back(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """Headers are made of the values that the global propagator injects, and `extract()` reads them back."""
    producer = await warm(make(tracing=spans.tracing()))
    await producer.send_and_wait("one", b"no span")
    with spans.enter("handler") as span:
        token = context.attach(baggage.set_baggage("tenant", "ü 1"))
        await producer.send_and_wait("one", b"", headers={"own": b"1"})
        context.detach(token)
    before, record = kafka.records("one")
    assert before.headers == ()
    assert record.headers == (("own", b"1"), traceparent(span), ("baggage", b"tenant=%C3%BC+1"))
    for headers in (record.headers, list(record.headers), dict(record.headers)):
        found = extract(headers)
        assert trace.get_current_span(found).get_span_context().span_id == span.get_span_context().span_id
        assert baggage.get_baggage("tenant", found) == "ü 1"
    assert not extract(None)
    assert not extract([("traceparent", None), ("other", b"\xff")])


async def test_an_unsampled_span(make: Make, kafka: EmbeddedKafka) -> None:
    """It is propagated as such, and neither its batch nor its record has a span."""
    for per_record in (False, True):
        spans = Spans(sampler=ALWAYS_OFF)
        producer = await warm(make(tracing=spans.tracing(per_record=per_record)))
        with spans.enter("handler") as span:
            await producer.send_and_wait("one", b"")
        assert kafka.records("one")[-1].headers == (traceparent(span),)
        assert traceparent(span)[1].endswith(b"-00") or traceparent(span)[1].endswith(b"-02")
        await producer.close()
        assert spans.exporter.get_finished_spans() == ()


async def test_suppressed_instrumentation(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """Records that an exporter sends have no context: their spans would lead to further records without end."""
    producer = await warm(make(tracing=spans.tracing(), linger_ms=0))

    class ToKafka(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            producer.send_nowait("four", b"", partition=0)
            return super().export(spans)

    spans.provider.add_span_processor(SimpleSpanProcessor(ToKafka()))
    with spans.enter("handler"):
        await producer.send_and_wait("one", b"")
    await until(lambda: len(spans.batches) == 1)
    for _ in range(3):
        await producer.flush()
    assert len(spans.batches) == 1
    assert [record.headers for record in kafka.records("four")] == [(), ()]


# -- spans of batches


async def test_the_span_of_a_batch(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """One context: its child, with all attributes, from the time of the drain to the answer."""
    producer = await warm(make(tracing=spans.tracing(), client_id="orders-1", linger_ms=10_000))
    await producer.send("one", b"before")
    began = time.time_ns()
    with spans.enter("handler") as span:
        for _ in range(2):
            await producer.send("one", b"")
    await producer.flush()
    await until(lambda: spans.batches)
    ended = time.time_ns()
    (batch,) = spans.batches
    server = producer.config.bootstrap_servers[0]
    assert batch.name == "send one"
    assert batch.parent is not None
    assert batch.parent.span_id == span.get_span_context().span_id
    assert batch.links == ()
    assert batch.instrumentation_scope is not None
    assert batch.instrumentation_scope.name == "aioproducer"
    assert batch.instrumentation_scope.schema_url == "https://opentelemetry.io/schemas/1.44.0"
    measured = {"aioproducer.batch.bytes", "aioproducer.batch.queue_seconds"}
    assert measured <= facts(batch).keys()
    assert {name: value for name, value in facts(batch).items() if name not in measured} == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "one",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "orders-1",
        "messaging.batch.message_count": 3,
        "messaging.kafka.offset": 0,
        "server.address": server.host,
        "server.port": server.port,
        "aioproducer.batch.attempts": 1,
    }
    assert batch.status.status_code is StatusCode.UNSET
    assert batch.start_time is not None
    assert batch.end_time is not None
    assert began <= batch.start_time <= batch.end_time <= ended


@pytest.mark.parametrize("max_links", [128, 2])
async def test_several_contexts(make: Make, spans: Spans, max_links: int) -> None:
    """A root span with a link to each, and the number of those beyond the limit. One span in two contexts is one."""
    producer = await warm(make(tracing=spans.tracing(max_links=max_links), linger_ms=10_000))
    parents = []
    for number in range(3):
        with spans.enter("handler") as span:
            parents.append(span.get_span_context().span_id)
            for name in range(2):
                token = context.attach(baggage.set_baggage("n", str(name + number)))
                await producer.send("one", b"")
                context.detach(token)
    with spans.enter("not a parent"):
        await producer.flush()
    await until(lambda: spans.batches)
    (batch,) = spans.batches
    assert batch.parent is None
    assert [link.context.span_id for link in batch.links] == parents[:max_links]
    assert facts(batch).get("aioproducer.links.dropped") == (1 if max_links == 2 else None)
    with pytest.raises(ConfigurationError):
        Tracing(max_links=0)


async def test_the_span_of_a_batch_that_is_sent_again(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """One span over all attempts."""
    producer = await warm(make(tracing=spans.tracing(), retry_backoff_ms=1))
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=2)
    with spans.enter("handler"):
        await producer.send_and_wait("one", b"")
    await until(lambda: spans.batches)
    (batch,) = spans.batches
    assert (facts(batch)["aioproducer.batch.attempts"], batch.status.status_code) == (3, StatusCode.UNSET)


async def test_the_spans_of_failures(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """Refused by the broker; and without an answer at the end of the producer."""
    producer = await warm(make(tracing=spans.tracing(per_record=True)))
    kafka.faults.error("INVALID_TIMESTAMP", times=1)
    with spans.enter("handler"):
        with pytest.raises(KafkaError):
            await producer.send_and_wait("one", b"")
        kafka.faults.delay(times=None)
        delivery = await producer.send("one", b"")
        await until(lambda: producer.stats().records_in_flight)
    await producer.close(timeout=0)
    assert delivery.outcome is Outcome.UNKNOWN
    for ended in (spans.batches, spans.records):
        refused, unknown = ended
        assert facts(refused)["error.type"] == "INVALID_TIMESTAMP"
        assert facts(refused)["aioproducer.outcome"] == "not_written"
        assert facts(unknown)["aioproducer.outcome"] == "unknown"
        assert {one.status.status_code for one in ended} == {StatusCode.ERROR}
        assert "INVALID_TIMESTAMP" in (refused.status.description or "")
        assert facts(refused)["messaging.destination.partition.id"] == "0"


async def test_transactions(make: Make, spans: Spans) -> None:
    """An aborted transaction ends its unsent batches as not written."""
    producer = await warm(make(tracing=spans.tracing(), transactional_id="t", linger_ms=10_000))
    await producer.init_transactions()
    with spans.enter("handler"):
        async with producer.transaction():
            await producer.send("one", b"")
        await producer.begin_transaction()
        await producer.send("one", b"")
        await producer.abort_transaction()
    await until(lambda: len(spans.batches) == 2)
    assert [facts(batch).get("aioproducer.outcome") for batch in spans.batches] == [None, "not_written"]
    assert "aioproducer.batch.queue_seconds" not in facts(spans.batches[1])


# -- spans of records


async def test_the_span_of_a_record(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """The child of the present span, whose context is injected."""
    producer = await warm(make(tracing=spans.tracing(per_record=True, key=True), client_id="c"))
    await producer.send_and_wait("one", b"no span")
    with spans.enter("handler") as span:
        await producer.send_and_wait("one", None, key=b"a key")
        producer.send_nowait("one", b"", key=b"\xff")
    await producer.flush()
    await until(lambda: len(spans.records) == 2)
    first, second = spans.records
    assert [first.name, first.parent and first.parent.span_id] == [
        "send one",
        span.get_span_context().span_id,
    ]
    server = producer.config.bootstrap_servers[0]
    assert facts(first) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "one",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "c",
        "messaging.kafka.offset": 1,
        "messaging.kafka.message.key": "a key",
        "messaging.kafka.message.tombstone": True,
        "server.address": server.host,
        "server.port": server.port,
    }
    assert "messaging.kafka.message.key" not in facts(second)
    assert "messaging.kafka.message.tombstone" not in facts(second)
    assert [record.headers for record in kafka.records("one")][1:] == [
        (traceparent(first),),
        (traceparent(second),),
    ]
    assert [batch.parent and batch.parent.span_id for batch in spans.batches] == [
        span.get_span_context().span_id
    ] * 2


async def test_a_record_that_is_refused(make: Make, spans: Spans) -> None:
    """Its span ends with the error, in each call, and without any data of the record."""

    def failing(data: Any) -> bytes:
        raise ValueError(data)

    tracing = spans.tracing(per_record=True, bulk=True)
    producer = await warm(make(tracing=tracing, value_serializer=failing))
    with spans.enter("handler"):
        with pytest.raises(KafkaError):
            await producer.send("one", CANARY)
        with pytest.raises(KafkaError):
            producer.send_nowait("one", CANARY)
        with pytest.raises(KafkaError):
            await producer.send("one", CANARY, headers=[(CANARY, 1)])  # type: ignore[list-item]
        assert (await (await producer.send_batch("one", [CANARY] * 2))).not_written == 2
    assert len(spans.records) == 5
    for span in spans.records:
        assert span.status.status_code is StatusCode.ERROR
        assert facts(span)["error.type"] in ("SerializationError", "RecordError")
        assert CANARY not in span.to_json()
    assert not tracing.open


class Name(str):
    """A topic whose methods tell something else, as an object of the program may."""

    __slots__ = ()

    def __str__(self) -> str:
        return CANARY

    def __format__(self, spec: str) -> str:
        return CANARY


@pytest.mark.parametrize("topic", [["one"], CANARY * 10 + "!", None, 7])
async def test_no_span_has_an_object_of_the_user(make: Make, spans: Spans, topic: Any) -> None:
    """The topic is checked first: a record without a valid name has no span."""
    tracing = spans.tracing(per_record=True)
    producer = await warm(make(tracing=tracing))
    with spans.enter("handler"):
        with pytest.raises(RecordError):
            await producer.send(topic, b"")
        with pytest.raises(RecordError):
            producer.send_nowait(topic, b"")
        await (await producer.send(Name("one"), b""))
        await producer.send_nowait(Name("one"), b"")
    await until(lambda: len(spans.records) == 2)
    for span in spans.records:
        assert span.name == "send one"
        assert type(facts(span)["messaging.destination.name"]) is str
        assert CANARY not in span.to_json()
    assert not tracing.open


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
async def test_the_span_of_a_call_that_is_interrupted(
    make: Make, spans: Spans, end: type[BaseException]
) -> None:
    """It ends with the call, and does not have the text of the exception."""

    def interrupted(data: bytes) -> bytes:
        raise end(CANARY)

    tracing = spans.tracing(per_record=True, bulk=True)
    producer = await warm(make(tracing=tracing, value_serializer=interrupted))
    with spans.enter("handler"):
        for call in (producer.send, producer.send_nowait):
            with pytest.raises(end):
                call("one", b"")
        with pytest.raises(end):
            producer.send_batch("one", [b"", b""])
    assert not tracing.open
    assert len(spans.records) == 3
    for span in spans.records:
        assert span.status.status_code is StatusCode.ERROR
        assert CANARY not in span.to_json()


async def test_a_propagator_that_fails(make: Make, spans: Spans, kafka: EmbeddedKafka) -> None:
    """The span that was begun for the record ends, and the record is sent without a context."""

    class Failing(TraceContextTextMapPropagator):
        def inject(self, carrier: Any, context: Any = None, *_: Any) -> None:
            calls.append(context)
            if len(calls) > 1:
                raise RuntimeError("no")

    calls: list[Any] = []
    tracing = Tracing(spans.provider, Failing(), per_record=True)
    producer = await warm(make(tracing=tracing))
    with spans.enter("handler"):
        await producer.send_and_wait("one", b"")
    assert not tracing.open
    assert len(spans.records) == 1
    assert kafka.records("one")[0].headers == ()


async def test_the_spans_of_a_bulk_send(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """Each record has its own, also where a serializer is awaited."""

    async def slow(data: bytes) -> bytes:
        await asyncio.sleep(0)
        return data

    for settings in ({}, {"value_serializer": slow}):
        producer = await warm(make(tracing=spans.tracing(per_record=True, bulk=True), **settings))
        spans.exporter.clear()
        with spans.enter("handler"):
            await (await producer.send_batch("one", [b"1", b"2"]))
        await until(lambda: spans.batches and len(spans.records) == 2)
        written = [record.headers for record in kafka.records("one")[-2:]]
        assert written == [(traceparent(span),) for span in spans.records]
        assert len(spans.batches) == 1


async def test_closing_ends_every_span(make: Make, kafka: EmbeddedKafka, spans: Spans) -> None:
    """With the producer; and with the tracing, for records that have no outcome yet."""
    tracing = spans.tracing(per_record=True)
    producer = await warm(make(tracing=tracing))
    held = held_requests(kafka)
    with spans.enter("handler"):
        await producer.send("one", b"")
        tracing.close()
        assert len(spans.records) == 1
        await producer.send("one", b"")
        producer.send("unknown", b"").close()
    await producer.close(timeout=0)
    held.release()
    await until(lambda: not tracing.open)
    assert len(spans.records) == 3


# -- what a trace does not do


@pytest.mark.parametrize("per_record", [False, True])
async def test_canaries(make: Make, kafka: EmbeddedKafka, spans: Spans, per_record: bool) -> None:
    """No key, value or header value is in a span."""
    producer = await warm(make(tracing=spans.tracing(per_record=per_record), linger_ms=0))
    data = CANARY.encode()
    with spans.enter("handler"):
        await producer.send_and_wait("one", data, key=data, headers=[("h", data)])
        kafka.faults.error("INVALID_RECORD", times=1)
        with pytest.raises(KafkaError):
            await producer.send_and_wait("one", data, key=data, headers=[("h", data)])
    await producer.close()
    assert len(spans.batches) == 2
    assert all(CANARY not in span.to_json() for span in spans.exporter.get_finished_spans())


@pytest.mark.parametrize("per_record", [False, True])
async def test_no_span_is_kept(make: Make, per_record: bool) -> None:
    """After the outcome of its records nothing refers to the present span or to its context."""
    # An exporter in memory would keep the spans.
    provider = TracerProvider()
    # The sender is started within the call.
    producer = await warm(make(tracing=Tracing(provider, per_record=per_record), linger_ms=0))
    alive: list[weakref.ref[Any]] = []

    async def handler() -> Any:
        with provider.get_tracer("test").start_as_current_span("handler") as span:
            alive.extend([weakref.ref(span), weakref.ref(context.get_current())])
            return await producer.send("one", b"")

    delivery = await asyncio.create_task(handler())
    await producer.flush()
    await until(lambda: not gc.collect() and not any(one() for one in alive))
    assert delivery.outcome is Outcome.ACKED


def test_the_package_is_not_imported_by_itself() -> None:
    """`import aioproducer` does not import OpenTelemetry."""
    import subprocess

    code = "import sys, aioproducer; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    missing = "import sys; sys.modules['opentelemetry'] = None; import aioproducer.otel"
    done = subprocess.run([sys.executable, "-c", missing], check=False, capture_output=True, text=True)
    assert "pip install 'aioproducer[otel]'" in done.stderr
