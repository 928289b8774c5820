"""`aioproducer broker`, run as a user runs it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from aioproducer import Producer
from tests.cli.program import Ended, ended, start


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
async def test_broker_serves_until_told_to_stop(number: signal.Signals) -> None:
    """`broker` prints its addresses, serves a producer, and ends cleanly on Ctrl-C or SIGTERM."""
    process = await start("broker", "--port", "0", "--brokers", "2")
    assert process.stdout is not None
    servers = (await process.stdout.readline()).decode().removeprefix("bootstrap servers: ").strip()
    assert len(servers.split(",")) == 2
    async with Producer(servers) as producer:
        metadata = await producer.send_and_wait("orders", b"2 apples")
    assert metadata.offset == 0
    process.send_signal(number)
    assert await ended(process) == Ended(0, "stopped\n", "")


async def test_broker_names_the_port_that_is_taken() -> None:
    """A port in use ends `broker` with exit code 1 and one line on stderr that names it."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        done = await ended(await start("broker", "--port", str(port)))
    assert done.code == 1
    assert str(port) in done.err
    assert len(done.err.splitlines()) == 1


async def test_broker_has_no_ports_above_the_last() -> None:
    """Brokers whose ports would pass the last one are a wrong use, in one line."""
    done = await ended(await start("broker", "--port", "65534", "--brokers", "3"))
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "aioproducer: 3 brokers from this port need ports above 65535; see 'aioproducer broker --help'"
    ]
