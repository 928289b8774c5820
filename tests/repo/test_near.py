"""The table of the tests near a file: complete, true, and what `make near` goes by."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.repo.source import ROOT
from tools.near import PAGE, NoRowError, Table, changed, near, near_all, relative, row_of, table

Git: TypeAlias = Callable[..., None]

ROWS = table(PAGE.read_text())
OF_THE_TESTS = "tests/"


def files() -> list[str]:
    """Every file of the tree that git knows, or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


def test_every_file_has_tests_near_it() -> None:
    """A file of the package, of the documents or of the tools has its row; a file of the tests may do without."""
    assert [
        name for name in files() if not name.startswith(OF_THE_TESTS) and row_of(name, ROWS) is None
    ] == []


def test_every_row_is_about_a_file() -> None:
    """No row is left over from a file that is gone."""
    used = {row_of(name, ROWS) for name in files()}
    assert [row for row in ROWS if row not in used] == []


def test_every_test_in_the_table_exists() -> None:
    """Each path of tests that a row names is a file or a folder."""
    named = {test for tests in ROWS.values() for test in tests}
    assert [test for test in sorted(named) if not (ROOT / test).exists()] == []


def test_every_folder_of_library_tests_is_near_a_file() -> None:
    """No folder with tests of the library is run by `make check` alone."""
    folders = {"api", "callers", "connection", "core", "exhaustive", "net", "scenarios", "state", "wire"}
    named = [test for tests in ROWS.values() for test in tests]
    assert {name for name in folders if any(test.startswith(f"tests/{name}") for test in named)} == folders


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("aioproducer/_core/accept_column.pxi", ROWS["aioproducer/_core/accept"]),
        ("aioproducer/_net/log.py", ROWS["aioproducer/_net/"]),
        ("tests/net/cluster/test_leaders.py", ("tests/net/cluster/test_leaders.py",)),
        ("tests/net/support.py", ("tests/net",)),
        ("tests/proxy/programs/starting.py", ("tests/proxy",)),
    ],
)
def test_the_longest_row_decides(file: str, tests: tuple[str, ...]) -> None:
    """A file is near the tests of the row with the longest beginning of its path, or of its folder."""
    assert near(file, ROWS) == tests


def test_a_file_in_a_folder_that_is_named_is_not_named_again() -> None:
    """Tests that are in a folder which runs anyway do not run twice."""
    rows: Table = {
        "a": ("tests/net", "tests/net/cluster"),
        "b": ("tests/network", "tests/net/cluster/test_leaders.py"),
    }
    assert near_all(["a", "b"], rows) == ["tests/net", "tests/network"]


def test_a_path_without_a_row_is_refused() -> None:
    """The error names the path, also one outside of the tree."""
    with pytest.raises(NoRowError, match="no row for elsewhere"):
        near("elsewhere", {})
    with pytest.raises(NoRowError, match=r"no row for \.\./x"):
        relative("../x")


# ---- the files of the present work


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of its own, in place of this one."""
    monkeypatch.setattr("tools.near.ROOT", tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for variable in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{variable}_NAME", "tests")
        monkeypatch.setenv(f"GIT_{variable}_EMAIL", "tests@localhost")
    return tmp_path


@pytest.fixture
def git(tree: Path) -> Git:
    """Git in this tree, whose main has two commits."""

    def run(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True)

    run("init", "-b", "main")
    commit(tree, run, "first.py")
    commit(tree, run, "second.py")
    return run


def commit(tree: Path, git: Git, name: str) -> None:
    """Commit a new file."""
    (tree / name).write_text(name)
    git("add", name)
    git("commit", "-m", name)


def test_a_branch_is_compared_with_main(tree: Path, git: Git) -> None:
    """Its commits, its uncommitted changes and its new files are picked; those of main are not, also newer ones."""
    git("checkout", "-b", "work")
    commit(tree, git, "committed.py")
    assert changed() == ["committed.py"]
    git("checkout", "main")
    commit(tree, git, "newer.py")
    git("checkout", "work")
    (tree / "second.py").write_text("edited")
    (tree / "new.py").write_text("new")
    git("rm", "first.py")
    assert changed() == ["committed.py", "second.py", "new.py"]


def test_on_main_the_last_commit_counts_when_nothing_is_edited(tree: Path, git: Git) -> None:
    """Edits are picked alone; without one the last commit is, on main and on a branch without commits."""
    assert changed() == ["second.py"]
    git("checkout", "-b", "work")
    assert changed() == ["second.py"]
    git("checkout", "main")
    (tree / "first.py").write_text("edited")
    assert changed() == ["first.py"]


def test_a_merge_is_all_that_it_brings(tree: Path, git: Git) -> None:
    """A merge commit on main picks the files of the merged branch."""
    git("checkout", "-b", "work")
    commit(tree, git, "committed.py")
    git("checkout", "main")
    git("merge", "--no-ff", "-m", "merge", "work")
    assert changed() == ["committed.py"]


@pytest.mark.parametrize(
    ("is_fetched", "picked"), [(True, ["committed.py", "last.py"]), (False, ["last.py"])]
)
def test_a_clone_without_a_main_of_its_own(tree: Path, git: Git, is_fetched: bool, picked: list[str]) -> None:
    """The main of `origin` takes its place; without it the last commit is picked."""
    if is_fetched:
        git("update-ref", "refs/remotes/origin/main", "main")
    git("checkout", "-b", "work")
    commit(tree, git, "committed.py")
    commit(tree, git, "last.py")
    git("branch", "-D", "main")
    assert changed() == picked
