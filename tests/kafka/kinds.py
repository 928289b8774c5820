"""Records of every kind for a real Kafka, and its log, in the form that the judge compares."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from aioproducer import Producer
from tests.judge.history import Found, Sent, digest_of, found, told, value_of
from tests.kafka.reading import read_all
from tools.kafka_cluster import KafkaCluster


async def log_of(kafka: KafkaCluster, topic: str) -> list[Found]:
    """The records of a topic."""
    read = await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic)
    return [found(topic, r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in read]


async def send_all_kinds(
    producer: Producer[Any, Any], topic: str, rng: random.Random, count: int
) -> list[Sent]:
    """Send so many records with and without keys and headers, of several sizes, each with its time, and flush."""
    sent = []
    for number in range(count):
        value = value_of(number, b"words, " * rng.randrange(20) + rng.randbytes(20))
        key = rng.choice([None, b"", rng.randbytes(8)])
        headers = [("h", b"1"), ("h", None), ("\u00e9", b"")][: rng.randrange(4)]
        time_ms = 1_600_000_000_000 + number
        delivery = await producer.send(topic, value, key=key, headers=headers, timestamp=time_ms)
        sent.append((number, digest_of(key, value, headers, time_ms), delivery))
    await producer.flush()
    return [told(*facts) for facts in sent]
