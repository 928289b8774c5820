"""The flags of `aioproducer perf`, which are those of Kafka's kafka-producer-perf-test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from aioproducer import ProducerConfig
from aioproducer.cli.connecting import checked_topic, configuration, pairs, secrets_option, wait_option
from aioproducer.cli.files import to_be_drawn
from aioproducer.cli.perf.payloads import growing_numbers, payloads_of, random_payloads, read_payloads
from aioproducer.cli.perf.run import Job, perf
from aioproducer.cli.running import run_to_end
from aioproducer.cli.terminal.escapes import unescaped
from aioproducer.cli.terminal.numbers import MOST_INT, MOST_LONG, Real, Whole
from aioproducer.cli.terminal.screen import Screen

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
TAKE_MANY = ("--command-property", "--producer-props")
# The defaults of Kafka's tool: ProducerPerformance.DEFAULT_TRANSACTION_ID_PREFIX, DEFAULT_TRANSACTION_DURATION_MS.
ID_PREFIX = "performance-producer-"
DURATION_MS = 3000
# No broker accepts a record of this size, and its letters still fit into memory.
LARGEST = 100_000_000
EPILOG = """
\b
Examples:
  aioproducer perf --bootstrap-server localhost:9092 --topic perf \\
    --num-records 1000000 --record-size 100 --throughput -1 \\
    --command-property linger.ms=5 compression.type=lz4
  aioproducer perf --embedded --topic perf --num-records 200000 \\
    --record-size 100 --throughput -1 --plot perf.svg

Exit code: 0 all is acknowledged, 1 something is not (stderr says what), 2
wrong usage.
"""


class KafkasWay(click.Command):
    """Accepts several values after one flag, as Kafka's tool does: `--command-property a=1 b=2`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the flag before each value."""
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(args: list[str]) -> Iterator[str]:
    flag = None
    for at, arg in enumerate(args):
        if arg.startswith("-"):
            flag = arg if arg in TAKE_MANY else None
        elif flag is not None and args[at - 1] != flag:
            yield flag
        yield arg


@click.command(cls=KafkasWay, epilog=EPILOG)
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Addresses of the first brokers.")
@click.option("--embedded", is_flag=True, help="Use an embedded Kafka in this process instead.")
@click.option("--topic", required=True, callback=checked_topic, help="The topic of the records.")
@click.option(
    "--num-records", metavar="N", required=True, type=Whole(1, MOST_LONG), help="The number of records."
)
@click.option(
    "--record-size", metavar="BYTES", type=Whole(1, LARGEST), help="Send random letters of this size,"
)
@click.option("--payload-file", type=FILE, help="or the lines of this file, one at random each time,")
@click.option("--payload-monotonic", is_flag=True, help="or the numbers from 0.")
@click.option(
    "--payload-delimiter",
    metavar="TEXT",
    callback=unescaped,
    default=r"\n",
    show_default=True,
    help="The delimiter between the payloads of the file.",
)
@click.option(
    "--throughput",
    metavar="RATE",
    required=True,
    type=Real(),
    help="Limit in records/s; -1: no limit.",
)
@click.option(
    "--command-property",
    "--producer-props",
    "properties",
    metavar="NAME=VALUE ...",
    multiple=True,
    callback=pairs,
    help="Kafka producer properties; several may follow one flag.",
)
@click.option("--command-config", "--producer.config", "config", type=FILE, help="A properties file.")
@secrets_option
@click.option("--print-metrics", is_flag=True, help="Print the producer's statistics at the end.")
@click.option(
    "--warmup-records",
    metavar="N",
    type=Whole(0),
    default=0,
    help="Records to exclude from a second summary.",
)
@click.option(
    "--reporting-interval",
    metavar="MS",
    type=Whole(1, MOST_INT),
    default=5000,
    show_default=True,
    help="Interval of the printed lines.",
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Send in transactions with this id, like the property transactional.id.",
)
@click.option(
    "--transaction-duration-ms",
    metavar="MS",
    type=Whole(1, MOST_INT),
    help=f"Commit a transaction at this age (default {DURATION_MS}); without an id, a random one.",
)
@click.option(
    "--tasks",
    metavar="N",
    type=Whole(1, 100_000),
    default=1,
    show_default=True,
    help="The number of tasks that send.",
)
@click.option(
    "--plot",
    metavar="FILE",
    callback=to_be_drawn,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plot throughput and latency over time to a .png or .svg.",
)
@wait_option
def command(**flags: Any) -> int:
    """Measure throughput and latency of the producer.

    The flags are those of Kafka's own kafka-producer-perf-test, and so are the lines that it prints. Each task awaits
    each send(); every record's acknowledgement is awaited and counted.
    """
    return run_to_end(perf(_job(**flags), Screen()))


def _job(**flags: Any) -> Job:
    _check(flags)
    duration, random_id = flags["transaction_duration_ms"], f"{ID_PREFIX}{uuid.uuid4()}"

    def configured(servers: str | None) -> ProducerConfig:
        address = servers or flags["bootstrap_server"]
        own = {"client.id": "aioproducer-perf"} if flags["config"] is None else {}
        given = {"bootstrap.servers": address, "transactional.id": flags["transactional_id"]}
        properties = (
            own | flags["properties"] | {name: text for name, text in given.items() if text is not None}
        )
        config = configuration(flags["config"], properties, flags["secrets"])
        if duration is None or config.transactional_id is not None:
            return config
        return configuration(flags["config"], properties | {"transactional.id": random_id}, flags["secrets"])

    if not flags["embedded"]:
        configured(None)
    return Job(
        configured=configured,
        topic=flags["topic"],
        records=flags["num_records"],
        payloads=_payloads(flags),
        rate=flags["throughput"] if flags["throughput"] > 0 else None,
        transaction=(duration or DURATION_MS) / 1000,
        tasks=flags["tasks"],
        warmup=flags["warmup_records"],
        interval=flags["reporting_interval"] / 1000,
        prints_metrics=flags["print_metrics"],
        embedded=flags["embedded"],
        wait=flags["wait"],
        plot=flags["plot"],
    )


def _check(flags: dict[str, Any]) -> None:
    context = click.get_current_context()
    kinds = [flags["record_size"] is not None, flags["payload_file"] is not None, flags["payload_monotonic"]]
    if sum(kinds) != 1:
        raise click.UsageError(
            "Use exactly one of --record-size, --payload-file and --payload-monotonic", context
        )
    if flags["embedded"] and flags["bootstrap_server"] is not None:
        raise click.UsageError("Give --bootstrap-server or --embedded, not both", context)
    if flags["warmup_records"] >= flags["num_records"]:
        raise click.UsageError("--warmup-records must be fewer than --num-records", context)
    if flags["throughput"] <= 0 and flags["throughput"] != -1:
        raise click.UsageError("--throughput must be above 0, or -1 for no limit", context)


def _payloads(flags: dict[str, Any]) -> Iterator[bytes]:
    if flags["payload_monotonic"]:
        return growing_numbers()
    if flags["record_size"] is not None:
        return random_payloads(flags["record_size"])
    lines = read_payloads(flags["payload_file"], flags["payload_delimiter"])
    if not lines:
        raise click.UsageError(f"'{flags['payload_file']}' has no payloads", click.get_current_context())
    return payloads_of(lines)
