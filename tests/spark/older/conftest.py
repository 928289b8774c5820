"""Tests on Spark versions without data sources in Python: they are not collected with others."""

from __future__ import annotations

from importlib.metadata import version

collect_ignore_glob = [] if version("pyspark").startswith(("3.", "4.0")) else ["test_*.py"]
