"""A real Kafka of three nodes: every leader gets its share of the records."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from aioproducer import Producer
from tests.golden.vectors import golden_keys
from tests.kafka.reading import ReadRecord, by_partition, read_all
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka


async def _read(kafka: KafkaCluster, topic: str) -> list[ReadRecord]:
    return await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)


async def test_the_cluster_is_learned_from_one_of_its_nodes(real_kafka_cluster: KafkaCluster) -> None:
    """Given the address of one node only, a producer knows each partition's leader and replicas."""
    topic = real_kafka_cluster.create_topic("learned", 6)
    async with Producer(real_kafka_cluster.node(2).address) as producer:
        known = await producer.partitions_for(topic)
    assert [one.leader for one in known] == real_kafka_cluster.leaders(topic)
    assert [set(one.replicas) for one in known] == [{1, 2, 3}] * 6


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_records_of_all_leaders_are_written_in_order(
    real_kafka_cluster: KafkaCluster, codec: Literal["none", "zstd"]
) -> None:
    """20,000 keyed records over partitions led by three nodes are read back whole, each partition in order."""
    topic = real_kafka_cluster.create_topic(f"spread-{codec}", 12)
    places = [(golden.key, golden.partitions[12]) for golden in golden_keys()]
    sent: dict[int, list[bytes]] = {}
    async with Producer(real_kafka_cluster.bootstrap_servers, compression_type=codec) as producer:
        for number in range(20_000):
            key, partition = places[number % len(places)]
            await producer.send(topic, value := b"%d" % number, key=key)
            sent.setdefault(partition, []).append(value)
        report = await producer.flush()
    assert report.acked == 20_000
    read = by_partition(await _read(real_kafka_cluster, topic))
    assert {partition: [record.value for record in records] for partition, records in read.items()} == sent
    assert {real_kafka_cluster.leaders(topic)[partition] for partition in read} == {1, 2, 3}


async def test_two_of_three_copies_are_enough(real_kafka_cluster: KafkaCluster) -> None:
    """acks=all on replicated partitions is answered with the offset of each record."""
    topic = real_kafka_cluster.create_topic("replicated", 3, min_insync_replicas=2)
    async with Producer(real_kafka_cluster.bootstrap_servers, acks="all") as producer:
        sent = [await producer.send(topic, b"v", partition=number % 3) for number in range(300)]
        offsets = [(await delivery).offset for delivery in sent]
    assert offsets == [number // 3 for number in range(300)]
