"""Spark's `from_avro` reads what our Avro serializer has written, as docs/registry.md shows."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import Producer
from aioproducer.registry import AvroSerializer, Registry
from aioproducer.testing import EmbeddedRegistry
from tests.kafka.reading import read_all
from tests.repo.documents.document_code import blocks
from tests.repo.source import ROOT
from tools.spark_jars import avro_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import MakeTopic
    from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

UTC = datetime.UTC
FIELDS: dict[str, Any] = {
    "text": "string",
    "number": "long",
    "small": "int",
    "ratio": "double",
    "flag": "boolean",
    "raw": "bytes",
    "perhaps": ["null", "string"],
    "many": {"type": "array", "items": "long"},
    "by_name": {"type": "map", "values": "int"},
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    "inner": {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}]},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
}


def record_of(**fields: Any) -> str:
    """The schema of a record with these fields."""
    described = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Record", "fields": described})


SCHEMA = record_of(**FIELDS)
OBJECTS: list[dict[str, Any]] = [
    {
        "text": "größe",
        "number": -(2**63),
        "small": 2**31 - 1,
        "ratio": 0.1,
        "flag": True,
        "raw": b"\0\xff",
        "perhaps": None,
        "many": [1, -1, 2**62],
        "by_name": {"a": 1},
        "kind": "B",
        "inner": {"n": 7},
        "at": datetime.datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
        "day": datetime.date(1969, 12, 31),
        "price": decimal.Decimal("-12.34"),
    },
]
OBJECTS.append(OBJECTS[0] | {"text": "", "perhaps": "b", "many": [], "by_name": {}, "kind": "A"})


@pytest.fixture(autouse=True)
def avro(spark: SparkSession) -> None:
    """The package of Spark that reads Avro, in the session of all tests."""
    spark.sql(f"ADD JAR '{avro_jar()}'")


async def write(kafka: KafkaCluster, topic: str, registry: Registry) -> None:
    """The objects, with the schema that has the first id of the registry."""
    serializer = AvroSerializer(registry, SCHEMA)
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
        for value in OBJECTS:
            await producer.send_and_wait(topic, value)
        await producer.send_and_wait(topic, None)


def as_spark_reads(value: Any) -> Any:
    """A value in a row of Spark: times are local."""
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


async def test_spark_reads_what_was_written(
    spark: SparkSession, real_kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    """All kinds of fields, and tombstones, by the code of the page."""
    topic = make_topic(1)
    async with EmbeddedRegistry() as server, Registry(server.url) as registry:
        await write(real_kafka, topic, registry)
    records = read_all(real_kafka.bootstrap_servers, topic)
    frame = spark.createDataFrame([(record.value,) for record in records], "value binary")
    names: dict[str, Any] = {"df": frame, "SCHEMA": SCHEMA}
    (block,) = (each for each in blocks(ROOT / "docs" / "registry.md") if each.library == "pyspark")
    exec(compile(block.source, block.place, "exec"), names)
    found = names["orders"].collect()
    assert [row.schema_id for row in found] == [1, 1, None]
    assert [None if row.value is None else row.value.asDict(recursive=True) for row in found] == [
        *({name: as_spark_reads(value) for name, value in each.items()} for each in OBJECTS),
        None,
    ]


async def test_records_of_two_schemas(spark: SparkSession) -> None:
    """Each is read with its own schema, and resolved to that of a reader."""
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    old, new = (record_of(**fields) for fields in ({"n": "int"}, {"n": "int", "text": "string"}))
    reader = json.loads(new)
    reader["fields"][1]["default"] = "none"
    async with EmbeddedRegistry() as server, Registry(server.url) as registry:
        rows = []
        for schema, value in ((old, {"n": 1}), (new, {"n": 2, "text": "two"})):
            serializer = AvroSerializer(registry, schema)
            await serializer.warm("topic")
            rows.append((serializer.serialize("topic", None, value),))
        schemas = [(await registry.schema(number)).text for number in (1, 2)]
    frame = spark.createDataFrame(rows, "value binary")
    read = []
    for number, schema in enumerate(schemas, 1):
        own = frame.where(f"conv(hex(substring(value, 2, 4)), 16, 10) = {number}")
        column = from_avro(expr("substring(value, 6)"), schema, {"avroSchema": json.dumps(reader)})
        read += own.select(column.alias("value")).select("value.*").collect()
    assert [row.asDict() for row in read] == [{"n": 1, "text": "none"}, {"n": 2, "text": "two"}]
