"""The catalogue of faults and invariants: each id of a test is in it, and each of its entries has a test."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.repo.source import ROOT, python_files

TESTS = ROOT / "tests"
CATALOGUE = TESTS / "CATALOGUE.md"
UNTESTED = "\n## Without a test yet\n"
ROW = re.compile(r"^\| ([A-FI]\d+) \|", re.MULTILINE)
INVARIANT = re.compile(r"^\| (I\d+) \| .* \| `([^`]+)` \|$", re.MULTILINE)
NAME = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
IN_A_NAME = re.compile(r"_([a-f]\d\d)(?=_)")
IN_A_TEXT = re.compile(r"\b([A-F]\d\d|I\d\d?)\b")


def texts() -> list[tuple[Path, str]]:
    """The files of the tests, but for those about this repository."""
    return [
        (path, path.read_text()) for path in python_files(TESTS) if not path.is_relative_to(TESTS / "repo")
    ]


def named() -> set[str]:
    """The ids in names of tests."""
    names = [name for _, text in texts() for name in NAME.findall(text)]
    return {found.upper() for name in names for found in IN_A_NAME.findall(f"{name}_")}


def mentioned() -> set[str]:
    """The ids in the words of files that have tests."""
    return {
        found for path, text in texts() if path.name.startswith("test_") for found in IN_A_TEXT.findall(text)
    }


def entries(*, tested: bool) -> list[str]:
    """The ids of the catalogue."""
    with_a_test, _, without = CATALOGUE.read_text().partition(UNTESTED)
    return ROW.findall(with_a_test if tested else without)


def test_an_entry_is_there_once() -> None:
    """No id stands for two things."""
    assert [
        one for one, count in Counter(entries(tested=True) + entries(tested=False)).items() if count > 1
    ] == []


def test_each_id_in_a_name_is_in_the_catalogue() -> None:
    """The id of a test leads to its fault."""
    assert sorted(named() - set(entries(tested=True))) == []


def test_each_fault_has_a_test() -> None:
    """A fault of the catalogue is in the name or the words of a test, but for those that are listed as untested."""
    faults = {one for one in entries(tested=True) if not one.startswith("I")}
    assert sorted(faults - named() - mentioned()) == []


def test_what_is_listed_as_untested_has_no_test() -> None:
    """An entry moves to its section when it gets a test."""
    assert sorted(named() & set(entries(tested=False))) == []


def test_each_invariant_is_named_where_it_is_checked() -> None:
    """The file that an invariant names mentions the invariant by its id."""
    found = INVARIANT.findall(CATALOGUE.read_text())
    assert len(found) == 14
    assert [one for one, file in found if one not in IN_A_TEXT.findall((ROOT / file).read_text())] == []
