"""Runs of tests in a copy: the first test that fails or hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from tests.mutants import witness
from tests.mutants.copies import Copy

PASSED: Final = 0
SOME_FAILED: Final = 1
NOT_STARTED: Final = (4, 5)  # wrong arguments; no tests
ENDED: Final = -signal.SIGKILL  # by this module
TEST_SECONDS: Final = 20
# Run when all tests that a mutant names pass. Not tests/repo and the tests that compare lines of the source, which
# would fail for any change.
WIDER: Final = (
    "tests/state",
    "tests/core",
    "tests/exhaustive/test_replays.py",
    "tests/connection",
    "tests/scenarios",
    "tests/simulation",
    "tests/net",
    "tests/api",
    "tests/golden/test_batches.py",
    "tests/golden/test_partitions.py",
    "tests/golden/test_keyed_sends.py",
    "tests/properties",
    "tests/runtime",
    "tests/proxy",
    "tests/exhaustive/test_models.py",
)


class NotAskedError(Exception):
    """No test started: the table is wrong."""


def first_failure(
    copy: Copy, tests: Sequence[str], limit: float, without: Collection[str] = ()
) -> str | None:
    """The first test that fails or hangs; None if all (but those `without`) pass, or the time ends first."""
    options = ("-x", f"--timeout={TEST_SECONDS}", *(_leave_out(test) for test in without))
    failed, running = _ask(copy, (*options, *tests), limit)
    return failed[0] if failed else running


def failures(copy: Copy, tests: Sequence[str], limit: float) -> set[str]:
    """The tests that fail or hang."""
    failed, running = _ask(copy, tests, limit)
    return {*failed, *([running] if running else ())}


def _leave_out(test: str) -> str:
    return f"--deselect={test}" if "::" in test else f"--ignore={test}"


def _ask(copy: Copy, arguments: Sequence[str], limit: float) -> tuple[list[str], str | None]:
    notes = copy.root / "build" / "witness.txt"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("")
    code, said = _pytest(copy, arguments, notes, limit)
    if code in NOT_STARTED:
        raise NotAskedError(f"pytest {' '.join(arguments)}\n{said}")
    told = [line.partition(" ")[::2] for line in notes.read_text().splitlines()]
    failed = [test for what, test in told if what == witness.FAILED]
    if failed or code == PASSED:
        return failed, None
    started = [(what, test) for what, test in told if what.startswith(witness.STARTED)]
    if not started:
        raise NotAskedError(f"pytest {' '.join(arguments)}: it ended before the first test\n{said}")
    what, test = started[-1]
    began = float(what.partition("@")[2])
    if code == ENDED and time.monotonic() - began < TEST_SECONDS:
        # Only slow: no test has noticed the mutant within the time.
        return [], None
    # The test hung, or ended the interpreter.
    return [], test


def _pytest(copy: Copy, arguments: Sequence[str], notes: Path, limit: float) -> tuple[int, str]:
    command = [
        *(copy.python.command, "-m", "pytest", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider"),
        *("-p", "tests.mutants.witness", *arguments),
    ]
    environment = os.environ | {
        "PYTHONPATH": str(copy.root),
        "AIOPRODUCER_EFFORT": "few",
        witness.PLACE: str(notes),
    }
    # A process group of its own, so that its end also ends the processes that its tests have started.
    with subprocess.Popen(
        command,
        cwd=copy.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            said = f"ended after {limit:.0f} seconds"
            _end(process)
        except BaseException:
            _end(process)
            raise
        return process.returncode, said


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
