"""The audit: reads topics back with another client, and verifies them by two methods that must agree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer.spark.auditing.bruteforce import count_all, taken_apart
from aioproducer.spark.auditing.marks import marked as marked
from aioproducer.spark.auditing.onepass import SCHEMA as LOOKED
from aioproducer.spark.auditing.onepass import Piece, look
from aioproducer.spark.auditing.reading import read
from aioproducer.spark.auditing.splits import ReaderSettings as ReaderSettings
from aioproducer.spark.auditing.splits import Split, partitions_of_topics, splits_of
from aioproducer.spark.auditing.verdict import Verdict as Verdict
from aioproducer.spark.auditing.verdict import judge

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["ReaderSettings", "Verdict", "audit_topics", "marked"]


def audit_topics(
    spark: SparkSession,
    bootstrap_servers: str,
    topics: Sequence[str],
    expected: Mapping[str, int],
    isolation: str,
    *,
    keyed: bool,
    settings: Mapping[str, Any],
    split: int,
) -> Verdict:
    """The result of `aioproducer.spark.audit`."""
    began = time.monotonic()
    given = ReaderSettings({**settings, "bootstrap.servers": bootstrap_servers, "isolation.level": isolation})
    counts = partitions_of_topics(given, topics)
    splits = splits_of(given, topics, split)
    numbers = spark.range(0, len(splits), numPartitions=max(len(splits), 1))
    partitions = counts if keyed else dict.fromkeys(topics)
    looked = taken_apart(numbers.mapInArrow(partial(_read_and_look, given, splits, partitions), LOOKED))
    # Both methods use this one reading: the second needs little of a record.
    looked.persist()
    try:
        counted = count_all(spark, looked, expected, tasks=max(len(splits), 1))
        rows = looked.where("piece is not null").select("piece").collect()
    finally:
        looked.unpersist()
    verdict = judge([Piece.of_text(row.piece) for row in rows], counted, expected, topics, isolation)
    return attrs.evolve(verdict, seconds=time.monotonic() - began, partitions=counts)


def _read_and_look(
    settings: Mapping[str, Any],
    splits: Sequence[Split],
    partitions: Mapping[str, int | None],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    yield from look(partitions, read(settings, splits, numbers))
