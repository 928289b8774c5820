"""The closing line of the checks tells the truth, also about a run that broke, about what passed only when repeated, and about memory."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.effort import SEED_VARIABLE
from tests.seeds import RUN_SEED_VARIABLE, seed_of
from tools import checks, one_check, sanitizers
from tools.checks import (
    BETWEEN,
    DECISIONS,
    IN_REAL_TIME,
    NEWEST_PYTHON,
    PLANS,
    PROOF_LAYERS,
    Turn,
    checks_of,
    close,
    left_out,
    proof_in_real_time,
    proof_in_virtual_time,
    side_by_side,
    suite,
    take,
    this_python,
)
from tools.one_check import RUN_SEED, Check
from tools.repeats import repeat_failed


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reports of these tests do not mix with those of the run they are in."""
    monkeypatch.setattr(one_check, "REPORTS", tmp_path)
    return tmp_path


def run(name: str, code: str, *, reports_tests: bool = False) -> Check:
    """A check that runs a piece of Python."""
    check = Check(name, [sys.executable, "-c", code], reports_tests)
    check.run()
    return check


def junit(**outcomes: int) -> str:
    """A program that leaves a report as pytest does, of so many tests with each outcome."""
    cases = [
        f'<testcase classname="suite" name="{outcome}{n}"><{outcome}/></testcase>'
        for outcome, count in outcomes.items()
        for n in range(count)
    ]
    text = f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"
    return f"open({str(one_check.REPORTS / 'suite.xml')!r}, 'w').write({text!r})"


def test_plain_check_counts_as_one() -> None:
    """A linter that is content counts as one passed, one that is not as one failed."""
    good, bad = run("good", ""), run("bad", "raise SystemExit(3)")
    assert (good.passed, good.failed, good.verdict) == (1, 0, "ok")
    assert (bad.passed, bad.failed, bad.verdict) == (0, 1, "failed")


def test_processor_time_is_that_of_all_programs() -> None:
    """The time of a program that the check starts counts, the time in which it waits does not."""
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    both = run("both", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])\n{busy}")
    waiting = run("waiting", "import time; time.sleep(1)")
    assert both.processor_seconds > 0.6
    assert waiting.processor_seconds < waiting.seconds / 2


def test_suite_counts_its_tests() -> None:
    """Failures and errors are failed, and neither they nor skips are passed."""
    code = junit(failure=2, error=1, skipped=3, properties=4) + "; raise SystemExit(1)"
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
    check = run("suite", junit(properties=5) + "; raise SystemExit(3)", reports_tests=True)
    assert (check.passed, check.failed) == (5, 1)


def test_check_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its limit a check is ended and counts as failed."""
    monkeypatch.setattr(one_check, "LIMIT_SECONDS", 0.2)
    check = run("slow", "import threading; threading.Event().wait(50)")
    assert (check.failed, check.seconds < 30) == (1, True)


def test_what_a_hanging_check_started_is_ended_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs that an ended check has started do not outlive it."""
    monkeypatch.setattr(one_check, "LIMIT_SECONDS", 1.0)
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


def test_a_lane_may_have_a_turn(tmp_path: Path) -> None:
    """Its lanes run at the same time, behind the checks before it in its lane, and beside the other lane."""
    pipe, left, other = tmp_path / "pipe", tmp_path / "left", tmp_path / "other"
    os.mkfifo(pipe)
    os.mkfifo(other)
    first = Check("first", [sys.executable, "-c", f"open({str(left)!r}, 'x')"])
    writes = Check("writes", [sys.executable, "-c", f"open({str(left)!r}); open({str(pipe)!r}, 'w')"])
    reads = Check("reads", [sys.executable, "-c", f"open({str(pipe)!r}); open({str(other)!r}, 'w')"])
    beside = Check("beside", [sys.executable, "-c", f"open({str(other)!r})"])
    turn: Turn = [[first, side_by_side(writes, reads)], [beside]]
    checks = checks_of(turn)
    take(turn)
    assert [(check.name, check.verdict) for check in checks] == [
        (name, "ok") for name in ("first", "writes", "reads", "beside")
    ]


def test_no_layer_of_the_proof_is_left_out() -> None:
    """`make test` has the layers of `make proof`, in two checks; a test of one of them is not in the other."""
    real, virtual = proof_in_real_time(), proof_in_virtual_time()
    for layer in PROOF_LAYERS:
        assert (layer in real.command) + (layer in virtual.command) == 1
    single = [place for place in IN_REAL_TIME if "::" in place]
    assert [place for place in single if f"--deselect={place}" not in virtual.command] == []
    assert [place for place in single if not (one_check.ROOT / place.partition("::")[0]).is_file()] == []


