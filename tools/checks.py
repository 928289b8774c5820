"""Run the project's checks and close with a table of them and one line of counts.

    python -m tools.checks lint      style, types, stubs, layers
    python -m tools.checks check     ... and the tests of the library on this Python
    python -m tools.checks test      everything: on every Python found, the proof, with real Kafka, and the built distribution
    python -m tools.checks proof     the proof at length: 50 times the seeds, every byte, ten times the kills (hours)
    python -m tools.checks floors    the core suite against the lowest versions that pyproject.toml allows
    python -m tools.checks sanitized the part of `proof` that watches the memory of the compiled core

Every check runs, also after one that failed. The last line, 'N passed, N failed', counts tests and other checks alike.
With `--repeat-until TIME` (seconds since 1970), failed checks are repeated alone at the end: see tools/repeats.py.
`AIOPRODUCER_RUN_SEED=n` draws the seeds of another run again.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import one_check, sanitizers, setup_venv
from tools.one_check import ROOT, RUN_SEED, Check, counts
from tools.repeats import repeat_failed

# The layers of the proof, at full length on one Python; see tests/effort.py.
PROOF_LAYERS = ("tests/exhaustive", "tests/properties", "tests/simulation", "tests/scenarios", "tests/proxy")
# These tests share a Spark.
SPARK = ("tests/spark",)
# Masters, workers, servers and drivers of their own.
SPARK_CLUSTERS = ("tests/spark/clusters",)
# A minute of executors that Spark starts and ends, only in `make proof`: in each run executors are new and lost in the faults below.
SPARK_ALLOCATION = ("tests/spark/clusters/test_dynamic_allocation.py",)
# Drivers, executors and brokers that are killed: shortly in each run, at length in `make proof`.
SPARK_FAULTS = ("tests/spark/faults",)
SHORT_SPARK_FAULTS = ("tests/spark/faults/test_stream_faults.py",)
SPARK_BENCHMARKS = ("tests/spark/test_benchmarks.py",)
# The sink on each line of Kafka since 0.11, only in `make proof`.
SPARK_VERSIONS = ("tests/spark/versions",)
# A pipeline in a session of the tests, and in `make proof` on a cluster whose parts are killed.
SPARK_PIPELINE = ("tests/spark/pipeline",)
# Programs beside the library, and documents: `make near` runs their tests for an edit of theirs, `make test` all of
# them.
BESIDE_THE_LIBRARY = (
    "tests/cli", "tests/examples", "tests/repo/documents", "tests/soak", "tests/spark", "tests/testing/test_pytest_plugin.py",
)  # fmt: skip
# Hundreds of generated cases, other processes and other loops: half of the processor time of all other tests.
LONG = (
    "tests/runtime/processes", "tests/runtime/test_matrix.py", "tests/simulation/days", "tests/simulation/lives/test_lies.py",
)  # fmt: skip
# Two minutes of the benchmarks that `make bench` runs at length.
BENCHMARKS = tuple(
    f"tests/kafka/test_benchmarks.py::{name}"
    for name in ("test_every_workload_runs", "test_instructions_are_counted")
)
OLD_SPARK = "3.5"
# The parts that exist there: `write()` and `foreach_batch()`, which need no data sources in Python, and the audit.
ON_OLD_SPARK = ("tests/spark/older", "tests/spark/test_frames.py", "tests/spark/test_updates.py")
# It uses features that Python 3.12 has removed, and leaves its sockets to the garbage collector.
WARNINGS_OF_OLD_SPARK = (
    "-W", "ignore:distutils Version classes:DeprecationWarning", "-W", "ignore:unclosed <socket:ResourceWarning",
)  # fmt: skip
# A cluster of three nodes that are killed.
REAL_FAULTS = (
    "tests/kafka/copiers/test_real_copier.py",
    "tests/kafka/transactions/test_real_coordinators.py",
    "tests/kafka/faults/test_real_doctor.py",
    "tests/kafka/faults/test_real_faults.py",
    "tests/kafka/faults/test_real_verifiable.py",
    "tests/kafka/outbox/test_real_outbox.py",
)
# Secrets that change on three secured nodes: shortly among the tests with Kafka, at length in `make proof`.
ROTATIONS = "tests/kafka/test_rotation.py"
# Each line of Kafka since 0.11, only in `make proof`.
EACH_VERSION = ("tests/kafka/versions",)
# What needs the packages of a registry: tests, and the code of a document.
WITH_A_REGISTRY = (
    "tests/registry",
    "tests/examples/test_migrate_topic.py",
    "tests/examples/test_model_to_record.py",
)
# What encodes for a registry: also with the lowest versions of the packages of its extras.
FORMATS_OF_A_REGISTRY = tuple(
    f"tests/registry/test_{name}.py"
    for name in ("avro", "avro_unions", "json", "protobuf", "unchanged", "extras")
)
DOCUMENTS_WITH_A_REGISTRY = (
    "test_document_code.py::test_fragments_run[docs/registry.md]",
    "test_types.py::test_programs",
)
# This Python runs nearly everything as well, because novelties of an interpreter may show in any test. Left out: the
# proof, decisions, the tests of the sink, which need a Spark of their own, the tests of the repository, and programs that are
# started a hundred times (two minutes of processor time): the tests of the command line itself stay.
NEWEST_PYTHON = "3.14"
# On each Python between the oldest and the newest: the compiled core, whole producers on every event loop, TLS, and other
# kinds of that interpreter. As a rule a novelty of Python stays in later ones, and nearly all tests run on the newest.
BETWEEN = (
    "tests/core", "tests/connection/test_tls.py", "tests/runtime/test_matrix.py", "tests/runtime/processes/test_interpreters.py",
)  # fmt: skip
# Decisions without a clock, I/O or threads, and what hardly depends on the interpreter either: dialogues with coordinators, the
# doctor, and the rules of the embedded Kafka. `make test` has them on the Python that runs all, and `make proof` on the newest as well.
DECISIONS = (
    "tests/contract", "tests/doctor", "tests/judge", "tests/net/transactions", "tests/state", "tests/testing/broker",
    "tests/vocabulary",
)  # fmt: skip
ABOUT_THE_REPOSITORY = ("tests/mutants", "tests/repo", "tests/soak")
STARTED_PROGRAMS = ("tests/cli/perf", "tests/cli/produce", "tests/examples")
# The number of processes of pytest-xdist. Many tests wait more than they compute, so a small machine runs more than it
# has processors.
ON_ALL_PROCESSORS = ("-n", "4", "--dist", "worksteal")
# Beside checks that use the rest of the machine: each further process imports all tests, for ten seconds of processor
# time.
BESIDE_OTHERS = ("-n", "2", "--dist", "worksteal")
# The check gets a quarter of a processor beside a busy one, and the rest where none is busy. The kernel may share the
# processors among sessions first, and each check has a session of its own, so the value of the session counts.
YIELDING = ("sh", "-c", '{ echo 5 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 5 "$@"', "yielding")
# Tests that exercise the whole compiled core, with odd arguments and at odd moments.
UNDER_SANITIZERS = (
    "tests/callers", "tests/core", "tests/formats", "tests/golden", "tests/runtime", "tests/state", "tests/wire",
)  # fmt: skip
# One measures resident memory, most of which is the sanitizers'. The other uses the debugging allocator of Python,
# whose blocks are opaque to sanitizers: the sanitizers check the same and more.
NOT_UNDER_SANITIZERS = (
    "tests/core/test_memory.py",
    "tests/callers/test_zoo.py::test_nothing_is_read_or_written_out_of_bounds",
)
# The factor for the time limits of tests.
SLOWNESS = 5
# Layers of the proof whose tests have a clock of their own, and those that have the clock of the machine.
IN_VIRTUAL_TIME = tuple(folder for folder in PROOF_LAYERS if folder != "tests/proxy")
IN_REAL_TIME = ("tests/proxy", "tests/scenarios/test_b_answers.py::test_b14_metadata_with_200000_partitions")
# import-linter has no `python -m`, and its script does not survive a moved environment.
RUN_IMPORT_LINTER = (
    "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
)


Lane = list["Check | Turn"]
"""Checks, and turns, that run one after the other."""
Turn = list[Lane]
"""Lanes that run at the same time: each of them leaves the machine idle for much of its time."""


def side_by_side(*checks: Check) -> Turn:
    """Each check in a lane of its own."""
    return [[check] for check in checks]


# -------------------------------------------------------------------------------------- the checks
def tool(name: str, module: str, *arguments: str) -> Check:
    """A check by a tool of this environment."""
    return Check(name, [sys.executable, "-m", module, *arguments])


def suite(name: str, python: str, *arguments: str) -> Check:
    """A run of pytest."""
    check = Check(name, [python, "-m", "pytest", "-q", *arguments], reports_tests=True)
    check.command += [f"--junit-xml={check.report}", "-o", f"cache_dir={check.cache}"]
    check.command.append(f"--hypothesis-seed={RUN_SEED}")
    return check


def with_mark(mark: str) -> list[str]:
    """The test files that have this mark, and folders whose fixtures have it: pytest need not import all the others."""
    found = [path for path in ROOT.glob("tests/**/*.py") if f"pytest.mark.{mark}" in path.read_text()]
    folders = {path.parent for path in found if path.name == "conftest.py"}
    files = {path for path in found if path.name.startswith("test_") and folders.isdisjoint(path.parents)}
    return sorted(str(place.relative_to(ROOT)) for place in folders | files)


def stubbed_modules() -> list[str]:
    """The compiled modules, by their stubs."""
    return sorted(f"aioproducer._core.{stub.stem}" for stub in ROOT.glob("aioproducer/_core/*.pyi"))


def stubtest_arguments() -> list[str]:
    """The compiled modules, and the limits of their stubs. Their imports are read as mypy reads them."""
    allowed = ["--allowlist", "tools/stubtest-allowlist.txt", "--ignore-unused-allowlist"]
    return ["--mypy-config-file", "pyproject.toml", *allowed, *stubbed_modules()]


def linters() -> list[Check]:
    """Everything that reads the code without running it."""
    return [
        tool("ruff check", "ruff", "check", "--quiet"),
        tool("ruff format", "ruff", "format", "--check", "--quiet"),
        tool("mypy", "mypy", "--no-error-summary"),
        tool("stubtest", "mypy.stubtest", *stubtest_arguments()),
        Check("import-linter", [sys.executable, "-c", RUN_IMPORT_LINTER]),
    ]


def this_python() -> str:
    """The minor version of this Python."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def core_suite(version: str, python: str, processes: tuple[str, ...] = ON_ALL_PROCESSORS) -> Check:
    """All tests that need neither Java nor a build of the distribution."""
    return suite(f"core suite, Python {version}", python, "-m", "not kafka and not packaging", *processes)


