"""Sources of lines: pieces of bytes that are read without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeVar

import attrs

from aioproducer.errors import printable

T = TypeVar("T")

PIECE = 1 << 18
STDIN = 0


@attrs.frozen
class Source:
    """A file, or standard input where `path` is None."""

    path: Path | None

    @classmethod
    def of(cls, argument: str) -> Source:
        """The source for an argument; `-` is standard input."""
        return cls(None if argument == "-" else Path(argument))

    @property
    def name(self) -> str:
        """Its name in error messages."""
        return "stdin" if self.path is None else printable(self.path)

    @property
    def size(self) -> int | None:
        """Its size in bytes; None for a source without a size, such as a pipe."""
        try:
            status = os.fstat(STDIN) if self.path is None else self.path.stat()
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Its bytes, in pieces of any size."""
        file = STDIN if self.path is None else await _aside(lambda: os.open(self.path or "", _FLAGS))
        try:
            while piece := await _aside(lambda: os.read(file, PIECE)):
                yield piece
        finally:
            if self.path is not None:
                os.close(file)


_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)


def bytes_on_stdin() -> None:
    """On Windows, switch standard input to binary mode."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # exists nowhere else

        msvcrt.setmode(STDIN, os.O_BINARY)


async def _aside(act: Callable[[], T]) -> T:
    """Run the work in a thread of its own, which does not block the end of the program.

    A thread of the event loop's would: nothing can interrupt a read from a terminal, and the loop waits for its own.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: OSError | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # set, because there is no error

    def work() -> None:
        result, failed = None, None
        try:
            result = act()
        except OSError as error:
            failed = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="aioproducer-reading", daemon=True).start()
    return await done
