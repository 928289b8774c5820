"""Rows of 50 columns to JSON and to Avro: columns of Arrow at once, against a Python object for each row.

    python -m benchmarks.spark.encoding

Processor time of one thread, the best of some rounds; everything in one run.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any, Final

import fastavro
import numpy as np
import orjson
import pyarrow as pa

from aioproducer._formats.avro_form import avro_form
from aioproducer._formats.encoding import encode
from aioproducer._formats.json_form import json_form

ROWS: Final = 10_000
ROUNDS: Final = 5


def columns() -> tuple[Any, dict[str, Any]]:
    """An Arrow batch of 15 integers, 10 doubles, 15 strings, 5 booleans and 5 timestamps, and its Avro schema."""
    chance = np.random.default_rng(1)
    made: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    for at in range(50):
        name = f"column_{at}"
        if at < 15:
            made[name], kinds[name] = pa.array(chance.integers(-(10**9), 10**9, ROWS)), "long"
        elif at < 25:
            made[name], kinds[name] = pa.array(chance.random(ROWS) * 1000), "double"
        elif at < 40:
            made[name] = pa.array([f"text {number} of {at}" for number in chance.integers(0, 10**6, ROWS)])
            kinds[name] = "string"
        elif at < 45:
            made[name], kinds[name] = pa.array(chance.random(ROWS) > 0.5), "boolean"
        else:
            made[name] = pa.array(chance.integers(0, 2 * 10**15, ROWS)).cast(pa.timestamp("us", "UTC"))
            kinds[name] = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
    return pa.RecordBatch.from_pydict(made), {"type": "record", "name": "Row", "fields": fields}


def rate(work: Callable[[], object]) -> float:
    """Rows a second of processor time."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return ROWS / best


def main() -> None:
    """Print a table."""
    batch, schema = columns()
    rows = batch.to_struct_array()
    as_json, as_avro = json_form(rows.type), avro_form(rows.type, json.dumps(schema))
    parsed = fastavro.parse_schema(schema)

    def by_fastavro() -> None:
        for row in batch.to_pylist():
            fastavro.schemaless_writer(io.BytesIO(), parsed, row)

    for name, columnar, each in (
        (
            "JSON",
            rate(lambda: encode(as_json, rows)),
            rate(lambda: [orjson.dumps(row) for row in batch.to_pylist()]),
        ),
        ("Avro", rate(lambda: encode(as_avro, rows)), rate(by_fastavro)),
    ):
        print(
            f"{name}: columns {columnar:,.0f} rows/s, each row {each:,.0f} rows/s, ratio {columnar / each:.1f}"
        )


if __name__ == "__main__":
    main()
