"""The migration of a topic to a new schema: killed at its worst moments, and records that do not fit."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from typing import Any

import fastavro

from aioproducer import Producer
from aioproducer.registry import AvroSerializer, Registry, Schema
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry
from examples.migrate_topic import NEW, OLD
from tests.examples.programs import ended, example, started

MIGRATION = example("migrate_topic.py")
PARTITIONS = 2
LIMIT = 60.0
FIRST = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int"}]}'
SECOND = FIRST.replace("]", ', {"name": "pounds", "type": "double", "default": 0.0}]')


async def place_orders(kafka: EmbeddedKafka, registry: Registry, numbers: range) -> None:
    """Old orders with the first schema or the second, one tombstone in ten, some of them in a transaction."""
    for odd, schema in enumerate((FIRST, SECOND)):
        serializer = AvroSerializer[Any](registry, schema)
        async with (
            Producer(
                kafka.bootstrap_servers, value_serializer=serializer, transactional_id="old", linger_ms=0
            ) as producer,
            producer.transaction(),
        ):
            for number in (each for each in numbers if each % 2 == odd):
                order = {"item": f"item {number}", "count": number, "pounds": number / 4}
                await producer.send(
                    OLD,
                    None if number % 10 == 9 else order,
                    key=b"%d" % number,
                    headers=[("origin", b"%d" % number)],
                    timestamp=1_000_000 + number,
                )


async def written(kafka: EmbeddedKafka, registry: Registry) -> list[tuple[Any, ...]]:
    """The committed new records: key, order, headers and time, by number."""
    schemas: dict[int, Any] = {}
    found = []
    for record in kafka.records(NEW, isolation="read_committed"):
        order: Any = None
        if record.value is not None:
            number = int.from_bytes(record.value[1:5], "big")
            if number not in schemas:
                schemas[number] = fastavro.parse_schema(json.loads((await registry.schema(number)).text))
            order = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schemas[number], None)
        found.append((int(record.key or b""), order, record.headers, record.timestamp))
    return sorted(found, key=lambda each: each[0])


def expected(numbers: range) -> list[tuple[Any, ...]]:
    """One new record for each old one."""
    return [
        (
            number,
            None
            if number % 10 == 9
            else {"item": f"item {number}", "count": number, "pence": 25 * number if number % 2 else None},
            (("origin", b"%d" % number),),
            1_000_000 + number,
        )
        for number in numbers
    ]


async def test_no_gap_and_no_double_through_kills(
    embedded_kafka: EmbeddedKafka, embedded_registry: EmbeddedRegistry
) -> None:
    """Whatever request a SIGKILL comes at, each old record has one new record in its partition, in its order."""
    embedded_kafka.create_topic(OLD, PARTITIONS)
    embedded_kafka.create_topic(NEW, PARTITIONS)
    command, url = (MIGRATION, "0", "1"), embedded_registry.url
    async with Registry(embedded_registry.url) as registry:
        placed = 0
        for api, before in (
            ("Produce", True),
            ("TxnOffsetCommit", False),
            ("EndTxn", True),
            ("EndTxn", False),
        ):
            await place_orders(embedded_kafka, registry, range(placed, placed + 20))
            placed += 20
            held = embedded_kafka.faults.delay(api=api, before=before)
            async with started(embedded_kafka, *command, REGISTRY=url):
                async with asyncio.timeout(LIMIT):
                    await held.reached()
            held.release()
        async with started(embedded_kafka, *command, REGISTRY=url) as program:
            assert program.stdout is not None
            for _ in range(2):
                async with asyncio.timeout(LIMIT):
                    assert await program.stdout.readline() == b"caught up\n"
                assert await written(embedded_kafka, registry) == expected(range(placed))
                await place_orders(embedded_kafka, registry, range(placed, placed + 20))
                placed += 20
            async with asyncio.timeout(LIMIT):
                assert await program.stdout.readline() == b"caught up\n"
            program.send_signal(signal.SIGINT)
            last = await ended(program)
        assert (last.code, last.errors) == (0, "")
        assert await written(embedded_kafka, registry) == expected(range(placed))
    for partition in range(PARTITIONS):
        old, new = (
            [record.key for record in embedded_kafka.records(topic, partition)] for topic in (OLD, NEW)
        )
        assert old == new


async def test_what_cannot_be_migrated_is_set_aside(
    embedded_kafka: EmbeddedKafka, embedded_registry: EmbeddedRegistry
) -> None:
    """Records without a schema, with an unknown one, cut ones, and those that do not fit the new schema."""
    embedded_kafka.create_topic(OLD, 1)
    embedded_kafka.create_topic(NEW, 1)
    other = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "string"}]}'
    async with Registry(embedded_registry.url) as registry:
        await place_orders(embedded_kafka, registry, range(1))
        known = await registry.register("other", Schema(other))
        prefix = b"\0" + known.id.to_bytes(4, "big")
        values = [b"", b"{}", b"\0\0\0\0\x63\0", prefix + b"\x64", prefix + b"\x02a\x06two"]
        async with Producer(embedded_kafka.bootstrap_servers) as producer:
            for value in values:
                await producer.send(OLD, value, key=b"odd", partition=0)
        await place_orders(embedded_kafka, registry, range(1, 2))
        async with started(embedded_kafka, MIGRATION, REGISTRY=embedded_registry.url) as program:
            assert program.stdout is not None
            async with asyncio.timeout(LIMIT):
                assert await program.stdout.readline() == b"caught up\n"
        assert await written(embedded_kafka, registry) == expected(range(2))
    letters = embedded_kafka.records(NEW + ".dead")
    assert [letter.value for letter in letters[:4]] == values[:4]
    classes = [dict(letter.headers)["aioproducer.error.class"] for letter in letters]
    assert classes == [
        b"IndexError",
        b"ValueError",
        b"SchemaNotFoundError",
        b"EOFError",
        b"SerializationError",
    ]
    # An object that does not fit has no bytes.
    assert dict(letters[4].headers)["aioproducer.value.repr"] == b"dict"
