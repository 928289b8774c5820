"""The address of the project and of its documentation, for error texts: an installed package has no docs/ folder."""

from __future__ import annotations

from typing import Final

__all__ = ["page"]

# A reserved host, until there is a public repository. `[project.urls]` in pyproject.toml repeats it; a test compares them.
PROJECT: Final = "https://aioproducer.example"
FOLDER: Final = PROJECT + "/blob/main/docs/"


def page(name: str) -> str:
    """The address of a page such as `spark.md`."""
    return FOLDER + name
