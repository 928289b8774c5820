"""Fixtures for callers that lie: the clusters and producers of tests/net, with nothing left behind."""

from __future__ import annotations

import pytest

from tests.net.conftest import kafka, ledger, made, make, nothing_left
from tests.slowness import SLOWNESS

__all__ = ["kafka", "ledger", "made", "make", "nothing_left"]

LIMIT_OF_A_TEST = 30 * SLOWNESS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A call that hangs is a failure, and soon."""
    for item in items:
        if "/callers/" in item.path.as_posix() and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LIMIT_OF_A_TEST))
