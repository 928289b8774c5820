"""`write()`, which needs no data source, and the code of docs/spark.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from aioproducer.spark import foreach_batch, write
from tests.repo.document_code import blocks
from tests.repo.source import ROOT
from tests.spark.rows import committed, failing, numbered, numbers, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

EXACTLY = {"delivery": "exactly-once"}
COUNT = 5_000


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_write_tells_what_it_wrote(spark: SparkSession, options: dict[str, str], delivery: str) -> None:
    """Rows, bytes, and where they are."""
    written = write(numbered(spark, COUNT), options | {"delivery": delivery})
    records = committed(options)
    assert numbers(records) == once(COUNT)
    assert written.rows == COUNT
    assert written.bytes == sum(len(record.key or b"") + len(record.value or b"") for record in records)
    assert set(written.places) == {(options["topic"], record.partition) for record in records}
    assert sum(written.places.values()) == COUNT


def test_nothing_of_a_write_that_fails_is_visible(spark: SparkSession, options: dict[str, str]) -> None:
    """Nor is what comes behind it hidden."""
    with pytest.raises(PySparkException, match="a failure of the test"):
        write(failing(numbered(spark, COUNT), attempts=9), options | EXACTLY)
    assert committed(options) == []
    write(numbered(spark, 10), options | EXACTLY)
    assert numbers(committed(options)) == once(10)


def test_a_write_with_an_id_or_an_epoch_is_done_once(spark: SparkSession, options: dict[str, str]) -> None:
    """The job by its write.id, the epoch by its name and number."""
    for _ in range(2):
        write(numbered(spark, COUNT), options | EXACTLY | {"write.id": options["topic"]})
    assert numbers(committed(options)) == once(COUNT)
    for epoch in (0, 1, 1):
        write(numbered(spark, COUNT), options | EXACTLY, epoch=(f"of {options['topic']}", epoch))
    assert set(numbers(committed(options)).values()) == {3}


def test_the_code_of_the_page(
    spark: SparkSession, options: dict[str, str], make_topic: object, tmp_path: Path
) -> None:
    """What docs/spark.md shows runs as it stands there, but for the names of the server, the topic and the folder."""
    df = numbered(spark, 10).selectExpr("key as customer", "value")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("1\n2\n")
    lines = (
        spark.readStream.format("text")
        .load(str(tmp_path / "source"))
        .selectExpr("value as customer", "value")
    )
    counts = lines.groupBy("value").count().selectExpr("value as key", "value")
    names: dict[str, Any] = {
        "df": df,
        "spark": spark,
        "counts": counts,
        "path": str(tmp_path / "counts"),
        "write": write,
    }
    for number, block in enumerate(blocks(ROOT / "docs" / "spark.md")):
        if ".write" not in block.source and "write(" not in block.source:
            continue
        source = block.source.replace("localhost:9092", options["kafka.bootstrap.servers"])
        source = source.replace('"orders"', repr(options["topic"])).replace("/data/", f"{tmp_path}/")
        names["df"] = (
            lines if "writeStream" in source else df.selectExpr("customer as key", "value", "customer")
        )
        exec(compile(source, f"docs/spark.md, block {number}", "exec"), names)
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    assert len(committed(options)) == 10 + 2 + 10 + 2 + 10
    assert names["verdict"].records >= 30
    assert foreach_batch is names["foreach_batch"]
