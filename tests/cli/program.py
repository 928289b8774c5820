"""Running the program as its users do: in a pipe, and in a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

import attrs

from tests.repo.source import ROOT

PROGRAM = [sys.executable, "-W", "error", "-m", "aioproducer"]
# What the person who runs these tests has set is not to decide.
SET_BY_PEOPLE = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
ESCAPE = "\x1b"
COLOUR = re.compile(r"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m")


@attrs.frozen
class Ended:
    """The exit code and the output of a run."""

    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    """The environment of a run, without the variables that change the terminal output; `changes` are added."""
    kept = {name: value for name, value in os.environ.items() if name not in SET_BY_PEOPLE}
    return kept | {"TERM": "xterm"} | changes


async def start(*arguments: str | Path, stdin: int = DEVNULL, stdout: int = PIPE) -> Process:
    """Start a command in a pipe; one that Ctrl-C reaches, also where these tests run in the background."""
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        *map(str, arguments),
        cwd=ROOT,
        env=environment(),
        stdin=stdin,
        stdout=stdout,
        stderr=PIPE,
        preexec_fn=_heed_interrupts,
    )


async def ended(process: Process, stdin: bytes | None = None) -> Ended:
    """Wait for its end."""
    out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def run(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Run a command in a pipe, to its end."""
    return await ended(await start(*arguments, stdin=PIPE), stdin)


async def run_in_terminal(*arguments: str | Path, columns: int = 80, **variables: str) -> tuple[int, str]:
    """Run a command in a terminal of this width; its exit code, and everything that it drew."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *map(str, arguments),
        cwd=ROOT,
        env=environment(**variables),
        stdin=its,
        stdout=its,
        stderr=its,
        preexec_fn=_heed_interrupts,
    )
    os.close(its)
    drawn = await asyncio.to_thread(_all_of, ours)
    return await process.wait(), drawn.decode()


def _all_of(terminal: int) -> bytes:
    drawn = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            drawn += piece
    except OSError:
        pass  # how a terminal says that its program has gone
    finally:
        os.close(terminal)
    return drawn


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
