"""A test that fails without any mutant proves nothing: the mutants that it killed run again without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from tests.mutants import __main__ as command
from tests.mutants.__main__ import Finding, settled
from tests.mutants.copies import Copy
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS

TWO = MUTANTS[:2]


@attrs.define
class Suite:
    """Stands in for runs of pytest: the tests that notice each mutant, and those that always fail."""

    notice: dict[str, list[str]]
    broken: set[str]
    asked: list[list[str]] = attrs.Factory(list)

    def findings(
        self, mutants: Sequence[Mutant], copies: Sequence[Copy], without: Collection[str]
    ) -> Iterator[Finding]:
        del copies
        self.asked.append([mutant.name for mutant in mutants])
        for mutant in mutants:
            killers = [test for test in self.notice[mutant.name] if test not in without]
            yield Finding(mutant, killers[0] if killers else None, 1.0)

    def fail_anyway(self, found: Iterable[Finding], copy: Copy) -> set[str]:
        del copy
        return self.broken & {finding.killer for finding in found if finding.killer is not None}


def words(monkeypatch: pytest.MonkeyPatch, suite: Suite) -> list[str]:
    """The results of the two mutants."""
    monkeypatch.setattr(command, "findings", suite.findings)
    monkeypatch.setattr(command, "fail_anyway", suite.fail_anyway)
    return [finding.words for finding in settled(TWO, [Copy(Path())])]


def notice(*tests: str) -> dict[str, list[str]]:
    """The first mutant is noticed by these tests, in this order, the second by a sound one."""
    return {TWO[0].name: list(tests), TWO[1].name: ["sound"]}


def test_sound_killers_need_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """No mutant runs twice."""
    suite = Suite(notice("other"), broken=set())
    assert words(monkeypatch, suite) == ["other", "sound"]
    assert len(suite.asked) == 1


def test_a_killer_that_fails_anyway_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the mutants that it killed run again, and the result is the next test that notices them."""
    suite = Suite(notice("broken", "broken too", "other"), broken={"broken", "broken too"})
    assert words(monkeypatch, suite) == ["other", "sound"]
    assert suite.asked == [[mutant.name for mutant in TWO], [TWO[0].name], [TWO[0].name]]


def test_a_mutant_that_only_broken_tests_notice_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the broken tests no test notices the mutant."""
    assert words(monkeypatch, Suite(notice("broken"), broken={"broken"})) == [command.SURVIVED, "sound"]


def test_a_suite_that_fails_everywhere_kills_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some rounds the remaining mutants count as not killed."""
    tests = [f"broken {number}" for number in range(10)]
    result, sound = words(monkeypatch, Suite(notice(*tests), broken=set(tests)))
    assert "fails without it too" in result
    assert sound == "sound"
