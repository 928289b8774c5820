"""RESULTS.md: the tables, the verdict, and the method."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.counted import Counts
from benchmarks.goals import Rows, goals
from benchmarks.measure import BATCH_SIZE, LINGER_MS
from benchmarks.workloads import JAVA, ON_THREE_BROKERS, OURS, PRODUCTION, VALUES, WORKLOADS, Workload
from tools.kafka_jars import KAFKA_VERSION

# From this rate on, the table shows thousands of records a second.
_MANY: Final = 10_000
RESULTS: Final = Path(__file__).parent / "RESULTS.md"


def table(workload: Workload, rows: Rows) -> str:
    """One workload, for a terminal and for Markdown."""
    heads = ["client" if workload is VALUES else "what"]
    if workload.shows_rate:
        heads += ["records/s (median)", "slowest - fastest round", "CPU us/record"]
        if OURS in rows and len(rows) > 1:
            heads.append("aioproducer is")
    heads += [head for _, head, _ in workload.figures]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    lines += ["| " + " | ".join(_cells(workload, name, rows)) + " |" for name in rows]
    return "\n".join(lines)


def _cells(workload: Workload, name: str, rows: Rows) -> list[str]:
    row = rows[name]
    cells = [row.version if workload is VALUES else name]
    if workload.shows_rate:
        cells += [f"{row.rate:,.0f}", _spread(row.slowest, row.fastest), f"{row.cpu_micros:.2f}"]
        if OURS in rows and len(rows) > 1:
            cells.append("" if name == OURS else f"{rows[OURS].rate / row.rate:.2f} x")
    # Some figures only this library tells.
    return cells + [
        f"{row.figures[figure]:{form}}" if figure in row.figures else ""
        for figure, _, form in workload.figures
    ]


def _spread(slowest: float, fastest: float) -> str:
    if slowest < _MANY:
        return f"{slowest:,.0f} - {fastest:,.0f}"
    return f"{slowest / 1000:,.0f} k - {fastest / 1000:,.0f} k"


def goal_table(measured: Mapping[str, Rows], counts: Counts | None = None) -> str:
    """The goals beside the measured values."""
    titles = {workload.name: workload.title for workload in WORKLOADS}
    lines = ["| work | goal | measured | |", "|---|---|---:|---|"]
    seen = ""
    for goal in goals(measured, counts):
        title = titles[goal.workload] if goal.workload != seen else ""
        seen = goal.workload
        value = f"{goal.value:,.0f}" if goal.value >= 1000 else f"{goal.value:.2f}"
        lines.append(f"| {title} | {goal.text} | {value} | {goal.verdict} |")
    return "\n".join(lines)


def shape_table(measured: Mapping[str, Rows]) -> str:
    """The shapes of production in one table, small batches first: processor time of each client for a record."""
    shapes = {shape.title: measured[shape.name] for shape in PRODUCTION if shape.name in measured}
    ordered = sorted(shapes, key=lambda title: shapes[title][OURS].figures["per_batch"])
    clients = list(shapes[ordered[0]]) if ordered else []
    lines = [
        "| " + " | ".join(["CPU us/record", "records a batch", *clients]) + " |",
        "|---" + "|---:" * (1 + len(clients)) + "|",
    ]
    for title in ordered:
        rows = shapes[title]
        cells = [title.removesuffix(ON_THREE_BROKERS), f"{rows[OURS].figures['per_batch']:.1f}"]
        cells += [f"{rows[client].cpu_micros:.2f}" for client in clients]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markdown(measured: Mapping[str, Rows], counts: Counts | None, load: float) -> str:
    """The whole of RESULTS.md; `load` is the load average of the machine before the run."""
    rounds = max(row.rounds for rows in measured.values() for row in rows.values())
    first = table(VALUES, measured[VALUES.name])
    others = "\n\n".join(
        f"## {workload.title}\n\n{table(workload, measured[workload.name])}"
        for workload in WORKLOADS
        if workload is not VALUES and workload.name in measured
    )
    return f"""\
