"""DataFrames into Kafka through PySpark: `df.write.format("aioproducer")`, and `df.writeStream` alike.

Spark 4.1 and later find the format of an installed library by its name; elsewhere `register(spark)` registers it.
`audit()` reads topics back and verifies their records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aioproducer.spark.frames import foreach_batch as foreach_batch
from aioproducer.spark.frames import write as write
from aioproducer.spark.framing import framed as framed
from aioproducer.spark.interpreter import warn_of_another_python
from aioproducer.spark.older import require_formats
from aioproducer.spark.progress import EpochProgress as EpochProgress
from aioproducer.spark.progress import Progress as Progress
from aioproducer.spark.progress import SinkListener as SinkListener
from aioproducer.spark.shipping.shipment import Written as Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aioproducer.spark.auditing import Verdict

__all__ = [
    "EpochProgress",
    "Progress",
    "SinkListener",
    "Written",
    "audit",
    "foreach_batch",
    "framed",
    "register",
    "write",
]


def register(spark: SparkSession) -> None:
    """Register `format("aioproducer")` in this session; ConfigurationError on a Spark without support for such formats."""
    require_formats()
    warn_of_another_python(spark)
    from aioproducer.spark.source import KafkaSink  # noqa: PLC0415  # older Sparks have no data sources in Python

    spark.dataSource.register(KafkaSink)


def audit(
    spark: SparkSession,
    bootstrap_servers: str,
    topics: Sequence[str],
    *,
    expected: Mapping[str, int] | None = None,
    isolation: str = "read_committed",
    keyed: bool = True,
    settings: Mapping[str, Any] | None = None,
    split: int = 500_000,
) -> Verdict:
    """Whether every record is there once, in order, unaltered, and in the partition of its key.

    For records whose values begin with `source:sequence:crc32 of the rest:`, as `auditing.marked()` makes them.
    `expected`: how many records each source has sent, numbered from 0; of a source that is not in it, the highest
    sequence found counts as the last. `keyed`: whether keys determine partitions, which is so unless a partition or
    another partitioner was given. `settings`: of confluent-kafka's consumer, which reads. `split`: how many offsets one
    task reads.
    """
    # The audit reads with a client that writing does not need.
    from aioproducer.spark.auditing import ReaderSettings, audit_topics  # noqa: PLC0415

    settings = ReaderSettings(settings or {})
    return audit_topics(
        spark,
        bootstrap_servers,
        topics,
        expected or {},
        isolation,
        keyed=keyed,
        settings=settings,
        split=split,
    )
