"""Workflows: only actions that are pinned by version, with only the rights that they need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo.source import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"


def lines(workflow: Path) -> list[str]:
    """The lines of a workflow without comments."""
    return [re.sub(r"\s+#.*|^#.*", "", line) for line in workflow.read_text().splitlines()]


def jobs(workflow: Path) -> dict[str, str]:
    """The text of each job by its name."""
    _, _, body = "\n".join(lines(workflow)).partition("\njobs:\n")
    parts = re.split(r"^  (\w+):\n", body, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned(workflow: Path) -> None:
    """Each action of another repository is named by its commit, with its version beside it."""
    used = re.findall(r"uses: (.+)", workflow.read_text())
    assert used
    pinned = re.compile(r"\./.+|[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert [action for action in used if not pinned.fullmatch(action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_programs_of_an_index_are_pinned(workflow: Path) -> None:
    """A program that a workflow fetches from the package index has an exact version."""
    fetched = re.findall(r"pipx run (\S+)", workflow.read_text())
    assert fetched
    assert [program for program in fetched if not re.fullmatch(r"[\w-]+==\d+(\.\d+)+", program)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read(workflow: Path) -> None:
    """A job has no right that it does not name, and names none to write."""
    top = "\n".join(lines(workflow)).partition("\njobs:\n")[0]
    assert re.search(r"^permissions:(\s+\{\}|\n  contents: read)$", top, re.MULTILINE)
    rights = {right for line in lines(workflow) for right in re.findall(r"[\w-]+: (?:write|admin)\S*", line)}
    assert rights <= {"id-token: write"}


def test_only_publishing_has_an_identity() -> None:
    """The job that may publish runs no code of this tree, and only after everything else passed."""
    found = jobs(RELEASE)
    assert [name for name, text in found.items() if "id-token: write" in text] == ["publish"]
    publish = found.pop("publish")
    assert "checkout" not in publish
    assert "run:" not in publish
    (needed,) = re.findall(r"needs: \[(.*)\]", publish)
    assert set(needed.split(", ")) == set(found)
