"""From what users send to bytes.

A serializer is a callable `(data) -> bytes | None`, or an object with `serialize(topic, headers, data)`; either may be
a coroutine function. `string()` and `json()` are made here. `bind()` gives all of them one shape.
"""

from __future__ import annotations

import inspect
import json as _json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, cast

import attrs

from aioproducer.errors import SerializationError
from aioproducer.records import BytesLike, Headers

__all__ = [
    "AsyncBound",
    "Bound",
    "Json",
    "Serializer",
    "String",
    "SyncBound",
    "TopicSerializer",
    "bind",
    "json",
    "string",
]

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")
Bytes: TypeAlias = BytesLike | None
Part: TypeAlias = Literal["key", "value"]


class TopicSerializer(Protocol[T_contra]):
    """A serializer that wants to know where its bytes go."""

    def serialize(
        self, topic: str, headers: Headers | None, data: T_contra, /
    ) -> Bytes | Awaitable[Bytes]: ...


Serializer: TypeAlias = Callable[[T], Bytes | Awaitable[Bytes]] | TopicSerializer[T]
"""What `key_serializer` and `value_serializer` take."""


@attrs.frozen
class String:
    """Text in an encoding; None stays None (a tombstone)."""

    encoding: str = "utf-8"
    errors: str = attrs.field(default="strict", kw_only=True)

    def __attrs_post_init__(self) -> None:
        "".encode(self.encoding)  # LookupError for a name that is no encoding: now, not with the first record

    def __call__(self, data: str | None) -> bytes | None:
        """The bytes of `data`."""
        if data is not None and not isinstance(data, str):
            raise TypeError(f"a str is wanted, not {type(data).__name__}")
        return None if data is None else data.encode(self.encoding, self.errors)


@attrs.frozen(kw_only=True)
class Json:
    """JSON in UTF-8, without spaces; None stays None (a tombstone), it does not become `null`.

    `default` turns what JSON does not know into what it does. NaN and infinities are refused unless `allow_nan`,
    because they are not JSON.
    """

    default: Callable[[Any], Any] | None = None
    sort_keys: bool = False
    ensure_ascii: bool = False
    allow_nan: bool = False
    # Made once: `json.dumps` would make one for each record.
    _encoder: _json.JSONEncoder = attrs.field(init=False, eq=False, repr=False)

    @_encoder.default
    def _made(self) -> _json.JSONEncoder:
        return _json.JSONEncoder(
            default=self.default,
            sort_keys=self.sort_keys,
            ensure_ascii=self.ensure_ascii,
            allow_nan=self.allow_nan,
            separators=(",", ":"),
        )

    def __call__(self, data: Any) -> bytes | None:
        """The bytes of `data`."""
        return None if data is None else self._encoder.encode(data).encode()


string = String
json = Json


@attrs.frozen
class SyncBound:
    """A serializer that answers at once."""

    is_coroutine: ClassVar[Literal[False]] = False
    part: Part
    serialize: Callable[[str, Headers | None, Any], Any]

    def __call__(self, topic: str, headers: Headers | None, data: Any) -> Bytes:
        """The bytes of `data`, or a `SerializationError` that names the topic, and has what went wrong as cause."""
        try:
            result = self.serialize(topic, headers, data)
        except Exception as error:
            raise _failed(topic, self.part, error) from error
        return _checked(topic, self.part, result)


@attrs.frozen
class AsyncBound:
    """A serializer to be awaited."""

    is_coroutine: ClassVar[Literal[True]] = True
    part: Part
    serialize: Callable[[str, Headers | None, Any], Awaitable[Any]]

    async def __call__(self, topic: str, headers: Headers | None, data: Any) -> Bytes:
        """The bytes of `data`, or a `SerializationError` that names the topic, and has what went wrong as cause."""
        try:
            result = await self.serialize(topic, headers, data)
        except Exception as error:
            raise _failed(topic, self.part, error) from error
        return _checked(topic, self.part, result)


Bound: TypeAlias = SyncBound | AsyncBound


def bind(serializer: Serializer[Any], part: Part = "value") -> Bound:
    """`serializer` as `bound(topic, headers, data)`; `bound.is_coroutine` says whether that is to be awaited."""
    method = getattr(serializer, "serialize", None)
    call = _with_topic(cast("Callable[[Any], Any]", serializer)) if method is None else method
    if _is_coroutine_function(serializer if method is None else method):
        return AsyncBound(part, call)
    return SyncBound(part, call)


def _with_topic(serializer: Callable[[Any], Any]) -> Callable[[str, Headers | None, Any], Any]:
    def serialize(_topic: str, _headers: Headers | None, data: Any) -> Any:
        return serializer(data)

    return serialize


def _is_coroutine_function(function: Any) -> bool:
    # An object with `async def __call__` is not one for inspect, but its method is.
    call = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _failed(topic: str, part: Part, error: Exception) -> SerializationError:
    return SerializationError(f"the {part} serializer failed", topic=topic, part=part, cause=error)


def _checked(topic: str, part: Part, result: Any) -> Bytes:
    if result is None or isinstance(result, bytes | bytearray | memoryview):
        return result
    advice = ""
    if inspect.iscoroutine(result):
        result.close()  # or its dropping would be warned about, far from here
        advice = "; make the serializer itself a coroutine function (async def), so that it is awaited"
    raise SerializationError(
        f"the {part} serializer returned {type(result).__name__}, not bytes or None{advice}",
        topic=topic,
        part=part,
    )
