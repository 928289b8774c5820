"""The closing line of the checks tells the truth, also about a run that broke."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from tools import checks
from tools.checks import Check, close, side_by_side, take


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reports of these tests do not mix with those of the run they are in."""
    monkeypatch.setattr(checks, "REPORTS", tmp_path)
    return tmp_path


def run(name: str, code: str, *, reports_tests: bool = False) -> Check:
    """A check that runs a piece of Python."""
    check = Check(name, [sys.executable, "-c", code], reports_tests)
    check.run()
    return check


def junit(counts: str) -> str:
    """A program that leaves a report as pytest does."""
    return f"open({str(checks.REPORTS / 'suite.xml')!r}, 'w').write('<testsuites><testsuite {counts}/></testsuites>')"


def test_plain_check_counts_as_one() -> None:
    """A linter that is content counts as one passed, one that is not as one failed."""
    good, bad = run("good", ""), run("bad", "raise SystemExit(3)")
    assert (good.passed, good.failed, good.verdict) == (1, 0, "ok")
    assert (bad.passed, bad.failed, bad.verdict) == (0, 1, "failed")


def test_suite_counts_its_tests() -> None:
    """Failures and errors are failed, and neither they nor skips are passed."""
    code = junit('tests="10" failures="2" errors="1" skipped="3"') + "; raise SystemExit(1)"
    check = run("suite", code, reports_tests=True)
    assert (check.passed, check.failed, check.skipped) == (4, 3, 3)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or goes within seconds."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


@pytest.mark.parametrize("code", ["raise SystemExit(2)", "import os; os.kill(os.getpid(), 9)"])
def test_suite_that_dies_is_a_failure(code: str) -> None:
    """A run that ends without a report, or is killed, counts as one failed."""
    check = run("suite", code, reports_tests=True)
    assert (check.passed, check.failed) == (0, 1)


def test_suite_that_breaks_after_its_tests_is_a_failure() -> None:
    """A report without failures does not hide a bad exit code."""
    check = run("suite", junit('tests="5" failures="0"') + "; raise SystemExit(3)", reports_tests=True)
    assert (check.passed, check.failed) == (5, 1)


def test_check_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its limit a check is ended and counts as failed."""
    monkeypatch.setattr(checks, "LIMIT_SECONDS", 0.2)
    check = run("slow", "import threading; threading.Event().wait(50)")
    assert (check.failed, check.seconds < 30) == (1, True)


def test_what_a_hanging_check_started_is_ended_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs that an ended check has started do not outlive it."""
    monkeypatch.setattr(checks, "LIMIT_SECONDS", 1.0)
    pid_file = tmp_path / "pid"
    code = f"import subprocess; p = subprocess.Popen(['sleep', '60']); open({str(pid_file)!r}, 'w').write(str(p.pid)); p.wait()"
    run("slow", code)
    assert has_ended(int(pid_file.read_text()))


def test_checks_of_one_turn_run_at_the_same_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each of two waits for the other, both end well, and what they print is not mixed."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writes = Check(
        "writes", [sys.executable, "-c", f"print(1); open({str(pipe)!r}, 'w').write('x'); print(2)"]
    )
    reads = Check("reads", [sys.executable, "-c", f"print(3); open({str(pipe)!r}).read(); print(4)"])
    take(side_by_side(writes, reads))
    assert (writes.verdict, reads.verdict) == ("ok", "ok")
    shown = capfd.readouterr().out
    assert "\n1\n2\n" in shown
    assert "\n3\n4\n" in shown


def test_a_lane_runs_one_after_the_other(tmp_path: Path) -> None:
    """The second finds what the first has left."""
    left = tmp_path / "left"
    first = Check("first", [sys.executable, "-c", f"open({str(left)!r}, 'x')"])
    second = Check("second", [sys.executable, "-c", f"open({str(left)!r})"])
    take([[first, second], [Check("beside", [sys.executable, "-c", ""])]])
    assert (first.verdict, second.verdict) == ("ok", "ok")


def test_last_line_is_the_sum(capsys: pytest.CaptureFixture[str], reports: Path) -> None:
    """The last line counts everything, also on disk, and the exit code follows it."""
    code = close(
        [Check("a", [], passed=1), Check("b", [], reports_tests=True, passed=7, failed=1, skipped=2)]
    )
    assert code == 1
    assert capsys.readouterr().out.splitlines()[-1] == "8 passed, 1 failed, 2 skipped"
    assert (reports / "summary.txt").read_text() == "8 passed, 1 failed, 2 skipped\n"
    assert close([Check("a", [], passed=1)]) == 0
