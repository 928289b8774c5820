"""The second method: Spark itself parses and groups the values, and searches for missing and duplicate ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import functions as f

from aioproducer.spark.auditing.seen import SHOWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Counted", "count_all", "taken_apart"]

# Above this number, the sequences of a source are not searched one by one.
MOST_EXPECTED: Final = 50_000_000
INT_MAX: Final = 2**31 - 1


@attrs.define
class Counted:
    """The counts of one source."""

    records: int
    distinct: int
    most: int
    altered: int
    lost: list[int] = attrs.Factory(list)
    # Duplicate sequences, with their number.
    doubled: dict[int, int] = attrs.Factory(dict)


def count_all(
    spark: SparkSession, marks: DataFrame, expected: Mapping[str, int], tasks: int
) -> dict[str, Counted]:
    """The counts of each source; `expected` has the number of sequences of some of them.

    They are grouped by so many tasks: Spark's default of 200 is meant for more than one machine.
    """
    copies = (
        marks.where("sequence is not null and altered is not null")
        .repartition(tasks, "source", "sequence")
        .groupBy("source", "sequence")
        .agg(f.count("*").alias("copies"), f.sum(f.col("altered").cast("int")).alias("altered"))
    )
    rows = (
        copies.groupBy("source")
        .agg(
            f.sum("copies").alias("records"),
            f.count("*").alias("distinct"),
            f.max("sequence").alias("most"),
            f.sum("altered").alias("altered"),
        )
        .collect()
    )
    found = {row.source: Counted(row.records, row.distinct, row.most, row.altered) for row in rows}
    for source in expected:
        found.setdefault(source, Counted(0, 0, -1, 0))
    _name_what_is_wrong(spark, copies, found, expected)
    return found


def _name_what_is_wrong(
    spark: SparkSession, copies: DataFrame, found: dict[str, Counted], expected: Mapping[str, int]
) -> None:
    """The first sequences of each kind of fault."""
    losers = {source: number for source, number in expected.items() if found[source].distinct < number}
    doublers = [source for source, one in found.items() if one.records > one.distinct]
    if not losers and not doublers:
        return
    theirs = copies.where(f.col("source").isin([*losers, *doublers])).persist()
    try:
        for source, number in losers.items():
            _name_the_lost(spark, theirs, source, number, found[source])
        for source in doublers:
            _name_the_doubled(theirs, source, found[source])
    finally:
        theirs.unpersist()


def taken_apart(records: DataFrame) -> DataFrame:
    """The marks in the values, as columns; nulls where a value has none."""
    parts = f.split(f.col("value").cast("string"), ":", 4)
    names = ("source", "number", "check")
    apart = records.select("*", *(f.get(parts, f.lit(at)).alias(name) for at, name in enumerate(names)))
    # The checksum is of bytes, which need not be a valid text.
    begin = f.octet_length("source") + f.octet_length("number") + f.octet_length("check") + 4
    rest = f.col("value").substr(begin, f.lit(INT_MAX))
    others = [name for name in records.columns if name != "value"]
    return apart.select(
        *others,
        "source",
        # Columns have a try_cast() from Spark 4.0 on, SQL has it in 3.5 as well.
        f.expr("try_cast(number as bigint)").alias("sequence"),
        (f.lpad(f.lower(f.hex(f.crc32(rest))), 8, "0") != f.col("check")).alias("altered"),
    )


def _name_the_lost(
    spark: SparkSession, copies: DataFrame, source: str, number: int, counted: Counted
) -> None:
    if number > MOST_EXPECTED:
        return
    there = copies.where(f.col("source") == source).select(f.col("sequence").alias("id"))
    lost = spark.range(number).join(there, "id", "left_anti").orderBy("id").limit(SHOWN).collect()
    counted.lost = [row.id for row in lost]


def _name_the_doubled(copies: DataFrame, source: str, counted: Counted) -> None:
    rows = (
        copies.where((f.col("source") == source) & (f.col("copies") > 1))
        .orderBy("sequence")
        .limit(SHOWN)
        .collect()
    )
    counted.doubled = {row.sequence: row.copies for row in rows}
