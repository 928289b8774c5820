"""The progress bar of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


class Bar:
    """A bar that is drawn at each call of `show`."""

    def __init__(self, progress: Progress, title: str, total: float | None) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total, text="")

    def show(self, done: float, text: str) -> None:
        """Show this part of the total, and the text."""
        self._progress.update(self._task, completed=done, text=text, refresh=True)


@contextmanager
def drawn_bar(console: Console, title: str, total: float | None) -> Iterator[Bar]:
    """A bar in this context; afterwards its line is empty again."""
    columns = [TextColumn("{task.description}"), BarColumn(bar_width=None)]
    columns += [TaskProgressColumn()] if total is not None else []
    columns += [TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn()]
    # Nothing is redirected: other output goes through the screen.
    with Progress(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        yield Bar(progress, title, total)
