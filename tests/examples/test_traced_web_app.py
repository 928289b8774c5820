"""The traced web application: one trace from the caller through the handler to both records."""

from __future__ import annotations

import signal

import httpx
from opentelemetry import trace

from aioproducer.otel import extract
from aioproducer.testing import EmbeddedKafka
from tests.examples.programs import example, serving

ORDER = {"customer": "alice", "items": ["2 apples"]}
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
UVICORN = (
    "-m",
    "uvicorn",
    "--app-dir",
    example("traced_web_app.py").parent,
    "traced_web_app:app",
    "--port",
    "0",
)


async def test_a_trace_through_a_handler_and_two_records(embedded_kafka: EmbeddedKafka) -> None:
    """The records continue the trace of the request, and each line of the trace has its parent."""
    async with serving(embedded_kafka, *UVICORN) as (server, address), httpx.AsyncClient() as client:
        headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
        answer = await client.post(f"{address}/orders", json=ORDER, headers=headers)
        assert answer.status_code == 201
        await server.stop(signal.SIGTERM)
    lines = [line.split() for line in server.lines if line.startswith(TRACE)]
    assert len(lines) == 5
    spans = {identity: (parent, f"{kind} {' '.join(rest[:2])}") for _, identity, parent, kind, *rest in lines}
    (handler,) = (span for span, (parent, _) in spans.items() if parent == CALLER)
    assert spans[handler][1] == "SERVER place order"
    assert sorted(what for parent, what in spans.values() if parent == handler) == [
        "CLIENT send mails",
        "CLIENT send orders",
        "PRODUCER send mails",
        "PRODUCER send orders",
    ]
    for topic in ("orders", "mails"):
        (record,) = embedded_kafka.records(topic)
        span = trace.get_current_span(extract(record.headers)).get_span_context()
        assert f"{span.trace_id:032x}" == TRACE
        assert spans[f"{span.span_id:016x}"] == (handler, f"PRODUCER send {topic}")
