"""Interceptors: objects that receive every record before it is sent, and every outcome.

An exception in an interceptor is logged and never reaches the sender: the chain continues with the last valid
record.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from aioproducer.records import Record, RecordMetadata

__all__ = ["Intercepting", "Interceptor"]

# Any other exception of an interceptor could end a task of the producer, in which it may be called.
_END_OF_THE_PROGRAM = (KeyboardInterrupt, SystemExit)

K = TypeVar("K")
V = TypeVar("V")


class Intercepting(Protocol):
    """The type of the objects in the setting `interceptors`."""

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]: ...
    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, /
    ) -> object: ...
    def close(self) -> object: ...


class Interceptor:
    """An interceptor that does nothing: derive from it and override methods.

    All methods are called in the event loop and cannot await.
    """

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        """Called before serialization. Returns the record to send: the same one, or a changed copy by `attrs.evolve`."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None, /) -> None:
        """Called once for each record, with its metadata or with its error."""

    def close(self) -> None:
        """Called after the producer has closed."""


Log: TypeAlias = "logging.Logger | logging.LoggerAdapter[logging.Logger]"


def run_on_send(interceptors: Sequence[Intercepting], record: Record[K, V], log: Log) -> Record[Any, Any]:
    """`record` after each interceptor in turn; an interceptor that fails leaves it unchanged."""
    current: Record[Any, Any] = record
    for interceptor in interceptors:
        try:
            changed: Any = interceptor.on_send(current)
        except _END_OF_THE_PROGRAM:
            raise
        except BaseException:
            log.exception("on_send() of %s failed; its change is ignored", _name(interceptor))
            continue
        if isinstance(changed, Record):
            current = changed
        else:
            _ignore(interceptor, changed, log)
    return current


def _ignore(interceptor: Intercepting, changed: object, log: Log) -> None:
    if inspect.iscoroutine(changed):
        changed.close()  # otherwise its deletion would emit a warning later
    log.error(
        "on_send() of %s returned %s, not a Record; its change is ignored",
        _name(interceptor),
        type(changed).__name__,
    )


def run_on_acknowledgement(
    interceptors: Sequence[Intercepting],
    metadata: RecordMetadata | None,
    error: BaseException | None,
    log: Log,
) -> None:
    """Call every interceptor, also after one that fails."""
    for interceptor in interceptors:
        # Inside the `try`: the lookup of a method may raise as well.
        try:
            interceptor.on_acknowledgement(metadata, error)
        except _END_OF_THE_PROGRAM:
            raise
        except BaseException:
            log.exception("%s() of %s failed", "on_acknowledgement", _name(interceptor))


def run_close(interceptors: Sequence[Intercepting], log: Log) -> None:
    """Close every interceptor, also after one that fails."""
    for interceptor in interceptors:
        try:
            interceptor.close()
        except _END_OF_THE_PROGRAM:
            raise
        except BaseException:
            log.exception("%s() of %s failed", "close", _name(interceptor))


def _name(interceptor: Intercepting) -> str:
    return type(interceptor).__qualname__
