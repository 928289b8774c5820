"""Rules of the source that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repo.source import PACKAGE, ROOT, imported, nodes, parsed, place, python_files, python_files_with
from tools.checks import with_mark

UNSAFE_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
# What Spark, and not the library, goes by: which Python its workers run, whether it prints locals and uses a worker again.
SPARKS_OWN = {
    PACKAGE / "cli" / "audit.py",
    PACKAGE / "spark" / "source.py",
    PACKAGE / "spark" / "shipping" / "worker.py",
    # The caller names the variable that has a secret.
    PACKAGE / "_net" / "securing" / "secrets.py",
    # The caller says which variables a reference may name.
    PACKAGE / "config" / "providers.py",
}
# A sleep takes no time in the loops of three of these, which have a time of their own; in the soak it is how long a fault lasts.
SLEEPING = {"exhaustive", "scenarios", "simulation", "soak"}
# Each of these sockets is what the test is about, as long as it is about it. All other tests listen at port 0, or ask `tests/ports.py`.
BINDING = {
    "tests/api/lifecycle/test_starting.py",
    "tests/connection/test_dialing.py",
    "tests/kafka/test_ports.py",
    "tests/ports.py",
    "tests/testing/broker/test_cluster_life.py",
    "tools/kafka_node.py",
}
SKIPS = {"skip", "skipif", "importorskip", "xfail"}


def imports_of(modules: set[str]) -> list[str]:
    """Where the package imports one of these."""
    return [
        place(path, node)
        for path in python_files_with(PACKAGE, modules)
        for node, name in imported(path)
        if name.split(".")[0] in modules
    ]


def is_unsafe_call(node: ast.AST) -> bool:
    """eval() and its kind."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS


def is_skip(node: ast.AST) -> bool:
    """pytest.skip, pytest.mark.skipif and their kind."""
    is_one = isinstance(node, ast.Attribute) and node.attr in SKIPS
    return is_one and ast.unparse(node).startswith("pytest.")


def is_sleep(node: ast.AST) -> bool:
    """A sleep that takes time: `sleep(0)` is a turn of the loop."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) in {"asyncio.sleep", "time.sleep"}):
        return False
    return not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


def has_reason(path: Path, node: ast.AST) -> bool:
    """Whether a comment stands on the line or the line above."""
    lines, at = path.read_text().splitlines(), getattr(node, "lineno", 1)
    return any("#" in line for line in lines[at - 2 : at])


def polls(path: Path) -> set[ast.AST]:
    """The nodes inside of `while` loops, where a sleep is part of polling."""
    loops = [node for node in nodes(path) if isinstance(node, ast.While)]
    return {inner for loop in loops for inner in ast.walk(loop)}


def is_test(node: ast.AST) -> bool:
    """A test function or method."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def definitions(path: Path) -> Iterator[ast.AST]:
    """The tests of a file: its functions, and the methods of its classes."""
    for node in parsed(path).body:
        yield from filter(is_test, node.body if isinstance(node, ast.ClassDef) else [node])