def collection(version: str) -> Check:
    """Read the tests of a Python once before several processes do: each of them would compile the same modules."""
    check = Check(f"collection, Python {version}", [python_of(version), "tools/collect_tests.py"])
    return without(check, left_out(version))


def without(check: Check, paths: tuple[str, ...]) -> Check:
    """The same but for the tests in some folders or files."""
    check.command += [f"--ignore={path}" for path in paths]
    return check


def proof_layers(effort: str) -> Check:
    """Every layer of the proof that needs no Java, on this Python."""
    check = suite(
        f"proof, Python {this_python()}", sys.executable, *PROOF_LAYERS, "-m", "not kafka", *ON_ALL_PROCESSORS
    )
    check.effort = effort
    return check


def proof_in_real_time() -> Check:
    """The tests of the proof that may be wrong about a machine that is too busy for them."""
    check = suite(
        f"proof in real time, Python {this_python()}",
        sys.executable,
        *IN_REAL_TIME,
        "-m",
        "not kafka",
        *ON_ALL_PROCESSORS,
    )
    check.effort = "all"
    return check


def proof_in_virtual_time() -> Check:
    """All other tests of the proof: they get the time that other checks leave, and take little from them."""
    check = suite(
        f"proof, Python {this_python()}",
        sys.executable,
        *IN_VIRTUAL_TIME,
        "-m",
        "not kafka",
        *BESIDE_OTHERS,
    )
    check.command[:0] = YIELDING
    check.limit = 2 * 3600.0
    check.command += ["--timeout=3000", *(f"--deselect={name}" for name in IN_REAL_TIME)]
    check.effort = "all"
    return check


