"""The web applications of other frameworks, each under a real server."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import httpx
import pytest

from aioproducer.testing import EmbeddedKafka
from tests.examples.programs import example, ready, serving

ORDER = {"customer": "alice", "items": ["2 apples"]}
APPS = {"litestar_app.py": "app", "quart_app.py": "asgi_app"}


def uvicorn(name: str) -> tuple[Any, ...]:
    """The command that serves this example."""
    path = example(name)
    return ("-m", "uvicorn", "--app-dir", path.parent, f"{path.stem}:{APPS[name]}", "--port", "0")


@pytest.mark.parametrize("name", APPS)
async def test_sigterm_lets_orders_end_well(embedded_kafka: EmbeddedKafka, name: str) -> None:
    """An order under way at SIGTERM is answered 201 and is in the log; the application ends without an error."""
    embedded_kafka.create_topic("orders")
    held = embedded_kafka.faults.delay(before=True)
    async with (
        serving(embedded_kafka, *uvicorn(name)) as (server, address),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        assert (await ready(client)).json() == {"live": True, "ready": True, "problems": []}
        post = asyncio.create_task(client.post("/orders", json=ORDER))
        await held.reached()
        stopping = asyncio.create_task(server.stop(signal.SIGTERM))
        await server.told("Shutting down")
        held.release()
        answer = await post
        assert await stopping == -signal.SIGTERM
    assert (answer.status_code, answer.json()) == (201, {"partition": 0, "offset": 0})
    (record,) = embedded_kafka.records("orders")
    assert json.loads(record.value or b"") == ORDER
    assert "Application shutdown complete." in server.output
    assert "Traceback" not in server.output


@pytest.mark.parametrize("name", APPS)
async def test_an_order_that_can_never_be_sent(embedded_kafka: EmbeddedKafka, name: str) -> None:
    """To try again would not help: it is the client's error, and the answer shows nothing of the broker."""
    embedded_kafka.create_topic("orders", max_message_bytes=200)
    async with (
        serving(embedded_kafka, *uvicorn(name)) as (server, address),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        await ready(client)
        answer = await client.post("/orders", json=ORDER | {"items": ["x" * 500]})
        assert (answer.status_code, answer.json()) == (
            422,
            {"detail": "the order cannot be sent", "outcome": "not written"},
        )
        assert await server.stop(signal.SIGTERM) == -signal.SIGTERM
    assert "MESSAGE_TOO_LARGE" in server.output


@pytest.mark.parametrize("name", APPS)
async def test_kafka_is_down(embedded_kafka: EmbeddedKafka, name: str) -> None:
    """Without Kafka the application starts, refuses orders with 503, is live and not ready; other paths are its own."""
    await embedded_kafka.faults.stop_broker(1)
    async with (
        serving(embedded_kafka, *uvicorn(name)) as (server, address),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        answer = await client.post("/orders", json=ORDER)
        assert (answer.status_code, answer.json()) == (
            503,
            {"detail": "the order was not taken: try again", "outcome": "not written"},
        )
        paths = ("/probes/live", "/probes/ready", "/probes/health", "/probes/other", "/live")
        codes = [(await client.get(path)).status_code for path in paths]
        assert codes == [200, 503, 200, 404, 404]
        head, post = await client.head("/probes/live"), await client.post("/probes/live")
        assert (head.status_code, head.content, post.status_code) == (200, b"", 405)
        assert await server.stop(signal.SIGTERM) == -signal.SIGTERM
