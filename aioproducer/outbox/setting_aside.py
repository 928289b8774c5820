"""The dead letters of held rows, which are written beside all else."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer.outbox.backoff import Backoff
from aioproducer.outbox.held import FIRST_PAUSE, LONGEST_PAUSE
from aioproducer.outbox.letters import DeadLetterFailedError

if TYPE_CHECKING:
    from aioproducer.outbox.held import Held, HeldRow
    from aioproducer.outbox.letters import Letters

__all__ = ["SettingAside"]

log: Final = logging.getLogger("aioproducer")


class SettingAside:
    """One letter at a time, of the held rows that are certainly not written. `changed` is called at its end.

    Rows behind them wait neither for an outlet that is slow, nor for one that fails.
    """

    def __init__(
        self, held: Held, letters: Letters | None, changed: Callable[[], None], now: Callable[[], float]
    ) -> None:
        self._held = held
        self._letters = letters
        self._changed = changed
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self._row: HeldRow | None = None
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        # The end of the pause after a failure.
        self._due: float | None = None

    @property
    def due(self) -> float:
        """The time of the next attempt, after one that has failed."""
        return math.inf if self._due is None else self._due

    @property
    def is_writing(self) -> bool:
        """Whether a letter is on its way."""
        return self._task is not None and not self._task.done()

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """The task that writes it."""
        return () if self._task is None else (self._task,)

    def go_on(self) -> None:
        """Note what became of a letter, and begin the next one, if no pause is to be made."""
        self.note()
        is_pausing = self._due is not None and self._due > self._now()
        if self._letters is None or self._task is not None or is_pausing:
            return
        if self._due is not None:
            # They are read again before: another program may have deleted them meanwhile.
            self._due = None
            self._read_again(self._held.waiting)
        elif (row := self._held.next_letter) is not None:
            self._row = row
            self._task = asyncio.ensure_future(self._letters.write(row.row, row.error))
            self._task.add_done_callback(lambda _: self._changed())

    def note(self) -> None:
        """Note what became of a letter."""
        task, row = self._task, self._row
        if task is None or row is None or not task.done():
            return
        self._task = self._row = None
        try:
            task.result()
        except DeadLetterFailedError as failed:
            self._failed(row, failed.error)
        except asyncio.CancelledError as cancelled:
            # By the outlet itself.
            self._failed(row, cancelled)
        else:
            self._backoff.reset()
            self._held.letter_ends(row, is_written=True)
            # Meanwhile another program may have deleted it, and made another one with its id.
            self._read_again([row])

    def end(self) -> None:
        """Note what became of a letter, unless it was withdrawn because the session ends."""
        if self._task is not None and not self._task.cancelled():
            self.note()

    def _read_again(self, rows: Sequence[HeldRow]) -> None:
        self._held.read_again(rows)
        self._changed()

    def _failed(self, row: HeldRow, error: BaseException) -> None:
        self._held.letter_ends(row, is_written=False)
        pause = self._backoff.next()
        self._due = self._now() + pause
        log.warning(
            "outbox: the dead letter of row %d, which is held, was not written; tried again in %.3g s: %s: %s",
            row.row.id,
            pause,
            type(error).__name__,
            error,
        )