def real_faults(effort: str) -> Check:
    """A cluster of three nodes that fail: the tests wait for nodes more than they compute."""
    check = suite(f"real faults, Python {this_python()}", sys.executable, "-m", "kafka", *REAL_FAULTS)
    check.effort = effort
    return check


def secured_soak(mechanism: str, minutes: int) -> Check:
    """A secured cluster whose nodes fail and whose secrets change, at a rate that leaves time for them on two processors."""
    arguments = ("--minutes", str(minutes), "--secured", mechanism, "--rate", "1500", "--least", "300")
    return tool(f"secured soak, {mechanism}", "tests.soak", *arguments)


def other_pythons() -> list[tuple[str, str]]:
    """Version and path of the other supported Pythons on this machine."""
    command = ["tools/setup_machine.sh", "pythons"]
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    pairs = [line.split(maxsplit=1) for line in found.splitlines()]
    return [(version, path) for version, path in pairs if version != this_python()]


def folder_of(version: str) -> str:
    """The folder of the environment of another Python."""
    return f".venvs/{version}"


def environment(name: str, level: str, folder: str, interpreter: str) -> Check:
    """Make a further environment, with a fast build: the speed of the core is measured elsewhere, and a few tests are not worth -O1."""
    setup = [interpreter, "tools/setup_venv.py", level, "--dir", folder]
    flags = "CFLAGS=-O0" if level == "between" else "CFLAGS=-O1"
    return Check(f"environment, {name}", ["env", "-u", "PYTHONPATH", flags, *setup])


