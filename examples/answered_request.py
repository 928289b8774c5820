"""A web application whose answer to a request tells exactly what became of its record.

201: it is written. 202: it is accepted, and Kafka has not answered yet. 422: it can never be written, and is set aside with
the reason. 503: it is not written, and may be sent again. 504: it may be written.

Run it with FastAPI and uvicorn: uvicorn --app-dir examples answered_request:app
Then: curl -i localhost:8000/orders/alice --data-binary '2 apples'
"""

from __future__ import annotations

import os

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from aioproducer import Outcome, Producer
from aioproducer.asgi import lifespan
from aioproducer.outlets import DeadLetters

KAFKA = os.environ.get("KAFKA", "localhost:9092")
CONFIRMATION_TIMEOUT = 2.0
"""Seconds that a client waits for the confirmation."""

ANSWERS = {
    Outcome.ACKED: (201, "written"),
    Outcome.PENDING: (202, "accepted, not confirmed yet"),
    Outcome.NOT_WRITTEN: (503, "not written; send it again"),
    Outcome.UNKNOWN: (504, "perhaps written"),
}

producer = Producer(KAFKA, max_block_ms=1_000)
letters = DeadLetters(producer, "orders.dead")
app = FastAPI(lifespan=lifespan(producer))


@app.post("/orders/{customer}")
async def take_order(customer: str, request: Request) -> JSONResponse:
    """Send the order, and wait a moment for its outcome. The record goes on after that."""
    sent = letters.send("orders", await request.body(), key=customer.encode())
    outcome = await sent.wait(CONFIRMATION_TIMEOUT)
    status, text = (422, "set aside") if sent.dead_lettered else ANSWERS[outcome]
    return JSONResponse({"order": text}, status)
