"""Many WebSockets into one topic: each client learns up to which of its messages everything is written.

A client sends {"number": 1, "reading": "21.5"} and so on, and gets {"written": 1}. After a lost connection it sends again what
is not confirmed: at least once, in the order of its messages.

Run it with FastAPI and uvicorn: uvicorn --app-dir examples websocket_fan_in:app
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from aioproducer import CheckpointStoppedError, Producer
from aioproducer.asgi import lifespan
from aioproducer.outlets import Checkpoint

KAFKA = os.environ.get("KAFKA", "localhost:9092")
TRY_AGAIN_LATER = 1013
"""The code of a WebSocket that is closed for a reason that passes."""

producer = Producer(KAFKA)
app = FastAPI(lifespan=lifespan(producer))


@app.websocket("/readings/{sensor}")
async def take_readings(socket: WebSocket, sensor: str) -> None:
    """Send each reading, and confirm the newest one before which all are written."""
    await socket.accept()

    async def confirm(number: int) -> None:
        # A client that has gone sends this reading again.
        with suppress(RuntimeError, WebSocketDisconnect):
            await socket.send_json({"written": number})

    try:
        async with Checkpoint(producer, confirm, every=0.1) as checkpoint:
            async for text in socket.iter_text():
                message = json.loads(text)
                await checkpoint.send("readings", message["reading"].encode(), key=sensor.encode())
                checkpoint.mark(message["number"])
    except CheckpointStoppedError:
        # A reading is not written: the client goes on from the last confirmation, on a new connection.
        await socket.close(TRY_AGAIN_LATER)
