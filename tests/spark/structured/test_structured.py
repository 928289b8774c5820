"""Structured rows through a real Spark into a real Kafka: JSON as to_json means it, Avro of a registry, streams."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import AnalysisException

from aioproducer.registry import Registry, Schema
from aioproducer.spark import foreach_batch, write
from aioproducer.testing import EmbeddedRegistry
from tests.repo.documents.document_code import blocks
from tests.repo.source import ROOT
from tests.spark.rows import committed, write_stream
from tests.spark.threads import in_a_thread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import MakeTopic

pytestmark = [pytest.mark.kafka]

# Each type of Spark that JSON has a form for, at depth as well; to_json's forms of times are set to exact ones.
EVERYTHING = """
    select id, cast(id as byte) as b, cast(-id as short) as s, cast(id as int) as i, cast(id as float) / 3 as f,
      case id when 0 then double('NaN') when 1 then double('-Infinity') else id * 1e-7 end as d,
      cast(id as decimal(20, 4)) / 7 as n, id % 2 = 0 as flag, if(id = 3, null, concat('é"\\n', id)) as text,
      cast(concat('x', id) as binary) as bytes, date_add(date'2024-02-28', cast(id as int)) as day,
      timestamp_micros(1700000000123456 + id * 86400000000) as moment,
      timestamp_ntz'2024-01-01 00:00:00.000001' as local, array(id, null, -id) as numbers, array() as none,
      named_struct('a', id, 'b', if(id = 1, null, named_struct('c', 'deep'))) as inner,
      map('k', array(named_struct('x', if(id = 2, null, id))), 'l', null) as by_name, map(1, 'a') as by_number, null as nothing
    from range(8)
