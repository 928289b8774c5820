"""The tests near a file: read from the table of docs/development.md, and run.

    python -m tools.near FILE ...         run the tests near these files
    python -m tools.near                  ... near the files that the present work changes
    python -m tools.near --list FILE ...  print their paths only

A test file is near itself. Another file is near the tests of the row with the longest matching beginning of its path. A
file of the tests without a row is near the tests of its folder.

The present work is all that differs from the commit where it left main: its commits, uncommitted changes and new files.
On main it is the uncommitted changes and new files. If there are none, it is the last commit.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from tools.checks import ON_ALL_PROCESSORS, suite
from tools.one_check import ROOT, Check

PAGE = ROOT / "docs" / "development.md"
HEADING = "## After an edit"
MAIN = ("refs/heads/main", "refs/remotes/origin/main")
# Tests with a real Kafka or a built distribution are left out.
SELECTED = ("-m", "not kafka and not packaging")

Table = dict[str, tuple[str, ...]]
"""From the beginning of a path to the tests near it."""


class NoRowError(Exception):
    """The table has no row for a path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the table in docs/development.md has no row for {path}")


def table(page: str) -> Table:
    """The rows of the table in a page."""
    section = page.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    rows: Table = {}
    for edited, tests in re.findall(r"^\| (`[^|]+) \| (`[^|]+) \|$", section, re.MULTILINE):
        for path in _paths(edited):
            rows[path] = tuple(_paths(tests))
    return rows


def _paths(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def row_of(path: str, rows: Table) -> str | None:
    """The row with the longest matching beginning of this path."""
    return max((row for row in rows if path.startswith(row)), key=len, default=None)


def near(path: str, rows: Table) -> tuple[str, ...]:
    """The tests near one file or folder."""
    is_test = path.startswith("tests/") and PurePosixPath(path).match("test_*.py")
    if is_test:
        return (path,)
    row = row_of(path, rows)
    if row is not None:
        return rows[row]
    if path.startswith("tests/"):
        return (closest_tests(path),)
    raise NoRowError(path)


def closest_tests(path: str) -> str:
    """The smallest folder of tests with this file."""
    folder = PurePosixPath(path) if path.endswith("/") else PurePosixPath(path).parent
    folders = (each for each in (folder, *folder.parents) if any((ROOT / each).rglob("test_*.py")))
    return str(next(folders))


def near_all(paths: Iterable[str], rows: Table) -> list[str]:
    """The tests near any of these files, without those inside a folder that is named as well."""
    found = {test for path in paths for test in near(path, rows)}
    return sorted(
        test for test in found if not any(test.startswith(f"{folder}/") for folder in found if folder != test)
    )


def changed() -> list[str]:
    """The files that the present work changes, without those that it deletes."""
    listed = _printed("git", "diff", "--name-only", left_main_at())
    listed += _printed("git", "ls-files", "--others", "--exclude-standard")
    if not listed:
        listed = _printed("git", "show", "-m", "--first-parent", "--name-only", "--format=", "HEAD")
    return [name for name in listed if (ROOT / name).exists()]


def left_main_at() -> str:
    """The last commit that the work has in common with main; a clone of another branch has no main of its own."""
    for main in MAIN:
        command = ["git", "merge-base", "HEAD", main]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    return "HEAD"


def _printed(*command: str) -> list[str]:
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()


def relative(path: str) -> str:
    """The path relative to the root of the tree, with slashes; it may be given as absolute or relative."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise NoRowError(path)
    inside = found.relative_to(ROOT).as_posix()
    return f"{inside}/" if found.is_dir() else inside


def run(tests: Sequence[str]) -> int:
    """Run the tests, and show the output of pytest."""
    check: Check = suite("near", sys.executable, *SELECTED, *ON_ALL_PROCESSORS, *tests)
    check.report.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.run(check.command, cwd=ROOT, env=os.environ | check.environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Find the tests near the files, and run or print them."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.near",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print the paths, run nothing")
    options = parser.parse_args(arguments)
    try:
        paths = [relative(path) for path in options.files] or changed()
        tests = near_all(paths, table(PAGE.read_text()))
    except NoRowError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(tests) or "the last commit only deletes files: name a FILE", flush=True)
    return 0 if options.list or not tests else run(tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
