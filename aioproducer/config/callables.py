"""The kinds of settings that hold objects and functions of users."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import attrs

from aioproducer.errors import ConfigurationError

__all__ = [
    "Interceptors",
    "Listeners",
    "Partitioner",
    "Serializer",
    "Tracer",
    "check_progress",
    "gives_coroutine",
]


def _refuse_class(value: Any) -> None:
    if isinstance(value, type):
        raise ValueError(f"{value.__name__} is a class: pass an instance, {value.__name__}(…)")


def gives_coroutine(value: Any) -> bool:
    """Whether a call of it gives a coroutine, which is true whatever it would return."""
    call = value if inspect.isroutine(value) else getattr(value, "__call__", value)  # noqa: B004
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(call)


def _refuse_coroutine(value: Any, what: str) -> None:
    if gives_coroutine(value):
        raise ValueError(f"{what} cannot be a coroutine function: its caller cannot await")


def check_progress(on_progress: object) -> None:
    """Refuse an `on_progress` that `send_all()` cannot call."""
    if on_progress is not None and (not callable(on_progress) or inspect.iscoroutinefunction(on_progress)):
        what = "a coroutine function" if callable(on_progress) else type(on_progress).__name__
        raise ConfigurationError(f"on_progress must be a function, not {what}")


class Serializer:
    """A callable, or an object with `serialize(topic, headers, data)`."""

    holds_objects: ClassVar[bool] = True
    range: Final = "a callable, or an object with serialize(topic, headers, data)"

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("must be a Python object, not a name: see aioproducer.serializers")
        _refuse_class(value)
        if not (callable(value) or callable(getattr(value, "serialize", None))):
            raise ValueError(f"must be {self.range}")
        return value

    def parse(self, text: str) -> str:
        return text


@attrs.frozen
class Partitioner:
    """The name of a built-in partitioner, a callable, or an object whose `for_producer()` returns one."""

    holds_objects: ClassVar[bool] = True
    names: tuple[str, ...]

    @property
    def range(self) -> str:
        return ", ".join(repr(name) for name in self.names) + ", or a callable"

    def check(self, value: Any) -> Any:
        if isinstance(value, str) and value in self.names:
            return value
        _refuse_class(value)
        _refuse_coroutine(value, "a partitioner")
        if callable(value) or callable(getattr(value, "for_producer", None)):
            return value
        raise ValueError(f"must be {self.range}")

    def parse(self, text: str) -> str:
        return text


class Interceptors:
    """Objects with `on_send`, `on_acknowledgement` and `close`."""

    holds_objects: ClassVar[bool] = True
    range: Final = "a sequence of objects with on_send, on_acknowledgement and close"

    def check(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(f"must be {self.range}")
        # One by one: an iterable may have no end.
        return tuple(self._checked(interceptor) for interceptor in value)

    def _checked(self, interceptor: Any) -> Any:
        _refuse_class(interceptor)
        for name in ("on_send", "on_acknowledgement", "close"):
            method = getattr(interceptor, name, None)
            if not callable(method):
                raise ValueError(f"{type(interceptor).__name__} has no {name}(): derive it from Interceptor")
            _refuse_coroutine(method, f"{name}() of {type(interceptor).__name__}")
        return interceptor

    def parse(self, text: str) -> str:
        return text


class Listeners:
    """Objects with any of `on_batch` and `on_connection`."""

    holds_objects: ClassVar[bool] = True
    range: Final = "a sequence of objects with on_batch(report), on_connection(report) or both"

    def check(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(f"must be {self.range}")
        # One by one: an iterable may have no end.
        return tuple(self._checked(listener) for listener in value)

    def _checked(self, listener: Any) -> Any:
        _refuse_class(listener)
        methods = [(name, getattr(listener, name, None)) for name in ("on_batch", "on_connection")]
        if not any(callable(method) for _, method in methods):
            raise ValueError(f"{type(listener).__name__} has neither on_batch() nor on_connection()")
        for name, method in methods:
            if method is not None:
                _refuse_coroutine(method, f"{name}() of {type(listener).__name__}")
        return listener

    def parse(self, text: str) -> str:
        return text


class Tracer:
    """An object with `context` and `on_batch`; or its `for_producer(client_id)` returns one."""

    holds_objects: ClassVar[bool] = True
    range: Final = "an object with context() and on_batch(report)"

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("must be a Python object, not a name: see aioproducer.otel")
        _refuse_class(value)
        for name in ("context", "on_batch"):
            method = getattr(value, name, None)
            if not callable(method):
                raise ValueError(f"{type(value).__name__} has no {name}()")
            _refuse_coroutine(method, f"{name}() of {type(value).__name__}")
        return value

    def parse(self, text: str) -> str:
        return text
