"""A web application that answers 201 when the order is in Kafka, and reports failures as HTTP errors.

Run it with FastAPI and uvicorn: uvicorn --app-dir examples web_app:app
Then: curl -i localhost:8000/orders --json '{"customer": "alice", "items": ["2 apples"]}'
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from aioproducer import KafkaError, Outcome, Producer, RecordError, RecordTooLargeError, StateError

KAFKA = os.environ.get("KAFKA", "localhost:9092")
log = logging.getLogger("uvicorn.error")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Producer]]:
    """One producer for the whole application, made in its event loop. It starts also without a running Kafka."""
    async with (
        Producer(
            KAFKA,
            topics=["orders"],  # known before the first request
            max_block_ms=1_000,  # the longest wait of a request for memory or metadata
            request_timeout_ms=3_000,
            delivery_timeout_ms=10_000,  # the longest wait for an answer, also of close(): keep it below the grace period
        ) as producer
    ):
        yield {"producer": producer}


def producer_of(request: Request) -> Producer:
    """The producer of the application; tests replace it with `app.dependency_overrides`."""
    producer: Producer = request.state.producer
    return producer


class Order(BaseModel):
    """An order."""

    customer: str
    items: list[str]


app = FastAPI(lifespan=lifespan)
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


@app.get("/health")
async def health(producer: OurProducer, response: Response) -> dict[str, Any]:
    """For a readiness probe: 200 while orders reach Kafka, else 503 with the problems in words. It costs no I/O."""
    now = producer.health()
    response.status_code = 200 if now.ready else 503
    return now.as_dict()
