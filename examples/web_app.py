"""A web application that answers 201 when the order is in Kafka, and reports failures as HTTP errors.

Run it with FastAPI and uvicorn: uvicorn --app-dir examples web_app:app
Then: curl -i localhost:8000/orders --json '{"customer": "alice", "items": ["2 apples"]}'
And for the probes of Kubernetes (deploy/kubernetes.yaml): curl -i localhost:8000/probes/ready
"""

from __future__ import annotations

import logging
import os
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from aioproducer import KafkaError, Outcome, Producer, RecordError, RecordTooLargeError, StateError
from aioproducer.asgi import Probes, lifespan

KAFKA = os.environ.get("KAFKA", "localhost:9092")
log = logging.getLogger("uvicorn.error")

# One producer for the whole application. It starts in the application's event loop, also without a running Kafka.
producer = Producer(
    KAFKA,
    topics=["orders"],  # known before the first request
    max_block_ms=1_000,  # the longest wait of a request for memory or metadata
    request_timeout_ms=3_000,
    delivery_timeout_ms=10_000,  # the longest wait for an answer, also of close(): keep it below the grace period
)


def producer_of(request: Request) -> Producer:
    """The producer of the application; tests replace it with `app.dependency_overrides`."""
    found: Producer = request.state.producer
    return found


class Order(BaseModel):
    """An order."""

    customer: str
    items: list[str]


app = FastAPI(lifespan=lifespan(producer))
# /probes/live, /probes/ready and /probes/health; they cost no I/O.
app.mount("/probes", Probes(producer))
OurProducer = Annotated[Producer, Depends(producer_of)]


@app.post("/orders", status_code=201)
async def place_order(order: Order, producer: OurProducer) -> dict[str, int]:
    """Answer when the order is in the log. Concurrent orders share a request to Kafka."""
    value = order.model_dump_json().encode()
    metadata = await producer.send_and_wait("orders", value, key=order.customer.encode())
    return {"partition": metadata.partition, "offset": metadata.offset}


@app.exception_handler(KafkaError)
async def tell_failure(request: Request, error: KafkaError) -> JSONResponse:
    """Answer with the next step of the client, which depends on the outcome of the record."""
    log.error("%s %s: %s", request.method, request.url.path, error)
    headers = {}
    match error:
        case RecordTooLargeError():
            status, detail = 413, "the order is too large"
        case RecordError():
            status, detail = 422, "the order cannot be sent"
        case KafkaError(outcome=Outcome.UNKNOWN):
            status, detail = 504, "the order may have been taken: check before you repeat it"
        case StateError() | KafkaError(retriable=True):  # BufferFullError, MetadataTimeoutError, closing, ...
            status, detail, headers = 503, "the order was not taken: try again", {"Retry-After": "2"}
        case _:
            status, detail = 500, "the order was not taken"
    return JSONResponse({"detail": detail, "outcome": error.outcome.value}, status, headers)
