"""Rows of 50 columns as JSON and Avro: the sink's formats, beside `to_json` and `to_avro` with Spark's own connector.

    python -m benchmarks.spark.structured

Prints a table of rates and of processor time: that of Spark's JVM and its Python workers together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aioproducer.registry import Registry, Schema
from aioproducer.testing import EmbeddedRegistry
from benchmarks.report import machine
from benchmarks.spark.batches import CONNECTOR, ENTRANTS, EXACTLY, OURS, check_count
from benchmarks.spark.session import session
from benchmarks.spark.shapes import TASKS, Write, heads_of, measured, row_of
from tools.kafka_cluster import KafkaCluster
from tools.spark_jars import avro_jar

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTITIONS: Final = 4
NAMES: Final = (OURS, EXACTLY, CONNECTOR)
FORMATS: Final = ("json", "avro")
SUBJECT: Final = "rows"
MICROS: Final = {"type": "long", "logicalType": "timestamp-micros"}
# How many columns of each type, as SQL and in the Avro schema.
COLUMNS: Final = (
    (15, "hash(id, {at}) * 3L", "long"),
    (10, "hash(id, {at}) / 7.0D", "double"),
    (15, "concat('text ', hash(id, {at}), ' of {at}')", "string"),
    (5, "hash(id, {at}) % 2 = 0", "boolean"),
    (5, "timestamp_micros(1700000000000000 + hash(id, {at}))", MICROS),
)


def columns() -> Iterator[tuple[str, str, object]]:
    """The name of each column, its SQL, and its type in the Avro schema."""
    at = 0
    for count, sql, kind in COLUMNS:
        for _ in range(count):
            yield f"column_{at}", sql.format(at=at), kind
            at += 1


def schema() -> str:
    """The Avro schema of a row."""
    fields = [{"name": name, "type": ["null", kind]} for name, _, kind in columns()]
    return json.dumps({"type": "record", "name": "Row", "fields": fields})


def main() -> None:
    """Measure both formats."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.structured", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="in one write (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="warm rounds (default: %(default)s)")
    asked = parser.parse_args()
    print(f"{machine()}; load average {os.getloadavg()[0]:.1f}", flush=True)
    for line in heads_of(NAMES, ["format"]):
        print(line, flush=True)
    with KafkaCluster(1) as kafka, session() as spark, _registry() as url:
        spark.sql(f"ADD JAR '{avro_jar()}'")
        df = spark.range(0, asked.rows, numPartitions=TASKS)
        df = df.selectExpr(*(f"{sql} as {name}" for name, sql, _ in columns())).cache()
        df.count()
        for form in FORMATS:
            found: dict[str, list[Write]] = defaultdict(list)
            # The first round warms up.
            for number in range(asked.rounds + 1):
                for name in NAMES if number % 2 else reversed(NAMES):
                    write = _write(df, kafka, name, form, url, asked.rows)
                    if number:
                        found[name].append(write)
            print(row_of(form, found, NAMES), flush=True)


def _write(df: DataFrame, kafka: KafkaCluster, name: str, form: str, url: str, count: int) -> Write:
    topic = kafka.create_topic(f"structured-{time.monotonic_ns()}", PARTITIONS)
    entrant = ENTRANTS[name]
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, **entrant.options}
    if name == CONNECTOR:
        df = df.select(_encoded(df, form).alias("value"))
    else:
        options |= {"valueFormat": form}
        if form == "avro":
            options |= {"registry.url": url, "subject": SUBJECT}
    done = measured(df, kafka, entrant.format, options, count)
    check_count(kafka, topic, count, PARTITIONS * TASKS if entrant.is_transactional else 0)
    kafka.delete_topic(topic)
    return done


def _encoded(df: DataFrame, form: str) -> Column:
    from pyspark.sql.avro.functions import to_avro  # noqa: PLC0415  # only where there is a Spark
    from pyspark.sql.functions import struct, to_json  # noqa: PLC0415

    row = struct(*df.columns)
    return to_json(row) if form == "json" else to_avro(row, schema())


@contextmanager
def _registry() -> Iterator[str]:
    """The URL of a registry that has the Avro schema; it runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def started() -> EmbeddedRegistry:
        server = EmbeddedRegistry()
        await server.start()
        async with Registry(server.url) as registry:
            await registry.register(SUBJECT, Schema(schema(), "AVRO"))
        return server

    server = asyncio.run_coroutine_threadsafe(started(), loop).result()
    try:
        yield server.url
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)


if __name__ == "__main__":
    main()
