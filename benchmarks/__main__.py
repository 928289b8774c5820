"""Command line: `python -m benchmarks` runs every client against a real Kafka and writes RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks.report import RESULTS, goals, machine, markdown, rows, text
from benchmarks.rounds import CLIENTS, Client, RoundFailedError, Rounds
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import KafkaUnavailableError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="records of each round, times this")
    parser.add_argument(
        "--clients", nargs="+", choices=[client.name for client in CLIENTS], help="default: all"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--no-write", action="store_true", help="leave RESULTS.md as it is")
    return parser.parse_args()


def _measure(clients: Sequence[Client], rounds: int, scale: float) -> Rounds:
    with KafkaCluster() as kafka:
        done = Rounds(kafka, scale, print)
        done.warm_up()
        done.run(clients, rounds)
    return done


def main() -> int:
    """0; 1 when a goal is missed and `--check` was given, or a client failed."""
    asked = _arguments()
    clients = [client for client in CLIENTS if not asked.clients or client.name in asked.clients]
    load = os.getloadavg()[0]
    print(f"{machine()}; load average {load:.1f}")
    try:
        table = rows(_measure(clients, asked.rounds, asked.scale).results)
    except (RoundFailedError, KafkaUnavailableError) as error:
        print(error, file=sys.stderr)
        return 1
    reached = goals(table)
    print("", text(table), "", *reached, sep="\n")
    if not asked.no_write and len(clients) == len(CLIENTS):
        RESULTS.write_text(markdown(table, load), encoding="utf-8")
    return int(asked.check and not all(goal.met for goal in reached))


if __name__ == "__main__":
    sys.exit(main())
