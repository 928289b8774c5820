"""The application that answers in time while Kafka is down."""

from __future__ import annotations

import asyncio
import signal

import httpx

from aioproducer.testing import EmbeddedKafka
from examples.slow_kafka import app
from tests.examples.programs import example, serving

UVICORN = ("-m", "uvicorn", "--app-dir", example("slow_kafka.py").parent, "slow_kafka:app", "--port", "0")
BOUND = 30.0
"""Seconds within which a request is answered: the application waits 0.2 and the machine may be busy; `send()` would wait 60."""


def client_of(address: str) -> httpx.AsyncClient:
    """A client that waits no longer than an answer may take."""
    return httpx.AsyncClient(base_url=address, timeout=BOUND)


async def test_accepted_while_kafka_is_down_and_written_when_it_is_back(
    embedded_kafka: EmbeddedKafka,
) -> None:
    """202 in bounded time while Kafka is down; when it is back these events are written too, and later ones are 201."""
    await embedded_kafka.faults.stop_broker(1)
    async with serving(embedded_kafka, *UVICORN) as (_, address), client_of(address) as client:
        for number in range(3):
            answer = await client.post("/events", content=b"event %d" % number)
            assert (answer.status_code, answer.json()) == (202, {"event": "accepted, not confirmed yet"})
        await embedded_kafka.faults.start_broker(1)
        last = 3
        while (answer := await client.post("/events", content=b"event %d" % last)).status_code == 202:
            last += 1
        assert (answer.status_code, answer.json()) == (201, {"event": "written"})
    events = [record.value for record in embedded_kafka.records("events")]
    assert events == [b"event %d" % number for number in range(last + 1)]


async def test_too_large_events_are_refused() -> None:
    """An event that could never be sent is answered 413, before anything is sent."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        assert (await client.post("/events", content=bytes(1_000_001))).status_code == 413


async def test_accepted_events_are_written_before_the_application_ends(embedded_kafka: EmbeddedKafka) -> None:
    """An event that was answered 202 is still sent when the application gets its signal to stop."""
    embedded_kafka.create_topic("events")
    held = embedded_kafka.faults.delay(before=True)
    async with serving(embedded_kafka, *UVICORN) as (server, address):
        async with client_of(address) as client:
            assert (await client.post("/events", content=b"event")).status_code == 202
        stopping = asyncio.create_task(server.stop(signal.SIGTERM))
        await held.reached()
        held.release()
        assert await stopping == -signal.SIGTERM
    assert [record.value for record in embedded_kafka.records("events")] == [b"event"]
    assert "Application shutdown complete." in server.output


async def test_a_full_buffer_is_told(embedded_kafka: EmbeddedKafka) -> None:
    """Events are kept up to the limit of the memory; those beyond it are refused with 503."""
    await embedded_kafka.faults.stop_broker(1)
    async with (
        serving(embedded_kafka, *UVICORN) as (_, address),
        client_of(address) as client,
    ):
        posts = [client.post("/events", content=bytes(1_000_000)) for _ in range(70)]
        answers = await asyncio.gather(*posts)
    codes = [answer.status_code for answer in answers]
    assert 60 <= codes.count(202) <= 67
    assert codes.count(202) + codes.count(503) == 70
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 503)
