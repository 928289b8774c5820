"""Spark's daemon of workers, which has imported what they need: those that are killed all the time are there again sooner."""

from __future__ import annotations

from pyspark.daemon import manager

from tests.spark.faults import sinks

__all__ = ["sinks"]

if __name__ == "__main__":
    manager()
