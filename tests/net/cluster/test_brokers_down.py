"""Missing brokers, and servers that are no brokers: bounded attempts, clear errors, and automatic recovery."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioproducer import (
    BrokerError,
    BrokerUnavailableError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    Producer,
)
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.dialing import dial
from aioproducer._net.observing.snapshot import trouble_with
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer.testing import EmbeddedKafka
from tests.net.support import (
    LIMIT,
    Make,
    all_acked,
    engine,
    memory_in_use,
    numbers,
    outcomes,
    permits_are_all_back,
    send_all,
    turns,
    until,
    warm,
)
from tests.net.transactional import MovableClock
from tests.ports import unused_port

SKIPPED = 20.0
"""Seconds of a call, which the test skips when a broker has answered: less than the request timeout."""

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None]"]


@pytest.fixture
def dead() -> Iterator[int]:
    """A port without a listener."""
    with unused_port() as port:
        yield port


class Stranger:
    """A server at the address of a broker that answers every request with the same bytes."""

    def __init__(self, says: bytes, *, stays: bool) -> None:
        self.says = says
        self.stays = stays
        self.calls = 0
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        try:
            if self.stays:
                await reader.read(1)
            if self.says:
                writer.write(self.says)
                await writer.drain()
            if self.stays:
                await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def stranger(says: bytes, *, stays: bool = True) -> AsyncIterator[Stranger]:
    one = Stranger(says, stays=stays)
    server = await asyncio.start_server(one.take, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        await server.wait_closed()
        current = asyncio.current_task()
        takers = [t for t in asyncio.all_tasks() if t is not current and "Stranger.take" in repr(t)]
        for task in takers:
            task.cancel()
        await asyncio.gather(*takers, return_exceptions=True)


STRANGERS = {
    "http": (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", True, "HTTP"),
    "tls": (bytes.fromhex("15030300020232"), True, "TLS"),
    "garbage": (bytes(range(200, 256)) * 4, True, ""),
    "hangs up": (b"", False, ""),
    "silent": (b"", True, "no answer"),
    "short frames": (b"\0\0\0\2\0\0" * 3, True, ""),
    "empty frame": (b"\0\0\0\0", True, ""),
    "huge frame": (struct.pack(">i", 2**31 - 1) + b"x" * 100, True, ""),
    "negative length": (struct.pack(">i", -5) + b"x" * 100, True, ""),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", True, ""),
}


@pytest.mark.parametrize("kind", STRANGERS)
async def test_wrong_port(
    kind: str, make: Make, nothing_left: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that is no broker: `ready()` and `send()` fail in time and name it, in few warnings."""
    says, stays, hint = STRANGERS[kind]
    async with stranger(says, stays=stays) as one:
        producer = make(f"127.0.0.1:{one.port}", socket_connection_setup_timeout_ms=40)
        await producer.start()
        with pytest.raises(MetadataTimeoutError) as failure:
            await producer.ready(timeout=0.3)
        assert isinstance(failure.value.cause, KafkaError)
        assert f"127.0.0.1:{one.port}" in str(failure.value)
        assert hint in str(failure.value.cause)
        with pytest.raises(MetadataTimeoutError, match="somewhere") as refused:
            await producer.send("somewhere", b"v", max_block=0.1)
        assert refused.value.outcome is Outcome.NOT_WRITTEN
        assert producer.health().state == "running"
        waiting = asyncio.ensure_future(producer.ready(timeout=LIMIT))
        await until(lambda: one.calls > 2)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await producer.close()
    assert len([line for line in caplog.records if line.levelno >= logging.WARNING]) <= 3


async def test_name_that_does_not_resolve(make: Make) -> None:
    """The error names a host name without an address."""
    producer = make("nowhere.invalid:9092")
    with pytest.raises(MetadataTimeoutError, match=r"nowhere\.invalid"):
        await producer.start(wait_ready=0.3)
    await producer.close()


async def test_brokers_that_advertise_a_wrong_address(make: Make, kafka: EmbeddedKafka, dead: int) -> None:
    """The record fails in its time, with the address of the metadata."""

    def elsewhere(answer: Any) -> Any:
        return answer._replace(brokers=[broker._replace(port=dead) for broker in answer.brokers])

    kafka.faults.alter(elsewhere, api="Metadata", times=None)
    producer = make(kafka)
    await producer.start()
    await producer.partitions_for("one")
    delivery = await producer.send("one", b"v", timeout=0.2)
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    assert f":{dead}" in f"{delivery.exception()} {producer.health().last_error}"
    await producer.close()


async def test_wrong_port_that_becomes_right(make: Make, kafka: EmbeddedKafka) -> None:
    """After nonsense from its first address the producer continues with the next, and starts to work."""
    async with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as one:
        producer = make(f"127.0.0.1:{one.port},{kafka.bootstrap_servers}")
        await producer.start()
        assert (await producer.send_and_wait("one", b"0", max_block=5)).offset == 0
        await producer.close()


