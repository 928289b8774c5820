"""The TLS context of a producer follows its files."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from aioproducer._net.log import log_of
from aioproducer._net.tls.context import make_context
from aioproducer._net.tls.reloading import LOOK_EVERY, ReloadedContext
from aioproducer.errors import ConfigurationError
from aioproducer.security.tls.settings import StoreFile, TlsSettings
from tests.certificates import Issued


@pytest.fixture
def issued(broker_identity: Issued, client_identity: Issued) -> tuple[Issued, Issued]:
    return broker_identity, client_identity


class Clock:
    """A clock that the test moves forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reloaded(path: Path, clock: Clock) -> ReloadedContext:
    """The context of one file."""
    settings = TlsSettings(identity=StoreFile("ssl_keystore_location", str(path)))

    async def given() -> TlsSettings:
        return settings

    return ReloadedContext(given, (str(path),), log_of("tests"), clock)


def swap(path: Path, text: str) -> None:
    """Replace the file at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def test_a_changed_file_gives_another_context(
    issued: tuple[Issued, Issued], tmp_path: Path, clock: Clock
) -> None:
    """The file is checked every ten seconds at most; without a change the context stays."""
    path = tmp_path / "store.pem"
    path.write_text(issued[0].pem)
    contexts = reloaded(path, clock)
    first = await contexts.current()
    clock.now += LOOK_EVERY
    assert await contexts.current() is first
    swap(path, issued[1].pem)
    assert await contexts.current() is first
    clock.now += LOOK_EVERY
    second = await contexts.current()
    assert second is not first
    assert await contexts.current() is second


async def test_a_broken_file_keeps_the_former_context(
    issued: tuple[Issued, Issued], tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a renewal: one WARNING, and further attempts until both parts are there (S48)."""
    path = tmp_path / "store.pem"
    path.write_text(issued[0].pem)

    caplog.set_level(logging.INFO, logger="aioproducer")
    contexts = reloaded(path, clock)
    first = await contexts.current()
    swap(path, issued[1].key.read_text() + issued[0].certificate.read_text())
    for _ in range(3):
        clock.now += LOOK_EVERY
        assert await contexts.current() is first
    swap(path, issued[1].pem)
    clock.now += LOOK_EVERY
    assert await contexts.current() is not first

    warning, info = (record for record in caplog.records if record.levelno >= logging.INFO)
    assert warning.levelno == logging.WARNING
    assert "do not belong together" in warning.getMessage()
    assert "read again" in info.getMessage()


async def test_without_a_first_context_there_is_an_error(
    issued: tuple[Issued, Issued], tmp_path: Path, clock: Clock
) -> None:
    """Each dial tries again at once."""
    path = tmp_path / "store.pem"

    with pytest.raises(ConfigurationError, match="null byte"):
        await reloaded(Path("a\0b"), clock).current()
    contexts = reloaded(path, clock)
    with pytest.raises(ConfigurationError, match="No such file"):
        await contexts.current()
    path.write_text(issued[0].pem)
    assert isinstance(await contexts.current(), ssl.SSLContext)


async def test_one_context_for_many_dials(
    issued: tuple[Issued, Issued], tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dials at the same time wait for the same context."""
    path = tmp_path / "store.pem"
    path.write_text(issued[0].pem)
    made: list[TlsSettings] = []

    def counted(settings: TlsSettings) -> ssl.SSLContext:
        made.append(settings)
        return make_context(settings)

    monkeypatch.setattr("aioproducer._net.tls.reloading.make_context", counted)

    contexts = reloaded(path, clock)
    assert len(set(await asyncio.gather(*(contexts.current() for _ in range(9))))) == 1
    assert len(made) == 1


async def test_a_secret_that_hangs_holds_up_one_connection(
    issued: tuple[Issued, Issued], tmp_path: Path, clock: Clock
) -> None:
    """The others use the present context, also after the connection that makes the new one was given up (S46, S48)."""
    path = tmp_path / "identity.pem"
    swap(path, issued[0].pem)
    began, hangs, calls = asyncio.Event(), asyncio.Event(), 0

    async def given() -> TlsSettings:
        nonlocal calls
        calls += 1
        if calls == 2:
            began.set()
            await hangs.wait()
        return TlsSettings(identity=StoreFile("ssl_keystore_location", str(path)))

    context = ReloadedContext(given, (str(path),), log_of("tests"), clock)
    first = await context.current()
    swap(path, issued[1].pem)
    clock.now += LOOK_EVERY
    dial = asyncio.ensure_future(context.current())
    await began.wait()
    assert await context.current() is first
    dial.cancel()
    await asyncio.wait([dial])
    assert await context.current() is first
    clock.now += LOOK_EVERY
    assert await context.current() is not first
