"""A busy machine for tests of the event loop: `pytest -p tests.busy_machine` halts every loop as a scheduler does that has others to serve.

A loop runs for some milliseconds and stands still for some, and sometimes for long. The times follow from a seed (`AIOPRODUCER_RUN_SEED`) and
the test. Tests that fail only here rely on a wait that only an idle machine keeps short.
"""

from __future__ import annotations

import random
import selectors
import time
from typing import Any, Final

import pytest

from tests.seeds import seed_of

_RUNS: Final = (0.001, 0.02)
_STANDS: Final = (0.002, 0.06)
_STANDS_LONG: Final = (0.05, 0.4)
_LONG: Final = 0.1
"""The share of the long stalls."""

_select: Final[Any] = selectors.EpollSelector.select
_sleep: Final = time.sleep


class Scheduler:
    """Decides when the next stall is due, and how long it takes."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._due_at = time.monotonic() + self._rng.uniform(*_RUNS)

    def stall(self) -> None:
        """Stall, if it is time."""
        if time.monotonic() < self._due_at:
            return
        _sleep(self._rng.uniform(*(_STANDS_LONG if self._rng.random() < _LONG else _STANDS)))
        self._due_at = time.monotonic() + self._rng.uniform(*_RUNS)


_scheduler: Scheduler | None = None


def _select_late(selector: selectors.EpollSelector, timeout: float | None = None) -> Any:
    """The loop gets ready events late: a stall before the poll, and one after it."""
    if _scheduler is not None and timeout != 0:
        _scheduler.stall()
    ready = _select(selector, timeout)
    if _scheduler is not None:
        _scheduler.stall()
    return ready


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test begins with its own scheduler."""
    global _scheduler  # noqa: PLW0603  # other code makes the loops
    _scheduler = Scheduler(seed_of(item.nodeid))


def pytest_configure() -> None:
    """From here on, every new event loop is on a busy machine."""
    selectors.EpollSelector.select = _select_late  # type: ignore[method-assign, assignment]
