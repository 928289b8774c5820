"""docs/migrating.md: the code for other libraries and the code after migration do the same."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import attrs
import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from aioproducer import Producer, ProducerConfig
from aioproducer.testing import EmbeddedKafka
from tests.repo.documents.document_code import Block, Kind, blocks
from tests.repo.documents.document_runs import run_program
from tests.repo.source import ROOT

PAGE = ROOT / "docs" / "migrating.md"
PARTITIONS = 7
Written = list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]


def pairs() -> list[tuple[Block, Block]]:
    """Each program for another library that can be run here, with ours that takes its place."""
    programs = [block for block in blocks(PAGE) if block.kind in {Kind.FOREIGN, Kind.PROGRAM}]
    return [
        (before, after)
        for before, after in itertools.pairwise(programs)
        if before.kind is Kind.FOREIGN and after.kind is Kind.PROGRAM
    ]


async def written(program: Block, folder: Path) -> Written:
    """The records of a program: partition, key, value and headers of each, in the order of the log."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", PARTITIONS)
        await run_program(program.source, folder, kafka)
        records = list(kafka.records("orders"))
    return [(each.partition, each.key, each.value, tuple(each.headers)) for each in records]


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair[0].place)
async def test_before_and_after_write_the_same(pair: tuple[Block, Block], tmp_path: Path) -> None:
    """The code for the other library, and ours in its place, write the same records to the same partitions."""
    before, after = [await written(block, tmp_path) for block in pair]
    assert before
    assert before == after


def test_every_library_is_compared() -> None:
    """The page has code before and after for aiokafka and for both producers of confluent-kafka."""
    sources = [before.source for before, _ in pairs()]
    names = ("AIOKafkaProducer", "confluent_kafka import Producer", "AIOProducer")
    assert [sum(name in source for source in sources) for name in names] == [1, 1, 1]


async def test_crc32_keeps_the_partitions_of_confluent_kafka() -> None:
    """The partitioner on the page sends each key where confluent-kafka's default sends it."""
    (block,) = [each for each in blocks(PAGE) if each.kind is Kind.FRAGMENT and "import zlib" in each.source]
    names: dict[str, Any] = {}
    exec(block.source.partition("\n\n\nasync with")[0], names)
    keys = [b"key %d" % number for number in range(50)]
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("theirs", PARTITIONS)
        kafka.create_topic("ours", PARTITIONS)
        await asyncio.to_thread(produce, kafka.bootstrap_servers, keys)
        async with Producer(kafka.bootstrap_servers, partitioner=names["crc32"]) as producer:
            await producer.send_batch("ours", keys, keys=keys)
        theirs, ours = [
            {record.key: record.partition for record in kafka.records(topic)} for topic in ("theirs", "ours")
        ]
    assert len(theirs) == len(keys)
    assert ours == theirs


def produce(servers: str, keys: list[bytes]) -> None:
    """Send with confluent-kafka as it comes."""
    with confluent_kafka.Producer({"bootstrap.servers": servers}) as producer:
        for key in keys:
            producer.produce("theirs", key, key=key)
        producer.flush()


def test_settings_in_the_tables_exist() -> None:
    """Whatever the tables name as a setting of ours is one."""
    ours = {field.name for field in attrs.fields(ProducerConfig)}
    columns = [row.split(" | ")[-1] for row in PAGE.read_text().splitlines() if row.startswith("| ")]
    named = {
        name
        for column in columns
        for name in re.findall(r"`([a-z_]+(?:_ms|_size|_memory|_type|_serializer))\b", column)
    }
    assert {"batch_size", "max_block_ms", "delivery_timeout_ms"} <= named
    assert named <= ours


def test_defaults_of_aiokafka_are_those_it_has() -> None:
    """The table of defaults has aiokafka's own."""
    defaults = {name: each.default for name, each in inspect.signature(AIOKafkaProducer).parameters.items()}
    assert (defaults["linger_ms"], defaults["max_batch_size"], defaults["request_timeout_ms"]) == (
        0,
        16_384,
        40_000,
    )
    assert (defaults["enable_idempotence"], defaults["max_request_size"]) == (False, 1 << 20)


def test_defaults_of_ours_are_those_it_has() -> None:
    """The table of defaults has this library's own."""
    config = Producer("localhost:9092").config
    assert (config.linger_ms, config.batch_size, config.buffer_memory) == (5, 131_072, 32 << 20)
    assert (config.delivery_timeout_ms, config.max_block_ms, config.close_timeout_ms) == (
        120_000,
        60_000,
        120_000,
    )
    assert (config.max_in_flight_requests_per_connection, config.max_request_size) == (5, 1 << 20)
