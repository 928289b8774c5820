"""The programs beside a soak, each a process of its own: their commands and their answers."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Self

import attrs

from tests.repo.source import ROOT
from tests.soak.judging.history_format import Mark, of_mark

_LONGEST_LINE = 1 << 20


async def start(module: str, *arguments: str) -> Process:
    """Start a program of this folder with pipes; Ctrl-C does not reach it: the soak ends it."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"tests.soak.{module}",
        *arguments,
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        start_new_session=True,
        limit=_LONGEST_LINE,
    )


async def line(process: Process) -> dict[str, Any]:
    """The next line of a program."""
    assert process.stdout is not None
    said = await process.stdout.readline()
    if not said:
        raise EOFError(f"a program beside the soak has ended with code {await process.wait()}")
    answer: dict[str, Any] = json.loads(said)
    return answer


async def end(process: Process, timeout: float = 30.0) -> None:
    """Close its input, and wait for its end; a program that stays is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@attrs.define(eq=False)
class Brokers:
    """The process of the cluster, embedded or real."""

    process: Process
    servers: str
    """The addresses for producers."""
    readers_servers: str
    """The addresses for a client without credentials."""
    folder: Path | None
    """The files of producers, of a secured cluster."""
    faults: int
    """The number of kinds of faults."""
    _one_at_a_time: asyncio.Lock = attrs.Factory(asyncio.Lock)

    @classmethod
    async def start(cls, topics: dict[str, int], *, module: str) -> Self:
        """Three brokers with these topics."""
        process = await start(module, json.dumps(topics))
        try:
            began = await line(process)
        except BaseException:
            await end(process)
            raise
        folder = Path(began["folder"]) if "folder" in began else None
        readers = began.get("readers_servers", began["servers"])
        return cls(process, began["servers"], readers, folder, began["faults"])

    async def strike(self, number: int, seed: int, longest: float) -> str:
        """Make one fault, and wait until it is over; returns its name."""
        answer = await self._do(do="fault", number=number, seed=seed, longest=longest)
        self.servers = answer["servers"]
        return str(answer["fault"])

    async def trim(self, offsets: dict[str, dict[str, int]]) -> None:
        """Delete judged records."""
        await self._do(do="trim", offsets=offsets)

    async def sleep(self, seconds: float) -> None:
        """SIGSTOP to the process: connections can be made, and no request is answered."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """End the cluster."""
        await end(self.process)

    async def _do(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        async with self._one_at_a_time:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            return await line(self.process)


@attrs.define(eq=False)
class JudgeProcess:
    """The process of the judge."""

    process: Process

    @classmethod
    async def start(cls, servers: str, topics: dict[str, int], disordered: list[str]) -> Self:
        """Start the judge of these topics."""
        return cls(await start("judge_process", servers, json.dumps(topics), json.dumps(disordered)))

    async def send(self, history: bytearray, mark: Mark | None = None) -> None:
        """Send the resolved records, and a mark if given; the history is empty then."""
        assert self.process.stdin is not None
        parts = bytes(history) + (b"" if mark is None else of_mark(mark))
        history.clear()
        self.process.stdin.write(parts)
        await self.process.stdin.drain()

    async def verdict(self) -> dict[str, Any]:
        """The verdict about the next window."""
        return await line(self.process)

    async def end(self) -> None:
        """End the process."""
        await end(self.process)
