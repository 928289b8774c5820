"""A web application that answers 201 once the order is in Kafka, and tells failures in terms of HTTP.

Run it with FastAPI and uvicorn: uvicorn --app-dir examples web_app:app
Then: curl -i localhost:8000/orders --json '{"customer": "alice", "items": ["2 apples"]}'
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from aioproducer import KafkaError, Outcome, Producer, RecordError, RecordTooLargeError, StateError

KAFKA = os.environ.get("KAFKA", "localhost:9092")
log = logging.getLogger("uvicorn.error")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Producer]]:
    """One producer for the whole application, made where the loop is; it starts whether Kafka is up or not."""
    async with (
        Producer(
            KAFKA,
            topics=["orders"],  # known before the first request comes
            max_block_ms=1_000,  # a request waits at most so long for room or metadata,
            request_timeout_ms=3_000,
            delivery_timeout_ms=10_000,  # and so long for its answer; so does closing: keep it below the grace period
        ) as producer
    ):
        yield {"producer": producer}


def producer_of(request: Request) -> Producer:
    """The producer of the application; tests put another in its place with `app.dependency_overrides`."""
    producer: Producer = request.state.producer
    return producer


class Order(BaseModel):
    """What is ordered."""

    customer: str
    items: list[str]


app = FastAPI(lifespan=lifespan)
OurProducer = Annotated[Producer, Depends(producer_of)]


@app.post("/orders", status_code=201)
async def place_order(order: Order, producer: OurProducer) -> dict[str, int]:
    """Answer when the order is in the log. Orders that come together share a request to Kafka."""
    value = order.model_dump_json().encode()
    metadata = await producer.send_and_wait("orders", value, key=order.customer.encode())
    return {"partition": metadata.partition, "offset": metadata.offset}


@app.exception_handler(KafkaError)
async def tell_failure(request: Request, error: KafkaError) -> JSONResponse:
    """Answer with what the client may do now; that depends on what became of the record."""
    log.error("%s %s: %s", request.method, request.url.path, error)
    headers = {}
    match error:
        case RecordTooLargeError():
            status, detail = 413, "the order is too large"
        case RecordError():
            status, detail = 422, "the order cannot be sent as it is"
        case KafkaError(outcome=Outcome.UNKNOWN):
            status, detail = 504, "the order may have been taken: look before you repeat it"
        case StateError() | KafkaError(retriable=True):  # BufferFullError, MetadataTimeoutError, closing, ...
            status, detail, headers = 503, "the order was not taken: try again", {"Retry-After": "2"}
        case _:
            status, detail = 500, "the order was not taken"
    return JSONResponse({"detail": detail, "outcome": error.outcome.value}, status, headers)


@app.get("/health")
async def health(producer: OurProducer, response: Response) -> dict[str, str | int]:
    """For a readiness probe: does Kafka answer, and do orders get through? It costs no I/O."""
    now = producer.health()
    answered, failed = now.answered_seconds_ago, now.last_error_seconds_ago  # None: never
    # Connections that nobody uses are closed, so that none may be open though all is well.
    cut_off = now.connected_brokers == 0 and (answered is None or (failed is not None and failed < answered))
    ready = now.state == "running" and not cut_off and (now.oldest_unacked_seconds or 0) < 5
    response.status_code = 200 if ready else 503
    trouble = "" if ready else str(now.last_error)  # the last one is kept, also when it is over
    return {"state": now.state, "connected_brokers": now.connected_brokers, "trouble": trouble}
