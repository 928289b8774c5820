"""Spark's daemon of workers, with their modules imported: killed workers restart sooner."""

from __future__ import annotations

from pyspark.daemon import manager

from tests.spark.faults import sinks

__all__ = ["sinks"]

if __name__ == "__main__":
    manager()
