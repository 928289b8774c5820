"""benchmarks/spark/RESULTS.md: the tables, the verdict on the goals, and the method."""

from __future__ import annotations

import importlib.metadata
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from benchmarks.goals import Goal
from benchmarks.measure import BATCH_SIZE, LINGER_MS
from benchmarks.report import machine
from benchmarks.spark import connector
from benchmarks.spark.batches import CONFLUENT, CONNECTOR, ENTRANTS, EXACTLY, OURS, Writes
from benchmarks.spark.contest import cpu_micros, median_ms
from benchmarks.spark.streams import SMALL, Epochs
from tools.kafka_jars import KAFKA_VERSION

RESULTS: Final = Path(__file__).parent / "RESULTS.md"


@attrs.frozen
class Measured:
    """All results of a run."""

    batches: Writes
    small: dict[str, Epochs]
    large: dict[str, Epochs]

    def best(self, name: str) -> float:
        """Rows a second of the best warm round."""
        return max(write.rate for write in self.batches[name])

    def cpu(self, name: str) -> float:
        """Processor time of the Python side, over all rounds."""
        return cpu_micros(task for write in self.batches[name] for task in write.tasks)


def goals(measured: Measured) -> list[Goal]:
    """The required and the measured values."""
    ours = measured.best(OURS)
    small, large = measured.small, measured.large
    overhead = median_ms(small[EXACTLY].tasks) - median_ms(small[OURS].tasks)
    beyond = {name: small[name].median_ms - small[CONNECTOR].median_ms for name in (OURS, EXACTLY)}
    share = large[EXACTLY].rate / large[OURS].rate
    return [
        _at_least("batch", "rate, x Spark's own connector", ours / measured.best(CONNECTOR), 1.2),
        _at_least(
            "batch", "rate, x confluent-kafka in an Arrow writer", ours / measured.best(CONFLUENT), 1.5
        ),
        _at_most("batch", "CPU us of the Python side for a row", measured.cpu(OURS), 0.6),
        _at_least(f"epochs of {large[OURS].rows:,} rows", "exactly once, x at least once", share, 0.8),
        _at_most(f"epochs of {SMALL.rows} rows", "exactly once: more ms per task (median)", overhead, 40),
        _at_most(
            f"epochs of {SMALL.rows} rows", "at least once: ms beyond Spark's own connector", beyond[OURS], 65
        ),
        _at_most(
            f"epochs of {SMALL.rows} rows",
            "exactly once: ms beyond Spark's own connector",
            beyond[EXACTLY],
            30,
        ),
    ]


def _at_least(work: str, text: str, value: float, bound: float) -> Goal:
    return Goal(work, f"{text}: at least {bound:g}", value, value >= bound)


def _at_most(work: str, text: str, value: float, bound: float) -> Goal:
    return Goal(work, f"{text}: at most {bound:g}", value, value <= bound)


def summary(measured: Measured) -> str:
    """The tables, for a terminal and for Markdown."""
    return "\n\n".join(
        [
            f"## A batch\n\n{_batch_table(measured)}",
            f"## Epochs of {SMALL.rows} rows\n\n{_epoch_table(measured.small)}",
            f"## Epochs of {measured.large[OURS].rows:,} rows\n\n{_epoch_table(measured.large)}",
            f"## Goals\n\n{_goal_table(measured)}",
        ]
    )


def _batch_table(measured: Measured) -> str:
    lines = [
        "| sink | rows/s (best) | median | CPU us/row of the Python side | aioproducer, at least once, is |",
        "|---|---:|---:|---:|---:|",
    ]
    ours = measured.best(OURS)
    for name, writes in measured.batches.items():
        rate = measured.best(name)
        micros = measured.cpu(name)
        cells = [name, f"{rate:,.0f}", f"{median(write.rate for write in writes):,.0f}"]
        cells += [
            f"{micros:.2f}" if micros else "",
            f"{ours / rate:.2f} x" if name != OURS and ENTRANTS[name].writes else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _epoch_table(epochs: dict[str, Epochs]) -> str:
    lines = [
        "| sink | ms an epoch (median) | best | rows/s | ms a task's Python side (median) |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, found in epochs.items():
        task = f"{median_ms(found.tasks):.1f}" if found.tasks else ""
        best = min(found.seconds) * 1000
        lines.append(f"| {name} | {found.median_ms:.0f} | {best:.0f} | {found.rate:,.0f} | {task} |")
    return "\n".join(lines)


def _goal_table(measured: Measured) -> str:
    lines = ["| work | goal | measured | |", "|---|---|---:|---|"]
    lines += [
        f"| {goal.workload} | {goal.text} | {goal.value:.2f} | {goal.verdict} |" for goal in goals(measured)
    ]
    return "\n".join(lines)


def _version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


def markdown(measured: Measured, load: float) -> str:
    """The whole of RESULTS.md; `load` is the load average of the machine before the run."""
    rounds = len(measured.batches[OURS])
    count = measured.batches[OURS][0].rows
    versions = ", ".join(map(_version, ("pyspark", "pyarrow", "confluent-kafka", "aiokafka")))
    return f"""\
# DataFrames into Kafka: what was measured

Written by `make bench-spark` on {datetime.now(UTC):%Y-%m-%d}. Compare ratios; absolute figures move with the machine.

{summary(measured)}

## How

* {machine()}; load average {load:.1f} before the run began. {versions}; Apache Kafka {KAFKA_VERSION}, one node on the same
  machine. Spark runs with `local[2]`, all sinks in one session.
* Spark's own connector is {connector.CONNECTOR} with the token provider {connector.TOKENS} and kafka-clients {connector.CLIENTS}: the newest
  that Maven has.
* A batch: {count:,} rows with keys of 16 bytes (1,024 different ones) and values of 100, cached, 4 tasks, into a new topic of 4
  partitions; {rounds} warm rounds, each begun by another sink. The broker's offsets are compared with the number of rows.
* All: acks=all, idempotent, linger {LINGER_MS} ms, batches of {BATCH_SIZE} bytes, no compression; a producer lives as long as its worker.
  Keys choose partitions as in Kafka's own client, but for aiokafka, whose batches go to one partition after the other.
* Epochs: Spark's `rate-micro-batch` source, 2 tasks, as fast as they come; `triggerExecution` of Spark's progress, {rounds} rounds,
  those that warm a query up not counted. What a task's Python side takes is what `write()` took.
* Spark runs with `spark.python.unix.domain.socket.enabled=true`: without it every task of a Python sink waits 40 ms for its first rows
  (a delayed acknowledgement of TCP).
* CPU: user and system time of all threads of the worker during `write()`, reading from Spark included.
"""
