"""Options with which the Java of a Spark starts sooner and never gets as fast, for tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tools.class_archives import archived

COMPILED_QUICKLY: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The variable with the options of a driver's Java."""


def quick_spark(environment: str | Path = sys.prefix) -> str:
    """The options for the Spark of a virtual environment."""
    return " ".join([*COMPILED_QUICKLY, *archived(spark_archive(environment))])


def spark_archive(environment: str | Path = sys.prefix) -> Path:
    """The archive of the classes that a driver loads; `tools.spark_classes` makes it."""
    return Path(environment) / "spark-classes.jsa"
