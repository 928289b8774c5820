"""The waits of the test under faults end with a message that says what did not come, and why it cannot come."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.spark.faults import runs
from tests.spark.faults.diary import Entry
from tests.spark.faults.order import Order
from tests.spark.faults.processes import ProcessFacts, process_facts
from tests.spark.faults.runs import FaultyRun
from tests.spark.faults.sinks import EXACTLY_ONCE, Executor

HELD: Final = ("holding", EXACTLY_ONCE, 4, 1, 0)


@attrs.define
class Lives:
    """A driver that runs, and does nothing."""

    running: bool = True
    process: Any = attrs.field(factory=lambda: attrs.make_class("Process", ["poll"])(lambda: None))

    def members(self) -> list[ProcessFacts]:
        """None."""
        return []

    def log_tail(self) -> str:
        """Its last words."""
        return "the last line of its log"


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultyRun:
    """A test whose driver runs, on a machine with nothing else to do."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    order = Order({}, str(tmp_path), {}, "", 7, 7, 3, 3, 0.1, (), ())
    found = FaultyRun(None, "", order, [])  # type: ignore[arg-type]  # nothing is written
    found.driver = Lives()  # type: ignore[assignment]
    return found


def holding(waiting: FaultyRun, worker: int) -> Entry:
    """The entry of a held attempt of this process."""
    held = Entry(*HELD, str(Executor(worker, worker)))
    waiting.diary.tell(held)
    return held


def test_the_held_attempt_has_ended(waiting: FaultyRun) -> None:
    """Nothing is waited for that only a process that has ended could note."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    held = holding(waiting, ended.pid)
    with pytest.raises(
        AssertionError, match=r"no 'failed' by the held attempt: the process that would note"
    ) as raised:
        waiting._own(held, "failed")
    told = str(raised.value)
    assert "seed 7, 0 s after the start, load 0.0, 1 events, incidents so far {}" in told
    assert re.search(r"-0\.\d+ s: exactly-once \(4, 1, 0\): holding \d+ \d+\n", told)
    assert told.endswith("the last line of its log")


def test_its_last_event_counts(waiting: FaultyRun) -> None:
    """A process may note the event and end at once."""
    held = holding(waiting, 2**22 + 1)
    waiting.diary.tell(Entry("failed", *HELD[1:], "Fenced"))
    assert waiting._own(held, "failed").detail == "Fenced"


def test_nothing_happens(waiting: FaultyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait has a limit; the time is that of a machine with nothing else to do."""
    monkeypatch.setattr(runs, "LIMIT", 0.05)
    held = holding(waiting, os.getpid())
    with pytest.raises(AssertionError, match=r"no 'failed' by the held attempt: nothing happened for 0 s"):
        waiting._own(held, "failed")


@pytest.mark.parametrize(("load", "times"), [(0.5, 1.0), (4.0, 2.0)])
def test_a_busy_machine_is_given_more_time(
    monkeypatch: pytest.MonkeyPatch, load: float, times: float
) -> None:
    """Twice as many programs as processors take twice as long."""
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert runs.slowness() == times


def test_facts_of_a_process() -> None:
    """A process that has ended has none, also before its parent has awaited it."""
    mine = process_facts(os.getpid())
    assert mine is not None
    assert (mine.parent, mine.state) == (os.getppid(), "R")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = process_facts(child.pid)
    assert found is not None
    assert found.parent == os.getpid()
    child.communicate(b"\n")
    assert process_facts(child.pid) is None
