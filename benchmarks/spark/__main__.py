"""Command line: `python -m benchmarks.spark` measures all sinks against a real Kafka and writes benchmarks/spark/RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.report import machine
from benchmarks.spark.batches import ROWS, measure_batches
from benchmarks.spark.report import RESULTS, Measured, markdown, summary
from benchmarks.spark.session import session
from benchmarks.spark.streams import LARGE, SMALL, measure_epochs
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import KafkaUnavailableError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="warm rounds (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="rows and epochs, times this")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """0; 1 when there is no Kafka."""
    asked = _arguments()
    load = os.getloadavg()[0]
    _say(f"{machine()}; load average {load:.1f}")
    try:
        with KafkaCluster(1) as kafka, session() as spark:
            measured = Measured(
                measure_batches(spark, kafka, int(ROWS * asked.scale), asked.rounds, _say),
                measure_epochs(spark, kafka, SMALL.scaled(asked.scale), asked.rounds, _say),
                measure_epochs(spark, kafka, LARGE.scaled(asked.scale), asked.rounds, _say),
            )
    except KafkaUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    _say(f"\n{summary(measured)}")
    if not asked.no_write:
        RESULTS.write_text(markdown(measured, load), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
