"""Loaded by pytest whatever part of the suite is run."""

from __future__ import annotations

pytest_plugins = ["tests.hypothesis_profiles"]
