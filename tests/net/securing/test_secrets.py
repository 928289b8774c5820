"""Secrets are read where they are kept, each time; errors name the setting and never show the secret."""

from __future__ import annotations

import asyncio
import random
import ssl
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest

from aioproducer import ConfigurationError, KafkaError, ProducerConfig, Secret, SecretEnv, SecretFile
from aioproducer._net.securing.calling import UserFunctions
from aioproducer._net.securing.protocol import security_of
from aioproducer._net.securing.secrets import revealed
from aioproducer.secret import SecretCall, SecretSource

CANARY = "canary-7"


async def text_of(source: SecretSource) -> str:
    """The secret of a setting."""
    return (await revealed("sasl_password", source, UserFunctions())).reveal()


class Later:
    """A coroutine function."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def __call__(self) -> Secret:
        """The secret."""
        return Secret(f"{CANARY}-{self.number}")


async def test_each_place_is_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text, a file without its last line end, a variable, a function and a coroutine function (S47)."""
    path = tmp_path / "password"

    for number in range(2):
        path.write_text(f"{CANARY}-{number}\n")
        monkeypatch.setenv("PASSWORD", f"{CANARY}-{number}")
        assert await text_of(SecretFile(path)) == f"{CANARY}-{number}"
        assert await text_of(SecretEnv("PASSWORD")) == f"{CANARY}-{number}"
        assert await text_of(SecretCall(lambda number=number: f"{CANARY}-{number}")) == f"{CANARY}-{number}"  # type: ignore[misc]
        assert await text_of(SecretCall(Later(number))) == f"{CANARY}-{number}"
    assert await text_of(Secret(CANARY)) == CANARY


def raising() -> str:
    raise ValueError(CANARY)


def stopping() -> str:
    raise asyncio.CancelledError(CANARY)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (SecretFile("/no/such/file"), "reading /no/such/file failed: No such file or directory"),
        (SecretEnv("NO_SUCH_VARIABLE"), "the environment variable NO_SUCH_VARIABLE is not set"),
        (SecretCall(raising), "the callable raised ValueError"),
        (SecretCall(stopping), "the callable raised CancelledError"),
        (SecretCall(CANARY.encode), "the callable gave bytes in place of a string"),  # type: ignore[arg-type]
        (SecretCall(lambda: 5), "the callable gave int in place of a string"),  # type: ignore[arg-type, return-value]
    ],
)
async def test_what_cannot_be_read(source: SecretSource, line: str) -> None:
    """The error names the setting; no text or frame of it has the error of the user's code."""
    with pytest.raises(KafkaError) as caught:
        await revealed("sasl_password", source, UserFunctions())
    assert str(caught.value).startswith(f"sasl_password: {line}")
    assert caught.value.__cause__ is caught.value.__context__ is None
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert CANARY not in "".join(shown.format())


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfcanary-7\r\n", b"canary-7\r\n"])
async def test_a_file_of_windows(content: bytes, tmp_path: Path) -> None:
    """The mark of its encoding and its line end are no part of the secret."""
    path = tmp_path / "password"
    path.write_bytes(content)
    assert await text_of(SecretFile(path)) == CANARY


async def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The bytes are in no error."""
    path = tmp_path / "password"
    path.write_bytes(b"\xff\xfe" + CANARY.encode())
    with pytest.raises(ConfigurationError, match="not UTF-8") as caught:
        await revealed("sasl_password", SecretFile(path), UserFunctions())
    shown: Any = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert CANARY not in "".join(shown.format())


async def context_of(source: Any) -> ssl.SSLContext:
    """The context of a producer with this `ssl_context`."""
    config = ProducerConfig("localhost:9093", security_protocol="SSL", ssl_context=source)
    made = security_of(config, asyncio.get_running_loop(), random.Random(1)).tls_context
    assert made is not None
    return await made()


@pytest.mark.parametrize("call", [raising, stopping, lambda: CANARY])
async def test_a_context_that_cannot_be_made(call: Any) -> None:
    """It ends no task of the producer, whatever the callable raises."""
    with pytest.raises(ConfigurationError, match="ssl_context: the callable") as caught:
        await context_of(call)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert CANARY not in str(
        [frame.locals for frame in shown.stack if "/aioproducer/_net/securing" in frame.filename]
    )


async def test_a_context_without_a_least_version(caplog: pytest.LogCaptureFixture) -> None:
    """TLSVersion.MINIMUM_SUPPORTED is less than TLS 1.2 (S04)."""
    context = ssl.create_default_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    await context_of(context)
    assert "versions before TLS 1.2 are allowed" in caplog.text


async def test_a_safe_context(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is to be said about it."""
    await context_of(ssl.create_default_context)
    assert not caplog.records


def test_where_a_secret_can_be() -> None:
    """Wrong types are refused where they are written, and not at the first authentication."""
    assert SecretFile(b"/run/secret").path == "/run/secret"  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not int"):
        SecretEnv(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="cannot be a coroutine function"):
        ProducerConfig("localhost:9093", security_protocol="SSL", ssl_context=Later(1).__call__)  # type: ignore[arg-type]
