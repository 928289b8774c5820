"""The producer on Kafka 3.9, the last before 4: older versions of the protocol, and the same promise.

The contract of the wire runs on it too: tests/contract, with the parameter "old".
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, Literal, get_args

import pytest

from aioproducer import BrokerError, Outcome, Producer
from aioproducer._wire.apis import APIS
from aioproducer._wire.messages.api_versions import ApiVersionsRequest
from aioproducer._wire.messages.metadata import MetadataRequest
from tests.contract.batches import plain
from tests.contract.client import WireClient, produce_request
from tests.contract.old_kafka import NEWEST
from tests.judge.history import Sent, digest_of, told, value_of
from tests.judge.judge import judge
from tests.kafka.kinds import log_of, send_all_kinds
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
PRODUCE, METADATA = 0, 3
_MESSAGE_TOO_LARGE = 10


# -- its versions


async def test_it_takes_less_than_we_speak(old_kafka: KafkaCluster) -> None:
    """The newest versions that 3.9 announces are those that the contract suite is lowered to."""
    async with WireClient(old_kafka.bootstrap_servers) as client:
        answer = await client.ask(ApiVersionsRequest("contract", "1"), 4)
    newest = {api.api_key: api.max_version for api in answer.api_keys if api.api_key in APIS}
    ours = {key: api.max_version for key, api in APIS.items()}
    assert {key: version for key, version in newest.items() if version < ours[key]} == NEWEST
    # Those of client metrics are announced only where a cluster takes them.
    assert set(ours) - {71, 72} == set(newest)


@pytest.mark.parametrize(
    "request_", [MetadataRequest(None, False), produce_request("t", plain())], ids=["Metadata", "Produce"]
)
async def test_it_hangs_up_on_a_version_that_is_too_new(
    old_kafka: KafkaCluster, request_: tuple[Any, ...]
) -> None:
    """A request in a version above its newest ends the connection: the client must not guess versions."""
    key = METADATA if isinstance(request_, MetadataRequest) else PRODUCE
    async with WireClient(old_kafka.bootstrap_servers) as client:
        client.send(request_, NEWEST[key] + 1)
        assert await client.rest() == b""


async def test_it_finalizes_no_second_transaction_version(old_kafka: KafkaCluster) -> None:
    """3.9 has no feature of 4.0: `transaction.version` is not among the finalized ones."""
    async with WireClient(old_kafka.bootstrap_servers) as client:
        answer = await client.ask(ApiVersionsRequest("contract", "1"), 4)
    assert "transaction.version" not in {feature.name for feature in answer.finalized_features}


async def test_topics_have_ids_and_produce_does_not_use_them(old_kafka: KafkaCluster) -> None:
    """Metadata carries ids, Produce accepts names only; sends to a recreated topic find the new one."""
    topic = old_kafka.create_topic("old-again", 1)
    async with Producer(old_kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(topic, b"old")
        first_id = await _topic_id(old_kafka, topic)
        await asyncio.to_thread(old_kafka.delete_topic, topic)
        await asyncio.to_thread(old_kafka.create_topic, topic, 1)
        metadata = await producer.send_and_wait(topic, b"new")
    assert bytes(16) != first_id != await _topic_id(old_kafka, topic)
    assert metadata.offset == 0


async def _topic_id(kafka: KafkaCluster, topic: str) -> bytes:
    async with WireClient(kafka.bootstrap_servers) as client:
        return bytes((await client.describe(topic, NEWEST[METADATA])).topic_id)


# -- records


@pytest.mark.parametrize("codec", get_args(Codec))
async def test_what_is_sent_is_there_once_and_in_order(old_kafka: KafkaCluster, codec: Codec) -> None:
    """6,000 records with keys, headers and times, five requests in flight: all are there, in order, byte for byte."""
    topic = old_kafka.create_topic(f"old-{codec}", 3)
    history = await _send(old_kafka, topic, random.Random(codec), compression_type=codec)
    assert {record.outcome for record in history} == {Outcome.ACKED}
    assert {record.partition for record in history} == {0, 1, 2}
    assert judge(history, await log_of(old_kafka, topic)) == []


async def test_without_idempotence_too(old_kafka: KafkaCluster) -> None:
    """acks=1 with one request in flight is acknowledged with the offset of each record."""
    topic = old_kafka.create_topic("old-plain", 2)
    settings = {"acks": 1, "enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    history = await _send(old_kafka, topic, random.Random(1), **settings)
    assert {record.outcome for record in history} == {Outcome.ACKED}
    assert judge(history, await log_of(old_kafka, topic)) == []


async def _send(kafka: KafkaCluster, topic: str, rng: random.Random, **settings: Any) -> list[Sent]:
    async with Producer(kafka.bootstrap_servers, batch_size=4096, linger_ms=1, **settings) as producer:
        return await send_all_kinds(producer, topic, rng, 6000)


async def test_a_batch_above_the_topics_limit_is_split(old_kafka: KafkaCluster) -> None:
    """A batch that 3.9 finds too large arrives in smaller ones; a record that is too large fails alone."""
    topic = old_kafka.create_topic("old-split", 1, max_message_bytes=5000)
    values = [value_of(number, b"v" * (9000 if number == 500 else 100)) for number in range(1000)]
    async with Producer(old_kafka.bootstrap_servers, linger_ms=50) as producer:
        sent = [await producer.send(topic, value, timestamp=1) for value in values]
        await producer.flush()
    history = [told(n, digest_of(None, values[n], (), 1), delivery) for n, delivery in enumerate(sent)]
    assert [record.number for record in history if record.outcome is not Outcome.ACKED] == [500]
    error = sent[500].exception()
    assert isinstance(error, BrokerError)
    assert (error.code, error.outcome) == (_MESSAGE_TOO_LARGE, Outcome.NOT_WRITTEN)
    assert judge(history, await log_of(old_kafka, topic)) == []


async def test_it_takes_a_time_of_the_far_future(old_kafka: KafkaCluster) -> None:
    """Before 4.0 a topic sets no limit to future times by itself (KIP-1030): the record is written as it is."""
    topic = old_kafka.create_topic("old-future", 1)
    later = int(time.time() * 1000) + 10 * 365 * 86_400_000
    async with Producer(old_kafka.bootstrap_servers) as producer:
        metadata = await producer.send_and_wait(topic, b"v", timestamp=later)
    assert (metadata.offset, metadata.timestamp) == (0, later)
