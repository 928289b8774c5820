"""Functions of the user that give secrets: one that blocks holds up neither the event loop nor another one's time limit."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import ConfigurationError, Producer, ProducerConfig
from aioproducer._net.securing import calling
from aioproducer._net.securing.calling import UserFunctions
from aioproducer._net.securing.protocol import security_of
from aioproducer.auth import AwsCredentials, msk_iam
from aioproducer.testing import EmbeddedKafka, unsecured_token
from tests.net.support import LIMIT, turns

SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "allow_plaintext_credentials": True}


class Blocking:
    """A function that is no coroutine function and blocks until it is released."""

    def __init__(self) -> None:
        self.calls = 0
        self.released = threading.Event()

    def __call__(self) -> str:
        """A secret."""
        self.calls += 1
        assert self.released.wait(LIMIT)
        return "secret"


async def send_beside(blocking: Blocking, kafka: EmbeddedKafka, settings: dict[str, Any]) -> None:
    """The loop goes on while a connection waits for this function, and the record is written after it."""
    async with Producer(kafka.bootstrap_servers, **settings) as producer:
        sending = asyncio.create_task(producer.send_and_wait("t", b"x"))
        while not blocking.calls:
            await turns(1)
        blocking.released.set()
        assert (await sending).offset == 0


async def in_its_thread(function: Callable[[], Any]) -> Any:
    """The result of a call."""
    return (await UserFunctions().call(function)).value


async def test_a_function_that_blocks_is_called_in_a_thread() -> None:
    """A coroutine function is called on the event loop. What a function returns may be awaited there."""

    def plain() -> int:
        return threading.get_ident()

    async def later() -> int:
        return threading.get_ident()

    class Later:
        async def __call__(self) -> int:
            return threading.get_ident()

    here = threading.get_ident()
    assert await in_its_thread(plain) != here
    assert await in_its_thread(functools.partial(plain)) != here
    for function in (later, Later(), functools.partial(functools.partial(Later()))):
        assert calling._is_coroutine_function(function)
        assert await in_its_thread(function) == here
    futures = [later()]
    assert await in_its_thread(futures.pop) == here


async def test_the_loop_runs_while_a_password_is_made() -> None:
    """A client of a vault that takes long, at the opening of a connection."""
    password = Blocking()
    settings = {**SASL, "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": password}
    async with asyncio.timeout(LIMIT), EmbeddedKafka(1, users={"alice": "secret"}) as kafka:
        kafka.create_topic("t", 1)
        await send_beside(password, kafka, settings)


async def test_the_loop_runs_while_a_token_is_made() -> None:
    """The same for a provider of tokens."""
    provider = Blocking()

    def provide() -> str:
        provider()
        return unsecured_token("alice", 600.0)

    settings = {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_token_provider": provide}
    users = {"alice": "x"}
    async with (
        asyncio.timeout(LIMIT),
        EmbeddedKafka(1, users=users, mechanisms=("OAUTHBEARER",)) as kafka,
    ):
        kafka.create_topic("t", 1)
        await send_beside(provider, kafka, settings)


async def test_credentials_of_aws_are_made_in_a_thread() -> None:
    """A function that is called for each token of `msk_iam()`."""
    threads: list[int] = []

    def give() -> AwsCredentials:
        threads.append(threading.get_ident())
        return AwsCredentials("key", "secret")

    await msk_iam("eu-west-1", give)()
    assert threads
    assert threads[0] != threading.get_ident()


async def test_one_call_at_a_time() -> None:
    """As for a provider that is a coroutine function."""
    functions, function = UserFunctions(), Blocking()
    async with asyncio.timeout(LIMIT):
        calls = [asyncio.create_task(functions.call(function)) for _ in range(3)]
        while not function.calls:
            await turns(1)
        await turns(5)
        assert function.calls == 1
        function.released.set()
        assert [(await call).value for call in calls] == ["secret"] * 3
    assert function.calls == 3


async def test_the_time_limit_begins_with_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the last of many connections would have none left."""
    monkeypatch.setattr(calling, "LONGEST_CALL", 0.2)
    functions, function = UserFunctions(), Blocking()
    async with asyncio.timeout(LIMIT):
        first = asyncio.create_task(functions.call(function))
        second = asyncio.create_task(functions.call(lambda: function.calls))
        assert (await first).problem == "gave nothing within 0.2 s"
        assert not second.done()
        function.released.set()
        assert (await second).value == 1


async def test_a_function_that_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up, and leaves one thread behind, however often it is called."""
    monkeypatch.setattr(calling, "LONGEST_CALL", 0.05)
    functions, function = UserFunctions(), Blocking()
    async with asyncio.timeout(LIMIT):
        for _ in range(3):
            assert (await functions.call(function)).problem == "gave nothing within 0.05 s"
        assert function.calls == 1
        function.released.set()
        monkeypatch.setattr(calling, "LONGEST_CALL", LIMIT)
        assert (await functions.call(function)).value == "secret"


async def test_a_further_context_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest one is used for new connections; reload_certificates() says that there is no other."""
    for limit in ("_PATIENCE", "LONGEST_CALL"):
        monkeypatch.setattr(f"aioproducer._net.securing.protocol.{limit}", 0.05)
    contexts = [ssl.create_default_context()]
    released = threading.Event()

    def make() -> ssl.SSLContext:
        if not contexts:
            assert released.wait(10.0)
            return ssl.create_default_context()
        return contexts.pop()

    config = ProducerConfig("localhost:9092", security_protocol="SSL", ssl_context=make)
    protocol = security_of(config, asyncio.get_running_loop(), random.Random(1))
    assert protocol.tls_context is not None
    first = await protocol.tls_context()
    with caplog.at_level(logging.WARNING):
        assert await protocol.tls_context() is first
        assert await protocol.tls_context() is first
    assert ["gave nothing within 0.05 s" in line for line in caplog.messages] == [True]
    with pytest.raises(ConfigurationError, match="ssl_context: the callable gave nothing within"):
        await protocol.reload_certificates()
    released.set()
    while await protocol.tls_context() is first:
        await turns(1)


async def test_a_context_for_the_side_of_the_server() -> None:
    """It would fail in each handshake."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ConfigurationError, match="ssl_context: is a context for the server's side"):
        ProducerConfig("localhost:9092", security_protocol="SSL", ssl_context=server)
    config = ProducerConfig("localhost:9092", security_protocol="SSL", ssl_context=lambda: server)
    protocol = security_of(config, asyncio.get_running_loop(), random.Random(1))
    assert protocol.tls_context is not None
    with pytest.raises(ConfigurationError, match="gave a context for the server's side"):
        await protocol.tls_context()
