"""Serializers: the built-in ones, and the one shape that all get."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest

from aioproducer.errors import SerializationError
from aioproducer.outcome import Outcome
from aioproducer.records import Headers
from aioproducer.serializers import AsyncBound, SyncBound, bind, json, string


class Topical:
    """A serializer that knows the topic and headers."""

    def serialize(self, topic: str, headers: Headers | None, data: str) -> bytes:
        return f"{topic}|{headers}|{data}".encode()


class AsyncTopical:
    async def serialize(self, topic: str, headers: Headers | None, data: str) -> bytes:
        await asyncio.sleep(0)
        return f"{topic}|{headers}|{data}".encode()


class AsyncCallable:
    async def __call__(self, data: str) -> bytes:
        return data.encode()


async def encode(data: str, encoding: str = "utf-8") -> bytes:
    return data.encode(encoding)


def sync(serializer: Any) -> SyncBound:
    bound = bind(serializer)
    assert isinstance(bound, SyncBound)
    return bound


@pytest.mark.parametrize(
    ("serializer", "data", "expected"),
    [
        (string(), "naïve", "naïve".encode()),
        (string("latin-1"), "naïve", b"na\xefve"),
        (string("ascii", errors="replace"), "é", b"?"),
        (string(), None, None),
        (json(), {"b": [1, None, "é"], "a": True}, '{"b":[1,null,"é"],"a":true}'.encode()),
        (json(sort_keys=True, ensure_ascii=True), {"b": "é", "a": 1}, b'{"a":1,"b":"\\u00e9"}'),
        (json(default=str), {"a": 1j}, b'{"a":"1j"}'),
        (json(), None, None),
        (json(), 0, b"0"),
        (json(), "", b'""'),
    ],
)
def test_built_in_serializers(serializer: Any, data: object, expected: bytes | None) -> None:
    """Text and JSON become the expected bytes; None stays a tombstone; false values are values."""
    assert sync(serializer)("orders", None, data) == expected


@pytest.mark.parametrize(
    ("serializer", "data", "cause"),
    [
        (string(), b"bytes", TypeError),
        (string("ascii"), "é", UnicodeEncodeError),
        (json(), {1, 2}, TypeError),
        (json(), float("nan"), ValueError),
        (lambda data: 1 / data, 0, ZeroDivisionError),
        (lambda: b"", "x", TypeError),
    ],
)
def test_failures_name_the_topic_and_keep_the_cause(
    serializer: Any, data: object, cause: type[Exception]
) -> None:
    """Whatever a serializer raises becomes a `SerializationError` with topic, part and cause; nothing was written."""
    with pytest.raises(SerializationError, match=r"the key serializer failed .*topic 'orders'") as caught:
        bind(serializer, "key")("orders", None, data)
    assert isinstance(caught.value.cause, cause)
    assert (caught.value.topic, caught.value.part, caught.value.outcome) == (
        "orders",
        "key",
        Outcome.NOT_WRITTEN,
    )


@pytest.mark.parametrize("result", ["text", 5, [b"x"], object()])
def test_results_must_be_bytes(result: object) -> None:
    """A result that is not bytes-like or None is refused by its type, before anything is written."""
    with pytest.raises(SerializationError, match=f"returned {type(result).__name__}, not bytes"):
        bind(lambda _: result)("orders", None, "x")  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("result", [b"x", bytearray(b"x"), memoryview(b"x"), None])
def test_bytes_like_results_are_taken_as_they_are(result: bytes | None) -> None:
    """Any bytes-like result is handed on without a copy."""
    assert bind(lambda _: result)("orders", None, "x") is result


def test_hidden_coroutine_is_told_and_leaves_no_warning() -> None:
    """The error of a plain function that returns a coroutine asks for a coroutine function; the coroutine is closed."""
    with pytest.raises(SerializationError, match="make the serializer itself a coroutine function"):
        bind(lambda data: encode(data))("orders", None, "x")  # noqa: PLW0108 - the test is about the wrapper


@pytest.mark.parametrize(
    ("serializer", "is_coroutine"),
    [
        (string(), False),
        (str.encode, False),
        (Topical(), False),
        (lambda data: data.encode(), False),
        (encode, True),
        (partial(encode, encoding="latin-1"), True),
        (AsyncTopical(), True),
        (AsyncCallable(), True),
    ],
)
async def test_coroutine_functions_are_recognised(serializer: Any, is_coroutine: bool) -> None:
    """Functions, partials, methods and callable objects: `is_coroutine` says whether the result is awaited."""
    bound = bind(serializer)
    assert bound.is_coroutine is is_coroutine
    result = bound("orders", None, "x")
    assert isinstance(result, Awaitable) is is_coroutine
    if isinstance(result, Awaitable):
        made = await result
        assert isinstance(made, bytes)
        assert b"x" in made


@pytest.mark.parametrize("serializer", [Topical(), AsyncTopical()])
async def test_serialize_gets_topic_and_headers(serializer: Any) -> None:
    """An object with `serialize` receives the topic and the headers."""
    result = bind(serializer)("orders", [("h", b"1")], "x")
    assert (await result if isinstance(result, Awaitable) else result) == b"orders|[('h', b'1')]|x"


async def test_coroutine_failures_are_told_in_the_same_way() -> None:
    """An exception in a coroutine becomes a `SerializationError`; a cancellation stays one."""

    async def failing(_: object) -> bytes:
        raise LookupError("no schema")

    async def cancelled(_: object) -> bytes:
        raise asyncio.CancelledError

    bound = bind(failing)
    assert isinstance(bound, AsyncBound)
    with pytest.raises(SerializationError, match="LookupError: no schema"):
        await bound("orders", None, "x")
    bound = bind(cancelled)
    assert isinstance(bound, AsyncBound)
    with pytest.raises(asyncio.CancelledError):
        await bound("orders", None, "x")


def test_unknown_encoding_is_told_at_once() -> None:
    """An encoding that does not exist fails where it is named, not with the first record."""
    with pytest.raises(LookupError, match="utf-9"):
        string("utf-9")


def test_built_ins_are_compared_and_pickled_by_value() -> None:
    """Equal serializers make equal configurations, and go through a pickle."""
    for serializer in (string("latin-1"), json(sort_keys=True)):
        assert pickle.loads(pickle.dumps(serializer)) == serializer
    assert string("latin-1") != string()