def environment_elsewhere(version: str, interpreter: str) -> Check:
    """Make the environment of another Python."""
    level = "whole" if version == NEWEST_PYTHON else "between"
    return environment(f"Python {version}", level, folder_of(version), interpreter)


def registry_at_floors() -> Lane:
    """The formats of a registry with the lowest versions of their packages, which come before those of this environment."""
    folder = ROOT / "build" / "registry-floors"
    packages = setup_venv.registry_at_floors()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(folder)]
    check = suite(
        f"registry at the floors, Python {this_python()}",
        sys.executable,
        *FORMATS_OF_A_REGISTRY,
        "-m",
        "not kafka",
        *BESIDE_OTHERS,
    )
    check.command[:0] = ["env", f"PYTHONPATH={ROOT}:{folder}"]
    return [Check("packages of the registry, floors", [*install, *packages]), check]


def spark_suite(name: str, paths: tuple[str, ...]) -> Check:
    """Tests of the sink that need a Spark."""
    return suite(f"{name}, Python {this_python()}", sys.executable, "-m", "kafka", *paths)


def environment_of_old_spark() -> Check:
    """Make the environment of an older Spark, with this Python."""
    name = f"spark-{OLD_SPARK}"
    return environment(f"Spark {OLD_SPARK}", name, folder_of(name), sys.executable)


def suite_on_old_spark() -> Check:
    """The tests of the sink that work there."""
    python = f"{folder_of(f'spark-{OLD_SPARK}')}/bin/python"
    return suite(f"with Spark {OLD_SPARK}", python, *WARNINGS_OF_OLD_SPARK, *ON_OLD_SPARK)


def left_out(version: str) -> tuple[str, ...]:
    """The tests of the core suite that do not run on this Python: none on the one that runs all."""
    if version == NEWEST_PYTHON != this_python():
        return (*PROOF_LAYERS, *DECISIONS, *SPARK, *ABOUT_THE_REPOSITORY, *STARTED_PROGRAMS)
    return ()


