"""The address of the documentation, for error texts: an installed package has no docs/ folder."""

from __future__ import annotations

from typing import Final

__all__ = ["page"]

# The folder of `Documentation` in pyproject.toml; a test compares them.
FOLDER: Final = "https://aioproducer.example/blob/main/docs/"


def page(name: str) -> str:
    """The address of a page such as `spark.md`."""
    return FOLDER + name