@pytest.mark.parametrize("start", [None, 5.0], ids=["start", "start and wait"])
async def test_first_address_is_dead(
    start: float | None, make: Make, kafka: EmbeddedKafka, dead: int
) -> None:
    """A dead first address does not keep the producer from the second."""
    producer = make(f"127.0.0.1:{dead},{kafka.bootstrap_servers}")
    await producer.start(wait_ready=start)
    assert (await producer.send_and_wait("one", b"0")).offset == 0
    await producer.close()


async def test_broker_that_comes_later(make: Make, nothing_left: None) -> None:
    """A producer may be started before its broker: a send waits for it."""
    with unused_port() as port:
        producer = make(f"127.0.0.1:{port}")
        await producer.start()
        sending = asyncio.ensure_future(producer.send_and_wait("one", b"0", max_block=10))
        await until(lambda: producer.health().last_error is not None)
    async with EmbeddedKafka(port=port):
        assert (await sending).offset == 0
        await producer.close()


async def test_start_that_waits_for_a_broker_that_is_not_there(make: Make, nothing_left: None) -> None:
    """`start(wait_ready=...)` fails in time with the cause, leaves nothing behind, and can be called again."""
    with unused_port() as port:
        producer = make(f"127.0.0.1:{port}")
        with pytest.raises(MetadataTimeoutError, match=str(port)) as failure:
            await producer.start(wait_ready=0.1)
    assert "refused" in str(failure.value.cause)
    assert producer.health().state == "new"
    async with EmbeddedKafka(port=port):
        await producer.start(wait_ready=5)
        assert (await producer.send_and_wait("one", b"0")).offset == 0
        await producer.close()


async def failure_in_bulk(producer: Producer[Any, Any]) -> None:
    raise (await (await producer.send_batch("t", [b"v"]))).errors[0]


ASKING: dict[str, Callable[[Producer[Any, Any]], Awaitable[object]]] = {
    "send": lambda producer: producer.send("t", b"v"),
    "send_and_wait": lambda producer: producer.send_and_wait("t", b"v"),
    "send_batch": failure_in_bulk,
    "partitions_for": lambda producer: producer.partitions_for("t"),
    "ready": lambda producer: producer.ready(0.05),
}


@pytest.mark.parametrize("asking", ASKING)
async def test_no_metadata_names_why(asking: str, make: Make, dead: int) -> None:
    """Without any broker, every call that waits for metadata ends with the reason, as `cause` and in its text."""
    producer = make(f"127.0.0.1:{dead}", max_block_ms=50)
    await producer.start()
    await until(lambda: producer.health().last_error is not None)
    with pytest.raises(MetadataTimeoutError, match="Connection refused") as failure:
        await ASKING[asking](producer)
    assert isinstance(failure.value.cause, BrokerUnavailableError)


async def test_queued_records_whose_time_runs_out(make: Make, dead: int) -> None:
    """Records of `send_nowait()` without a broker in their time have timed out, not written, with the reason."""
    producer = make(f"127.0.0.1:{dead}", delivery_timeout_ms=60, request_timeout_ms=50, linger_ms=0)
    await producer.start()
    await until(lambda: producer.health().last_error is not None)
    deliveries = [producer.send_nowait("t", b"v") for _ in range(3)]
    assert await outcomes(deliveries) == [Outcome.NOT_WRITTEN] * 3
    for delivery in deliveries:
        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert isinstance(error.cause, BrokerUnavailableError)
        assert str(error).count("Connection refused") == 1


async def test_missing_topic_is_not_blamed_on_a_broker(
    loop_clock: MovableClock, make: Make, dead: int
) -> None:
    """Where a broker answers that the topic does not exist, that is the cause, and not an address that failed before."""
    async with EmbeddedKafka(brokers=2, auto_create_topics=False) as kafka:
        producer = make(f"127.0.0.1:{dead},{kafka.bootstrap_servers}")
        await producer.start(wait_ready=5)
        engine(producer).last_error = BrokerUnavailableError("Connection refused")
        for _ in range(2):
            sending = asyncio.ensure_future(producer.send("missing", b"v", max_block=SKIPPED))
            await until(lambda: isinstance(trouble_with(engine(producer), "missing"), BrokerError))
            loop_clock.skip(SKIPPED)
            with pytest.raises(MetadataTimeoutError) as failure:
                await sending
            assert isinstance(failure.value.cause, BrokerError)
            assert failure.value.cause.name == "UNKNOWN_TOPIC_OR_PARTITION"
        await producer.close()


