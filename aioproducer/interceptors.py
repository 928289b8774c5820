"""What may look at every record on its way out, and at every fate on its way back.

An exception in an interceptor is logged and never reaches the one who sends: the chain goes on with the last good
record.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from aioproducer.records import Record, RecordMetadata

__all__ = ["Intercepting", "Interceptor", "run_close", "run_on_acknowledgement", "run_on_send"]

# Whatever else an interceptor raises would end a task of the producer, in which it may be called.
_END_OF_THE_PROGRAM = (KeyboardInterrupt, SystemExit)

K = TypeVar("K")
V = TypeVar("V")


class Intercepting(Protocol):
    """What the setting `interceptors` takes objects of."""

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]: ...
    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, /
    ) -> object: ...
    def close(self) -> object: ...


class Interceptor:
    """An interceptor that does nothing: derive from it and override what you need.

    All methods are called in the event loop, between other work, and cannot wait.
    """

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        """Called before serializing. Returns the record to send: the same one, or one made with `attrs.evolve`."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None, /) -> None:
        """Called once for each record, with its place in the log or with what went wrong."""

    def close(self) -> None:
        """Called when the producer has closed."""


Log: TypeAlias = "logging.Logger | logging.LoggerAdapter[logging.Logger]"


def run_on_send(interceptors: Sequence[Intercepting], record: Record[K, V], log: Log) -> Record[Any, Any]:
    """`record` after each interceptor in turn; those that fail leave it as it was."""
    current: Record[Any, Any] = record
    for interceptor in interceptors:
        current = _sent(interceptor, current, log)
    return current


def _sent(interceptor: Intercepting, record: Record[Any, Any], log: Log) -> Record[Any, Any]:
    try:
        changed: Any = interceptor.on_send(record)
    except _END_OF_THE_PROGRAM:
        raise
    except BaseException:
        log.exception("on_send() of %s failed; its change is left out", _name(interceptor))
        return record
    if isinstance(changed, Record):
        return changed
    if inspect.iscoroutine(changed):
        changed.close()  # or its dropping would be warned about, far from here
    log.error(
        "on_send() of %s returned %s, not a Record; its change is left out",
        _name(interceptor),
        type(changed).__name__,
    )
    return record


def run_on_acknowledgement(
    interceptors: Sequence[Intercepting],
    metadata: RecordMetadata | None,
    error: BaseException | None,
    log: Log,
) -> None:
    """Tell every interceptor, whatever the others do."""
    for interceptor in interceptors:
        _tell(interceptor, "on_acknowledgement", lambda own: own.on_acknowledgement(metadata, error), log)


def run_close(interceptors: Sequence[Intercepting], log: Log) -> None:
    """Close every interceptor, whatever the others do."""
    for interceptor in interceptors:
        _tell(interceptor, "close", lambda own: own.close(), log)


def _tell(interceptor: Intercepting, what: str, call: Callable[[Intercepting], object], log: Log) -> None:
    # Within its `try`: to look up a method of an object may raise as well.
    try:
        call(interceptor)
    except _END_OF_THE_PROGRAM:
        raise
    except BaseException:
        log.exception("%s() of %s failed", what, _name(interceptor))


def _name(interceptor: Intercepting) -> str:
    return type(interceptor).__qualname__