"""
EXACT = (
    "'timeZone', 'UTC', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\""
)
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": ["null", "string"]}],
}


def save(df: DataFrame, options: dict[str, str]) -> None:
    """Write the batch."""
    df.write.format("aioproducer").options(**options).mode("append").save()


@pytest.mark.parametrize("omits", ["true", "false"])
def test_json_is_what_to_json_writes(spark: SparkSession, options: dict[str, str], omits: str) -> None:
    """Every type, at any depth: readers get the same objects."""
    df = spark.sql(EVERYTHING)
    names = ", ".join(df.columns)
    as_json = f"to_json(struct({names}), map({EXACT}, 'ignoreNullFields', '{omits}')) as value"
    expected = [json.loads(row.value) for row in df.selectExpr(as_json).collect()]
    save(df, options | {"valueFormat": "json", "ignoreNullFields": omits})
    found = sorted(
        (json.loads(record.value or b"") for record in committed(options)), key=lambda row: row["id"]
    )
    assert found == expected


def orders(spark: SparkSession, count: int = 1000) -> DataFrame:
    """Rows of two columns, and one that is only for the key."""
    return spark.range(0, count, numPartitions=3).selectExpr(
        "concat('customer ', id % 7) as key", "id", "if(id % 3 = 0, null, concat('order ', id)) as text"
    )


def with_schema(url: str, subject: str) -> dict[str, str]:
    """The options of values in Avro; the subject has the schema."""

    async def register() -> None:
        async with Registry(url) as registry:
            await registry.register(subject, Schema(json.dumps(SCHEMA)))

    asyncio.run(register())
    return {"valueFormat": "avro", "registry.url": url, "subject": subject}


def read_avro(value: bytes | None) -> dict[str, Any]:
    assert value is not None
    read: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), SCHEMA, None)
    return dict(read)


def test_avro_of_a_registry(spark: SparkSession, options: dict[str, str], make_topic: MakeTopic) -> None:
    """A batch by the format and one by `write()`; only the driver asks the registry; a row that does not fit is set aside."""
    dead = make_topic(1)
    with in_a_thread(EmbeddedRegistry()) as registry:
        given = options | with_schema(registry.url, f"{options['topic']}-rows") | {"on.error": dead}
        registry.forget_requests()
        df = (
            orders(spark)
            .withColumnRenamed("key", "customer")
            .selectExpr("customer as key", "if(id = 500, null, id) as id", "text")
        )
        save(df, given | {"delivery": "exactly-once"})
        asked = len(registry.requests)
        assert asked
        written = write(df, given)
        assert (written.rows, written.dead_letters) == (999, 1)
        assert len(registry.requests) - asked <= asked
    records = committed(options)
    rows = [read_avro(record.value) for record in records]
    expected = [{"id": at, "text": None if at % 3 == 0 else f"order {at}"} for at in range(1000) if at != 500]
    assert sorted(rows, key=lambda row: row["id"]) == [row for row in expected for _ in range(2)]
    assert all(
        record.key == f"customer {row['id'] % 7}".encode() for record, row in zip(records, rows, strict=True)
    )
    assert [json.loads(letter.value or b"") for letter in committed(options, dead)] == [
        {"id": None, "text": "order 500"}
    ] * 2


def test_streams(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    """Exactly once by the format, and by foreach_batch, with a key of its own columns and headers of a map."""
    (tmp_path / "source").mkdir()
    for at in range(2):
        (tmp_path / "source" / f"{at}.txt").write_text("".join(f"{at * 10 + line}\n" for line in range(10)))
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "source"))
    df = lines.selectExpr("int(value) as n", "value as text", "map('from', value) as headers")
    given = options | {
        "delivery": "exactly-once", "valueFormat": "json", "keyFormat": "json", "keyColumns": "N", "sink.id": options["topic"],
    }  # fmt: skip
    write_stream(df, given, tmp_path / "a")
    query = foreach_batch(spark, df, given | {"sink.id": f"{options['topic']} b"})
    query.option("checkpointLocation", str(tmp_path / "b")).trigger(
        availableNow=True
    ).start().awaitTermination()
    records = committed(options)
    rows = sorted((json.loads(record.value or b"") for record in records), key=lambda row: row["n"])
    assert rows == [{"n": at, "text": str(at)} for at in range(20) for _ in range(2)]
    for record in records:
        row = json.loads(record.value or b"")
        assert (record.key, record.headers) == (b'{"n":%d}' % row["n"], (("from", row["text"].encode()),))


def test_what_is_wrong_is_told_before_any_task(spark: SparkSession, options: dict[str, str]) -> None:
    """By the driver, with the name of the column or the option."""
    for df, more, words in (
        (orders(spark), {"valueFormat": "yaml"}, "must be json, avro, protobuf"),
        (orders(spark), {"valueFormat": "avro"}, r"avro needs a registry: set registry\.url"),
        (
            spark.sql("select interval '1' day as pause"),
            {"valueFormat": "json"},
            "column pause: the type interval day",
        ),
        (
            orders(spark).drop("key"),
            {"valueFormat": "json", "keyFormat": "json", "keyColumns": "idd"},
            "did you mean 'id'",
        ),
    ):
        with pytest.raises(AnalysisException, match=words):
            save(df, options | more)


def test_the_code_of_the_page(spark: SparkSession, options: dict[str, str]) -> None:
    """The example of docs/spark-structured.md runs unchanged, but for the names of the server and the topic."""
    df = spark.range(3).selectExpr("concat('c', id) as customer", "id")
    first = next(
        block.source for block in blocks(ROOT / "docs" / "spark-structured.md") if ".write" in block.source
    )
    source = first.replace("localhost:9092", options["kafka.bootstrap.servers"]).replace(
        "orders", options["topic"]
    )
    exec(compile(source, "docs/spark-structured.md", "exec"), {"df": df})
    found = {(record.key, record.value) for record in committed(options)}
    assert found == {
        (b'{"customer":"c%d"}' % at, b'{"customer":"c%d","id":%d}' % (at, at)) for at in range(3)
    }
