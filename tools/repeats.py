"""Failed checks are repeated alone: a test that passes then is unstable, one that fails twice has failed.

A test is repeated with the interpreter, the options, the effort and the seeds of the run that it failed in, without
other tests beside it. A check that broke as a whole is repeated as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tools.one_check import Check


def repeat_failed(checks: list[Check], until: float, run: Callable[[Check], None]) -> list[Check]:
    """Repeat the failed checks, one after the other, until this time of the clock; returns the repetitions."""
    failed = [check for check in checks if check.failed]
    repetitions = []
    for check in failed:
        left = until - time.time()
        # A part of it takes hardly as long as the whole, and the whole is not slower when it runs alone.
        if left <= (check.seconds if check.broke else 0.0):
            print(
                f"\n{check.name} is not repeated: it took {check.seconds:.0f} s, {max(left, 0):.0f} s are left"
            )
            continue
        repetition = repetition_of(check)
        repetition.limit = left
        run(repetition)
        settle(check, repetition)
        repetitions.append(repetition)
    return repetitions


def repetition_of(check: Check) -> Check:
    """A new check of the same, or of its failed tests."""
    again = Check(
        f"{check.name}, repeated",
        list(check.command),
        check.reports_tests,
        tree=check.tree,
        effort=check.effort,
    )
    if check.reports_tests:
        again.command.append(f"--junit-xml={again.report}")
    if not check.broke:
        again.command += ["--last-failed", "--last-failed-no-failures=none"]
        if "-n" in again.command:
            again.command += ["-n", "0"]
    return again


def settle(check: Check, repetition: Check) -> None:
    """Count tests that passed in the repetition as unstable, each test once."""
    passed_now = check.failed_tests & repetition.passed_tests
    if check.broke:
        check.passed = repetition.passed - len(passed_now)
        check.failed, check.skipped = repetition.failed, repetition.skipped
        check.unstable = sorted(passed_now)
        if not repetition.failed and not passed_now:
            check.unstable = [check.name]
            if not check.reports_tests:
                check.passed = 0
    elif not repetition.broke:
        check.failed -= len(passed_now)
        check.unstable = sorted(passed_now)
