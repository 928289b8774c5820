"""`aioproducer demo`: many tasks send into an embedded Kafka, and everything is read back and compared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

import attrs
import click
from rich.table import Table

from aioproducer import Delivery, Producer
from aioproducer.cli.comparing import Audit, audit
from aioproducer.cli.latencies import histogram, quantile
from aioproducer.cli.running import every, run_to_end
from aioproducer.cli.terminal.numbers import Whole
from aioproducer.cli.terminal.screen import Screen
from aioproducer.testing import EmbeddedKafka

TOPIC = "demo"
PARTITIONS = 4
VALUE_SIZE = 100
LOOK_EVERY = 0.1


@click.command(epilog="\b\nExample:\n  aioproducer demo --records 1000000 --tasks 500")
@click.option(
    "--records",
    metavar="N",
    type=Whole(1, 10_000_000),
    default=200_000,
    show_default=True,
    help="The number of records.",
)
@click.option(
    "--tasks",
    metavar="N",
    type=Whole(1, 10_000),
    default=100,
    show_default=True,
    help="The number of tasks that send.",
)
def command(records: int, tasks: int) -> int:
    """Send, read back and verify; no Kafka is needed.

    Records of 100 bytes go from many concurrent tasks into an embedded Kafka. Then they are read back, and it is
    verified that each is there once, where its delivery says, with its content, and in the order of its task.
    """
    screen = Screen()
    report = run_to_end(_demo(screen, records, tasks))
    screen.say(report.table())
    screen.say("")
    screen.say(histogram(report.latencies, blocks=screen.blocks))
    for complaint in report.audit.complaints:
        screen.complain(f"aioproducer: {complaint}")
    return 0 if report.audit.is_good else 1


@attrs.frozen
class Report:
    """The result of the demo; `latencies` are in seconds, in ascending order."""

    records: int
    tasks: int
    seconds: float
    latencies: list[float]
    audit: Audit

    def table(self) -> Table:
        """The report, a row for each fact."""
        middle, late = (quantile(self.latencies, fraction) * 1000 for fraction in (0.5, 0.99))
        verified = (
            "yes: content, place and order" if self.audit.is_good else f"NO, {self.audit.wrong:,} wrong"
        )
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        table.add_row("records", f"{self.records:,} of {VALUE_SIZE} bytes, from {self.tasks} tasks")
        table.add_row("seconds", f"{self.seconds:.2f}")
        table.add_row("records/s", f"{self.records / self.seconds:,.0f}")
        table.add_row("latency", f"p50 {middle:.1f} ms, p99 {late:.1f} ms (accepted to acknowledged)")
        table.add_row("acked", f"{self.audit.acked:,}")
        table.add_row("read back", f"{self.audit.found:,}")
        table.add_row("verified", verified, style="" if self.audit.is_good else "red")
        return table


async def _demo(screen: Screen, records: int, tasks: int) -> Report:
    screen.say(f"sending {records:,} records from {tasks:,} tasks into an embedded Kafka")
    async with EmbeddedKafka() as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        async with Producer(kafka.bootstrap_servers, topics=[TOPIC]) as producer:
            await producer.ready(timeout=10)
            began = time.perf_counter()
            sent = await _send_all(screen, producer, records, tasks)
            seconds = time.perf_counter() - began
        screen.say("reading back and comparing")
        found = audit(sent, kafka.records(TOPIC))
    return Report(records, tasks, seconds, sorted(_latencies(sent.values())), found)


async def _send_all(screen: Screen, producer: Producer, records: int, tasks: int) -> Mapping[bytes, Delivery]:
    """Send from all tasks, wait for the outcomes, and return the deliveries by value."""
    shares = [records // tasks + (task < records % tasks) for task in range(tasks)]
    with screen.progress("sending", records) as meter:

        def look() -> None:
            acked = producer.stats().records_acked
            meter.show(acked, f"{acked:,} acked")

        async with every(LOOK_EVERY, look):
            sent = await asyncio.gather(
                *(_send_share(producer, task, share) for task, share in enumerate(shares))
            )
            await producer.flush()
        look()
    return {value: delivery for share in sent for value, delivery in share.items()}


async def _send_share(producer: Producer, task: int, count: int) -> dict[bytes, Delivery]:
    """Send the records of one task. Its key keeps them in one partition, and so in order."""
    key = b"task-%d" % task
    deliveries = {}
    for index in range(count):
        value = (b"%d:%d:" % (task, index)).ljust(VALUE_SIZE, b".")
        deliveries[value] = await producer.send(TOPIC, value, key=key)
    return deliveries


def _latencies(deliveries: Iterable[Delivery]) -> Iterable[float]:
    """The time from acceptance to acknowledgement of each record, in seconds."""
    times = [delivery.timings for delivery in deliveries]
    return (each.answered - each.accepted for each in times if each.answered and each.accepted)
