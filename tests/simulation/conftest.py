"""Simulations begin with a small heap."""

from __future__ import annotations

import pytest

from tests.collector import keep_what_is_there


@pytest.fixture(scope="module", autouse=True)
def what_is_there_is_kept() -> None:
    """Each simulation ends with a garbage collection, which skips the objects that other modules have left."""
    keep_what_is_there()
