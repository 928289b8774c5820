"""FastStream: orders are read with its Kafka broker, receipts are sent with this producer; probes for Kubernetes.

Run it with FastStream and uvicorn: uvicorn --app-dir examples faststream_app:app
Then send an order: echo '2 apples' | aioproducer produce -b localhost:9092 -t orders
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faststream import AckPolicy
from faststream.asgi import AsgiFastStream
from faststream.kafka import KafkaBroker, KafkaMessage

from aioproducer import Producer
from aioproducer.asgi import Probes, lifespan

KAFKA = os.environ.get("KAFKA", "localhost:9092")

broker = KafkaBroker(KAFKA.split(","))
producer = Producer(KAFKA, topics=["receipts"], request_timeout_ms=3_000, delivery_timeout_ms=10_000)


# The offset of an order is committed when its receipt is in the log: an order that fails is read again.
@broker.subscriber(
    "orders", group_id="receipts", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
)
async def write_receipt(order: bytes, message: KafkaMessage) -> None:
    """Answer an order with a receipt."""
    await producer.send_and_wait("receipts", b"receipt for " + message.body)


@asynccontextmanager
async def producing() -> AsyncIterator[None]:
    """The producer starts before the first order is read, and is closed behind the last one."""
    async with lifespan(producer)(app):
        yield


probes = Probes(producer)
app = AsgiFastStream(
    broker,
    lifespan=producing,
    asgi_routes=[("/live", probes), ("/ready", probes), ("/health", probes)],
)
