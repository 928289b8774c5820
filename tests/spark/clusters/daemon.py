"""A program that runs beside the tests: its output goes into a file, and a test can wait for a line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

__all__ = ["Daemon", "tail"]

SECONDS_TO_END: Final = 10.0
SHOWN_LINES: Final = 60


def tail(log: Path) -> str:
    """The end of a log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return f"--- end of {log.parent.name}/{log.name} ---\n" + "\n".join(lines[-SHOWN_LINES:])


def dying_with_the_tests() -> list[str]:
    """The program ends when the tests are killed; only Linux has that."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


@attrs.define(eq=False)
class Daemon:
    """A program with a process group of its own: the processes that it starts end with it."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    log: Path
    _process: subprocess.Popen[str] | None = attrs.field(default=None, init=False)
    _lines: list[str] = attrs.field(factory=list, init=False)
    _ended: bool = attrs.field(default=False, init=False)
    _news: threading.Condition = attrs.field(factory=threading.Condition, init=False)
    _reader: threading.Thread | None = attrs.field(default=None, init=False)

    def start(self) -> None:
        """Start the program; it is not ready yet on return."""
        self._process = subprocess.Popen(
            [*dying_with_the_tests(), *self.command],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, limit: float) -> re.Match[str]:
        """The first line with this text; if there is none in time, the error has the log's end."""
        deadline = time.monotonic() + limit
        with self._news:
            while True:
                found = next(filter(None, (re.search(pattern, line) for line in self._lines)), None)
                if found is not None:
                    return found
                if self._ended or not self._news.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"{pattern!r} was not printed within {limit:g} s\n{tail(self.log)}")

    def end(self) -> None:
        """Send SIGTERM, and SIGKILL if the program stays."""
        if self._process is None or self._reader is None:
            return
        try:
            self._tell(signal.SIGTERM)
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._tell(signal.SIGKILL)
            self._process.wait(SECONDS_TO_END)
        self._reader.join(SECONDS_TO_END)

    def _tell(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines, self.log.open("w") as log:
            for line in lines:
                print(line, end="", file=log, flush=True)
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()
