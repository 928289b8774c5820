"""The backfill of docs/spark-pipeline.md: a batch up to a cut, and a stream behind it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.repo.documents.document_code import blocks
from tests.repo.source import ROOT
from tests.spark.rows import committed, forget_last_commit, numbers, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

PAGE = ROOT / "docs" / "spark-pipeline.md"
EACH = 100


def arrive(folder: Path, number: int) -> None:
    """The next file arrives as a whole, with the next numbers."""
    folder.mkdir(exist_ok=True)
    text = "".join(f"{value}\n" for value in range(number * EACH, (number + 1) * EACH))
    (folder / ".incoming").write_text(text)
    os.utime(folder / ".incoming", (number, number))
    # Spark ignores files that begin with a dot.
    (folder / ".incoming").rename(folder / f"{number}.txt")


def test_the_recipe_has_no_gap_and_no_double(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Files come between each step, and each step is repeated as after a crash: every row is there once."""
    source = "\n".join(block.source for block in blocks(PAGE) if block.library == "pyspark")
    source = source.replace("localhost:9092", options["kafka.bootstrap.servers"])
    source = source.replace('"topic": "orders"', f'"topic": "{options["topic"]}"').replace(
        "/data/", f"{tmp_path}/"
    )
    cut, batch, stream = re.split(r"^(?=# [23]\.)", source, flags=re.MULTILINE)
    names: dict[str, Any] = {"spark": spark}

    def step(text: str) -> None:
        exec(compile(text, str(PAGE), "exec"), names)

    folder = tmp_path / "orders"
    arrive(folder, 0)
    arrive(folder, 1)
    step(cut)
    arrive(folder, 2)
    # The driver has died after it wrote the cut down, and after it wrote the batch.
    step(cut)
    step(batch)
    step(batch)
    assert numbers(committed(options)) == once(2 * EACH)
    arrive(folder, 3)
    step(stream)
    names["query"].awaitTermination()
    forget_last_commit(tmp_path / "checkpoints" / "orders")
    arrive(folder, 4)
    for text in (cut, batch, stream):
        step(text)
    names["query"].awaitTermination()
    found = committed(options)
    assert numbers(found) == once(5 * EACH)
