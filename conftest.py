"""Loaded by pytest for any part of the suite."""

from __future__ import annotations

pytest_plugins = ["tests.hypothesis_profiles"]
