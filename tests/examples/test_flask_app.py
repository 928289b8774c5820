"""The synchronous web application: many threads share one producer, which ends with them."""

from __future__ import annotations

import contextlib
import signal
from concurrent.futures import Future

import httpx
import pytest

from aioproducer import (
    AuthorizationError,
    BufferFullError,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    RecordMetadata,
    RecordTooLargeError,
)
from aioproducer.testing import EmbeddedKafka
from examples import flask_app
from tests.examples.crowd import post_all
from tests.examples.programs import example, serving

FLASK = ("-m", "flask", "--app", example("flask_app.py"), "run", "--port", "0")


async def test_many_threads_send(embedded_kafka: EmbeddedKafka) -> None:
    """Each request, in a thread of its own, is answered 201 and its order is in the log once; Ctrl-C ends it all."""
    async with serving(embedded_kafka, *FLASK) as (server, address):
        bodies = [b"order %d" % number for number in range(300)]
        answers = await post_all(f"{address}/orders", bodies)
        assert await server.stop(signal.SIGINT) == 0
    assert {answer.status for answer in answers} == {201}
    written = {record.offset: record.value for record in embedded_kafka.records("orders")}
    assert written == {answer.body["offset"]: body for answer, body in zip(answers, bodies, strict=True)}
    assert len(written) == len(bodies)
    assert "Traceback" not in server.output
    assert "never closed" not in server.output


async def test_kafka_is_down(embedded_kafka: EmbeddedKafka) -> None:
    """While Kafka is down a request is answered 503 within its limits; the application can still be ended."""
    await embedded_kafka.faults.stop_broker(1)
    async with serving(embedded_kafka, *FLASK) as (server, address):
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            answer = await client.post("/orders", content=b"order")
        assert (answer.status_code, answer.json()) == (503, {"error": "the order was not taken"})
        assert await server.stop(signal.SIGINT) == 0
    assert "timed out waiting for metadata" in server.output


class FailingProducer:
    """Sends nothing: every record fails in the same way."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error

    def send_threadsafe(self, topic: str, value: bytes, **limits: float) -> Future[RecordMetadata]:
        """The future of Producer.send_threadsafe() for a record that failed."""
        sent: Future[RecordMetadata] = Future()
        sent.set_exception(self.error)
        return sent


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BufferFullError(), 503),
        (DeliveryTimeoutError(outcome=Outcome.NOT_WRITTEN), 503),
        (DeliveryTimeoutError(outcome=Outcome.UNKNOWN), 504),
        (RecordTooLargeError(), 413),
        (AuthorizationError(), 500),
    ],
)
def test_failures(monkeypatch: pytest.MonkeyPatch, error: KafkaError, status: int) -> None:
    """Each kind of failure has a status; the answer asks a client to try again only if its order was not taken."""
    producer = contextlib.nullcontext(FailingProducer(error))
    monkeypatch.setattr(flask_app, "producer_in_background", lambda servers: producer)
    answer = flask_app.create_app().test_client().post("/orders", data=b"order")
    assert answer.status_code == status
