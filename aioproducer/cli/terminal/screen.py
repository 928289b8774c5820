"""The output streams: results on stdout, error messages on stderr, progress in terminals."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from rich.console import Console, RenderableType
from rich.text import Text

LINES_EVERY = 1.0


class Meter(Protocol):
    """Shows progress."""

    def show(self, done: float, text: str) -> None:
        """Show this part of the total, and the text."""
        ...


def write_nowhere(stream: IO[str]) -> None:
    """Lead the stream away from a place that cannot be written to: it has kept text, and would fail at the end as well."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _Stream(Console):
    """A stream whose reader may disappear: `| head`. The work continues, as with Kafka's own tools."""

    def on_broken_pipe(self) -> None:
        write_nowhere(self.file)


class Screen:
    """The two streams of a program, and the progress bar on one of them."""

    def __init__(self) -> None:
        self.out = _Stream(highlight=False, markup=False, emoji=False)
        self.err = _Stream(stderr=True, highlight=False, markup=False, emoji=False)
        self._drawn_on: _Stream | None = None

    def say(self, what: RenderableType) -> None:
        """Print a result."""
        self._print(self.out, what)

    def complain(self, text: str) -> None:
        """Print an error message."""
        self._print(self.err, text)

    def _print(self, console: _Stream, what: RenderableType) -> None:
        # Text in a terminal goes above the bar; piped text goes to its stream.
        if self._drawn_on is not None and console.is_terminal:
            console = self._drawn_on
        try:
            if isinstance(what, str):
                console.print(what, soft_wrap=True)
            else:
                console.print(_without_padding(console, what), soft_wrap=True)
        except BrokenPipeError:
            console.on_broken_pipe()  # older versions of rich leave that to the caller

    @property
    def blocks(self) -> bool:
        """Whether stdout can show the block characters that bars are drawn with."""
        return self.out.encoding.lower().startswith("utf")

    @contextmanager
    def progress(self, title: str, total: float | None, wanted: bool | None = None) -> Iterator[Meter]:
        """A bar in a terminal; elsewhere nothing, or a line each second on request."""
        console = self.err if self.err.is_terminal else self.out
        if wanted is False or not (console.is_terminal or wanted):
            yield _Silence()
        elif not console.is_terminal:
            yield _Lines(self, title)
        else:
            with self._bar(console, title, total) as meter:
                yield meter

    @contextmanager
    def _bar(self, console: _Stream, title: str, total: float | None) -> Iterator[Meter]:
        from aioproducer.cli.terminal.bar import drawn_bar  # noqa: PLC0415  # most of rich, which pipes do without

        self._drawn_on = console
        try:
            with drawn_bar(console, title, total) as meter:
                yield meter
        finally:
            self._drawn_on = None

    @contextmanager
    def log(self) -> Iterator[Log]:
        """Print warnings of the library as error messages in this context, once they are `shown`."""
        handler = Log(self)
        log = logging.getLogger("aioproducer")
        log.addHandler(handler)
        log.propagate = False
        try:
            yield handler
        finally:
            log.removeHandler(handler)
            log.propagate = True


def _without_padding(console: Console, what: RenderableType) -> Text:
    """A table whose lines end where their text ends."""
    with console.capture() as drawn:
        console.print(what)
    lines = Text.from_ansi(drawn.get()).split()
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


class _Silence:
    def show(self, done: float, text: str) -> None:
        pass


class _Lines:
    def __init__(self, screen: Screen, title: str) -> None:
        self._screen = screen
        self._title = title
        self._last = time.monotonic()

    def show(self, done: float, text: str) -> None:
        now = time.monotonic()
        if now - self._last >= LINES_EVERY:
            self._last = now
            self._screen.complain(f"{self._title}: {text}")


class Log(logging.Handler):
    """Log messages of the library. They are not shown while connecting, which ends with an error that has the reason."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self.shown = False
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        if self.shown:
            self._screen.complain(f"aioproducer: {record.getMessage()}")