# What was measured

Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}. Compare ratios; absolute figures move with the machine.

## {VALUES.title}

{first}

## Shapes of production{ON_THREE_BROKERS}

{shape_table(measured)}

## Goals

{goal_table(measured, counts)}

{_counted(counts)}{others}

{_method(rounds, load)}"""


def _counted(counts: Counts | None) -> str:
    if counts is None:
        return ""
    return f"""\
## Instructions

Counted by callgrind, so that they can be compared between runs on any machine of this kind.

* **{counts.send:,}** machine instructions for one `await producer.send(topic, value)` that is accepted, with its delivery kept,
  the loop around it included.
* **{counts.request:,}** for one `await producer.send_and_wait(topic, value)`, a request of its own with its answer, turns of the event
  loop included; **{counts.request_among_many:,}** to a partition of a topic that has 5,000.
* **{counts.checkpoint:,}** for one `await checkpoint.send(topic, value)` and `checkpoint.mark(number)`, the loop included.

"""


def _method(rounds: int, load: float) -> str:
    return f"""\
## How

* {machine()}; load average {load:.1f} before the run began (near 0 when nothing else runs).
* Apache Kafka {KAFKA_VERSION}, one node unless it says otherwise, on the same machine; a new topic of 4 partitions for every run.
* acks=all, idempotent, linger {LINGER_MS} ms, batches of {BATCH_SIZE} bytes, no compression, unless it says otherwise.
* Medians of {rounds} interleaved rounds, each begun by another client, after some that warm the broker and are not counted (one
  round for what has no goal: loops, codecs, three brokers). Each client runs in a process of its own and sends some records first that are not counted.
* Every delivery is kept and checked: the clock stops when each record's partition and offset has been read, and then
  the offsets must have no gap and no repeat. aioproducer: one task that awaits each `send()`, then `flush()`, then reads every
  delivery's result. aiokafka: one task that awaits each `send()`, then every future. confluent-kafka: the synchronous
  producer with a delivery callback for each record.
* aioproducer runs with `send_buffer_bytes=-1`, which leaves the socket's buffer to the operating system as librdkafka and
  aiokafka do; its default is Kafka's 128 KiB (measured too, below).
* CPU is user and system time of all threads of the client's process. For {JAVA} (ProducerPerformance) it includes
  the start of the JVM, and there is no warm-up.
* The limit sends requests of the same size that were made beforehand over a blocking socket, idempotent, with five in flight;
  only the sequence numbers and the checksums are written anew. No record is made and no delivery is told. That of transactions
  makes each with its two requests, one after the other, and waits between two transactions as aioproducer does.
* At a pace each record is due at its time, whether or not those before it are written, and is measured from that time on.
* Transactions: each is begun when the one before it is committed; those of one record have linger 0. The broker has done 20,000
  before: it takes twice the time for its first ones. Where records come before it has written the markers of the transaction
  before them, it keeps them for 20 ms, which makes the rounds of some clients differ. Records are checked as
  all are, with the marker of their transaction behind the last one in each partition. A commit is measured with what its
  records still need. Java's are made by a program of ours (TransactionalSend.java, warm when the clock starts), because
  ProducerPerformance ends its transactions by time and not by the number of their records; it flushes before it commits,
  without which Java's commit may overtake a lone record, and fail.
* SASL_SSL: TLS 1.3 with a certificate of an elliptic curve (P-256), SCRAM-SHA-512 with 4,096 iterations, on a second listener
  of the same broker. A producer that connects and closes is made, connected, asked for a topic, and closed.
* Stalls: a *step* is one callback of the loop, a *turn* all that was ready when it looked; processor time of the loop's thread,
  so that other processes of the machine do not count. Python's garbage collector does.
"""


def machine() -> str:
    """The machine of the measurement."""
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
