"""The table of mutants fits the library: each line occurs once, and each defect is valid Python or Cython."""

from __future__ import annotations

import ast
import time
from collections import Counter
from pathlib import Path

import attrs
import pytest

from tests.mutants import pythons, runs, witness
from tests.mutants.__main__ import Finding, on_their_pythons, report
from tests.mutants.copies import Copy
from tests.mutants.mutant import CORE, ROOT, Mutant
from tests.mutants.pythons import THIS, pythons_for
from tests.mutants.runs import WIDER, NotAskedError, failures, first_failure
from tests.mutants.table import MUTANTS
from tools.checks import NEWEST_PYTHON

LEAST = 30
FIRST, SECOND = "tests/test_two.py::test_b", "tests/test_two.py::test_c"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_library(mutant: Mutant) -> None:
    """The replaced line occurs once in its file, and the result is Python."""
    sound = (ROOT / mutant.path).read_text()
    changed = mutant.rewritten(sound)
    assert changed != sound
    if mutant.module is None:
        ast.parse(changed)


def test_compiled_mutants_know_their_module() -> None:
    """The module of a compiled mutant exists; Cython reports whether the mutant compiles."""
    modules = {mutant.module for mutant in MUTANTS if mutant.module is not None}
    assert [name for name in modules if not (ROOT / CORE / f"{name}.pyx").exists()] == []


def test_the_tests_that_are_named_exist() -> None:
    """Each mutant names the tests that run first, and all of them exist."""
    named = {test for mutant in MUTANTS for test in mutant.by} | set(WIDER)
    assert [mutant.name for mutant in MUTANTS if not mutant.by] == []
    assert sorted(test for test in named if not exists(test)) == []


def exists(test: str) -> bool:
    """Whether there is such a file, with such a function."""
    file, _, name = test.partition("[")[0].partition("::")
    place = ROOT / file
    return place.exists() and (not name or f"def {name}(" in place.read_text())


def test_mutants_have_names_of_their_own() -> None:
    """No two mutants have the same name or the same change."""
    names = Counter(mutant.name for mutant in MUTANTS)
    changes = Counter((mutant.file, mutant.line, mutant.instead) for mutant in MUTANTS)
    assert [name for name, count in names.items() if count > 1] == []
    assert [change for change, count in changes.items() if count > 1] == []


def test_there_are_enough_mutants() -> None:
    """The table has at least the promised number of mutants."""
    assert len(MUTANTS) >= LEAST


def test_a_line_that_is_gone_is_noticed() -> None:
    """A mutant whose line the library no longer has is an error, not a survivor."""
    with pytest.raises(LookupError, match="is 0 times"):
        MUTANTS[0].rewritten("")


def a_copy(root: Path, mutant: Mutant) -> Copy:
    """A copy with only the file of this mutant."""
    place = root / mutant.path
    place.parent.mkdir(parents=True)
    place.write_text((ROOT / mutant.path).read_text())
    return Copy(root)


def test_a_defect_is_in_the_copy_only_while_it_is_planted(tmp_path: Path) -> None:
    """A copy is sound before and after; the tree itself always is."""
    mutant = next(mutant for mutant in MUTANTS if mutant.module is None)
    copy, sound = a_copy(tmp_path, mutant), (ROOT / mutant.path).read_text()
    with copy.planted(mutant):
        assert (tmp_path / mutant.path).read_text() == mutant.rewritten(sound)
    assert (tmp_path / mutant.path).read_text() == sound == (ROOT / mutant.path).read_text()


def test_a_copy_is_mended_after_an_error(tmp_path: Path) -> None:
    """After an error with one mutant the copy is sound for the next."""
    mutant = next(mutant for mutant in MUTANTS if mutant.module is None)
    copy = a_copy(tmp_path, mutant)
    with pytest.raises(ZeroDivisionError), copy.planted(mutant):
        raise ZeroDivisionError
    assert (tmp_path / mutant.path).read_text() == (ROOT / mutant.path).read_text()


def test_the_first_test_that_fails_is_told(tmp_path: Path) -> None:
    """The result is the first failure."""
    assert first_failure(a_copy_with_tests(tmp_path), ["tests/test_two.py"], 50) == FIRST


