"""The context of a call in the headers of its record, and back."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.propagators.textmap import Getter

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import SpanContext

    Pairs = tuple[tuple[str, bytes], ...]
    # The headers of a context and its token; the token is None where its span is not sampled.
    InContext = tuple[Pairs, "Origin | None"]

# Set by exporters around their own work: instrumentation leaves no trace of it.
_SUPPRESSED = getattr(contexts, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")


class Origin:
    """The span in which a record was sent. It keeps the identity of the span, and neither the span nor its context."""

    __slots__ = ("span_context",)

    def __init__(self, span_context: SpanContext) -> None:
        self.span_context = span_context


def no_context() -> None:
    """Stands for a context that was never seen."""


class Propagation:
    """Makes the headers of the present context. The same context gives the same object again."""

    def __init__(self, propagator: TextMapPropagator | None) -> None:
        self._propagator = propagator

    def reader(self) -> Callable[[], InContext | None]:
        """A function for one producer: the headers and the token of the present context, None without a span."""
        # A closure: it is called for each record, and a call of it costs less than that of a method.
        get_current = contexts.get_current
        in_context = self.in_context
        seen: Callable[[], Context | None] = no_context
        answer: InContext | None = None

        def context() -> InContext | None:
            nonlocal seen, answer
            current = get_current()
            if seen() is not current:
                found = in_context(current)
                # Weakly: the context holds its span.
                seen, answer = weakref.ref(current), found
            return answer

        return context

    def in_context(self, current: Context) -> InContext | None:
        """The headers and the token of a context; None without a span."""
        span_context = trace.get_current_span(current).get_span_context()
        if not span_context.is_valid or current.get(_SUPPRESSED):
            return None
        token = Origin(span_context) if span_context.trace_flags.sampled else None
        return self.headers_of(current), token

    def headers_of(self, current: Context) -> Pairs:
        """The headers that carry a context."""
        propagator = self._propagator
        if propagator is None:
            # Not kept: a program may set the global propagator after it has made its producers.
            propagator = propagate.get_global_textmap()
        carrier: dict[str, str] = {}
        propagator.inject(carrier, current)
        return tuple([(name, value.encode()) for name, value in carrier.items()])


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
