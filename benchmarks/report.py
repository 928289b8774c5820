"""From rounds to a table, and from the table to a verdict."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from benchmarks.measure import BATCH_SIZE, LINGER_MS, VALUE, Round
from benchmarks.rounds import AIOKAFKA, CONFLUENT, JAVA, OURS, PARTITIONS, Client
from tools.kafka_jars import KAFKA_VERSION

RESULTS: Final = Path(__file__).parent / "RESULTS.md"


@attrs.frozen
class Row:
    """The medians of one client."""

    name: str
    version: str
    rate: float
    slowest: float
    fastest: float
    cpu_micros: float
    rounds: int


@attrs.frozen
class Goal:
    """A ratio that has to be reached: `text` says it, `value` was measured."""

    text: str
    value: float
    met: bool

    def __str__(self) -> str:
        return f"{'met   ' if self.met else 'MISSED'} {self.text}: {self.value:.2f}"


def rows(results: Mapping[Client, Sequence[Round]]) -> dict[Client, Row]:
    """The medians of every client that ran."""
    return {client: _row(client, done) for client, done in results.items()}


def _row(client: Client, done: Sequence[Round]) -> Row:
    rates = [one.rate for one in done]
    cpu = median(one.cpu_micros for one in done)
    return Row(client.name, done[0].version, median(rates), min(rates), max(rates), cpu, len(done))


def goals(table: Mapping[Client, Row]) -> list[Goal]:
    """What the design stands or falls with."""
    if not {OURS, CONFLUENT, AIOKAFKA} <= set(table):
        return []
    ours, confluent, aiokafka = table[OURS], table[CONFLUENT], table[AIOKAFKA]
    faster, far_faster = ours.rate / confluent.rate, ours.rate / aiokafka.rate
    cheaper = ours.cpu_micros / confluent.cpu_micros
    return [
        Goal("rate, at least 2 x confluent-kafka", faster, faster >= 2),
        Goal("rate, at least 8 x aiokafka", far_faster, far_faster >= 8),
        Goal("CPU per record, at most 0.5 x confluent-kafka", cheaper, cheaper <= 0.5),
    ]


def text(table: Mapping[Client, Row]) -> str:
    """The table, for a terminal and for Markdown."""
    ours = table.get(OURS)
    lines = [
        "| client | records/s (median) | slowest - fastest round | CPU us/record | aioproducer is |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [_line(row, ours.rate if ours else None) for row in table.values()]
    return "\n".join(lines)


def _line(row: Row, ours: float | None) -> str:
    ratio = "" if ours is None or row.name == OURS.name else f"{ours / row.rate:.2f} x"
    spread = f"{row.slowest / 1000:,.0f} k - {row.fastest / 1000:,.0f} k"
    return f"| {row.version} | {row.rate:,.0f} | {spread} | {row.cpu_micros:.2f} | {ratio} |"


def markdown(table: Mapping[Client, Row], load: float) -> str:
    """The whole of RESULTS.md; `load` is what else the machine was doing when the run began."""
    rounds = max(row.rounds for row in table.values())
    verdict = "\n".join(f"* {goal}" for goal in goals(table))
    return f"""\
# What was measured

Written by `python -m benchmarks` on {datetime.now(UTC):%Y-%m-%d}. Compare ratios; absolute figures move with the machine.

{text(table)}

{verdict}

## How

* {machine()}; load average {load:.1f} before the run began (near 0 when nothing else runs).
* Apache Kafka {KAFKA_VERSION}, one node, on the same machine; a new topic of {PARTITIONS} partitions for every run.
* Values of {len(VALUE)} bytes, no key, acks=all, idempotent, linger {LINGER_MS} ms, batches of {BATCH_SIZE} bytes, no compression.
* {rounds} interleaved rounds after one that warms the broker and is not counted. Each client runs in a process of its own and sends
  some records first that are not counted.
* Every delivery is kept and checked: the clock stops when each record's partition and offset has been read, and then
  the offsets must have no gap and no repeat. aioproducer: one task that awaits each `send()`, then `flush()`, then reads every
  delivery's result. aiokafka: one task that awaits each `send()`, then every future. confluent-kafka: the synchronous producer with a delivery callback for each record.
* aioproducer runs with `send_buffer_bytes=-1`, which leaves the socket's buffer to the operating system as librdkafka and
  aiokafka do; its default is Kafka's 128 KiB.
* CPU is user and system time of all threads of the client's process. For {JAVA.name} (ProducerPerformance, for
  orientation) it includes the start of the JVM, and there is no warm-up.
* The limit sends requests of the same size, made beforehand and without a producer id, over a blocking socket with
  five in flight; no record is made and no delivery is told.
"""


def machine() -> str:
    """What was measured on."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores ({_processor()}), {gigabytes:.0f} GiB, {platform.system()}, {python}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
