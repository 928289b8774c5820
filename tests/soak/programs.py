"""The programs beside a soak, each a process of its own: what they are told, and what they answer."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any, Self

import attrs

from tests.repo.source import ROOT
from tests.soak.judging.letters import Mark, of_mark

_LONGEST_LINE = 1 << 20


async def start(module: str, *arguments: str) -> Process:
    """A program of this folder, with pipes, which Ctrl-C does not reach: the soak ends it."""
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
    """The next thing that a program says."""
    assert process.stdout is not None
    said = await process.stdout.readline()
    if not said:
        raise EOFError(f"a program beside the soak has ended with code {await process.wait()}")
    answer: dict[str, Any] = json.loads(said)
    return answer


async def end(process: Process, timeout: float = 30.0) -> None:
    """Close its input, and wait for its end; one that stays is killed."""
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
    """The cluster, wherever it runs."""

    process: Process
    servers: str
    faults: int
    """How many kinds of faults it knows."""
    _one_at_a_time: asyncio.Lock = attrs.Factory(asyncio.Lock)

    @classmethod
    async def start(cls, topics: dict[str, int], *, real: bool) -> Self:
        """Three brokers with these topics."""
        process = await start("real_brokers" if real else "brokers", json.dumps(topics))
        try:
            began = await line(process)
        except BaseException:
            await end(process)
            raise
        return cls(process, began["servers"], began["faults"])

    async def strike(self, number: int, seed: int, longest: float) -> str:
        """Make one fault, and wait until it is over; its name."""
        answer = await self._do(do="fault", number=number, seed=seed, longest=longest)
        self.servers = answer["servers"]
        return str(answer["fault"])

    async def trim(self, offsets: dict[str, dict[str, int]]) -> None:
        """Let them drop what was judged."""
        await self._do(do="trim", offsets=offsets)

    async def sleep(self, seconds: float) -> None:
        """SIGSTOP all of them: connections can be made, and nothing comes of it."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """No cluster any more."""
        await end(self.process)

    async def _do(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        async with self._one_at_a_time:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            return await line(self.process)


@attrs.define(eq=False)
class Court:
    """Whoever judges."""

    process: Process

    @classmethod
    async def start(cls, servers: str, topics: dict[str, int], disordered: list[str]) -> Self:
        """Let it read these topics."""
        return cls(await start("court", servers, json.dumps(topics), json.dumps(disordered)))

    async def tell(self, history: bytearray, mark: Mark | None = None) -> None:
        """Send what is resolved, and perhaps a mark; the history is empty then."""
        assert self.process.stdin is not None
        told = bytes(history) + (b"" if mark is None else of_mark(mark))
        history.clear()
        self.process.stdin.write(told)
        await self.process.stdin.drain()

    async def verdict(self) -> dict[str, Any]:
        """The next window's."""
        return await line(self.process)

    async def end(self) -> None:
        """It goes home."""
        await end(self.process)
