"""Quart: an order is answered 201 when it is in Kafka; probes for Kubernetes.

Run it with Quart and uvicorn: uvicorn --app-dir examples quart_app:asgi_app
Then: curl -i localhost:8000/orders --data '2 apples'
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from typing import Any

from quart import Quart, request

from aioproducer import KafkaError, Outcome, Producer, RecordError
from aioproducer.asgi import Probes, lifespan

log = logging.getLogger("uvicorn.error")
producer = Producer(
    os.environ.get("KAFKA", "localhost:9092"),
    topics=["orders"],
    max_block_ms=1_000,
    request_timeout_ms=3_000,
    delivery_timeout_ms=10_000,
)
app = Quart(__name__)
probes = Probes(producer)


@app.while_serving
async def producing() -> AsyncGenerator[None, None]:
    """The producer runs while the application does."""
    async with lifespan(producer)(app):
        yield


async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the probes: Quart itself mounts no other apps."""
    if scope["type"] == "http" and scope["path"].startswith("/probes/"):
        await probes({**scope, "root_path": "/probes"}, receive, send)
    else:
        await app(scope, receive, send)


@app.post("/orders")
async def place_order() -> tuple[dict[str, int], int]:
    """Answer when the order is in the log."""
    metadata = await producer.send_and_wait("orders", bytes(await request.body))
    return {"partition": metadata.partition, "offset": metadata.offset}, 201


@app.errorhandler(KafkaError)
async def tell_failure(error: KafkaError) -> tuple[dict[str, str], int]:
    """The status tells the client what to do. The text of the error has names of brokers: it is for the log only."""
    log.error("%s %s: %s", request.method, request.path, error)
    match error:
        case RecordError():
            status, detail = 422, "the order cannot be sent"
        case KafkaError(outcome=Outcome.UNKNOWN):
            status, detail = 504, "the order may have been taken: check before you repeat it"
        case _:
            status, detail = 503, "the order was not taken: try again"
    return {"detail": detail, "outcome": error.outcome.value}, status
