"""Structured rows on their way through a task, without a Spark: dead letters, repeats, schemas of a registry."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from traceback import walk_tb
from typing import Any
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from pyspark.sql import types

from aioproducer import ConfigurationError, DeliveryError, KafkaError
from aioproducer.registry import Registry, Schema
from aioproducer.spark import schemas
from aioproducer.spark.exactly_once.markers import OtherRowsError
from aioproducer.spark.options import SinkOptions, read_options
from aioproducer.spark.schemas import layout_of
from aioproducer.spark.shipping.shipment import Written
from aioproducer.spark.shipping.tasks import write_at_least_once
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry
from tests.formats.rows import as_text
from tests.spark.exactly_once.attempts import TOPIC, create_ledger, delivery_of, forgotten, written_by_a_task

DEAD = "dead"
COLUMNS = types.StructType(
    [types.StructField("name", types.StringType()), types.StructField("count", types.LongType())]
)
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "count", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
}
Row = tuple[str | None, int | None]


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """A topic for rows, and one for dead letters."""
    async with EmbeddedKafka(1, auto_create_topics=False) as kafka:
        for name in (TOPIC, DEAD):
            kafka.create_topic(name, 1)
        create_ledger(kafka)
        yield kafka


@pytest.fixture
async def registry() -> AsyncIterator[EmbeddedRegistry]:
    """A registry, and no schema that an earlier test has found."""
    schemas._found_once.cache_clear()
    async with EmbeddedRegistry() as registry:
        yield registry


def options_of(kafka: EmbeddedKafka, way: str, **more: str) -> SinkOptions:
    return read_options(
        {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "topic": TOPIC,
            "delivery": delivery_of(way),
            **more,
        }
    )


async def write(way: str, options: SinkOptions, *rows: Row, kind: types.StructType = COLUMNS) -> Written:
    """Write as a task of Spark does; at the end the open transaction is committed."""
    arrays = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int64())]
    return await write_arrays(way, options, kind, arrays)


async def write_arrays(way: str, options: SinkOptions, kind: types.StructType, arrays: list[Any]) -> Written:
    """The same for columns."""
    layout = await asyncio.to_thread(layout_of, kind, options, is_stream=way == "epoch")
    batches = iter([pa.RecordBatch.from_arrays(arrays, names=kind.names)])
    return await written_by_a_task(way, batches, layout, options)


def values(kafka: EmbeddedKafka, topic: str = TOPIC) -> list[bytes | None]:
    return [record.value for record in kafka.records(topic)]


async def register(registry: EmbeddedRegistry, subject: str, schema: Schema) -> int:
    async with Registry(registry.url) as client:
        return (await client.register(subject, schema)).id


async def test_json(kafka: EmbeddedKafka, way: str) -> None:
    """All columns are the value, and the key has those of its own."""
    options = options_of(kafka, way, valueFormat="json", keyFormat="json", keyColumns="count")
    written = await write(way, options, ("a", 1), (None, None))
    assert written.rows == 2
    assert values(kafka) == [b'{"name":"a","count":1}', b"{}"]
    assert [record.key for record in kafka.records(TOPIC)] == [b'{"count":1}', b"{}"]
    await forgotten(options)


async def test_rows_that_do_not_fit_their_schema(
    kafka: EmbeddedKafka, registry: EmbeddedRegistry, way: str
) -> None:
    """They become dead letters with their columns as JSON and the reason; the rest of the batch is written."""
    number = await register(registry, f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
    options = options_of(kafka, way, valueFormat="avro", **{"registry.url": registry.url, "on.error": DEAD})
    written = await write(way, options, ("a", 1), ("b", None), ("c", 1 << 31), (None, 2))
    assert (written.rows, written.dead_letters) == (2, 2)
    prefix = b"\0" + number.to_bytes(4, "big")
    found = []
    for value in values(kafka):
        assert value is not None
        assert value[:5] == prefix
        found.append(fastavro.schemaless_reader(io.BytesIO(value[5:]), SCHEMA, None))
    assert found == [{"name": "a", "count": 1}, {"name": None, "count": 2}]
    letters = kafka.records(DEAD)
    assert [letter.value for letter in letters] == [
        b'{"name":"b","count":null}',
        b'{"name":"c","count":2147483648}',
    ]
    for letter, reason in zip(letters, ("count is null", "count is out of range"), strict=True):
        headers = dict(letter.headers)
        assert headers["aioproducer.topic"] == TOPIC.encode()
        assert headers["aioproducer.error.class"] == b"SerializationError"
        assert headers["aioproducer.outcome"] == b"not_written"
        assert headers["aioproducer.value.repr"] == b"Row"
        assert reason.encode() in (headers["aioproducer.error"] or b"")
    await forgotten(options)


async def test_rows_without_a_form_in_json_are_dead_letters(kafka: EmbeddedKafka, way: str) -> None:
    """Text that is not UTF-8 and times that Python has no object for: the letter has them nevertheless."""
    options = options_of(kafka, way, valueFormat="json", **{"on.error": DEAD})
    kind = types.StructType(
        [types.StructField("name", types.StringType()), types.StructField("at", types.TimestampType())]
    )
    moments = pa.array([0, 0, 1 << 62]).cast(pa.timestamp("us", "UTC"))
    arrays = [as_text([b"a", b"\xff", b"b"]), moments]
    written = await write_arrays(way, options, kind, arrays)
    assert (written.rows, written.dead_letters) == (1, 2)
    assert values(kafka) == [b'{"name":"a","at":"1970-01-01T00:00:00.000000Z"}']
    assert [json.loads(value or b"") for value in values(kafka, DEAD)] == [
        {"name": "\\xff", "at": "1970-01-01T00:00:00.000000Z"},
        {"name": "b", "at": str(1 << 62)},
    ]
    await forgotten(options)


async def test_text_that_is_not_utf_8_has_its_bytes(kafka: EmbeddedKafka, way: str) -> None:
    """Without a format, values and keys are written as they are; also as dead letters."""
    options = options_of(kafka, way, **{"on.error": DEAD, "kafka.max.request.size": "2000"})
    kind = types.StructType(
        [
            types.StructField("value", types.StringType()),
            types.StructField("key", types.StringType()),
            types.StructField("timestamp", types.TimestampType()),
        ]
    )
    words = [b"\xff", b"\xfe" * 3000]
    moments = pa.array([7_000_999, 1 << 62]).cast(pa.timestamp("us", "UTC"))
    written = await write_arrays(
        way, options, kind, [as_text(list(words)), as_text([b"\xe2", b"\xe3"]), moments]
    )
    assert (written.rows, written.dead_letters) == (1, 1)
    found = [(record.key, record.value, record.timestamp) for record in kafka.records(TOPIC)]
    assert found == [(b"\xe2", b"\xff", 7000)]
    (letter,) = kafka.records(DEAD)
    assert (letter.key, letter.value) == (b"\xe3", words[1][: 2000 // 4])
    assert dict(letter.headers)["aioproducer.timestamp"] == b"%d" % ((1 << 62) // 1000)
    await forgotten(options)


async def test_topics_and_headers_that_are_not_utf_8(kafka: EmbeddedKafka, way: str) -> None:
    """A header's value has its bytes; a topic or a header's key of such text makes a dead letter of its row."""
    options = options_of(kafka, way, **{"on.error": DEAD, "marker.topic": TOPIC})
    given = {name: text for name, text in options.given.items() if name != "topic"}
    options = read_options(given)
    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.StringType())]
    )
    kind = types.StructType(
        [
            types.StructField("value", types.StringType()),
            types.StructField("topic", types.StringType()),
            types.StructField("headers", types.ArrayType(header)),
        ]
    )
    pairs = pa.StructArray.from_arrays(
        [as_text([b"k", b"k", b"\xfek"]), as_text([b"\xff", b"v", b"v"])], ["key", "value"]
    )
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pairs)
    topics = as_text([TOPIC.encode(), b"orders\xff", TOPIC.encode()])
    written = await write_arrays(way, options, kind, [as_text([b"a", b"b", b"c"]), topics, headers])
    assert (written.rows, written.dead_letters) == (1, 2)
    assert [(one.value, one.headers) for one in kafka.records(TOPIC)] == [(b"a", (("k", b"\xff"),))]
    letters = {one.value: one.headers for one in kafka.records(DEAD)}
    assert dict(letters[b"b"])["aioproducer.topic"] == b"orders\\xff"
    assert letters[b"c"][0] == ("\\xfek", b"v")
    await forgotten(options)


async def test_without_dead_letters_they_fail_the_task(
    kafka: EmbeddedKafka, registry: EmbeddedRegistry, way: str
) -> None:
    """The error has the reason, and no value."""
    await register(registry, f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
    options = options_of(kafka, way, valueFormat="avro", **{"registry.url": registry.url})
    with pytest.raises(DeliveryError) as caught:
        await write(way, options, ("a", 1), ("secret", None))
    assert "count is null" in str(caught.value.cause)
    assert "secret" not in f"{caught.value} {caught.value.cause}"
    await forgotten(options)


async def test_a_repeated_epoch_finds_its_rows(kafka: EmbeddedKafka, registry: EmbeddedRegistry) -> None:
    """Dead letters included; another row is noticed, also one that does not fit."""
    await register(registry, "orders", Schema(json.dumps(SCHEMA)))
    more = {"registry.url": registry.url, "on.error": DEAD, "subject": "orders"}
    options = options_of(kafka, "epoch", valueFormat="avro", **more)
    await write("epoch", options, ("a", 1), ("b", None))
    assert (await write("epoch", options, ("a", 1), ("b", None))).skipped == 2
    with pytest.raises(OtherRowsError):
        await write("epoch", options, ("a", 1), ("c", None))
    assert (len(values(kafka)), len(values(kafka, DEAD))) == (1, 1)
    await forgotten(options)


async def test_json_with_a_schema(kafka: EmbeddedKafka, registry: EmbeddedRegistry) -> None:
    """The id comes before the data, and rows that the schema refuses are dead letters; they may also stay unchecked."""
    text = {"type": "object", "properties": {"count": {"minimum": 1}}, "required": ["name"]}
    number = await register(registry, "orders", Schema(json.dumps(text), "JSON"))
    more = {"registry.url": registry.url, "on.error": DEAD, "schema.id": str(number)}
    options = options_of(kafka, "at-least-once", valueFormat="json", **more)
    written = await write("at-least-once", options, ("a", 1), ("b", 0), (None, 1))
    assert (written.rows, written.dead_letters) == (1, 2)
    assert values(kafka) == [b"\0" + number.to_bytes(4, "big") + b'{"name":"a","count":1}']
    errors = [dict(letter.headers)["aioproducer.error"] or b"" for letter in kafka.records(DEAD)]
    assert b"/count: /properties/count/minimum" in errors[0]
    assert b"/required" in errors[1]
    unchecked = options_of(kafka, "at-least-once", valueFormat="json", validate="false", **more)
    assert (await write("at-least-once", unchecked, ("b", 0))).rows == 1
    await forgotten(options)
    await forgotten(unchecked)


def order_file() -> Any:
    """The descriptor of a message with the columns of the rows."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    message = file.message_type.add(name="Order")
    message.field.add(name="name", number=1, type=9, label=1)
    message.field.add(name="count", number=2, type=5, label=1)
    return file


