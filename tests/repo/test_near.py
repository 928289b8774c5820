"""The table of the tests near a file: complete, true, and what `make near` goes by."""

from __future__ import annotations

import subprocess

import pytest

from tests.repo.source import ROOT
from tools.near import PAGE, NoRowError, Table, near, near_all, relative, row_of, table

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
