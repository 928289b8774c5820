"""The context of a call in the headers of its record, and back."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage, propagate, trace
from opentelemetry import context as contexts
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Getter, TextMapPropagator
from opentelemetry.trace import Link, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import SpanContext

    Pairs = tuple[tuple[str, bytes], ...]

# The number of contexts whose headers are kept.
_KEPT = 256
# Set by exporters around their own work: instrumentation leaves no trace of it.
_SUPPRESSED = getattr(contexts, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
_BAGGAGE = getattr(baggage, "_BAGGAGE_KEY", None)


class SpanLink(Link):
    """A link to a span. It has the identity of the span, and keeps neither the span nor its context.

    The SDK reads `context` and `attributes` of each link several times: they are attributes here, which cost a fifth of the
    properties of a `Link`.
    """

    __slots__ = ("attributes", "context", "identity")

    def __init__(self, context: SpanContext) -> None:
        # Without that of `Link`, which sets these two.
        self._context = self.context = context  # type: ignore[misc]  # in place of a property
        self._attributes = self.attributes = _NO_ATTRIBUTES  # type: ignore[misc]  # as above
        # The ids of the trace and of the span.
        self.identity = context[:2]


if TYPE_CHECKING:
    # The headers of a context and its token: a link to its span, None where that is not sampled.
    InContext = tuple[Pairs, SpanLink | None]

# Of all links.
_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


def no_context() -> None:
    """Stands for a context that was never seen."""


def _getter() -> Callable[[], Context]:
    """The function that returns the present context: with the usual one of OpenTelemetry, without its two frames."""
    variable = getattr(getattr(contexts, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return variable.get if isinstance(variable, ContextVar) else contexts.get_current


class Propagation:
    """Makes the headers of the present context. The same context gives the same object again."""

    def __init__(self, propagator: TextMapPropagator | None) -> None:
        self._propagator = propagator
        # The propagator that was used last, and whether it is the usual one.
        self._known: TextMapPropagator | None = None
        self._is_usual = False

    def reader(self) -> Callable[[], InContext | None]:
        """A function for one producer: the headers and the token of the present context, None without a span."""
        # A closure: it is called for each record, and a call of it costs less than that of a method. Contexts are held
        # weakly, because they hold their spans.
        get_current = _getter()
        in_context = self.in_context
        seen: Callable[[], Context | None] = no_context
        answer: InContext | None = None
        others: dict[int, tuple[Callable[[], Context | None], InContext | None]] = {}

        def context() -> InContext | None:
            nonlocal seen, answer
            current = get_current()
            if seen() is current:
                return answer
            # Tasks that take turns have a context each.
            known = others.get(id(current))
            if known is None or known[0]() is not current:
                known = weakref.ref(current), in_context(current)
                if len(others) >= _KEPT:
                    others.clear()
                others[id(current)] = known
            seen, answer = known
            return answer

        return context

    def in_context(self, current: Context) -> InContext | None:
        """The headers and the token of a context; None without a span."""
        span_context = trace.get_current_span(current).get_span_context()
        if not span_context.is_valid or current.get(_SUPPRESSED):
            return None
        token = SpanLink(span_context) if span_context.trace_flags & TraceFlags.SAMPLED else None
        return self.headers_of(current, span_context), token

    def headers_of(self, current: Context, span_context: SpanContext) -> Pairs:
        """The headers that carry a context with this span."""
        propagator = self._propagator
        if propagator is None:
            # Not kept: a program may set the global propagator after it has made its producers.
            propagator = propagate.get_global_textmap()
        if propagator is not self._known:
            self._known, self._is_usual = propagator, _is_usual(propagator)
        if self._is_usual and not span_context.trace_state and not _baggage_of(current):
            # The same text as that of the propagators, in a third of their time.
            return (
                (
                    "traceparent",
                    b"00-%032x-%016x-%02x"
                    % (span_context.trace_id, span_context.span_id, span_context.trace_flags),
                ),
            )
        carrier: dict[str, str] = {}
        propagator.inject(carrier, current)
        return tuple([(name, value.encode()) for name, value in carrier.items()])


def _baggage_of(current: Context) -> object:
    """The baggage of a context: without the view that OpenTelemetry makes of it, where its key is known."""
    return current.get(_BAGGAGE) if _BAGGAGE else baggage.get_all(current)


def _is_usual(propagator: TextMapPropagator) -> bool:
    """True for OpenTelemetry's own default: W3C Trace Context and Baggage."""
    parts = getattr(propagator, "_propagators", ())
    kinds = [type(part) for part in parts]
    usual = [TraceContextTextMapPropagator, W3CBaggagePropagator]
    return type(propagator) is CompositePropagator and kinds == usual


class _Headers(Getter[Mapping[str, list[str]]]):
    """Reads headers by their names in lower case."""

    def get(self, carrier: Mapping[str, list[str]], key: str) -> list[str] | None:
        return carrier.get(key.lower())

    def keys(self, carrier: Mapping[str, list[str]]) -> list[str]:
        return list(carrier)


_GETTER = _Headers()


def extract(
    headers: Mapping[str, Any] | Iterable[tuple[str, Any]] | None,
    *,
    propagator: TextMapPropagator | None = None,
) -> Context:
    """The context that the headers of a consumed record carry, without the present one.

    `headers` are as aiokafka and confluent-kafka give them: a sequence of `(name, value)` pairs, a mapping, or None. Values
    are bytes, str or None. Without a context in them, the result is an empty context.
    """
    carrier: dict[str, list[str]] = {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    for name, value in pairs:
        text = _text(value)
        if text is not None:
            carrier.setdefault(name.lower(), []).append(text)
    found = propagate.get_global_textmap() if propagator is None else propagator
    return found.extract(carrier, contexts.Context(), _GETTER)


def _text(value: object) -> str | None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode(errors="replace")
    return value if isinstance(value, str) else None
