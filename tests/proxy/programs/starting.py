"""Starting the brokers and clients that need a process of their own, and hearing what they have found out."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.repo.source import ROOT


async def start(module: str, *arguments: object) -> Process:
    """A program of this folder, with pipes."""
    command = [sys.executable, "-W", "error", "-m", f"tests.proxy.programs.{module}", *map(str, arguments)]
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE)


def numbers(text: bytes) -> list[int]:
    """The numbers in the output of a program."""
    return [int(word) for word in text.split()]


async def result(module: str, *arguments: object) -> list[int]:
    """Run a program to its end; the numbers that it printed."""
    process = await start(module, *arguments)
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return numbers(out)


async def _port(process: Process) -> int:
    assert process.stdout is not None
    assert process.stderr is not None
    line = await process.stdout.readline()
    assert line, (await process.stderr.read()).decode()
    return int(line)


@asynccontextmanager
async def broker(module: str, *arguments: object) -> AsyncIterator[tuple[Process, int]]:
    """A broker in a process of its own, and its port; it ends with the block, or when its input is closed."""
    process = await start(module, *arguments)
    try:
        yield process, await _port(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def last_words(process: Process) -> list[int]:
    """Let a broker end, and hear the numbers that it then prints."""
    out, err = await process.communicate(b"")  # closes its input, which None does from Python 3.12 on only
    assert process.returncode == 0, err.decode()
    return numbers(out)
