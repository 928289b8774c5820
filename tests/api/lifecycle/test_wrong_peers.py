"""Addresses where no Kafka is: clear errors in bounded time, and the producer keeps trying where it may."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aioproducer import KafkaError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.support import LIMIT, until, values

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
TLS_ALERT = bytes.fromhex("15030300020246")
HUGE = struct.pack(">i", 2**31 - 1) + b"x" * 100
NEGATIVE = struct.pack(">i", -5) + b"x" * 100
GARBAGE = bytes(range(256)) * 4

Answering = Callable[[bytes | None], Any]


@pytest.fixture
async def answering() -> AsyncIterator[Answering]:
    """Servers that answer every request with the same bytes; None: they say nothing."""
    servers: list[asyncio.Server] = []
    tasks: set[asyncio.Task[Any]] = set()

    async def start(answer: bytes | None) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            with contextlib.suppress(ConnectionError):
                while await reader.read(1000):
                    if answer is not None:
                        writer.write(answer)
            writer.close()

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        return f"127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


QUICK: dict[str, Any] = {"socket_connection_setup_timeout_ms": 100, "reconnect_backoff_ms": 10}


async def problem(servers: str) -> str:
    """What start(wait_ready) and send() say of these servers; both within their time."""
    producer: Producer[Any, Any] = Producer(servers, **QUICK)
    with pytest.raises(KafkaError) as caught:
        await asyncio.wait_for(producer.start(wait_ready=0.3), LIMIT)
    async with producer:
        with pytest.raises(KafkaError) as sent:
            await asyncio.wait_for(producer.send("one", b"v", max_block=0.3), LIMIT)
        assert sent.value.outcome is Outcome.NOT_WRITTEN
        assert producer.health().state == "running"
    assert str(caught.value.__cause__)[:60] in str(caught.value)
    return str(caught.value)


async def test_http_server(answering: Answering) -> None:
    """A web server is named as what it is."""
    address = await answering(HTTP)
    text = await problem(address)
    assert "HTTP" in text
    assert address in text


async def test_tls_listener(answering: Answering) -> None:
    """A listener that wants TLS is named as what it is."""
    assert "TLS" in await problem(await answering(TLS_ALERT))


@pytest.mark.parametrize("answer", [HUGE, NEGATIVE, GARBAGE, b"\0\0\0\0", b"SSH-2.0-OpenSSH_9.2\r\n"])
async def test_garbage(answering: Answering, answer: bytes) -> None:
    """Bytes that are no frame of Kafka's are an error that names the address."""
    address = await answering(answer)
    assert address in await problem(address)


async def test_silent_server(answering: Answering) -> None:
    """A server that says nothing is given up after the connection set-up time, and the text says so."""
    address = await answering(None)
    text = await problem(address)
    assert address in text
    assert "no answer" in text or "answered" in text


async def test_server_that_hangs_up() -> None:
    """A server that closes every connection is an error that names the address."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        assert address in await problem(address)


async def test_name_that_does_not_resolve() -> None:
    """A host name that is none is an error that names it."""
    assert "nowhere.invalid" in await problem("nowhere.invalid:9092")


async def test_wrong_server_beside_a_right_one(answering: Answering) -> None:
    """With one right address among wrong ones the producer works."""
    async with EmbeddedKafka() as kafka:
        servers = ",".join([await answering(HTTP), "127.0.0.1:1", kafka.bootstrap_servers])
        async with Producer(servers, **QUICK) as producer:
            await asyncio.wait_for(producer.send_and_wait("one", b"v"), LIMIT)
        assert values(kafka) == [b"v"]


async def test_no_storm_of_connections(answering: Answering) -> None:
    """A wrong server is not called again and again without a pause."""
    calls = 0

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Producer(address) as producer:
        with pytest.raises(KafkaError):
            await producer.send("one", b"v", max_block=0.4)
    assert 1 <= calls <= 8


async def test_logging_is_limited(answering: Answering, caplog: pytest.LogCaptureFixture) -> None:
    """A server that is wrong for long is a few warnings, not one for each attempt."""
    async with Producer(
        await answering(HTTP), reconnect_backoff_ms=1, reconnect_backoff_max_ms=1
    ) as producer:
        with pytest.raises(KafkaError):
            await producer.send("one", b"v", max_block=0.3)
    loud = [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]
    assert len(loud) <= 3


async def test_brokers_that_are_wrong_in_the_metadata() -> None:
    """Brokers that advertise an address where no Kafka is: the record fails in its time, with the address."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one")

        def elsewhere(answer: Any) -> Any:
            return answer._replace(brokers=[broker._replace(port=1) for broker in answer.brokers])

        kafka.faults.alter(elsewhere, api="Metadata", times=None)
        async with Producer(kafka.bootstrap_servers, **QUICK) as producer:
            delivery = await producer.send("one", b"v", timeout=0.2)
            assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
            assert ":1" in str(delivery.exception()) + str(producer.health().last_error)
            await until(lambda: all(one.state != "connected" for one in producer.stats().connections))