def test_decisions_are_on_the_newest_python_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` leaves them out there, and `make proof` has them, behind the environment that they need."""
    monkeypatch.setattr(checks, "copy_of_the_tree", lambda target: target)
    monkeypatch.setattr(checks, "other_pythons", lambda: [("3.12", "python3.12"), (NEWEST_PYTHON, "python")])
    assert set(DECISIONS) <= set(left_out(NEWEST_PYTHON))
    assert not set(DECISIONS) & set(left_out(this_python()))
    proof = [check for turn in PLANS["proof"]() for check in checks_of(turn)]
    names = [check.name for check in proof]
    at = names.index(f"decisions, Python {NEWEST_PYTHON}")
    assert names[at - 1] == f"environment, Python {NEWEST_PYTHON}"
    assert set(DECISIONS) <= set(proof[at].command)


def test_each_python_has_the_compiled_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest Python runs it with nearly all tests, each Python between with a few that are there, in its own environment."""
    monkeypatch.setattr(checks, "other_pythons", lambda: [("3.12", "python3.12"), (NEWEST_PYTHON, "python")])
    found = {check.name: check for turn in PLANS["test"]() for check in checks_of(turn)}
    between, newest = found["between, Python 3.12"], found[f"core suite, Python {NEWEST_PYTHON}"]
    assert set(BETWEEN) <= set(between.command)
    assert [name for name in BETWEEN if not (one_check.ROOT / name).exists()] == []
    assert not {f"--ignore={name}" for name in BETWEEN} & set(newest.command)
    assert "between" in found["environment, Python 3.12"].command
    assert "collection, Python 3.12" not in found


def test_reading_the_tests_finds_those_that_cannot_be_read(tmp_path: Path) -> None:
    """Before several processes read them: modules that can be imported are no failure, though they have no cases there."""
    tests = tmp_path / "test_it.py"
    for text, code in (("def test_it(): pass", 0), ("import nothing_of_this_name", 2)):
        tests.write_text(text)
        assert subprocess.run(
            [sys.executable, "tools/collect_tests.py", str(tests)], cwd=one_check.ROOT, check=False,
            stdout=subprocess.DEVNULL,
        ).returncode == code  # fmt: skip


def test_last_line_is_the_sum(capsys: pytest.CaptureFixture[str], reports: Path) -> None:
    """The last line counts everything, also on disk, and the exit code follows it."""
    first = Check("a", [], passed=1)
    second = Check("b", [], reports_tests=True, passed=7, failed=1, skipped=2, unstable=["x.py::test_y"])
    assert close([first, second], []) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["unstable: x.py::test_y (b)", "8 passed, 1 failed, 1 unstable, 2 skipped"]
    assert (reports / "summary.txt").read_text() == lines[-1] + "\n"
    assert close([Check("a", [], passed=1)], []) == 0


def test_the_end_has_the_first_lines_of_each_failure(
    capsys: pytest.CaptureFixture[str], reports: Path, tmp_path: Path, until: float
) -> None:
    """The output of a run is long, and often its end alone is kept: also the failure of a test that passed in the repetition."""
    check = repeated(suite_of(tmp_path, FAILS_WITH_A_REASON), until)
    close([check], [])
    printed = capsys.readouterr().out
    assert "unstable: test_it.py::test_once (tests)\n    AssertionError: the first one" in printed
    assert "failed: test_it.py::test_twice (tests)\n    ValueError: line 0\n    line 1\n" in printed
    assert "    line 11\n    ...\n" in printed


# ----------------------------------------------------------------------------------------- sanitizers
FAULTY = """
#include <Python.h>
static PyObject *read_of_8_bytes(PyObject *self, PyObject *at) {
    char *room = PyMem_Malloc(8);
    memset(room, 1, 8);
    volatile char found = room[PyLong_AsLong(at)];
    PyMem_Free(room);
    return PyLong_FromLong(found);
}
static PyObject *shifted_by(PyObject *self, PyObject *bits) {
    return PyLong_FromLong(1 << (int)PyLong_AsLong(bits));
}
static PyMethodDef methods[] = {
    {"read_of_8_bytes", read_of_8_bytes, METH_O, ""}, {"shifted_by", shifted_by, METH_O, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "faulty", NULL, -1, methods};
PyMODINIT_FUNC PyInit_faulty(void) { return PyModule_Create(&definition); }
"""
SETUP = """
from setuptools import Extension, setup
setup(name="faulty", ext_modules=[Extension("faulty", ["faulty.c"])])
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a module that was compiled as the core is for the sanitizers."""
    tree = tmp_path_factory.mktemp("faulty")
    (tree / "faulty.c").write_text(FAULTY)
    (tree / "setup.py").write_text(SETUP)
    compilation = Check("compilation", sanitizers.compiling(), tree=tree)
    compilation.run()
    assert compilation.verdict == "ok"
    return tree


@pytest.mark.parametrize(
    ("allowed", "forbidden", "told"),
    [
        ("read_of_8_bytes(7)", "read_of_8_bytes(8)", "heap-buffer-overflow"),
        ("shifted_by(3)", "shifted_by(40)", "in shifted_by"),
    ],
)
def test_sanitizers_report_what_no_test_sees(
    allowed: str, forbidden: str, told: str, faulty: Path, tmp_path: Path
) -> None:
    """A read beyond a buffer, or undefined behaviour of C, ends a process and is reported, also if no test checks its end."""
    reports = sanitizers.emptied(tmp_path / "reports")
    for code, found in ((allowed, []), (forbidden, [told])):
        inner = f"import faulty; faulty.{code}"
        outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
        check = Check("outer", [*sanitizers.preparation(reports), sys.executable, "-c", outer], tree=faulty)
        check.run()
        assert check.verdict == "ok"
        assert [text for text in found if text not in "".join(sanitizers.findings(reports))] == []
        verdict = Check("reports", [sys.executable, "-m", "tools.sanitizers", str(reports)])
        verdict.run()
        assert verdict.failed == len(sanitizers.findings(reports)) == len(found)


def names_of(turn: Turn) -> list[list[str]]:
    """The names of the checks of each lane."""
    return [[check.name for check in checks_of([lane])] for lane in turn]


def test_proof_has_the_core_under_sanitizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled, tried and judged in this order, in a copy of the tree: the modules of the tree itself stay as they are."""
    copies: list[Path] = []

    def not_copied(target: Path) -> Path:
        copies.append(target)
        return target

    monkeypatch.setattr(checks, "copy_of_the_tree", not_copied)
    proof, alone = PLANS["proof"](), PLANS["sanitized"]()
    names = [names_of(turn) for turn in alone]
    assert names == [
        [["core with sanitizers, compiled"]],
        [["core under sanitizers"]],
        [["reports of sanitizers"]],
    ]
    assert names == [names_of(turn) for turn in proof[:3]]
    assert [check.tree for turn in alone[:2] for check in checks_of(turn)] == copies[1:] * 2
    assert one_check.ROOT not in copies


# ---------------------------------------------------------------------------------------- repetitions
FAILS_WITH_A_REASON = """
from pathlib import Path

def test_once():
    left = Path(__file__).with_name("left")
    found = left.exists()
    left.touch()
    assert found, "the first one"

def test_twice():
    raise ValueError("\\n".join(f"line {number}" for number in range(100)))
"""
TESTS = """
import os, pathlib
import pytest
from tests.seeds import fresh_seed
here = pathlib.Path(__file__).parent

how = "nobody knows"

@pytest.fixture(autouse=True)
def beside_others(request):
    global how
    how = "parallel" if hasattr(request.config, "workerinput") else "alone"

def times(name):
    with open(here / name, "a") as file:
        file.write(f"{how} {os.environ['AIOPRODUCER_EFFORT']} {fresh_seed()} {hash('x')}\\n")
    return len((here / name).read_text().splitlines())

def test_passes(): assert times("passes") == 1

class TestInAClass:
    @pytest.mark.parametrize("what", ["a/b::c[d]"])
    def test_fails_once(self, what): assert times("once") == 2

def test_fails_twice(): assert times("twice") == 3

@pytest.fixture
def ends_badly():
    yield
    assert times("ends badly") == 2

def test_fails_and_ends_badly(ends_badly): assert times("and ends badly") == 2
"""
BROKEN_AT_FIRST = """
import pathlib
left = pathlib.Path(__file__).with_name("left")
if not left.exists():
    left.touch()
    raise RuntimeError
def test_one(): pass
def test_two(): pass
"""
DIES_AT_FIRST = """
import os, pathlib
left = pathlib.Path(__file__).with_name("left")
def test_one():
    if not left.exists():
        left.touch()
        os._exit(9)
def test_two(): pass
"""


@pytest.fixture
def until() -> float:
    """A time that no test here reaches."""
    return time.time() + 600


def suite_of(folder: Path, text: str, *arguments: str) -> Check:
    """A run of pytest on tests of its own."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {one_check.ROOT}\n")
    (folder / "test_it.py").write_text(text)
    check = suite("tests", sys.executable, "test_it.py", *arguments)
    check.tree, check.effort = folder, "all"
    return check


def repeated(check: Check, until: float) -> Check:
    """Run it, and repeat what failed."""
    check.run()
    repeat_failed([check], until, Check.run)
    return check


def test_what_failed_is_repeated_alone_as_it_was(tmp_path: Path, until: float) -> None:
    """Only tests that failed run again, with the same seeds and effort, one after the other; what fails twice has failed."""
    check = suite_of(tmp_path, TESTS, "-n", "2", "--dist", "worksteal")
    check.run()
    assert (check.passed, check.failed, check.unstable) == (1, 3, [])
    (again,) = repeat_failed([check], until, Check.run)
    assert check.verdict == "1 passed, 1 failed, 2 unstable"
    assert check.unstable == [
        "test_it.py::TestInAClass::test_fails_once[a/b::c[d]]",
        "test_it.py::test_fails_and_ends_badly",
    ]
    assert again.verdict == "2 passed, 1 failed"
    assert (tmp_path / "passes").read_text().count("\n") == 1
    for name in ("once", "twice"):
        first, second = (tmp_path / name).read_text().splitlines()
        assert first.split()[1:] == second.split()[1:]
        assert (first.split()[0], second.split()[0], first.split()[1]) == ("parallel", "alone", "all")


@pytest.mark.parametrize("code", [BROKEN_AT_FIRST, DIES_AT_FIRST])
def test_suite_that_broke_is_repeated_whole(tmp_path: Path, code: str, until: float) -> None:
    """Of a run that could not collect its tests, or died, nothing is known: all of it runs again, and its break counts once."""
    assert repeated(suite_of(tmp_path, code), until).verdict == "2 passed, 0 failed, 1 unstable"


def test_suite_that_breaks_twice_has_failed(tmp_path: Path, until: float) -> None:
    """A crash that comes again is no test that passed."""
    check = repeated(suite_of(tmp_path, "import os\ndef test_it(): os._exit(9)"), until)
    assert check.verdict == "0 passed, 1 failed"


def test_check_of_another_kind_is_repeated(tmp_path: Path, until: float) -> None:
    """A check that fails but once, such as a download, is unstable, and counts once."""
    left = str(tmp_path / "left")
    once = Check(
        "once", [sys.executable, "-c", f"import os; os.path.exists({left!r}) or exit(open({left!r}, 'x'))"]
    )
    twice = Check("twice", [sys.executable, "-c", "exit(1)"])
    for check in (once, twice):
        repeated(check, until)
    assert (once.passed, once.failed, once.unstable, once.verdict) == (0, 0, ["once"], "unstable")
    assert (twice.passed, twice.failed, twice.unstable, twice.verdict) == (0, 1, [], "failed")


def test_repetitions_have_a_limit_of_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check without time left is not repeated, has failed, and is named; a repetition is ended in time."""
    broken = Check("broken", [sys.executable, "-c", "exit(1)"], failed=1, seconds=50.0, code=1)
    short = Check("short", ["sleep", "60"], failed=1, seconds=0.1, code=1)
    assert [again.name for again in repeat_failed([broken, short], time.time() + 1, Check.run)] == [
        "short, repeated"
    ]
    assert (broken.failed, short.failed, short.unstable) == (1, 1, [])
    assert "broken is not repeated: it took 50 s" in capsys.readouterr().out


def test_run_seed_decides_every_seed_that_a_test_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run of the same seed draws the same for a test, and something else for another; one that is named is taken."""
    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    monkeypatch.setenv(RUN_SEED_VARIABLE, "7")
    first = seed_of("x.py::test_x")
    assert seed_of("x.py::test_x") == first
    assert seed_of("x.py::test_y") != first
    monkeypatch.setenv(RUN_SEED_VARIABLE, "8")
    assert seed_of("x.py::test_x") != first
    monkeypatch.delenv(RUN_SEED_VARIABLE)
    assert len({seed_of("x.py::test_x") for _ in range(5)}) > 1
    monkeypatch.setenv(SEED_VARIABLE, "12")
    assert seed_of("x.py::test_x") == 12


def test_every_check_is_told_the_run_seed() -> None:
    """Programs, hash tables and hypothesis draw from it as well."""
    check = suite("tests", sys.executable)
    assert f"--hypothesis-seed={RUN_SEED}" in check.command
    assert {check.environment[name] for name in (RUN_SEED_VARIABLE, "PYTHONHASHSEED")} == {str(RUN_SEED)}
