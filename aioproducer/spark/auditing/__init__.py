"""The audit: reads topics back with another client, and proves what is there, by two methods that must agree."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer.spark.auditing.bruteforce import count_all
from aioproducer.spark.auditing.marks import marked as marked
from aioproducer.spark.auditing.onepass import SCHEMA as PIECE
from aioproducer.spark.auditing.onepass import Piece, pieces
from aioproducer.spark.auditing.reading import SCHEMA as RECORD
from aioproducer.spark.auditing.reading import read
from aioproducer.spark.auditing.splits import Split, partitions_of_topics, splits_of
from aioproducer.spark.auditing.verdict import Verdict as Verdict
from aioproducer.spark.auditing.verdict import judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Verdict", "audit_topics", "marked", "records_of"]


def records_of(spark: SparkSession, splits: Sequence[Split], settings: Mapping[str, Any]) -> DataFrame:
    """All that these hold: topic, partition, split, offset, timestamp, key, value."""
    numbers = spark.range(0, len(splits), numPartitions=max(len(splits), 1))
    return numbers.mapInArrow(partial(read, settings, splits), RECORD)


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
    """What `aioproducer.spark.audit` gives."""
    began = time.monotonic()
    given = {**settings, "bootstrap.servers": bootstrap_servers, "isolation.level": isolation}
    splits = splits_of(given, topics, split)
    records = records_of(spark, splits, given)
    partitions = partitions_of_topics(given, topics) if keyed else dict.fromkeys(topics)
    rows = records.mapInArrow(partial(pieces, partitions), PIECE).collect()
    counted = count_all(spark, records, expected, tasks=max(len(splits), 1))
    verdict = judge([Piece.of_text(row.piece) for row in rows], counted, expected, topics, isolation)
    return attrs.evolve(verdict, seconds=time.monotonic() - began)
