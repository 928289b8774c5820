"""OpenTelemetry: metrics, spans, and the propagation of contexts in the headers of records.

Requires the extra `otel` (opentelemetry-api). The SDK and its exporters are the choice of the program.
"""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401  # reported here for all parts
except ImportError as error:
    raise ImportError(
        "aioproducer.otel requires the extra otel: pip install 'aioproducer[otel]'", name=error.name
    ) from error

from aioproducer.otel.metrics import Metrics as Metrics
from aioproducer.otel.propagation import extract as extract
from aioproducer.otel.tracing import Tracing as Tracing

__all__ = ["Metrics", "Tracing", "extract"]
