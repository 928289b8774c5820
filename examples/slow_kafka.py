"""A web application that answers within a fraction of a second even while Kafka is down.

The answer is 201 when the event is written, and 202 when it is accepted and waits for Kafka.

Run it with FastAPI and uvicorn: uvicorn --app-dir examples slow_kafka:app
Then: curl -i localhost:8000/events --data-binary '2 apples were sold'
"""

from __future__ import annotations

import os

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from aioproducer import BufferFullError, Outcome, Producer
from aioproducer.asgi import lifespan

KAFKA = os.environ.get("KAFKA", "localhost:9092")
CONFIRMATION_TIMEOUT = 0.2
"""Seconds that a client waits for the confirmation."""
LARGEST = 1_000_000
"""Bytes of an event; below `max_request_size`, so that every event can be sent."""

ANSWERS = {
    Outcome.ACKED: (201, "written"),
    Outcome.PENDING: (202, "accepted, not confirmed yet"),
    Outcome.NOT_WRITTEN: (503, "not written"),
    Outcome.UNKNOWN: (504, "perhaps written"),
}


# Events wait for Kafka at most an hour, in at most 64 MB. The end of the application waits at most 20 seconds.
producer = Producer(KAFKA, delivery_timeout_ms=3_600_000, buffer_memory=64 << 20, close_timeout_ms=20_000)
app = FastAPI(lifespan=lifespan(producer))


@app.post("/events")
async def take_event(request: Request) -> JSONResponse:
    """Accept the event, and wait a moment for its outcome. The record goes on after that; its loss would be logged."""
    event = await request.body()
    if len(event) > LARGEST:
        return JSONResponse({"event": "refused, too large"}, 413)
    try:
        # send() would wait for the metadata of an unknown topic; send_nowait() queues the record.
        delivery = producer.send_nowait("events", event)
    except BufferFullError:
        return JSONResponse({"event": "refused, the buffer is full"}, 503, {"Retry-After": "10"})
    status, text = ANSWERS[await delivery.wait(CONFIRMATION_TIMEOUT)]
    return JSONResponse({"event": text}, status)
