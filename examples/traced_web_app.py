"""A trace through a FastAPI handler and two records: prints each span as text when it ends.

Run it with FastAPI, uvicorn and OpenTelemetry's SDK: uvicorn --app-dir examples traced_web_app:app
Then: curl -i localhost:8000/orders --json '{"customer": "alice", "items": ["2 apples"]}'
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from pydantic import BaseModel

from aioproducer import Producer
from aioproducer.otel import Tracing, extract

KAFKA = os.environ.get("KAFKA", "localhost:9092")
SCOPES = ("shop", "aioproducer")
SHOWN = ("messaging.destination.partition.id", "messaging.kafka.offset", "messaging.batch.message_count")


class Printer(SpanExporter):
    """Prints a line for each span of this program and of the producer; a real program exports all to a collector."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Print the spans: trace, span, parent, kind, name, attributes."""
        for span in spans:
            identity, scope = span.get_span_context(), span.instrumentation_scope
            if identity is None or scope is None or scope.name not in SCOPES:
                continue
            parent = "-" if span.parent is None else f"{span.parent.span_id:016x}"
            attributes = span.attributes or {}
            facts = [
                f"{name.removeprefix('messaging.')}={attributes[name]!r}"
                for name in SHOWN
                if name in attributes
            ]
            where = f"{identity.trace_id:032x} {identity.span_id:016x} {parent:16}"
            print(f"{where} {span.kind.name:8} {span.name}", *facts, flush=True)
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Printer()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Producer]]:
    """One producer for the whole application, with a span for each record as well as for each batch."""
    async with Producer(KAFKA, topics=["orders", "mails"], tracing=Tracing(per_record=True)) as producer:
        yield {"producer": producer}


class Order(BaseModel):
    """An order."""

    customer: str
    items: list[str]


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place_order(order: Order, request: Request) -> dict[str, int]:
    """Send an order and a mail. The span of the request continues the trace of the caller, if its headers have one."""
    producer: Producer = request.state.producer
    with tracer.start_as_current_span("place order", extract(request.headers), trace.SpanKind.SERVER):
        key = order.customer.encode()
        mail = await producer.send("mails", b"thank you", key=key)
        placed = await producer.send_and_wait("orders", order.model_dump_json().encode(), key=key)
        await mail
    return {"partition": placed.partition, "offset": placed.offset}