async def test_protobuf(kafka: EmbeddedKafka, registry: EmbeddedRegistry, tmp_path: Path) -> None:
    """The message is that of a file of descriptors, or of the registry; its place in the file is in the prefix."""
    file = order_file()
    text = base64.b64encode(file.SerializeToString()).decode()
    number = await register(registry, f"{TOPIC}-value", Schema(text, "PROTOBUF"))
    (tmp_path / "order.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    with_message = {"valueFormat": "protobuf", "registry.url": registry.url, "protobuf.message": "shop.Order"}
    by_file = with_message | {"protobuf.descriptors": str(tmp_path / "order.desc")}
    # Its only message is the second one of the registry's schema, which is where readers look for it.
    alone = order_file()
    del alone.message_type[0]
    (tmp_path / "alone.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[alone]).SerializeToString())
    by_other_file = with_message | {"protobuf.descriptors": str(tmp_path / "alone.desc")}
    for given in (with_message, by_file, by_other_file):
        options = options_of(kafka, "at-least-once", **given)
        assert (await write("at-least-once", options, ("a", 1))).rows == 1
    prefix = b"\0" + number.to_bytes(4, "big") + b"\x02\x02"
    assert values(kafka) == [prefix + b"\x0a\x01a\x10\x01"] * 3
    await forgotten(options)
    await register(registry, "other", Schema("message Other {}", "PROTOBUF"))
    options = options_of(kafka, "at-least-once", **by_file, subject="other")
    with pytest.raises(ConfigurationError, match=r"has no message shop\.Order"):
        await asyncio.to_thread(layout_of, COLUMNS, options, is_stream=False)


async def test_schemas_that_cannot_be(registry: EmbeddedRegistry, kafka: EmbeddedKafka) -> None:
    """None under the subject, one of another type, the text of a .proto file, a message that is not in it."""
    avro = await register(registry, "avro", Schema(json.dumps(SCHEMA)))
    await register(registry, "proto", Schema('syntax = "proto3"; message A {}', "PROTOBUF"))
    text = base64.b64encode(order_file().SerializeToString()).decode()
    await register(registry, "order", Schema(text, "PROTOBUF"))
    url = {"registry.url": registry.url}
    for given, words in (
        ({"valueFormat": "avro"}, r"no schema under the subject 'orders-value': register it first"),
        ({"valueFormat": "avro", "schema.id": "4711"}, "no schema with the id 4711"),
        ({"valueFormat": "protobuf", "schema.id": str(avro)}, "is AVRO, and the format is protobuf"),
        ({"valueFormat": "protobuf", "subject": "proto"}, "set protobuf.message, and protobuf.descriptors"),
        (
            {"valueFormat": "protobuf", "subject": "order", "protobuf.message": "a.B"},
            "there is no message a.B",
        ),
        ({"valueFormat": "protobuf", "subject": "order"}, "name: the message shop.Other has no such field"),
        (
            {
                "valueFormat": "protobuf",
                "subject": "order",
                "protobuf.message": "a.B",
                "protobuf.descriptors": "/none",
            },
            "the file cannot be read",
        ),
    ):
        with pytest.raises(ConfigurationError, match=words):
            await asyncio.to_thread(
                layout_of, COLUMNS, options_of(kafka, "at-least-once", **given, **url), is_stream=False
            )


async def test_a_registry_with_a_password(tmp_path: Path, kafka: EmbeddedKafka) -> None:
    """The driver reads it where the reference leads; what travels to the executors has the reference only."""
    schemas._found_once.cache_clear()
    (tmp_path / "password").write_text("s3cret\n")
    async with EmbeddedRegistry(auth=("user", "s3cret")) as registry:
        async with Registry(registry.url, auth=("user", "s3cret")) as client:
            await client.register(f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
        given = {
            "valueFormat": "avro",
            "registry.url": registry.url,
            "registry.username": "user",
            "registry.password": f"${{dir:{tmp_path}:password}}",
        }
        with pytest.raises(ConfigurationError, match=r"set secrets\.folders"):
            await asyncio.to_thread(
                layout_of, COLUMNS, options_of(kafka, "at-least-once", **given), is_stream=False
            )
        options = options_of(kafka, "at-least-once", **given, **{"secrets.folders": str(tmp_path)})
        layout = await asyncio.to_thread(layout_of, COLUMNS, options, is_stream=False)
        assert layout.rows is not None
        assert "s3cret" not in f"{options!r} {layout!r}"


@pytest.mark.parametrize("credentials", ["password", "token"])
async def test_the_secret_of_a_registry_is_shown_nowhere(
    tmp_path: Path, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, credentials: str
) -> None:
    """Not in what travels to tasks, not in a log of every library, not in an error or in the locals of its frames."""
    schemas._found_once.cache_clear()
    secret = "canary-5e3cr3t"
    hidden = (secret, base64.b64encode(f"user:{secret}".encode()).decode(), quote(secret, safe=""))
    reference = f"${{dir:{tmp_path}:secret}}"
    auth: Any = secret if credentials == "token" else ("user", secret)
    by_token = {"registry.token": reference}
    given = (
        by_token if credentials == "token" else {"registry.username": "user", "registry.password": reference}
    )
    given |= {"valueFormat": "avro", "secrets.folders": str(tmp_path)}
    shown: list[object] = []

    async def failing(options: SinkOptions, words: str) -> None:
        with pytest.raises(KafkaError, match=words) as caught:
            await asyncio.to_thread(layout_of, COLUMNS, options, is_stream=True)
        error: BaseException | None = caught.value
        while error is not None:
            shown.extend([error, str(error), vars(error)])
            here = error.__traceback__
            shown.extend(frame.f_locals for frame, _ in walk_tb(here and here.tb_next))
            error = error.__cause__ or error.__context__

    with caplog.at_level("DEBUG"):
        async with EmbeddedRegistry(auth=auth) as registry:
            options = options_of(kafka, "epoch", **given, **{"registry.url": registry.url})
            (tmp_path / "secret").write_text(secret)
            await failing(options, "no schema under the subject")
            async with Registry(registry.url, auth=auth) as client:
                await client.register(f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
            layout = await asyncio.to_thread(layout_of, COLUMNS, options, is_stream=False)
            shown += [options, layout, pickle.dumps(options), pickle.dumps(layout)]
            (tmp_path / "secret").write_text(f"{secret}-of-another")
            await failing(options, "401")
            (tmp_path / "secret").write_text(f"{secret}\nwith a second line")
            await failing(options, "401|a token must be printable")
            (tmp_path / "secret").unlink()
            await failing(options, "no file that can be read")
    told = "".join(map(repr, shown)) + caplog.text
    for text in hidden:
        assert text not in told


async def test_a_stream_asks_once(registry: EmbeddedRegistry, kafka: EmbeddedKafka) -> None:
    """Spark plans a stream for every epoch, and the schema of its columns does not change meanwhile."""
    await register(registry, f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
    registry.forget_requests()
    for _ in range(3):
        options = options_of(kafka, "at-least-once", valueFormat="avro", **{"registry.url": registry.url})
        await asyncio.to_thread(layout_of, COLUMNS, options, is_stream=True)
    assert len(registry.requests) == 1


async def test_each_batch_has_the_latest_schema(registry: EmbeddedRegistry, kafka: EmbeddedKafka) -> None:
    """A program that writes one batch after the other does not stay with the schema of its first one."""
    fields = SCHEMA["fields"]
    for more in ([], [{"name": "more", "type": "int", "default": 7}]):
        number = await register(
            registry, f"{TOPIC}-value", Schema(json.dumps(SCHEMA | {"fields": [*fields, *more]}))
        )
        options = options_of(kafka, "at-least-once", valueFormat="avro", **{"registry.url": registry.url})
        await write("at-least-once", options, ("a", 1))
        value = values(kafka)[-1] or b""
        assert (value[:5], value[5:]) == (
            b"\0" + number.to_bytes(4, "big"),
            b"\x02\x02\x02a" + b"\x0e" * len(more),
        )
    await forgotten(options)


async def test_a_null_struct_is_a_tombstone(kafka: EmbeddedKafka) -> None:
    """A single struct `value` is the value."""
    options = options_of(kafka, "at-least-once", valueFormat="json")
    layout = await asyncio.to_thread(
        layout_of, types.StructType([types.StructField("value", COLUMNS)]), options, is_stream=False
    )
    kind = pa.struct([("name", pa.string()), ("count", pa.int64())])
    batch = pa.RecordBatch.from_arrays([pa.array([{"name": "a"}, None], kind)], names=["value"])
    await asyncio.to_thread(write_at_least_once, iter([batch]), layout, options)
    assert values(kafka) == [b'{"name":"a"}', None]
    await forgotten(options)


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        (types.MapType(types.StringType(), types.StringType()), [[("a", "é"), ("b", None)], None]),
        (types.MapType(types.StringType(), types.BinaryType()), [[("a", "é".encode()), ("b", None)], None]),
        (
            types.ArrayType(
                types.StructType(
                    [
                        types.StructField("key", types.StringType()),
                        types.StructField("value", types.StringType()),
                    ]
                )
            ),
            [[{"key": "a", "value": "é"}, None, {"key": "b", "value": None}], None],
        ),
    ],
)
async def test_headers_of_text_and_of_maps(kafka: EmbeddedKafka, kind: types.DataType, headers: Any) -> None:
    """Text is written in UTF-8; also beside values that have their bytes already."""
    for given in ({}, {"valueFormat": "json"}):
        options = options_of(kafka, "at-least-once", **given)
        columns = types.StructType(
            [types.StructField("value", types.StringType()), types.StructField("headers", kind)]
        )
        layout = layout_of(columns, options, is_stream=False)
        arrow = {
            "map<string,string>": pa.map_(pa.string(), pa.string()),
            "map<string,binary>": pa.map_(pa.string(), pa.binary()),
        }.get(kind.simpleString(), pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
        batch = pa.RecordBatch.from_arrays(
            [pa.array(["x", "y"]), pa.array(headers, arrow)], names=columns.names
        )
        await asyncio.to_thread(write_at_least_once, iter([batch]), layout, options)
        found = [record.headers for record in kafka.records(TOPIC)[-2:]]
        assert [list(each) for each in found] == [[("a", "é".encode()), ("b", None)], []]
        await forgotten(options)