def python_of(version: str) -> str:
    """The interpreter of that version, in an environment of its own unless it is this one."""
    return sys.executable if version == this_python() else f"{folder_of(version)}/bin/python"


def suite_elsewhere(version: str) -> Check:
    """The core suite on the newest Python, and a few of its tests on others, in one process: to read tests takes longer than to run these."""
    if version != NEWEST_PYTHON:
        return suite(
            f"between, Python {version}", python_of(version), *BETWEEN, "-m", "not kafka and not packaging"
        )
    return without(core_suite(version, python_of(version), BESIDE_OTHERS), left_out(version))


def decisions_elsewhere(version: str) -> Check:
    """The tests that `make test` leaves out on the newest Python, as they hardly depend on it."""
    unmarked = ("-m", "not kafka and not packaging")
    return suite(
        f"decisions, Python {version}", python_of(version), *DECISIONS, *unmarked, *ON_ALL_PROCESSORS
    )


def quick() -> list[Turn]:
    """The checks of `make check`: enough for an edit of the library."""
    library = without(core_suite(this_python(), sys.executable), BESIDE_THE_LIBRARY + LONG)
    return [side_by_side(*linters()), side_by_side(library)]


def everything() -> list[Turn]:
    """The checks of `make test`."""
    others = other_pythons()
    here = without(core_suite(this_python(), sys.executable, BESIDE_OTHERS), PROOF_LAYERS)
    # The first suite needs none of these. They run one after the other, as most of them wait for packages.
    made_meanwhile: Lane = [
        Check("fetch Kafka", [sys.executable, "tools/fetch_kafka.py"]),
        *linters(),
        *(environment_elsewhere(*found) for found in others),
        *(collection(version) for version, _ in others if version == NEWEST_PYTHON),
        environment_of_old_spark(),
        Check("classes of Spark", [sys.executable, "-m", "tools.spark_classes"]),
        # These wait for an old Spark and for packages for most of their time, and there is room beside the first suite.
        suite_on_old_spark(),
        *registry_at_floors(),
        suite(
            f"distribution, Python {this_python()}",
            sys.executable,
            "-m",
            "packaging",
            *with_mark("packaging"),
        ),
    ]
    first: Turn = [[collection(this_python()), here, proof_in_real_time()], made_meanwhile]
    elsewhere = REAL_FAULTS + SPARK + EACH_VERSION
    places = [place for place in with_mark("kafka") if not place.startswith(elsewhere)]
    kafka = suite(f"with Kafka, Python {this_python()}", sys.executable, "-m", "kafka", *places)
    kafka.command += [f"--deselect={name}" for name in BENCHMARKS]
    spark = without(
        spark_suite("with Spark", SPARK), SPARK_CLUSTERS + SPARK_FAULTS + SPARK_BENCHMARKS + SPARK_VERSIONS
    )
    newest: Lane = [suite_elsewhere(version) for version, _ in others if version == NEWEST_PYTHON]
    between: Lane = [suite_elsewhere(version) for version, _ in others if version != NEWEST_PYTHON]
    # Each of these waits for brokers and starting programs for more than half of its time. The lanes take about the
    # same time.
    beside: Turn = [
        [kafka],
        [spark, spark_suite("Spark under faults", SHORT_SPARK_FAULTS)],
        [real_faults("all"), without(spark_suite("Spark clusters", SPARK_CLUSTERS), SPARK_ALLOCATION)],
    ]
    # Tests with short time limits share the machine with one preparation at a time, and with what the proof takes of the rest.
    others_in_turn: Lane = [first, [newest, between], beside]
    proof: Lane = [proof_in_virtual_time()]
    return [[others_in_turn, proof]]


