"""Credentials reach the registry, and no text."""

from __future__ import annotations

import asyncio
import base64
import copy
import gc
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from aioproducer.errors import ConfigurationError
from aioproducer.registry import (
    AvroSerializer,
    JsonSerializer,
    ProtobufSerializer,
    Registry,
    RegistryError,
    Schema,
)
from aioproducer.registry.asking.credentials import Auth
from aioproducer.secret import Secret
from aioproducer.testing import EmbeddedRegistry
from tests.registry.scripted import ORDER, Scripted, client_of, play, refused
from tests.reports import kept, report

PASSWORD = "sesame-opens"
WRONG: Any = 3
BASIC = "Basic " + base64.b64encode(f"bob:{PASSWORD}".encode()).decode()


async def given() -> Any:
    """A provider."""
    return Secret(PASSWORD)


async def pair() -> Any:
    """A provider of a user and a password."""
    return "bob", PASSWORD


@pytest.mark.parametrize(
    ("auth", "sent"),
    [
        (("bob", PASSWORD), BASIC),
        (("bob", Secret(PASSWORD)), BASIC),
        (PASSWORD, f"Bearer {PASSWORD}"),
        (Secret(PASSWORD), f"Bearer {PASSWORD}"),
        (given, f"Bearer {PASSWORD}"),
        (pair, BASIC),
    ],
)
def test_the_forms_of_credentials(auth: Auth, sent: str) -> None:
    """A user with a password, a token, and a coroutine function that gives one."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["authorization"] == sent
        return httpx2.Response(200, json=[])

    async def main() -> None:
        registry = client_of(Scripted(answer), auth=auth)
        await registry.subjects()
        await registry.close()

    play(main)


def test_credentials_of_a_url_are_taken_out() -> None:
    """They are decoded, and sent to their server only."""
    place = Scripted(refused, lambda request: httpx2.Response(200, json=[]))

    async def main() -> None:
        registry = client_of(place, "http://bob:p%40ss%2Fword@a:8081,http://b:8081")
        assert repr(registry) == "<Registry http://a:8081, http://b:8081>"
        await registry.subjects()
        await registry.close()

    play(main)
    first, second = place.requests
    assert first.headers["authorization"] == "Basic " + base64.b64encode(b"bob:p@ss/word").decode()
    assert str(first.url) == "http://a:8081/subjects"
    assert "authorization" not in second.headers


def echo(status: int) -> Callable[[httpx2.Request], httpx2.Response]:
    """A registry that repeats what it was given."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        said = f"{dict(request.headers)} {PASSWORD}"
        return httpx2.Response(status, json={"error_code": status, "message": said})

    return answer


def broken(request: httpx2.Request) -> httpx2.Response:
    """An error of the client whose text has a header."""
    raise httpx2.ConnectError(f"{request.headers['authorization']} {PASSWORD}", request=request)


def illegal(request: httpx2.Request) -> httpx2.Response:
    """The error of h11 for a header."""
    raise httpx2.LocalProtocolError(f"Illegal header value {request.headers['authorization']!r} {PASSWORD}")


def bug(request: httpx2.Request) -> httpx2.Response:
    """An error that no client documents."""
    raise RuntimeError(f"{request.headers} {PASSWORD}")