def documented(node: ast.AST) -> bool:
    """Whether a definition has a docstring."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Module():
            return ast.get_docstring(node) is not None
    return False


def test_package_never_runs_or_unpickles_data() -> None:
    """No module of the package imports an unsafe serializer or calls eval and its kind (S16)."""
    files = python_files_with(PACKAGE, UNSAFE_CALLS)
    calls = [place(path, node) for path in files for node in nodes(path) if is_unsafe_call(node)]
    assert imports_of(UNSAFE_MODULES) + calls == []


def test_compiled_core_never_runs_or_unpickles_data() -> None:
    """Neither does the Cython source (S16)."""
    pattern = re.compile(rf"\b(import|cimport)\s+({'|'.join(UNSAFE_MODULES)})\b|\b(eval|exec)\(")
    found = [path.name for path in PACKAGE.rglob("*.pyx") if pattern.search(path.read_text())]
    assert found == []


def test_package_reads_no_environment_variable() -> None:
    """Settings come from the caller, never from the environment (S27)."""
    found = []
    for path in set(python_files_with(PACKAGE, ENVIRONMENT)) - SPARKS_OWN:
        for node in nodes(path):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
            if name in ENVIRONMENT:
                found.append(place(path, node))
        found += [place(path, node) for node, name in imported(path) if name.split(".")[-1] in ENVIRONMENT]
    assert found == []


def test_package_makes_no_temporary_files() -> None:
    """Nothing is written to disk (S28), but a key on its way to OpenSSL where the system has no files in memory."""
    found = imports_of({"tempfile"})
    assert [each for each in found if not each.startswith("aioproducer/_net/tls/context.py:")] == []


def test_modules_of_the_package_say_what_they_are() -> None:
    """The first line of every module names its one idea."""
    found = [path.relative_to(ROOT) for path in python_files(PACKAGE) if not documented(parsed(path))]
    assert found == []


def test_every_test_states_a_fact() -> None:
    """Each test has a docstring, which says the one fact that it proves."""
    files = [path for path in python_files(ROOT / "tests") if path.name.startswith("test_")]
    found = [place(path, node) for path in files for node in definitions(path) if not documented(node)]
    assert found == []


def test_no_test_is_skipped() -> None:
    """A test that cannot run fails; one that is expected to fail is deleted or mended."""
    files = python_files_with(ROOT / "tests", SKIPS)
    found = [place(path, node) for path in files for node in nodes(path) if is_skip(node)]
    assert found == []


def test_a_sleep_has_its_reason() -> None:
    """A test follows events: a sleep is between two looks at another process or thread, or a comment says what it is for."""
    files = python_files_with(ROOT / "tests", {"sleep("})
    files = [path for path in files if path.relative_to(ROOT).parts[1] not in SLEEPING]
    found = [
        place(path, node)
        for path in files
        for node in set(nodes(path)) - polls(path)
        if is_sleep(node) and not has_reason(path, node)
    ]
    assert sorted(found) == []


def test_frozen_objects_stay_frozen() -> None:
    """gc.unfreeze() brings back all that the suite froze: each later collection of the process takes 20 times as long."""
    files = python_files_with(ROOT / "tests", {"unfreeze"})
    found = [
        place(path, node)
        for path in files
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr == "unfreeze"
    ]
    assert found == []


def test_what_starts_a_real_kafka_is_marked() -> None:
    """`make check` has no Java: a test file that starts nodes belongs to `make test`."""
    found = python_files_with(ROOT / "tests", {"KafkaCluster(", ": KafkaCluster", "SecuredKafka("})
    tests = [path for path in found if path.name.startswith("test_")]
    assert len(tests) > 10
    assert [str(path) for path in tests if "pytest.mark.kafka" not in path.read_text()] == []


def test_a_mark_is_found_by_its_text() -> None:
    """`make test` collects the test files that have the mark's text: a test that gets it from elsewhere would not run."""
    for mark in ("kafka", "packaging"):
        collected = {ROOT / each for each in with_mark(mark)}
        found = [
            place(path, node)
            for path in python_files_with(ROOT / "tests", {f"mark.{mark}"})
            for node in nodes(path)
            if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(f"mark.{mark}")
            if collected.isdisjoint({path, *path.parents})
        ]
        assert (len(collected) > 1, found) == (True, [])


def test_a_port_belongs_to_who_listens() -> None:
    """No test looks for a free port, closes it and expects it to be free later."""
    found = {
        str(path.relative_to(ROOT))
        for folder in ("tests", "tools", "examples", "benchmarks")
        for path in python_files_with(ROOT / folder, {".bind("})
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "bind"
        if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple)
    }
    assert found == BINDING


def test_no_secret_of_the_makers_machine() -> None:
    """No shipped file names a path of a developer's machine."""
    pattern = re.compile(r"/(root|home|Users)/|/work/|/tmp/bash")
    kinds = ("*.py", "*.pyi", "*.pyx", "*.pxd", "*.md", "*.toml", "*.sh", "Makefile")
    folders = [ROOT / name for name in ("aioproducer", "benchmarks", "docs", "examples", "tests", "tools")]
    files = [path for folder in folders for kind in kinds for path in folder.rglob(kind)]
    files += [path for kind in kinds for path in ROOT.glob(kind)]
    found = [
        str(p.relative_to(ROOT))
        for p in files
        if p.name != "test_conventions.py" and pattern.search(p.read_text())
    ]
    assert found == []
