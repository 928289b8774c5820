"""What a process keeps from task to task."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc
from aioproducer.spark.worker import this_worker
this_worker()
print(gc.get_freeze_count())
"""


@pytest.mark.parametrize("is_sparks", [True, False])
def test_modules_are_not_looked_through_after_each_task(is_sparks: bool) -> None:
    """In the processes that Spark collects garbage in; a program that only calls `write()` decides for itself."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    if is_sparks:
        environment["SPARK_REUSE_WORKER"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    spared = int(done.stdout)
    assert spared > 10_000 if is_sparks else spared == 0