@pytest.mark.parametrize(
    "auth", [("bob", PASSWORD), PASSWORD, given, pair], ids=["basic", "token", "given", "pair"]
)
@pytest.mark.parametrize("step", [echo(401), echo(503), broken, illegal, bug])
def test_no_text_has_credentials(auth: Auth, step: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Not the error, its cause, its traceback with all locals, its pickle, nor the log."""
    key = "an-api-key-of-20-chars"
    texts: list[str] = []

    async def main() -> None:
        registry = client_of(Scripted(step), auth=auth, headers={"X-Api-Key": key}, timeout=1.0)
        with pytest.raises(RegistryError) as caught:
            await registry.register("s", Schema(ORDER))
        error = caught.value
        # Without the frame of this test.
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        told = traceback.TracebackException(type(error), error, frames, capture_locals=True)
        texts.extend([str(error), repr(error), repr(error.__dict__), repr(registry), *told.format()])
        texts.append(repr(pickle.dumps(error)))
        texts.append(repr(copy.deepcopy(error)))
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        await registry.close()

    with caplog.at_level(logging.DEBUG):
        play(main)
    everything = "\n".join([*texts, caplog.text])
    for secret in (PASSWORD, BASIC.removeprefix("Basic "), key):
        assert secret not in everything


class Own(BaseException):
    """An exception that is no Exception."""


async def test_an_error_of_the_provider_is_not_shown(embedded: EmbeddedRegistry) -> None:
    """It may have the token in its text. It is retriable if it is an OSError."""

    async def failing() -> str:
        raise error

    for error, retriable in (
        (ValueError(PASSWORD), False),
        (ConnectionError(PASSWORD), True),
        # Of a task of its own that was cancelled: nothing of the registry was.
        (asyncio.CancelledError(PASSWORD), False),
        (Own(PASSWORD), False),
    ):
        async with Registry(embedded.url, auth=failing, timeout=0.05) as registry:
            with pytest.raises(RegistryError, match=type(error).__name__) as caught:
                await registry.subjects()
            assert caught.value.retriable is retriable
            assert PASSWORD not in "".join(traceback.format_exception(caught.value))


async def test_a_provider_that_gives_nonsense(embedded: EmbeddedRegistry) -> None:
    """It is named, not shown."""

    async def odd() -> Any:
        return f"{PASSWORD}\r\nX: y"

    async with Registry(embedded.url, auth=odd) as registry:
        with pytest.raises(RegistryError, match="printable") as caught:
            await registry.subjects()
        assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "urls",
    [
        f"http://bob:{PASSWORD}@h:99999",
        f"ftp://bob:{PASSWORD}@h",
        f"http://bob:{PASSWORD}@h?a",
        f"bob:{PASSWORD}@h",
    ],
)
def test_a_url_that_is_refused_is_not_shown(urls: str) -> None:
    """Its password would be."""
    with pytest.raises(ConfigurationError) as caught:
        Registry(urls)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


async def test_a_registry_demands_them() -> None:
    """The embedded registry refuses a request without them."""
    async with EmbeddedRegistry(auth=("bob", PASSWORD)) as server:
        async with Registry(server.url) as registry:
            with pytest.raises(RegistryError) as caught:
                await registry.subjects()
            assert caught.value.status == 401
        async with Registry(server.url.replace("//", f"//bob:{PASSWORD}@")) as registry:
            assert await registry.subjects() == []


async def test_tokens_of_a_provider_are_forgotten(embedded: EmbeddedRegistry) -> None:
    """A long life keeps the last tokens only."""
    numbers = iter(range(100))

    async def changing() -> str:
        return f"token-{next(numbers)}-of-a-long-life"

    async with Registry(embedded.url, auth=changing) as registry:
        for _ in range(60):
            await registry.subjects()
        await asyncio.sleep(0)
        gc.collect()
        kept = [
            each for each in gc.get_objects() if type(each) is Secret and "of-a-long-life" in each.reveal()
        ]
        assert 0 < len(kept) < 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"auth": ("bob", PASSWORD, 3)},
        {"auth": PASSWORD.encode()},
        {"auth": ("bob", PASSWORD.encode())},
        {"auth": ("bob:", PASSWORD)},
        {"auth": f"{PASSWORD} "},
        {"headers": {"X-Api-Key": f"{PASSWORD}\n"}},
        {"urls": f"http://bob:{PASSWORD}@h:99999"},
        {"urls": f"http://bob:{PASSWORD}@["},
        {"proxy": f"bob:{PASSWORD}@proxy:3128"},
        {"auth": ("bob", PASSWORD), "timeout": 0},
    ],
)
def test_no_error_of_a_constructor_keeps_credentials(wrong: dict[str, Any]) -> None:
    """Its frames have none, and its object can be shown."""
    with pytest.raises(ConfigurationError) as caught:
        Registry(**{"urls": f"http://bob:{PASSWORD}@h", **wrong})
    assert PASSWORD not in report(caught.value)
    assert all(PASSWORD not in repr(each.args) for each in kept(caught.value))


@pytest.mark.parametrize("query", ["", "?a=b"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda url: AvroSerializer(url, "{no json"),
        lambda url: AvroSerializer(url, "string", use_latest=True, schema_id=1),
        lambda url: JsonSerializer(url, "{no json"),
        lambda url: JsonSerializer(url, {}, subject=WRONG),
        lambda url: JsonSerializer(url, {}, framing=WRONG),
        lambda url: ProtobufSerializer(url, WRONG),
        lambda url: ProtobufSerializer(url, Timestamp, subject=WRONG),
    ],
)
def test_no_error_of_a_serializer_keeps_the_password_of_its_url(
    wrong: Callable[[str], object], query: str
) -> None:
    """Neither a frame of a constructor nor its half-made object, which has a repr."""
    with pytest.raises(ConfigurationError) as caught:
        wrong(f"http://bob:{PASSWORD}@h{query}")
    assert caught.value.__traceback__ is not None
    # Without the frames of this test.
    frames = caught.value.__traceback__.tb_next.tb_next  # type: ignore[union-attr]
    told = traceback.TracebackException(ConfigurationError, caught.value, frames, capture_locals=True)
    assert PASSWORD not in "".join(told.format())