def proof() -> list[Turn]:
    """The proof at length."""
    fetch = Check("fetch Kafka", [sys.executable, "tools/fetch_kafka.py"])
    layers = proof_layers("proof")
    properties = suite(
        f"properties, Python {this_python()}", sys.executable, "-m", "hypothesis and not kafka",
        "--hypothesis-profile=proof", *(f"--ignore={folder}" for folder in PROOF_LAYERS),
    )  # fmt: skip
    kafka, spark = (
        real_faults("proof"),
        spark_suite(
            "Spark at length",
            SPARK_FAULTS + SPARK_ALLOCATION + SPARK_PIPELINE + SPARK_BENCHMARKS + SPARK_VERSIONS,
        ),
    )
    kafka.command += [ROTATIONS, *EACH_VERSION]
    benchmarks = suite(f"benchmarks, Python {this_python()}", sys.executable, *BENCHMARKS)
    for check in (layers, properties, kafka, spark, benchmarks):
        check.effort, check.limit = "proof", 12 * 3600.0
        check.command.append("--timeout=7200")
    soaks = [secured_soak("SCRAM-SHA-512", 20), secured_soak("OAUTHBEARER", 10)]
    newest = [found for found in other_pythons() if found[0] == NEWEST_PYTHON]
    elsewhere = [
        check for found in newest for check in (environment_elsewhere(*found), decisions_elsewhere(found[0]))
    ]
    rest = [
        side_by_side(check)
        for check in (fetch, properties, layers, *elsewhere, kafka, *soaks, spark, benchmarks)
    ]
    return [*sanitized(), *rest]


def sanitized() -> list[Turn]:
    """The core under sanitizers, in a copy of the tree: compiled, tested, and no report of any process."""
    tree = copy_of_the_tree(sanitizers.emptied(one_check.REPORTS.with_name("sanitized")))
    reports = sanitizers.emptied(tree / "build" / "reports")
    compilation = Check("core with sanitizers, compiled", sanitizers.compiling(), tree=tree)
    tests = suite("core under sanitizers", sys.executable, *UNDER_SANITIZERS, *ON_ALL_PROCESSORS)
    tests.command[:0] = [*sanitizers.preparation(reports), f"AIOPRODUCER_SLOWNESS={SLOWNESS}"]
    tests.command += ["-m", "not kafka and not packaging", "--timeout=1200"]
    tests.command += [f"--deselect={name}" for name in NOT_UNDER_SANITIZERS]
    tests.tree, tests.effort, tests.limit = tree, "all", 2 * 3600.0
    told = Check("reports of sanitizers", [sys.executable, "-m", "tools.sanitizers", str(reports)])
    return [side_by_side(check) for check in (compilation, tests, told)]


def floors() -> list[Turn]:
    """The lowest supported versions of the dependencies, in a copy of the tree: they also build the core."""
    tree = copy_of_the_tree(one_check.REPORTS.with_name("floors"))
    setup = environment("floors", "floors", ".venv", sys.executable)
    without_packages = (*WITH_A_REGISTRY, "tests/formats", "tests/spark/structured")
    check = without(core_suite(f"{this_python()} at the floors", ".venv/bin/python"), without_packages)
    check.command += [f"--deselect=tests/repo/documents/{name}" for name in DOCUMENTS_WITH_A_REGISTRY]
    setup.tree = check.tree = tree
    return [side_by_side(setup), side_by_side(check)]


