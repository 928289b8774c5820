"""Litestar: an order is answered 201 when it is in Kafka; probes for Kubernetes.

Run it with Litestar and uvicorn: uvicorn --app-dir examples litestar_app:app
Then: curl -i localhost:8000/orders --json '{"customer": "alice", "items": ["2 apples"]}'
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass
from typing import Any

from litestar import Litestar, Request, Response, asgi, post
from litestar.params import JSONBody

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


@dataclass
class Order:
    """An order."""

    customer: str
    items: list[str]


@post("/orders")
async def place_order(data: JSONBody[Order]) -> dict[str, int]:
    """Answer when the order is in the log."""
    value = json.dumps(asdict(data)).encode()
    metadata = await producer.send_and_wait("orders", value, key=data.customer.encode())
    return {"partition": metadata.partition, "offset": metadata.offset}


def tell_failure(request: Request[Any, Any, Any], error: KafkaError) -> Response[dict[str, str]]:
    """The status tells the client what to do. The text of the error has names of brokers: it is for the log only."""
    log.error("%s %s: %s", request.method, request.url.path, error)
    match error:
        case RecordError():
            status, detail = 422, "the order cannot be sent"
        case KafkaError(outcome=Outcome.UNKNOWN):
            status, detail = 504, "the order may have been taken: check before you repeat it"
        case _:
            status, detail = 503, "the order was not taken: try again"
    return Response({"detail": detail, "outcome": error.outcome.value}, status_code=status)


# Litestar takes the function of an ASGI app.
probes = asgi("/probes", is_mount=True, copy_scope=True)(Probes(producer).__call__)

app = Litestar(
    [place_order, probes],
    lifespan=[lifespan(producer)],
    exception_handlers={KafkaError: tell_failure},
)
