"""`aioproducer audit`: reads topics with Spark, and verifies their records."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import click

from aioproducer.cli.files import to_be_drawn, to_be_written
from aioproducer.cli.terminal.numbers import MOST_LONG, Whole

SECONDS_TO_ANSWER = 10.0
# Python refuses numbers of thousands of digits.
DIGITS = 100
NEEDED = ("pyspark", "confluent_kafka", "matplotlib")


def _numbered(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in given:
        source, _equals, number = text.rpartition("=")
        if not source or not number.isdecimal():
            raise click.BadParameter(f"{text!r} is not SOURCE=NUMBER", param=option)
        if len(number) > DIGITS or int(number) > MOST_LONG:
            raise click.BadParameter(
                f"{text:.60} is larger than the largest number of a source", param=option
            )
        found[source] = int(number)
    return found


@click.command(
    epilog="\b\nExamples:\n  aioproducer audit -b localhost:9092 -t orders --expect shop-1=1000000\n"
    "  aioproducer audit -b localhost:9092 -t orders --json verdict.json --picture verdict.png"
)
@click.option(
    "-b", "--bootstrap-server", required=True, metavar="HOST:PORT,…", help="Addresses of the first brokers."
)
@click.option(
    "-t",
    "--topic",
    "topics",
    required=True,
    multiple=True,
    metavar="NAME",
    help="A topic to read; may be repeated.",
)
@click.option(
    "--expect",
    multiple=True,
    callback=_numbered,
    metavar="SOURCE=NUMBER",
    help="The number of records of a source; may be repeated. For other sources, the last record found counts as the last.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether to read records of aborted transactions.",
)
@click.option("--any-partition", is_flag=True, help="Do not check the partitions of keys.")
@click.option("--master", default="local[2]", show_default=True, metavar="URL", help="The Spark master.")
@click.option(
    "--split",
    type=Whole(1, MOST_LONG),
    default=500_000,
    show_default=True,
    metavar="N",
    help="The number of offsets of one task.",
)
@click.option(
    "--json",
    "json_file",
    callback=to_be_written,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the verdict to this file.",
)
@click.option(
    "--picture",
    callback=to_be_drawn,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the verdict: .png or .svg.",
)
def command(
    bootstrap_server: str,
    topics: tuple[str, ...],
    expect: dict[str, int],
    isolation: str,
    any_partition: bool,
    master: str,
    split: int,
    json_file: Path | None,
    picture: Path | None,
) -> int:
    """Verify that every record of a topic is there once, in order, unaltered and in its partition.

    For records whose values begin with `source:sequence:crc32 of the rest:`. Exits with 1 if anything is wrong.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.UsageError(f"audit requires {', '.join(missing)}: pip install 'aioproducer[cli,spark]'")
    from pyspark.sql import SparkSession  # noqa: PLC0415  # for this command only

    from aioproducer.spark import audit  # noqa: PLC0415  # as above
    from aioproducer.spark.auditing.picture import draw  # noqa: PLC0415  # as above
    from aioproducer.spark.auditing.splits import partitions_of_topics  # noqa: PLC0415  # as above

    # Before Spark starts, which would report it in a hundred lines; those of librdkafka are turned off.
    asking = {"bootstrap.servers": bootstrap_server, "log_level": 0}
    partitions_of_topics(asking, topics, SECONDS_TO_ANSWER)

    # Spark would run `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(master)
        .appName("aioproducer audit")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        verdict = audit(
            spark,
            bootstrap_server,
            topics,
            expected=expect,
            isolation=isolation,
            keyed=not any_partition,
            split=split,
        )
    finally:
        spark.stop()
    click.echo(verdict.as_table())
    if json_file is not None:
        json_file.write_text(verdict.as_json() + "\n")
    if picture is not None:
        draw(picture, verdict, verdict.pieces)
    return 0 if verdict.is_clean else 1
