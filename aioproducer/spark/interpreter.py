"""The Python of Spark's workers: a library that is installed for the driver's Python is missing in another one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aioproducer.spark.shipping.summary import log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["name_another_python", "warn_of_another_python"]


def warn_of_another_python(spark: SparkSession) -> None:
    """Warn if the workers are on this machine and run another Python than this program."""
    # Sessions of Spark Connect have no context; on a cluster other paths are normal.
    context = getattr(spark, "sparkContext", None)
    if context is None or not context.master.startswith("local"):
        return
    another = name_another_python(context.pythonExec, sys.executable)
    if another is not None:
        log.warning(
            "Spark's workers run %s, and this program runs %s: set PYSPARK_PYTHON=%s before Spark starts, or install "
            "aioproducer there as well",
            another,
            sys.executable,
            sys.executable,
        )


def name_another_python(command: str, own: str) -> str | None:
    """The Python that this command starts, unless it is this one; links of virtual environments are resolved."""
    found = shutil.which(command)
    if found is None:
        return f"{command!r}, which does not exist"
    same = Path(found).resolve() == Path(own).resolve() and Path(found).parent == Path(own).parent
    return None if same else found
