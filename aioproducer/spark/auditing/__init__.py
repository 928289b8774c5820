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
from aioproducer.spark.auditing.reading import VALUES, WHOLE, read, values_only, whole_records
from aioproducer.spark.auditing.splits import partitions_of_topics, splits_of
from aioproducer.spark.auditing.verdict import Verdict as Verdict
from aioproducer.spark.auditing.verdict import judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Verdict", "audit_topics", "marked"]


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
    numbers = spark.range(0, len(splits), numPartitions=max(len(splits), 1))
    records = numbers.mapInArrow(partial(read, given, splits, whole_records), WHOLE)
    values = numbers.mapInArrow(partial(read, given, splits, values_only), VALUES)
    partitions = partitions_of_topics(given, topics) if keyed else dict.fromkeys(topics)
    rows = records.mapInArrow(partial(pieces, partitions), PIECE).collect()
    counted = count_all(spark, values, expected, tasks=max(len(splits), 1))
    verdict = judge([Piece.of_text(row.piece) for row in rows], counted, expected, topics, isolation)
    return attrs.evolve(verdict, seconds=time.monotonic() - began)
