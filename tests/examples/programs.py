"""Running an example as a user does: as a program of its own, with a Kafka in the place of localhost:9092."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import attrs
import httpx

from tests.repo.source import ROOT

EXAMPLES = ROOT / "examples"
PYTHON = [sys.executable, "-W", "error"]
ADDRESS = re.compile(r"running on (http://[\d.]+:\d+)", re.IGNORECASE)
STOP_LIMIT = 20.0


class Kafka(Protocol):
    """An embedded Kafka, or a real one."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of its brokers."""
        ...


@attrs.frozen
class Ended:
    """A program that has ended."""

    code: int
    output: str
    errors: str


def example(name: str) -> Path:
    """An example by its name."""
    path = EXAMPLES / name
    assert path.exists(), f"no example {name}"
    return path


def environment(kafka: Kafka) -> dict[str, str]:
    """The environment variables of the examples."""
    return {**os.environ, "KAFKA": kafka.bootstrap_servers}


async def run(kafka: Kafka, *command: str | Path) -> Ended:
    """Run Python with these arguments to its end."""
    async with started(kafka, *command) as process:
        return await ended(process)


@asynccontextmanager
async def started(
    kafka: Kafka, *command: str | Path, stdin: int | None = None, **variables: str
) -> AsyncIterator[Process]:
    """Python with these arguments while it runs; it is killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *PYTHON,
        *command,
        cwd=ROOT,
        env=environment(kafka) | variables,
        stdin=stdin,
        stdout=PIPE,
        stderr=PIPE,
        preexec_fn=_heed_interrupts,
    )
    try:
        yield process
    finally:
        await _ended(process)


async def ended(process: Process) -> Ended:
    """Wait for a program to end."""
    output, errors = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, output.decode(), errors.decode())


@attrs.define
class Server:
    """A web server that runs, and everything that it has printed."""

    _process: Process
    lines: list[str] = attrs.field(factory=list)
    _reader: asyncio.Task[None] | None = None
    _printed: asyncio.Condition = attrs.field(factory=asyncio.Condition)

    async def listening(self) -> str:
        """Read until it says where it listens; what comes later is read in the background."""
        address = None
        while address is None:
            line = await self._line()
            assert line, "it ended: " + "".join(self.lines)
            address = ADDRESS.search(line)
        self._reader = asyncio.create_task(self._rest())
        return address[1]

    async def stop(self, how: signal.Signals) -> int:
        """Ask it to end, and wait for that; gives its exit code."""
        self._process.send_signal(how)
        async with asyncio.timeout(STOP_LIMIT):
            assert self._reader is not None
            await self._reader
            return await self._process.wait()

    async def told(self, text: str) -> None:
        """Wait until it has printed this."""
        async with asyncio.timeout(STOP_LIMIT), self._printed:
            await self._printed.wait_for(lambda: text in self.output)

    @property
    def output(self) -> str:
        """All that it has printed."""
        return "".join(self.lines)

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        async with self._printed:
            self.lines.append(line)
            self._printed.notify_all()
        return line

    async def _rest(self) -> None:
        while await self._line():
            pass


async def ready(client: httpx.AsyncClient, path: str = "/probes/ready") -> httpx.Response:
    """Ask as Kubernetes does, until the answer is yes: on a busy machine an application may start before its metadata is there."""
    async with asyncio.timeout(STOP_LIMIT):
        while (answer := await client.get(path)).status_code == httpx.codes.SERVICE_UNAVAILABLE:
            pass
    return answer


@asynccontextmanager
async def serving(kafka: Kafka, *command: str | Path) -> AsyncIterator[tuple[Server, str]]:
    """A server while it runs, and its address; a test that does not stop it kills it."""
    process = await asyncio.create_subprocess_exec(
        *PYTHON,
        *command,
        cwd=ROOT,
        env=environment(kafka),
        stdout=PIPE,
        stderr=STDOUT,
        preexec_fn=_heed_interrupts,
    )
    server = Server(process)
    try:
        yield server, await server.listening()
    finally:
        await _ended(process)


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def _heed_interrupts() -> None:
    # What runs these tests in the background ignores Ctrl-C, and what they start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