async def test_broker_restarts(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A broker that goes down with five requests in flight and comes back: all records once, in order."""
    await producer.send_and_wait("one", b"0")
    for round_ in range(3):
        hold = kafka.faults.delay(times=None)
        deliveries = await send_all(producer, range(round_ * 10 + 1, round_ * 10 + 11))
        await hold.reached()
        await kafka.faults.stop_broker(1)
        hold.heal()
        await until(lambda: producer.health().connected_brokers == 0)
        await kafka.faults.start_broker(1)
        assert await all_acked(deliveries)
    assert numbers(kafka) == list(range(31))
    assert permits_are_all_back(producer)
    assert memory_in_use(producer) == 0


async def test_calls_to_a_dead_broker_are_bounded(make: Make, nothing_left: None) -> None:
    """Senders, metadata and identity together dial a broker no more often than the reconnect backoff allows."""
    async with stranger(b"", stays=False) as one, EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        producer = await warm(
            make(kafka, reconnect_backoff_ms=20, reconnect_backoff_max_ms=100, retry_backoff_ms=1), "one"
        )
        await producer.send_and_wait("one", b"0")
        await kafka.faults.stop_broker(1)
        # The address leads to a server that accepts every connection, closes it, and counts.
        server = await asyncio.start_server(one.take, "127.0.0.1", kafka.brokers[0].port)
        delivery = await producer.send("one", b"1", timeout=1.0)
        await delivery.wait(5)
        # 20 + 40 + 80 + 100 ms each, 20 % shorter at most: 14 in a second; separate backoffs would make 40.
        assert 4 <= one.calls <= 16
        await producer.close()
        server.close()
        await server.wait_closed()


async def test_broker_that_hangs_up_after_each_request(make: Make, kafka: EmbeddedKafka) -> None:
    """A broker that accepts connections, but never answers, is dialed with a growing pause as well."""
    producer = await warm(
        make(kafka, batch_size=1, reconnect_backoff_ms=20, reconnect_backoff_max_ms=100, retry_backoff_ms=1,
             retry_backoff_max_ms=1), "four",
    )  # fmt: skip
    cut = kafka.faults.cut(before=True, times=None)
    deliveries = [
        *await send_all(producer, range(5), "four", partition=0, timeout=1.0),
        *await send_all(producer, range(5), "four", partition=1, timeout=1.0),
    ]
    await outcomes(deliveries)
    connection, _ = producer.stats().connections
    assert 3 <= connection.connects <= 16
    cut.heal()
    assert await all_acked(await send_all(producer, range(4), "four"))


async def test_a_connection_that_ends_while_it_is_opened(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dialer gets a connection that is already closed: the loop keeps turning, and the broker is dialed again."""
    ended: list[str] = []

    async def dial_and_lose(endpoint: BrokerEndpoint, *arguments: Any, **options: Any) -> Connection:
        connection = await dial(endpoint, *arguments, **options)
        if endpoint.node_id is not None and len(ended) < 3:
            connection.close()
            ended.append(connection.broker)
        return connection

    monkeypatch.setattr("aioproducer._net.connecting.addresses.dial", dial_and_lose)
    producer = make(kafka)
    await producer.start()
    assert await all_acked(await send_all(producer, range(3)))
    assert len(ended) == 3
    assert numbers(kafka) == [0, 1, 2]


async def test_warnings_are_few(
    loop_clock: MovableClock, make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that is down for a while causes one warning, not one for each attempt; a clean close causes none."""
    caplog.set_level(logging.INFO, "aioproducer")
    producer = await warm(make(kafka), "one")
    await producer.send_and_wait("one", b"0")
    await kafka.faults.stop_broker(1)
    delivery = await producer.send("one", b"1")
    # A warning follows the line about the end of the connection after a second, and the next warning after ten more. The record
    # lives longer than that: without it nothing would be dialed.
    for failures in (3, 6, 9, 12):
        await until(lambda: producer.stats().connections[0].failures >= failures)  # noqa: B023  # awaited here
        loop_clock.skip(1.1)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["cannot connect" in text for text in warnings] == [True], warnings
    caplog.clear()
    await kafka.faults.start_broker(1)
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    await producer.send_and_wait("one", b"2")
    await producer.close()
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    # The delayed record has lines of its own, which name its partition.
    assert [text for text in warnings if "one-0" not in text] == []


async def test_idle_disconnect_is_no_warning(
    producer: Producer, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that the broker closes causes no warning if the next one works."""
    await producer.send_and_wait("one", b"0")
    kafka.faults.cut(before=True)
    await producer.send_and_wait("one", b"1")
    kafka.faults.drop_connections(1)
    await producer.send_and_wait("one", b"2")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("turns_before", range(5))
async def test_a_client_that_comes_while_its_broker_goes(turns_before: int, nothing_left: None) -> None:
    """A connection accepted while the broker goes down is closed: no socket is left open without an owner."""
    async with EmbeddedKafka() as kafka:
        host, port = kafka.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port))) as client:
            await turns(turns_before)
            await kafka.faults.stop_broker(1)
            client.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(client.recv, 1) == b""
