"""From the objects that users send to bytes.

A serializer is a callable `(data) -> bytes | None`, or an object with `serialize(topic, headers, data)`; either may be
a coroutine function. Such an object may also have `async prepare(topic, headers, data)`, which is awaited after
`serialize` raised `NotPrepared`, `async warm(topic)`, which is called at the start for each topic of the setting `topics`,
and `async close()`, which is called when the producer has closed. If it has `trouble_of_prepare(topic)`, a call whose time
is over while it waits for `prepare` is refused with the exception that this returns as the cause. If it has `for_part(part)`, the producer uses the
object that this gives for "key" or "value". `string()` and `json()` are made here. `bind()` gives
all of them one shape.
"""

from __future__ import annotations

import asyncio
import inspect
import json as _json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import attrs

from aioproducer.errors import KafkaError, RecordError, SerializationError
from aioproducer.records import BytesLike, Headers

__all__ = ["Encoded", "Json", "NotPrepared", "Serializer", "String", "TopicSerializer", "json", "string"]

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")
Bytes: TypeAlias = BytesLike | None
Part: TypeAlias = Literal["key", "value"]


class NotPrepared(Exception):  # noqa: N818  # a signal to the producer, which is no error
    """Raised by `serialize` when it has to learn something first: the producer awaits `prepare` and calls `serialize` again."""


# A serializer may need more than the record: OSError has the errors of connections and time-outs.
_OUTSIDE: Final = (OSError, MemoryError, asyncio.CancelledError, NotPrepared)


def is_outside(error: BaseException | None) -> bool:
    """True for an error of a serializer that is not about its record: of a registry or service, a connection, the memory."""
    if isinstance(error, KafkaError):
        return not isinstance(error, RecordError)
    return isinstance(error, _OUTSIDE)


class Encoded(NamedTuple):
    """The result of a serializer that adds headers: they come behind the headers of the record."""

    data: BytesLike | None
    headers: Headers | None = None


Result: TypeAlias = Bytes | Encoded


class TopicSerializer(Protocol[T_contra]):
    """A serializer that knows the topic and the headers of its record.

    It may have `async prepare(topic, headers, data)`, `async warm(topic)` and `async close()` as well.
    """

    def serialize(
        self, topic: str, headers: Headers | None, data: T_contra, /
    ) -> Result | Awaitable[Result]: ...


Serializer: TypeAlias = Callable[[T], Result | Awaitable[Result]] | TopicSerializer[T]
"""The accepted types of `key_serializer` and `value_serializer`."""


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
            raise TypeError(f"the serializer takes str, not {type(data).__name__}")
        return None if data is None else data.encode(self.encoding, self.errors)


@attrs.frozen(kw_only=True)
class Json:
    """JSON in UTF-8, without spaces; None stays None (a tombstone), it does not become `null`.

    `default` converts objects that JSON does not support. NaN and infinities are refused unless `allow_nan`, because
    they are not JSON.
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
    """A serializer whose result is there at once."""

    is_coroutine: ClassVar[Literal[False]] = False
    part: Part
    serialize: Callable[[str, Headers | None, Any], Any]
    # The object with `serialize`, which may have `prepare`, `warm` and `close`; None for a function.
    owner: Any = None
    # `for_part()` made the owner for this start of the producer.
    is_made: bool = False

    def __call__(self, topic: str, headers: Headers | None, data: Any) -> Result | Unserialized:
        """The bytes of `data`, or a `SerializationError` that names the topic and has the serializer's error as its cause.

        `Unserialized` when the serializer has to prepare itself first.
        """
        try:
            result = self.serialize(topic, headers, data)
        except NotPrepared as error:
            return _unserialized(self, topic, data, error)
        except Exception as error:
            raise _failed(topic, self.part, error) from error
        # The usual result: the other checks take as long as a serializer.
        return result if type(result) is bytes else _checked(topic, self.part, result)


@attrs.frozen
class AsyncBound:
    """A serializer whose result is awaited."""

    is_coroutine: ClassVar[Literal[True]] = True
    part: Part
    serialize: Callable[[str, Headers | None, Any], Awaitable[Any]]
    owner: Any = None
    is_made: bool = False

    async def __call__(self, topic: str, headers: Headers | None, data: Any) -> Result | Unserialized:
        """The same as of a `SyncBound`."""
        try:
            result = await self.serialize(topic, headers, data)
        except NotPrepared as error:
            return _unserialized(self, topic, data, error)
        except Exception as error:
            raise _failed(topic, self.part, error) from error
        return _checked(topic, self.part, result)


Bound: TypeAlias = SyncBound | AsyncBound


@attrs.frozen(eq=False)
class Unserialized:
    """A key or value that has no bytes yet: its serializer was not called (`cause` is None), or raised `NotPrepared`."""

    serializer: Bound
    data: Any
    cause: NotPrepared | None = None


def bind(serializer: Serializer[Any], part: Part = "value") -> Bound:
    """`serializer` as `bound(topic, headers, data)`; `bound.is_coroutine` says whether the result is awaited."""
    # One that differs for keys and values has an object for each.
    is_made = callable(getattr(type(serializer), "for_part", None))
    if is_made:
        serializer = serializer.for_part(part)  # type: ignore[union-attr]
    method = getattr(serializer, "serialize", None)
    if method is None:
        call, owner = _with_topic(cast("Callable[[Any], Any]", serializer)), None
    else:
        call, owner = method, serializer
    if _is_coroutine_function(serializer if method is None else method):
        return AsyncBound(part, call, owner, is_made)
    return SyncBound(part, call, owner, is_made)


def _with_topic(serializer: Callable[[Any], Any]) -> Callable[[str, Headers | None, Any], Any]:
    def serialize(_topic: str, _headers: Headers | None, data: Any) -> Any:
        return serializer(data)

    return serialize


def _is_coroutine_function(function: Any) -> bool:
    # An object with `async def __call__` is not one for inspect, but its method is.
    call = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _failed(topic: str, part: Part, error: Exception) -> SerializationError:
    return SerializationError(
        f"the {part} serializer failed", topic=topic, part=part, cause=error, retriable=is_retriable(error)
    )


def is_retriable(cause: BaseException | None) -> bool:
    """True when an error of this library says that the same call may succeed later."""
    return isinstance(cause, KafkaError) and cause.retriable


def _unserialized(bound: Bound, topic: str, data: Any, error: NotPrepared) -> Unserialized:
    if not callable(getattr(bound.owner, "prepare", None)):
        text = f"the {bound.part} serializer raised NotPrepared and has no prepare()"
        raise SerializationError(text, topic=topic, part=bound.part, cause=error) from error
    # Its traceback refers to the frames of the call.
    return Unserialized(bound, data, error.with_traceback(None))


def _checked(topic: str, part: Part, result: Any) -> Result:
    if _is_bytes(result) or (isinstance(result, Encoded) and _is_bytes(result.data)):
        return cast("Result", result)
    raise _wrong(topic, part, result.data if isinstance(result, Encoded) else result)


def _is_bytes(result: Any) -> bool:
    return result is None or isinstance(result, bytes | bytearray | memoryview)


def _wrong(topic: str, part: Part, result: Any) -> SerializationError:
    advice = ""
    if inspect.iscoroutine(result):
        result.close()  # or its dropping would be warned about, far from here
        advice = "; make the serializer itself a coroutine function (async def), so that it is awaited"
    return SerializationError(
        f"the {part} serializer returned {type(result).__name__}, not bytes or None{advice}",
        topic=topic,
        part=part,
    )
