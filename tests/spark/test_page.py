"""The code of docs/spark.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer.spark import foreach_batch, write
from tests.repo.documents.document_code import blocks
from tests.repo.source import ROOT
from tests.spark.rows import committed, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]


def test_the_code_of_the_page(
    spark: SparkSession, options: dict[str, str], make_topic: object, tmp_path: Path
) -> None:
    """The code of docs/spark.md runs unchanged, but for the names of the server, the topic and the folder."""
    df = numbered(spark, 10).selectExpr("cast(value % 2 as string) as customer", "value")
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
        # The audit of a later block reads the topics of these streams.
        for query in spark.streams.active:
            query.processAllAvailable()
    for query in spark.streams.active:
        query.stop()
    assert len(committed(options)) == 10 + 2 + 10 + 2 + 10
    verdict = names["verdict"]
    assert (verdict.records, verdict.sources, verdict.unmarked) == (len(committed(options)), 2, 24)
    assert (verdict.lost, verdict.doubled, verdict.out_of_order, verdict.altered) == (0, 0, 0, 0)
    assert foreach_batch is names["foreach_batch"]
