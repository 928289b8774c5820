"""ListOffsets and Fetch: offsets, and records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from aioproducer._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aioproducer.testing.broker.logs.batches import read_header
from aioproducer.testing.broker.logs.records import split_batches, write_batch
from tests.contract.batches import NOW, plain, records, sequenced
from tests.contract.client import WireClient

LATEST, EARLIEST, NEWEST = -1, -2, -3


async def _offset(
    client: WireClient, topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, version: int = 11
) -> tuple[int, int, int]:
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, epoch, timestamp)])
    response = await client.ask(ListOffsetsRequest(-1, 0, [asked]), version)
    found: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


def _fetch(
    topic_id: bytes, offset: int, *, epoch: int = -1, limit: int = 100_000, **more: Any
) -> FetchRequest:
    partition = FetchPartition(0, epoch, offset, partition_max_bytes=limit)
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100_000, **more}
    return FetchRequest(topics=[FetchTopic("", topic_id, [partition])], **fields)


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_end_and_the_beginning(client: WireClient, name: str, version: int) -> None:
    """-1 is the offset of the next record, -2 that of the first, both without a time, in every version."""
    await client.create_topic(name)
    await client.produce(name, plain(3))
    assert await _offset(client, name, LATEST, version=version) == (0, 3, -1)
    assert await _offset(client, name, EARLIEST, version=version) == (0, 0, -1)


async def test_a_time_finds_the_first_record_not_older(client: WireClient, name: str) -> None:
    """The record is found inside its batch, with its own time; nothing is found after the newest."""
    await client.create_topic(name)
    await client.produce(name, plain(3, NOW - 100))
    await client.produce(name, write_batch(records(2, NOW), compression=1))
    assert await _offset(client, name, 0) == (0, 0, NOW - 100)
    assert await _offset(client, name, NOW - 99) == (0, 1, NOW - 99)
    assert await _offset(client, name, NOW + 1) == (0, 4, NOW + 1)
    assert await _offset(client, name, NOW + 2) == (0, -1, -1)


async def test_the_newest_record_is_found(client: WireClient, name: str) -> None:
    """-3 is the record with the highest time, wherever it is (KIP-734)."""
    await client.create_topic(name)
    assert await _offset(client, name, NEWEST) == (0, -1, -1)
    await client.produce(name, plain(2, NOW))
    await client.produce(name, plain(1, NOW - 50))
    assert await _offset(client, name, NEWEST) == (0, 1, NOW + 1)


async def test_places_that_cannot_be_listed(client: WireClient, name: str) -> None:
    """Unknown partitions, special times that do not exist, and wrong leader epochs have their errors."""
    await client.create_topic(name)
    assert await _offset(client, name, LATEST, partition=5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await _offset(client, f"{name}-none", LATEST) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await _offset(client, name, -7) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    assert await _offset(client, name, LATEST, epoch=9) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


async def test_fetched_bytes_are_those_that_were_produced(client: WireClient, name: str) -> None:
    """Only the offset and the leader epoch, which the checksum does not cover, are the broker's."""
    topic = await client.create_topic(name)
    sent = [plain(2), sequenced(await client.new_producer(), 0, 3), write_batch(records(4), compression=4)]
    for batch in sent:
        await client.produce(name, batch)
    part = (await client.ask(_fetch(topic.topic_id, 0), 17)).responses[0].partitions[0]
    got = list(split_batches(part.records))
    assert [batch[16:] for batch in got] == [batch[16:] for batch in sent]
    assert [read_header(batch).base_offset for batch in got] == [0, 2, 5]
    assert {read_header(batch).leader_epoch for batch in got} == {0}
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (9, 9, 0)


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_fetches(client: WireClient, name: str, version: int) -> None:
    """Topics are named up to version 12 and have ids afterwards."""
    topic = await client.create_topic(name)
    await client.produce(name, plain(2))
    by_id = version >= 13
    asked = FetchTopic(
        "" if by_id else name,
        topic.topic_id if by_id else bytes(16),
        [FetchPartition(0, partition_max_bytes=9999)],
    )
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=9999, topics=[asked])
    part = (await client.ask(request, version)).responses[0].partitions[0]
    assert part.error_code == 0
    assert part.records[16:] == plain(2)[16:]


async def test_a_fetch_inside_a_batch_gives_the_whole_batch(client: WireClient, name: str) -> None:
    """Batches are not cut at the front: the reader skips the records before its offset."""
    topic = await client.create_topic(name)
    for _ in range(3):
        await client.produce(name, plain(3))
    part = (await client.ask(_fetch(topic.topic_id, 4), 17)).responses[0].partitions[0]
    assert [read_header(batch).base_offset for batch in split_batches(part.records)] == [3, 6]


async def test_the_first_batch_comes_whole_whatever_the_limit(client: WireClient, name: str) -> None:
    """A limit of one byte still lets a reader make progress (KIP-74)."""
    topic = await client.create_topic(name)
    for _ in range(2):
        await client.produce(name, plain(3))
    request = _fetch(topic.topic_id, 0, limit=1, max_bytes=1)
    assert len((await client.ask(request, 17)).responses[0].partitions[0].records) == len(plain(3))


async def test_limits_keep_later_batches_back(client: WireClient, name: str) -> None:
    """No more whole batches come than fit the limit of the partition."""
    topic = await client.create_topic(name)
    for _ in range(3):
        await client.produce(name, plain(3))
    request = _fetch(topic.topic_id, 0, limit=len(plain(3)) * 2 + 10)
    got = split_batches((await client.ask(request, 17)).responses[0].partitions[0].records)
    assert [read_header(batch).base_offset for batch in got] == [0, 3]


async def test_a_fetch_at_the_end_waits_for_records(address: str, client: WireClient, name: str) -> None:
    """A long poll is answered as soon as something is appended."""
    topic = await client.create_topic(name)
    await client.produce(name, plain())
    async with WireClient(address) as reader:
        waiting = asyncio.create_task(reader.ask(_fetch(topic.topic_id, 1, max_wait_ms=15_000), 17))
        await client.produce(name, plain(2))
        part = (await waiting).responses[0].partitions[0]
    assert read_header(part.records).base_offset == 1


async def test_a_fetch_at_the_end_comes_back_empty_in_time(client: WireClient, name: str) -> None:
    """When nothing is appended the answer comes after max_wait_ms, without records."""
    topic = await client.create_topic(name)
    asked_at = asyncio.get_running_loop().time()
    response = await client.ask(_fetch(topic.topic_id, 0, max_wait_ms=150), 17)
    assert asyncio.get_running_loop().time() - asked_at >= 0.14
    assert response.responses[0].partitions[0].records == b""


async def _error(client: WireClient, request: FetchRequest) -> int:
    response: FetchResponse = await client.ask(request, 17)
    return response.error_code or response.responses[0].partitions[0].error_code


async def test_what_cannot_be_fetched(client: WireClient, name: str) -> None:
    """Offsets outside the log, unknown topics, wrong leader epochs and unknown sessions have their errors."""
    topic_id = (await client.create_topic(name)).topic_id
    assert await _error(client, _fetch(topic_id, 1)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await _error(client, _fetch(topic_id, -5)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await _error(client, _fetch(b"x" * 16, 0)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await _error(client, _fetch(topic_id, 0, epoch=9)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (
        await _error(client, _fetch(topic_id, 0, session_id=77, session_epoch=3))
        == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
