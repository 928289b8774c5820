"""The page of the project in a package index: its addresses, and links that work from there."""

from __future__ import annotations

import re
import runpy
import tomllib
from typing import Any

import pytest
import setuptools

from tests.repo.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_project_names_its_addresses() -> None:
    """Where the source, the documents, the changes and the issues are, on one host."""
    urls = PROJECT["urls"]
    assert set(urls) == {"Homepage", "Documentation", "Changelog", "Source", "Issues"}
    assert all(url.startswith(urls["Source"]) for url in urls.values())
    for url in (urls["Documentation"], urls["Changelog"]):
        assert (ROOT / url.removeprefix(f"{urls['Source']}/blob/main/")).is_file()


def test_links_of_the_long_description_are_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each link and picture of the README has the address of the repository in front of its path."""
    told: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", told.update)
    runpy.run_path(str(ROOT / "setup.py"))
    links = re.findall(r"\]\(([^)\s]+)\)", told["long_description"])
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    source = PROJECT["urls"]["Source"]
    paths = [
        re.sub(rf"^{source}/(blob|raw)/main/|#.*", "", link) for link in links if link.startswith(source)
    ]
    assert [path for path in paths if not (ROOT / path).is_file()] == []
