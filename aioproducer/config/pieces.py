"""The kinds of settings that hold what users supply: objects and functions of theirs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["Interceptors", "Partitioner", "Serializer"]


def _refuse_class(value: Any) -> None:
    if isinstance(value, type):
        raise ValueError(f"{value.__name__} is a class: give an object of it, {value.__name__}(…)")


def _refuse_coroutine(value: Any, what: str) -> None:
    call = value if inspect.isroutine(value) else getattr(value, "__call__", value)  # noqa: B004
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(call):
        raise ValueError(f"{what} cannot be a coroutine function: it is called where nothing may wait")


@attrs.frozen
class Serializer:
    """A callable, or an object with `serialize(topic, headers, data)`."""

    range: str = attrs.field(
        default="a callable, or an object with serialize(topic, headers, data)", init=False
    )

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("must be an object of Python, not a name: see aioproducer.serializers")
        _refuse_class(value)
        if not (callable(value) or callable(getattr(value, "serialize", None))):
            raise ValueError(f"must be {self.range}")
        return value

    def parse(self, text: str) -> str:
        return text


@attrs.frozen
class Partitioner:
    """The name of a built-in partitioner, a callable, or an object whose `for_producer()` makes one."""

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


@attrs.frozen
class Interceptors:
    """Objects with `on_send`, `on_acknowledgement` and `close`."""

    range: str = attrs.field(
        default="a sequence of objects with on_send, on_acknowledgement and close", init=False
    )

    def check(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(f"must be {self.range}")
        found = tuple(value)
        for interceptor in found:
            self._check_one(interceptor)
        return found

    def _check_one(self, interceptor: Any) -> None:
        _refuse_class(interceptor)
        for name in ("on_send", "on_acknowledgement", "close"):
            method = getattr(interceptor, name, None)
            if not callable(method):
                raise ValueError(f"{type(interceptor).__name__} has no {name}(): derive it from Interceptor")
            _refuse_coroutine(method, f"{name}() of {type(interceptor).__name__}")

    def parse(self, text: str) -> str:
        return text
