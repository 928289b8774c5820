"""Fixtures for Python's own faults: the clusters and producers of tests/net, with nothing left behind."""

from __future__ import annotations

from tests.net.conftest import kafka, made, make, nothing_left, pair

__all__ = ["kafka", "made", "make", "nothing_left", "pair"]
