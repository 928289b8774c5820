"""The searches for the records of held rows, which are made beside all else."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer.outbox.doubts import search

if TYPE_CHECKING:
    from aioproducer.outbox.held import Held, HeldRow

__all__ = ["Looking"]

log: Final = logging.getLogger("aioproducer")

# The time of one search, in seconds. It ends before, where the log tells.
SEARCH: Final = 2.0


class Looking:
    """One search at a time, for some of the rows whose pause is over. `changed` is called at its end."""

    def __init__(self, held: Held, changed: Callable[[], None], now: Callable[[], float]) -> None:
        self._held = held
        self._changed = changed
        self._now = now
        self._task: asyncio.Task[set[int]] | None = None
        self._rows: Sequence[HeldRow] = ()

    @property
    def due(self) -> float:
        """The time of the next search."""
        return math.inf if self._task is not None else self._held.due

    def go_on(self) -> None:
        """Note what a search has shown, and begin the next one when it is due."""
        if self._task is not None and self._task.done():
            self._note(self._task.result())
        if self._task is None and (due := self._held.begin_search(self._now())):
            # They are read again before they are ended: another program may delete them meanwhile.
            self._held.read_again(due)
            self._rows = due
            self._task = asyncio.ensure_future(search([each.doubts for each in due], SEARCH))
            self._task.add_done_callback(lambda _: self._changed())

    def end(self) -> None:
        """The session ends, and its tasks have ended: the next search for these rows comes after their pause."""
        if self._task is not None and self._task.cancelled():
            self._task = None
            self._held.end_search(self._rows, (), self._now())
        elif self._task is not None:
            self._note(self._task.result())

    def _note(self, found: set[int]) -> None:
        self._task = None
        self._held.end_search(self._rows, found, self._now())
        for each in self._rows:
            if each in self._held and each.is_to_be_logged(self._now()):
                _log(each)

    @property
    def tasks(self) -> Sequence[asyncio.Task[set[int]]]:
        """The task of the search."""
        return () if self._task is None else (self._task,)


def _log(held: HeldRow) -> None:
    log.warning(
        "outbox: row %d is held, and others go on: it is refused, and an earlier record of it may be written: %s; refused: %s",
        held.row.id,
        held.doubts.reason,
        held.error,
    )
