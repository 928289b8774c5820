"""Spans of batches and of records, made of the reports of a producer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import NonRecordingSpan, SpanKind, StatusCode, Tracer, TracerProvider

from aioproducer import __version__
from aioproducer.errors import ConfigurationError
from aioproducer.listeners import BatchReport
from aioproducer.otel import names
from aioproducer.otel.facts import failure_of, server_of, text_without_data
from aioproducer.otel.propagation import Propagation, SpanLink
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from aioproducer.otel.facts import Attributes
    from aioproducer.otel.propagation import InContext, Pairs
    from aioproducer.records import RecordMetadata

_NANOSECONDS = 1_000_000_000
_NO_CONTEXT = contexts.Context()


class Tracing:
    """A tracer for the setting `tracing` of one or several producers.

    The context of each call becomes headers of its record, and each batch with a record of a sampled context a span of kind
    CLIENT. `per_record` also makes a span of kind PRODUCER for each record. `bulk` adds the context to the records of
    `send_batch()` as well. `key` puts keys that are UTF-8 into the spans of records. A span has at most `max_links` links.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        *,
        per_record: bool = False,
        bulk: bool = False,
        key: bool = False,
        max_links: int = 128,
    ) -> None:
        if max_links < 1:
            raise ConfigurationError(f"max_links={max_links}: must be 1 or more")
        self.per_record = per_record
        self.bulk = bulk
        self.key = key
        self.max_links = max_links
        self.propagation = Propagation(propagator)
        self._tracer_provider = tracer_provider
        # The spans of records without an outcome.
        self.open: dict[RecordSpan, None] = {}
        self.context = self.propagation.reader()

    def tracer(self) -> Tracer:
        """OpenTelemetry's tracer of this library."""
        return trace.get_tracer(names.SCOPE, __version__, self._tracer_provider, schema_url=names.SCHEMA_URL)

    def for_producer(self, client_id: str) -> ProducerTracing:
        """The tracer of one producer."""
        return RecordTracing(self, client_id) if self.per_record else ProducerTracing(self, client_id)

    def on_batch(self, report: BatchReport) -> None:
        """A batch of an unnamed producer has its outcome."""
        ProducerTracing(self, None).on_batch(report)

    def close(self) -> None:
        """End the spans of records that have no outcome yet."""
        for span in list(self.open):
            span.finish()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} per_record={self.per_record} bulk={self.bulk} key={self.key}>"


class ProducerTracing:
    """The tracer of one producer: a span for each batch."""

    def __init__(self, tracing: Tracing, client_id: str | None) -> None:
        self.bulk = tracing.bulk
        self.context = tracing.propagation.reader()
        self._tracing = tracing
        self._tracer = tracing.tracer()
        # The newest address of a broker, and its attributes.
        self._address: str | None = None
        self._server: Attributes = {}
        self._attributes: Attributes = dict(names.OF_SENDS)
        if client_id is not None:
            self._attributes[names.CLIENT_ID] = client_id

    def on_batch(self, report: BatchReport) -> None:
        """Make the span of a batch that has its outcome, if a record of it was sent in a sampled context."""
        if not report.contexts:
            return
        # A span that two contexts share is one parent, or one link.
        parents = [*{one.identity: one for one in report.contexts if type(one) is SpanLink}.values()]
        if not parents:
            return
        # No span of this task is a parent, or is seen by processors and exporters.
        token = contexts.attach(_NO_CONTEXT)
        try:
            self._make_span(report, parents)
        finally:
            contexts.detach(token)

    def _make_span(self, report: BatchReport, parents: list[SpanLink]) -> None:
        attributes = self._attributes | _facts_of_batch(report) | self._server_of(report.address)
        links: list[SpanLink] = []
        if len(parents) == 1:
            parent = trace.set_span_in_context(NonRecordingSpan(parents[0].context), _NO_CONTEXT)
        else:
            parent = _NO_CONTEXT
            links = parents[: self._tracing.max_links]
            if len(links) < len(parents):
                attributes[names.LINKS_DROPPED] = len(parents) - len(links)
        began, ended = _times_of(report)
        span = self._tracer.start_span(
            f"{names.SEND} {report.topic}",
            parent,
            SpanKind.CLIENT,
            attributes,
            links,
            began,
            record_exception=False,
            set_status_on_exception=False,
        )
        try:
            if report.error is not None:
                _fail(span, report.error)
        finally:
            span.end(ended)

    def _server_of(self, address: str | None) -> Attributes:
        if address != self._address:
            self._address, self._server = address, server_of(address)
        return self._server


