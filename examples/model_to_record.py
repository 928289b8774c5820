"""From a pydantic model to a record: a schema registry, dead letters, and metrics for Prometheus.

Each line of the input is an order in JSON: echo '{"item": "apples", "count": 2}' | python examples/model_to_record.py

`KAFKA` and `REGISTRY` name other places than localhost. docs/patterns.md shows what it prints for each kind of failure.
It needs pydantic, and the extras `avro` and `prometheus`.
"""

from __future__ import annotations

import asyncio
import os
import sys

from prometheus_client import REGISTRY as METRICS
from prometheus_client import start_http_server
from pydantic import BaseModel

from aioproducer import KafkaError, Producer
from aioproducer.config import Settings
from aioproducer.outlets import DeadLetters
from aioproducer.prometheus import ProducerCollector
from aioproducer.registry import AvroSerializer

KAFKA = os.environ.get("KAFKA", "localhost:9092")
REGISTRY = os.environ.get("REGISTRY", "http://localhost:8081")
SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "item", "type": "string"}, {"name": "count", "type": "int"}]}"""


class Order(BaseModel):
    """An order of a customer. The schema is stricter: it wants a count."""

    item: str
    count: int | None = None


async def main() -> None:
    """Send each order, and print what became of it."""
    orders = AvroSerializer[Order](REGISTRY, SCHEMA)
    limits = Settings(max_block_ms=3_000, request_timeout_ms=2_000, delivery_timeout_ms=3_000)
    async with Producer(KAFKA, value_serializer=orders, **limits) as producer:
        letters = DeadLetters(producer, "orders.dead")
        METRICS.register(ProducerCollector(producer))
        server, _ = start_http_server(int(os.environ.get("METRICS", "9100")))
        print(f"metrics: http://localhost:{server.server_port}/metrics", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            sent = letters.send("orders", Order.model_validate_json(line))
            try:
                metadata = await sent
                end = "set aside" if sent.dead_lettered else "written"
                end += f": {metadata.topic}-{metadata.partition}, offset {metadata.offset}"
                end += f": {sent.error}" if sent.error else ""
            except KafkaError as error:
                end = f"{sent.outcome.value}, retriable={error.retriable}: {error}"
            print(end, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