def copy_of_the_tree(target: Path) -> Path:
    """The files that git knows, and new ones, without build products."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


PLANS: dict[str, Callable[[], list[Turn]]] = {
    "lint": lambda: [side_by_side(*linters())],
    "check": quick,
    "test": everything,
    "proof": proof,
    "floors": floors,
    "sanitized": sanitized,
}


# ------------------------------------------------------------------------------------------ in turns
def lanes_of(turn: Turn) -> Iterator[Lane]:
    """Its lanes, and those of the turns in them."""
    for lane in turn:
        yield lane
        for each in lane:
            if not isinstance(each, Check):
                yield from lanes_of(each)


def checks_of(turn: Turn) -> list[Check]:
    """All checks of all lanes."""
    return [each for lane in lanes_of(turn) for each in lane if isinstance(each, Check)]


def take(turn: Turn) -> None:
    """Run the lanes of one turn side by side; the output of each check is shown in one piece."""
    beside_each_other(turn, shown if len(checks_of(turn)) == 1 else told_afterwards)


def beside_each_other(turn: Turn, run: Callable[[Check], None]) -> None:
    """Run the lanes of a turn, or of one in a lane, and wait for all of them."""
    checks, lanes = checks_of(turn), list(lanes_of(turn))
    with ThreadPoolExecutor(len(turn)) as pool:
        runs = [pool.submit(walk, lane, run) for lane in turn]
        try:
            for each in runs:
                each.result()
        except KeyboardInterrupt:
            for lane in lanes:
                lane.clear()
            for check in checks:
                check.end(signal.SIGINT)
            raise


def walk(lane: Lane, run: Callable[[Check], None]) -> None:
    """Run the checks of a lane, which may be cleared meanwhile."""
    while lane:
        each = lane.pop(0)
        if isinstance(each, Check):
            run(each)
        else:
            beside_each_other(each, run)


def shown(check: Check) -> None:
    """Run a check, and show its output at once."""
    print(headline(check), flush=True)
    check.run()


def told_afterwards(check: Check) -> None:
    """Run a check, and show its output at its end."""
    with tempfile.TemporaryFile() as output:
        check.run(output)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    print(f"{headline(check)}\n{printed}", end="", flush=True)


def headline(check: Check) -> str:
    """The line that announces a check."""
    return f"\n==> {check.name}: {' '.join(check.command)}"


# -------------------------------------------------------------------------------------------- closing
def close(checks: list[Check], repetitions: list[Check]) -> int:
    """Print the table and the closing line; the exit code is 0 if all checks passed."""
    rows = [*checks, *repetitions]
    width = max(len(check.name) for check in rows)
    print(f"\n{'check':<{width}}  {'seconds':>7}  {'processor':>9}  result")
    for check in rows:
        print(
            f"{check.name:<{width}}  {check.seconds:>7.1f}  {check.processor_seconds:>9.1f}  {check.verdict}"
        )
    seconds, processor = sum(row.seconds for row in rows), sum(row.processor_seconds for row in rows)
    print(f"{'in all':<{width}}  {seconds:>7.1f}  {processor:>9.1f}\n")
    for check in checks:
        for name in check.unstable:
            print(f"unstable: {name} ({check.name})")
            tell_failure(check, name)
        for name in sorted(check.failed_tests - set(check.unstable)):
            print(f"failed: {name} ({check.name})")
            tell_failure(check, name)
    failed = sum(check.failed for check in checks)
    passed, skipped = sum(check.passed for check in checks), sum(check.skipped for check in checks)
    summary = counts(passed, failed, skipped, sum(len(check.unstable) for check in checks))
    (one_check.REPORTS / "summary.txt").write_text(summary + "\n")
    print(summary, flush=True)
    return 1 if failed else 0


def tell_failure(check: Check, test: str) -> None:
    """Print the message of the first failure: the output of a run is long, and often its end alone is kept."""
    if message := check.messages.get(test):
        print(message)


def main() -> int:
    """Run one plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", choices=sorted(PLANS))
    parser.add_argument("--repeat-until", type=float, metavar="TIME")
    options = parser.parse_args()
    turns = PLANS[options.plan]()
    checks = [check for turn in turns for check in checks_of(turn)]
    one_check.REPORTS.mkdir(parents=True, exist_ok=True)
    for check in checks:
        check.report.unlink(missing_ok=True)
        shutil.rmtree(check.cache, ignore_errors=True)
    print(f"replay with AIOPRODUCER_RUN_SEED={RUN_SEED}", flush=True)
    for turn in turns:
        take(turn)
    return close(checks, repeated(checks, options.repeat_until))


def repeated(checks: list[Check], until: float | None) -> list[Check]:
    """Repeat the failed checks, if there is a time limit for it."""
    if until is None or not any(check.failed for check in checks):
        return []
    print(f"\nfailed tests are repeated alone; {until - time.time():.0f} seconds are left for it", flush=True)
    return repeat_failed(checks, until, shown)


def started() -> int:
    """`main`, with a short message instead of a traceback when it is interrupted."""
    try:
        return main()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(started())