def test_what_fails_anyway_is_left_out(tmp_path: Path) -> None:
    """The tests that always fail are left out, and the others run."""
    copy = a_copy_with_tests(tmp_path)
    assert (
        first_failure(
            copy, ["tests"], 50, without=[FIRST, SECOND, "tests/test_end.py", "tests/test_hangs.py"]
        )
        is None
    )
    assert failures(copy, ["tests/test_two.py"], 50) == {FIRST, SECOND}


def test_a_test_that_ends_the_interpreter_is_told(tmp_path: Path) -> None:
    """Without a failure and without a result, the test that was running has noticed the mutant."""
    assert (
        first_failure(a_copy_with_tests(tmp_path), ["tests/test_end.py"], 50)
        == "tests/test_end.py::test_ends"
    )


def test_a_test_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without an end is killed, and the test that was running has noticed the mutant."""
    monkeypatch.setattr(runs, "TEST_SECONDS", 1)
    copy = a_copy_with_tests(tmp_path)
    assert first_failure(copy, ["tests/test_hangs.py"], 50) == "tests/test_hangs.py::test_for_ever"


def test_a_run_that_is_only_slow_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time of a run is over and no single test has taken too long, no test has noticed the mutant."""
    copy = a_copy_with_tests(tmp_path)
    notes = f"{witness.STARTED}@{time.monotonic()} {FIRST}\n"

    def slow(_copy: Copy, _arguments: object, place: Path, _limit: float) -> tuple[int, str]:
        place.write_text(notes)
        return runs.ENDED, "ended"

    monkeypatch.setattr(runs, "_pytest", slow)
    assert first_failure(copy, ["tests"], 50) is None


def test_tests_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """A run without tests does not prove that the mutant survives."""
    with pytest.raises(NotAskedError):
        first_failure(a_copy_with_tests(tmp_path), ["tests/test_gone.py"], 50)


def a_copy_with_tests(root: Path) -> Copy:
    """A tree with a few tests, and the witness."""
    (root / "tests" / "mutants").mkdir(parents=True)
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "tests" / "mutants" / "witness.py").write_text(Path(witness.__file__).read_text())
    (root / "tests" / "test_two.py").write_text(
        "def test_a(): pass\ndef test_b(): assert False\ndef test_c(): assert False\n"
    )
    (root / "tests" / "test_hangs.py").write_text(
        "import threading\ndef test_for_ever(): threading.Event().wait()\n"
    )
    (root / "tests" / "test_end.py").write_text("import os\ndef test_ends(): os._exit(3)\n")
    return Copy(root)


def finding(killer: str | None, *, sound: bool = True, planted: bool = True) -> Finding:
    """The result of the first mutant."""
    return Finding(MUTANTS[0], killer, 1.0, proven=sound, planted=planted)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([finding("a test")], 0),
        ([finding("a test"), finding(None)], 1),
        ([finding("a test", sound=False)], 1),
        ([finding("a test"), finding(None, planted=False)], 0),
    ],
)
def test_the_exit_code_tells_of_survivors(
    found: list[Finding], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code is 0 only if every planted mutant was killed by a test that passes without it."""
    assert report(found) == code
    assert MUTANTS[0].name in capsys.readouterr().out


def test_a_mutant_of_a_newer_python_is_not_planted_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table lists the mutant as not planted, which is no survivor."""
    monkeypatch.setattr(pythons, "other_pythons", list)
    newer = attrs.evolve(MUTANTS[0], since="99.0")
    (found,) = on_their_pythons([newer], 2)
    assert not found.planted
    assert report([found]) == 0
    output = capsys.readouterr().out
    assert "not planted: there is no Python 99.0 here" in output
    assert "0 mutants killed, 0 not, 1 not planted" in output


def test_a_mutant_of_this_python_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of an older `since` runs on this Python."""
    monkeypatch.setattr(pythons, "other_pythons", list)
    old = attrs.evolve(MUTANTS[0], since="3.9")
    assert pythons_for([MUTANTS[0], old]) == {None: THIS, "3.9": THIS}


def test_other_pythons_have_all_that_tests_need() -> None:
    """The newest Python is the only other one whose environment has all requirements of the tests."""
    assert {mutant.since for mutant in MUTANTS} <= {None, NEWEST_PYTHON}
