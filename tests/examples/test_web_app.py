"""The web application: under a real server, many at once, and in the face of each failure."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from aioproducer import (
    AuthorizationError,
    BufferFullError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    RecordError,
    RecordTooLargeError,
    StateError,
)
from aioproducer.testing import EmbeddedKafka, MockProducer
from examples.web_app import app, producer_of
from tests.examples.crowd import post_all
from tests.examples.programs import example, ready, serving

ORDER = {"customer": "alice", "items": ["2 apples"]}
ORDERS = [{"customer": f"customer-{n % 50}", "items": [f"{n} apples"]} for n in range(1000)]
UVICORN = ("-m", "uvicorn", "--app-dir", example("web_app.py").parent, "web_app:app", "--port", "0")


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for a socket at each end of every request; programs started here inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = max(soft, 4096 if hard == resource.RLIM_INFINITY else min(4096, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.usefixtures("many_files")
async def test_a_thousand_requests_at_once(embedded_kafka: EmbeddedKafka, loop: str) -> None:
    """1,000 concurrent requests are answered 201 with the place of their order, where it is exactly once."""
    embedded_kafka.create_topic("orders", 4)
    held = embedded_kafka.faults.delay(before=True)
    async with serving(embedded_kafka, *UVICORN, "--loop", loop) as (server, address):
        async with httpx.AsyncClient(base_url=address) as client:
            await ready(client)
        posts = asyncio.create_task(
            post_all(f"{address}/orders", [json.dumps(each).encode() for each in ORDERS])
        )
        await held.reached()
        held.release()
        answers = await posts
        assert await server.stop(signal.SIGTERM) == -signal.SIGTERM
    assert {answer.status for answer in answers} == {201}
    told = {(a.body["partition"], a.body["offset"]): order for a, order in zip(answers, ORDERS, strict=True)}
    records = embedded_kafka.records("orders")
    assert {(record.partition, record.offset): json.loads(record.value or b"") for record in records} == told
    assert len(records) == len(ORDERS)
    produced = [request for request in embedded_kafka.requests if request.api == "Produce"]
    assert len(produced) < len(ORDERS) / 2, "requests that come together share requests to Kafka"
    assert "Application shutdown complete." in server.output
    assert "Traceback" not in server.output


async def test_kafka_is_down(embedded_kafka: EmbeddedKafka) -> None:
    """Orders are answered 503 with a time to come back, and no restart is asked for; when Kafka is back, all is well."""
    await embedded_kafka.faults.stop_broker(1)
    async with (
        serving(embedded_kafka, *UVICORN) as (_, address),
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        down, probe = await client.post("/orders", json=ORDER), await client.get("/probes/ready")
        assert (down.status_code, down.headers["retry-after"], probe.status_code) == (503, "2", 503)
        assert down.json()["outcome"] == "not written"
        assert (await client.get("/probes/live")).status_code == 200
        (facts,) = (await client.get("/probes/health")).json()["producers"]
        assert "Connection refused" in facts["last_error"]
        await embedded_kafka.faults.start_broker(1)
        while (answer := await client.post("/orders", json=ORDER)).status_code == 503:
            pass  # it waits for up to a second
        assert answer.status_code == 201
        back = await client.get("/probes/ready")
        assert (back.status_code, back.json()) == (200, {"live": True, "ready": True, "problems": []})
    assert len(embedded_kafka.records("orders")) == 1


@pytest.fixture
async def mock() -> AsyncIterator[MockProducer]:
    """A producer that does what the test says."""
    async with MockProducer() as producer:
        app.dependency_overrides[producer_of] = lambda: producer
        yield producer
        app.dependency_overrides.clear()


async def placed() -> httpx.Response:
    """An order, without a server."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        return await client.post("/orders", json=ORDER)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BufferFullError(), 503),
        (MetadataTimeoutError(), 503),
        (StateError("the producer is closing"), 503),
        (RecordTooLargeError(), 413),
        (RecordError(), 422),
        (AuthorizationError(), 500),
    ],
)
async def test_refused_orders(mock: MockProducer, error: KafkaError, status: int) -> None:
    """Each refusal of an order has its status; only one that may succeed later has a Retry-After."""
    mock.fail_send(error)
    answer = await placed()
    assert (answer.status_code, "retry-after" in answer.headers) == (status, status == 503)
    assert answer.json()["outcome"] == "not written"


@pytest.mark.parametrize(("outcome", "status"), [(Outcome.NOT_WRITTEN, 503), (Outcome.UNKNOWN, 504)])
async def test_lost_orders(mock: MockProducer, outcome: Outcome, status: int) -> None:
    """An order that is certainly not written may be repeated; for one that may be, the answer warns of it."""
    mock.fail_delivery(DeliveryTimeoutError(outcome=outcome))
    answer = await placed()
    assert (answer.status_code, answer.json()["outcome"]) == (status, outcome.value)
    assert ("check before" in answer.json()["detail"]) is (outcome is Outcome.UNKNOWN)


async def test_broken_orders(mock: MockProducer) -> None:
    """An invalid order is refused before anything is sent."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        answer = await client.post("/orders", json={"customer": "alice"})
    assert (answer.status_code, mock.history) == (422, ())
