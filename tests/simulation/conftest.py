"""Simulations begin with a small heap."""

from __future__ import annotations

import pytest

from tests.collector import keep_what_is_there


@pytest.fixture(scope="module", autouse=True)
def what_is_there_is_kept() -> None:
    """Each simulation ends with a collection, which need not go through what other modules have left."""
    keep_what_is_there()
