"""Sources of streams with known epochs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES, ROWS = 3, 1_000


def folder_of_epochs(folder: Path, files: int = FILES) -> Path:
    """A folder of files, each of which becomes an epoch; all together are the numbers from 0 on."""
    folder.mkdir()
    for file in range(files):
        lines = (f"{number}\n" for number in range(file * ROWS, (file + 1) * ROWS))
        path = folder / f"{file}.txt"
        path.write_text("".join(lines))
        # Spark reads the oldest first.
        os.utime(path, (file, file))
    return folder


def counts(spark: SparkSession, folder: Path) -> DataFrame:
    """The count of each number: a stream of updates, a file an epoch."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
    return lines.groupBy("value").count().selectExpr("value as key", "value")
