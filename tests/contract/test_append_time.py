"""Topics whose records are dated by the broker."""

from __future__ import annotations

import time

from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aioproducer.testing.broker.logs.batches import read_header
from aioproducer.testing.broker.logs.records import parse_batch, split_batches
from tests.contract.batches import NOW, plain, sequenced
from tests.contract.client import WireClient

DAY = 86_400_000


async def test_the_answer_has_the_time_of_the_append(client: WireClient, name: str) -> None:
    """With LogAppendTime the answer says when, in milliseconds."""
    await client.create_topic(name, message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    answer = await client.produce(name, plain(2))
    assert before <= answer.log_append_time_ms <= time.time_ns() // 1_000_000


async def test_a_duplicate_has_the_time_of_the_first_append(client: WireClient, name: str) -> None:
    """The answer to a retried batch has the original time and the original offset."""
    await client.create_topic(name, message_timestamp_type="LogAppendTime")
    batch = sequenced(await client.new_producer(), 0, 2)
    assert await client.produce(name, batch) == await client.produce(name, batch)


async def test_any_time_of_the_client_is_taken(client: WireClient, name: str) -> None:
    """The broker overwrites it, so it is not checked."""
    await client.create_topic(name, message_timestamp_type="LogAppendTime")
    assert (await client.produce(name, plain(1, NOW + DAY))).error_code == 0


async def test_readers_see_the_time_of_the_append(client: WireClient, name: str) -> None:
    """All records of the batch have it; the batch says so and has a valid checksum again."""
    topic = await client.create_topic(name, message_timestamp_type="LogAppendTime")
    answer = await client.produce(name, plain(3, 5))
    request = FetchRequest(
        max_wait_ms=0,
        topics=[FetchTopic("", topic.topic_id, [FetchPartition(0, partition_max_bytes=10_000)])],
    )
    [batch] = split_batches((await client.ask(request, 17)).responses[0].partitions[0].records)
    assert {record.timestamp for record in parse_batch(name, 0, batch)} == {answer.log_append_time_ms}
    header = read_header(batch)
    assert (header.attributes, header.base_timestamp) == (0x08, 5)
    assert header.has_valid_checksum(batch)
