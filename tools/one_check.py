"""A check: one program to run, its time limit, and the counts of its exit code and its report."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tools.quick_spark import SUBMIT_OPTIONS, quick_spark

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "checks"
# Twice what the longest check takes on two processors beside four busy programs. Each test has a limit of its own.
LIMIT_SECONDS = 3600.0
RUN_SEED: Final = int(os.environ.get("AIOPRODUCER_RUN_SEED") or secrets.randbelow(2**31))
"""The seed of all seeds that the tests of this run draw (`tests/seeds.py`): the same run seed draws the same."""
# Of pytest.
_TESTS_FAILED: Final = 1
# Of the message of a failed test, at the end of the run.
_MESSAGE_LINES: Final = 12
_MESSAGE_COLUMNS: Final = 240


@dataclass
class Check:
    """One program to run, and its result."""

    name: str
    command: list[str]
    reports_tests: bool = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    unstable: list[str] = field(default_factory=list)
    """Tests that failed once and passed in the repetition."""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    """Of the process, and of all that it started and awaited."""
    tree: Path = ROOT
    effort: str = "few"
    limit: float | None = None
    code: int = 0
    passed_tests: set[str] = field(default_factory=set)
    failed_tests: set[str] = field(default_factory=set)
    messages: dict[str, str] = field(default_factory=dict)
    """The first lines of the first failure of each failed test."""
    process: subprocess.Popen[bytes] | None = None

    def run(self, output: IO[bytes] | None = None) -> None:
        """Run it to its end or its limit, and count; its output goes into a file, or is shown."""
        began = time.monotonic()
        self.code = self._exit_code(output)
        self.seconds = time.monotonic() - began
        if self.reports_tests:
            self._read_report()
        if self.code and not self.failed:
            self.failed = 1  # It broke as a whole: no collection, a crash, the limit.
        elif not self.code and not self.reports_tests:
            self.passed = 1

    def _exit_code(self, output: IO[bytes] | None) -> int:
        limit = LIMIT_SECONDS if self.limit is None else self.limit
        # A group of its own, so that its end also ends the processes that it started.
        with subprocess.Popen(
            self.command,
            cwd=self.tree,
            env=os.environ | self.environment,
            start_new_session=True,
            stdout=output,
            stderr=output,
        ) as self.process:
            try:
                return self._awaited(self.process, limit)
            except subprocess.TimeoutExpired:
                self.end(signal.SIGKILL)
                print(f"{self.name}: ended after {limit:.0f} seconds", flush=True)
                return -signal.SIGKILL

    def _awaited(self, process: subprocess.Popen[bytes], limit: float) -> int:
        """Wait for the end of the process as `Popen.wait` does, which does not tell the processor time."""
        poll, ended = select.poll(), os.pidfd_open(process.pid)
        poll.register(ended, select.POLLIN)
        try:
            if not poll.poll(limit * 1000):
                raise subprocess.TimeoutExpired(self.command, limit)
        finally:
            os.close(ended)
        _, status, usage = os.wait4(process.pid, 0)
        self.processor_seconds = usage.ru_utime + usage.ru_stime
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode

    @property
    def environment(self) -> dict[str, str]:
        """The variables that are added to its environment."""
        return {
            "PYTHONPATH": str(self.tree),
            "PYTHONHASHSEED": str(RUN_SEED),
            "AIOPRODUCER_RUN_SEED": str(RUN_SEED),
            "AIOPRODUCER_EFFORT": self.effort,
            SUBMIT_OPTIONS: quick_spark(self._virtual_environment),
        }

    @property
    def _virtual_environment(self) -> Path:
        """That of its Python, which another program may start."""
        python = next((word for word in self.command if word.endswith("bin/python")), sys.executable)
        return self.tree / Path(python).parent.parent

    def end(self, number: signal.Signals) -> None:
        """End the process, and those that it started."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def _read_report(self) -> None:
        """Count the tests in pytest's report; a run that died has none."""
        try:
            cases = list(ET.parse(self.report).getroot().iter("testcase"))
        except (OSError, ET.ParseError):
            return
        # A test that fails and whose teardown fails too is there twice.
        kinds: dict[str, set[str]] = {}
        for case in cases:
            test = self._node_id(case)
            kinds.setdefault(test, set()).update(child.tag for child in case)
            for child in case:
                if child.tag in {"failure", "error"}:
                    self.messages.setdefault(test, _beginning(child.get("message", "")))
        self.failed_tests = {test for test, found in kinds.items() if found & {"failure", "error"}}
        skipped = {test for test, found in kinds.items() if "skipped" in found} - self.failed_tests
        self.passed_tests = kinds.keys() - self.failed_tests - skipped
        self.passed, self.failed = len(self.passed_tests), len(self.failed_tests)
        self.skipped = len(skipped)

    def _node_id(self, case: ET.Element) -> str:
        """A test in the form of pytest's command line; the report has file and classes in one dotted name."""
        parts, name = case.get("classname", "").split("."), case.get("name", "")
        for count in range(len(parts), 0, -1):
            file = "/".join(parts[:count]) + ".py"
            if (self.tree / file).is_file():
                return "::".join([file, *parts[count:], name])
        return "::".join(filter(None, [*parts, name]))

    @property
    def broke(self) -> bool:
        """Whether it failed as a whole, and not by single tests: the results of some of its tests are unknown."""
        return self.failed > 0 and not (self.code == _TESTS_FAILED and self.failed_tests)

    @property
    def report(self) -> Path:
        """The file of pytest's report."""
        return REPORTS / f"{self.file_name}.xml"

    @property
    def cache(self) -> Path:
        """The file with the names of the failed tests."""
        return REPORTS / f"{self.file_name}.cache"

    @property
    def file_name(self) -> str:
        """Its name without characters that are unusual in names of files."""
        return self.name.replace(" ", "-").replace(",", "")

    @property
    def verdict(self) -> str:
        """The result in the table."""
        if not self.reports_tests:
            return "failed" if self.failed else "unstable" if self.unstable else "ok"
        return counts(self.passed, self.failed, self.skipped, len(self.unstable))


def _beginning(message: str) -> str:
    """Its first lines, indented."""
    lines = message.splitlines()
    shown = [f"    {line[:_MESSAGE_COLUMNS]}" for line in lines[:_MESSAGE_LINES]]
    return "\n".join(shown + (["    ..."] if len(lines) > _MESSAGE_LINES else []))


def counts(passed: int, failed: int, skipped: int, unstable: int) -> str:
    """One line of counts; rare counts are omitted where they are 0."""
    seldom = ((unstable, "unstable"), (skipped, "skipped"))
    return f"{passed} passed, {failed} failed" + "".join(f", {n} {what}" for n, what in seldom if n)