class RecordTracing(ProducerTracing):
    """The tracer of one producer: a span for each record, and for each batch."""

    def begin(self, topic: str, began: int) -> tuple[Pairs, SpanLink | None, RecordSpan] | InContext | None:
        """The headers, the token and the span of a record that is sent now; `began`: nanoseconds since the epoch."""
        current = contexts.get_current()
        found = self._tracing.propagation.in_context(current)
        if found is None or found[1] is None:
            return found
        span = self._tracer.start_span(
            f"{names.SEND} {topic}",
            current,
            SpanKind.PRODUCER,
            self._attributes | {names.DESTINATION: topic},
            start_time=began,
            record_exception=False,
            set_status_on_exception=False,
        )
        of_record = RecordSpan(span, self._tracing)
        try:
            inside = trace.set_span_in_context(span, current)
            headers = self._tracing.propagation.headers_of(inside, span.get_span_context())
        except BaseException:
            of_record.finish()
            raise
        return headers, found[1], of_record


class RecordSpan:
    """The span of one record, until its outcome."""

    def __init__(self, span: Span, tracing: Tracing) -> None:
        self._span = span
        self._tracing = tracing
        tracing.open[self] = None

    def ready(self, key: bytes | None, value: bytes | None) -> None:
        """The record has its bytes."""
        if value is None:
            self._span.set_attribute(names.TOMBSTONE, value=True)
        if self._tracing.key and key is not None:
            try:
                self._span.set_attribute(names.KEY, key.decode())
            except UnicodeDecodeError:
                return

    def end(self, metadata: RecordMetadata | None, error: BaseException | None, address: str | None) -> None:
        """The record has its outcome; `address`: of the leader of its partition."""
        try:
            self._span.set_attributes(server_of(address))
            if metadata is not None:
                self._span.set_attribute(names.PARTITION, str(metadata.partition))
                if metadata.offset >= 0:
                    self._span.set_attribute(names.OFFSET, metadata.offset)
            if error is not None:
                partition = getattr(error, "partition", None)
                if partition is not None:
                    self._span.set_attribute(names.PARTITION, str(partition))
                _fail(self._span, error)
        finally:
            self.finish()

    def finish(self) -> None:
        """End the span."""
        self._tracing.open.pop(self, None)
        self._span.end()


def _fail(span: Span, error: BaseException) -> None:
    span.set_attributes(failure_of(error))
    span.set_status(StatusCode.ERROR, text_without_data(error))


def _facts_of_batch(report: BatchReport) -> Attributes:
    attributes: Attributes = {
        names.DESTINATION: report.topic,
        names.PARTITION: str(report.partition),
        names.MESSAGE_COUNT: report.records,
        names.ATTEMPTS: report.attempts,
        names.BATCH_BYTES: report.bytes,
    }
    if report.base_offset >= 0:
        attributes[names.OFFSET] = report.base_offset
    if report.drained_at is not None:
        attributes[names.QUEUE_SECONDS] = report.drained_at - report.opened_at
    return attributes


def _times_of(report: BatchReport) -> tuple[int, int]:
    """The begin and the end of a batch's span, in nanoseconds since the epoch."""
    began = report.opened_at if report.drained_at is None else report.drained_at
    wall = time.time_ns()
    try:
        now = asyncio.get_running_loop().time()
    except RuntimeError:
        # The loop was closed before the producer.
        now = max(moment for moment in (began, report.written_at, report.answered_at) if moment is not None)
    is_answered = report.outcome is Outcome.ACKED and report.answered_at is not None
    ended = report.answered_at if is_answered else now
    assert ended is not None  # noqa: S101  # by the line above
    return wall - _nanoseconds(now - began), wall - _nanoseconds(now - ended)


def _nanoseconds(seconds: float) -> int:
    return int(max(seconds, 0.0) * _NANOSECONDS)
