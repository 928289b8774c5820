"""`aioproducer demo`: many tasks send into an embedded Kafka, and everything is read back and compared."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterable

import attrs

from aioproducer import Delivery, Producer
from aioproducer.cli.arguments import integer
from aioproducer.cli.audit import Audit, audit
from aioproducer.testing import EmbeddedKafka

TOPIC = "demo"
PARTITIONS = 4
VALUE_SIZE = 100


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        help="send, read back and verify, without any Kafka",
        description="Send records from many concurrent tasks into an embedded Kafka, read them back and verify "
        "that each is there once, where its delivery says, with its content, and in the order of its task.",
    )
    parser.add_argument(
        "--records", type=integer(1, 10_000_000), default=200_000, help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--tasks", type=integer(1, 10_000), default=100, help="how many (default: %(default)s)"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Send, verify, show; 0 if every record is where it should be."""
    report = asyncio.run(_demo(arguments.records, arguments.tasks))
    print(report.table())
    return 0 if report.audit.is_good else 1


@attrs.frozen
class Report:
    """What the demo found out."""

    records: int
    tasks: int
    seconds: float
    latencies: tuple[float, float]
    audit: Audit

    def table(self) -> str:
        """The report for a terminal."""
        middle, late = self.latencies
        rows = [
            ("records", f"{self.records:,} of {VALUE_SIZE} bytes, from {self.tasks} tasks"),
            ("seconds", f"{self.seconds:.2f}"),
            ("records/s", f"{self.records / self.seconds:,.0f}"),
            ("latency", f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms (accepted to acknowledged)"),
            ("acked", f"{self.audit.acked:,}"),
            ("read back", f"{self.audit.found:,}"),
            (
                "verified",
                "yes: content, place and order" if self.audit.is_good else f"NO, {self.audit.wrong:,} wrong",
            ),
        ]
        lines = [f"{name:<10} {value}" for name, value in rows]
        return "\n".join([*lines, *(f"  {complaint}" for complaint in self.audit.complaints)])


async def _demo(records: int, tasks: int) -> Report:
    shares = [records // tasks + (task < records % tasks) for task in range(tasks)]
    async with EmbeddedKafka() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        async with Producer(kafka.bootstrap_servers, topics=[TOPIC]) as producer:
            await producer.ready(timeout=10)
            print(f"sending {records:,} records from {tasks} tasks", flush=True)
            began = time.perf_counter()
            sent = await asyncio.gather(
                *(_send_share(producer, task, share) for task, share in enumerate(shares))
            )
            await producer.flush()
            seconds = time.perf_counter() - began
        deliveries = {value: delivery for share in sent for value, delivery in share.items()}
        found = audit(deliveries, kafka.records(TOPIC))
    return Report(records, tasks, seconds, _latencies(deliveries.values()), found)


async def _send_share(producer: Producer, task: int, count: int) -> dict[bytes, Delivery]:
    """One task's records, each with its delivery; the key keeps them in one partition, and so in order."""
    key = b"task-%d" % task
    deliveries = {}
    for index in range(count):
        value = (b"%d:%d:" % (task, index)).ljust(VALUE_SIZE, b".")
        deliveries[value] = await producer.send(TOPIC, value, key=key)
    return deliveries


def _latencies(deliveries: Iterable[Delivery]) -> tuple[float, float]:
    """The median and the 99th percentile of the time from acceptance to acknowledgement, in seconds."""
    times = [delivery.timings for delivery in deliveries]
    waits = sorted(each.answered - each.accepted for each in times if each.answered and each.accepted)
    if not waits:
        return 0.0, 0.0
    return waits[len(waits) // 2], waits[len(waits) * 99 // 100]
