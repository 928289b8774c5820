"""The command line, run as a user runs it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process

import pytest

from aioproducer import Producer
from tests.repo.source import ROOT

PROGRAM = [sys.executable, "-W", "error", "-m", "aioproducer"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )


async def start(*arguments: str) -> Process:
    """Start a command; one that Ctrl-C reaches, also where these tests run in the background."""
    return await asyncio.create_subprocess_exec(
        *PROGRAM, *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE, preexec_fn=_heed_interrupts
    )


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_demo_sends_reads_back_and_verifies() -> None:
    """The demo's table says that every record was acknowledged, read back and verified; exit code 0."""
    result = run("demo", "--records", "2000", "--tasks", "7")
    assert result.returncode == 0, result.stderr
    table = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert table["records"] == "2,000 of 100 bytes, from 7 tasks"
    assert table["acked"] == "2,000"
    assert table["verified"].startswith("yes")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "COMMAND"),
        (("frobnicate",), "frobnicate"),
        (("demo", "--records", "many"), "'many' is not a whole number from 1 to 10000000"),
        (("demo", "--tasks", "0"), "'0' is not a whole number"),
        (("broker", "--port", "70000"), "'70000' is not a whole number from 0 to 65535"),
        (("broker", "--brokers", "0"), "'0' is not a whole number from 1 to 100"),
    ],
)
def test_wrong_usage_is_named(arguments: tuple[str, ...], complaint: str) -> None:
    """Wrong usage ends with exit code 2 and says on stderr what is wrong."""
    result = run(*arguments)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert result.stdout == ""


def test_version_is_told() -> None:
    """--version prints it and ends well."""
    result = run("--version")
    assert (result.returncode, result.stdout.split()[0]) == (0, "aioproducer")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
async def test_broker_serves_until_told_to_stop(number: signal.Signals) -> None:
    """`broker` prints its addresses, serves a producer, and ends cleanly on Ctrl-C or SIGTERM."""
    process = await start("broker", "--port", "0", "--brokers", "2")
    assert process.stdout is not None
    assert process.stderr is not None
    servers = (await process.stdout.readline()).decode().removeprefix("bootstrap servers: ").strip()
    assert len(servers.split(",")) == 2
    async with Producer(servers) as producer:
        metadata = await producer.send_and_wait("orders", b"2 apples")
    process.send_signal(number)
    output, errors = await process.communicate()
    assert (process.returncode, metadata.offset, output, errors) == (0, 0, b"stopped\n", b"")


async def test_broker_names_the_port_that_is_taken() -> None:
    """A port in use ends `broker` with exit code 1 and one line on stderr that names it."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        process = await start("broker", "--port", str(port))
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert str(port) in errors.decode()
    assert len(errors.splitlines()) == 1


async def test_interrupted_demo_leaves_no_traceback() -> None:
    """Ctrl-C during the demo ends it with exit code 1 and one line on stderr."""
    process = await start("demo", "--records", "5000000", "--tasks", "3")
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"sending")
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (1, b"aioproducer: interrupted\n")
