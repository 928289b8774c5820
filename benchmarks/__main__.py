"""Command line: `python -m benchmarks` runs every workload against a real Kafka and writes RESULTS.md and the pictures."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import groupby

from benchmarks.counted import CallgrindMissingError, Counts, count_instructions
from benchmarks.goals import goals, rows
from benchmarks.picture import PICTURE, SHAPES_PICTURE, picture, shapes_picture
from benchmarks.report import RESULTS, goal_table, machine, markdown, table
from benchmarks.rounds import Results, RoundFailedError, Rounds
from benchmarks.secured import SecuredCluster
from benchmarks.workloads import PARTITIONS, VALUES, WORKLOADS, Workload
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import KafkaUnavailableError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="records of each round, times this")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="WORK", help=f"of: {', '.join(names)}")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


def _measure(workloads: Sequence[Workload], rounds: int, scale: float) -> tuple[Results, Counts | None]:
    results: Results = {}
    counts = None
    for nodes, group in groupby(workloads, lambda workload: workload.nodes):
        some = list(group)
        with SecuredCluster() if nodes == 1 else KafkaCluster(nodes) as kafka:
            done = Rounds(kafka, scale, lambda line: print(line, flush=True))
            done.warm_up(some)
            for workload in some:
                done.run(workload, 1 if workload.once else rounds)
                if workload is PARTITIONS:
                    counts = count_instructions(kafka, scale)
                    print(f"instructions: {counts}", flush=True)
        results |= done.results
    return results, counts


def main() -> int:
    """0; 1 when a goal is missed and `--check` was given, or a client failed."""
    asked = _arguments()
    workloads = [workload for workload in WORKLOADS if not asked.only or workload.name in asked.only]
    load = os.getloadavg()[0]
    print(f"{machine()}; load average {load:.1f}")
    try:
        results, counts = _measure(workloads, asked.rounds, asked.scale)
    except (RoundFailedError, KafkaUnavailableError, CallgrindMissingError) as error:
        print(error, file=sys.stderr)
        return 1
    measured = rows(results)
    for workload in workloads:
        print(f"\n{workload.title}\n{table(workload, measured[workload.name])}")
    print(f"\n{goal_table(measured, counts)}")
    if not asked.no_write and len(workloads) == len(WORKLOADS):
        RESULTS.write_text(markdown(measured, counts, load), encoding="utf-8")
        PICTURE.write_text(picture(measured[VALUES.name]), encoding="utf-8")
        SHAPES_PICTURE.write_text(shapes_picture(measured), encoding="utf-8")
    return int(asked.check and not all(goal.met for goal in goals(measured, counts)))


if __name__ == "__main__":
    sys.exit(main())
