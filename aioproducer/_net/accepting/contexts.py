"""The contexts of calls: what a tracer adds to the headers of a record, and keeps until its outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aioproducer._core import join_headers
from aioproducer._net.observing.failures import END_OF_THE_PROGRAM, Failures
from aioproducer._state.admission.checking import checked_headers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aioproducer._net.log import Log
    from aioproducer._state.admission.ready import PlainHeaders, ReadyRecord
    from aioproducer.records import RecordMetadata


class CallContext(NamedTuple):
    """The context of one call. `trace` has the span of its record, of a tracer that makes one for each record."""

    headers: tuple[tuple[str, bytes], ...]
    token: object
    trace: RecordTrace | None = None

    def joined(self, own: PlainHeaders) -> PlainHeaders:
        """The headers of a record, and behind them those of the context whose names it does not have."""
        return join_headers(own, self.headers)


class Follower(Protocol):
    """An object that follows one record on its way: it keeps the bytes, and may take over a refusal."""

    def ready(self, record: ReadyRecord) -> None: ...
    def spares(self, error: BaseException) -> bool:
        """True when the refusal of the record does not fail its transaction."""
        ...


class Contexts:
    """Asks the tracer of one producer. Its failures are logged, and change no record."""

    def __init__(self, tracer: Any, log: Log, loop: asyncio.AbstractEventLoop) -> None:
        self._tracer = tracer
        self._log = log
        self._loop = loop
        self._is_asked = False
        self._failures = Failures(f"context() of {type(tracer).__qualname__}")
        # Such a tracer makes the span of each record.
        self.of_records = callable(getattr(tracer, "begin", None))
        self.of_bulk = bool(getattr(tracer, "bulk", False))

    @property
    def ask(self) -> Callable[[], Any] | None:
        """The function that the compiled core calls for each record; None where only the slow path may ask."""
        return None if self._tracer is None or self.of_records else self._tracer.context

    @property
    def exist(self) -> bool:
        """True with a tracer."""
        return self._tracer is not None

    def of_call(self, topic: str) -> CallContext | None:
        """The context of the call that is being made, for a record of this topic."""
        # A tracer that sends records: they have no context.
        if self._tracer is None or self._is_asked:
            return None
        self._is_asked = True
        try:
            return self._asked(topic)
        except END_OF_THE_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001  # logged
            self.note_failure(error)
            return None
        finally:
            self._is_asked = False

    def of_bulk_call(self, topic: str) -> CallContext | None:
        """The context of all records of a `send_batch()`, where one is wanted, and no record has a span."""
        return self.of_call(topic) if self.of_bulk and not self.of_records else None

    def of_bulk_record(self, topic: str) -> CallContext | None:
        """The context of one record of a `send_batch()`, with its span, where each record has one."""
        return self.of_call(topic) if self.of_bulk and self.of_records else None

    def _asked(self, topic: str) -> CallContext | None:
        began = time.time_ns()
        found = self._tracer.begin(topic, began) if self.of_records else self._tracer.context()
        if found is None:
            return None
        headers, token, *span = found
        if span and not self.of_records:
            raise TypeError("the context of a call is a pair of headers and a token")
        trace = RecordTrace(span[0], self) if span else None
        try:
            checked: Any = checked_headers(headers, topic)
        except BaseException as error:
            if trace is not None:
                trace.end(None, error)
            raise
        return CallContext(checked or (), token, trace)

    def followed(self, context: CallContext | None, follower: Follower) -> CallContext:
        """The context of a call, with a follower of its record."""
        if context is None:
            return CallContext((), None, FollowedTrace(None, self, follower))
        span = RecordTrace(None, self) if context.trace is None else context.trace
        return context._replace(trace=span.followed(follower))

    def note_failure(self, error: BaseException) -> None:
        """The tracer has raised this exception."""
        self._failures.note(error, self._log, self._loop.time(), "record")


class RecordTrace:
    """The span of one record, from its call to its outcome."""

    __slots__ = ("_contexts", "_span")

    def __init__(self, span: Any, contexts: Contexts) -> None:
        self._span = span
        self._contexts = contexts

    def ready(self, record: ReadyRecord) -> None:
        """The record has its bytes."""
        self._tell("ready", record.key, record.value)

    def end(
        self,
        metadata: RecordMetadata | None,
        error: BaseException | None,
        address: str | None = None,
    ) -> None:
        """The record has its outcome; `address`: of the broker that leads its partition."""
        self._tell("end", metadata, error, address)
        self._span = None

    def followed(self, follower: Follower) -> FollowedTrace:
        """The same for a record that has a follower as well."""
        return FollowedTrace(self._span, self._contexts, follower)

    def _tell(self, what: str, *facts: object) -> None:
        if self._span is None:
            return
        try:
            getattr(self._span, what)(*facts)
        except END_OF_THE_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001  # logged
            self._contexts.note_failure(error)


class FollowedTrace(RecordTrace):
    """The follower of a record, beside its span if there is one."""

    __slots__ = ("_follower",)

    def __init__(self, span: Any, contexts: Contexts, follower: Follower) -> None:
        super().__init__(span, contexts)
        self._follower = follower

    def ready(self, record: ReadyRecord) -> None:
        """The record has its bytes."""
        self._follower.ready(record)
        super().ready(record)
