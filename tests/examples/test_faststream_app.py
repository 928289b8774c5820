"""The FastStream application: a group of consumers, which only a real Kafka has, and a producer beside it."""

from __future__ import annotations

import asyncio
import signal

import attrs
import httpx
import pytest

from aioproducer import Producer, TopicPartition, committed_offsets
from tests.examples.programs import example, ready, serving
from tests.kafka.reading import read_all
from tests.kafka.sending import until
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

UVICORN = (
    "-m",
    "uvicorn",
    "--app-dir",
    example("faststream_app.py").parent,
    "faststream_app:app",
    "--port",
    "0",
)


@attrs.frozen
class Several:
    """A Kafka by the addresses of several brokers, as the manifest of Kubernetes names it."""

    bootstrap_servers: str


async def test_every_order_has_a_receipt(real_kafka: KafkaCluster) -> None:
    """Receipts are in the log before their orders are committed; SIGTERM ends it without an error."""
    for topic in ("orders", "receipts"):
        real_kafka.create_topic(topic)
    servers = real_kafka.bootstrap_servers
    async with (
        serving(Several(f"{servers},{servers}"), *UVICORN) as (server, address),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
        Producer(real_kafka.bootstrap_servers) as shop,
    ):
        for number in range(20):
            await shop.send("orders", b"order %d" % number)
        await ready(client, "/ready")
        codes = [(await client.get(path)).status_code for path in ("/live", "/ready", "/health", "/other")]
        assert codes == [200, 200, 200, 404]
        await until(lambda: real_kafka.end_offsets("receipts") == [20])
        assert await server.stop(signal.SIGTERM) == -signal.SIGTERM
    receipts = await asyncio.to_thread(read_all, real_kafka.bootstrap_servers, "receipts")
    assert [record.value for record in receipts] == [b"receipt for order %d" % number for number in range(20)]
    offsets = await committed_offsets("receipts", [TopicPartition("orders", 0)], real_kafka.bootstrap_servers)
    assert [found.offset for found in offsets.values()] == [20]
    assert "Application shutdown complete." in server.output
    assert "Traceback" not in server.output
