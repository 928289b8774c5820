"""A real producer on the embedded Kafka, with faults: what happened is on the page."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from aioproducer import CommitOutcomeUnknownError, Outcome
from aioproducer.prometheus import ProducerCollector
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.prometheus.page import Page, scraped
from tests.api.support import LIMIT, until, warm

CANARY = "canary"


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry of the test's own."""
    return CollectorRegistry()


def value(page: Page, name: str, **labels: str) -> float:
    """One sample."""
    return page.value(f"aioproducer_{name}", **labels)


async def test_written_records(make: Make, kafka: EmbeddedKafka, registry: CollectorRegistry) -> None:
    """Records, batches and requests by topic and broker; the gauges of a producer at rest."""
    producer = make(client_id="shop", linger_ms=1_000)
    collector = ProducerCollector(producer, registry=registry)
    await warm(producer)
    for number in range(6):
        await producer.send("four", b"%d" % number, partition=number % 2)
    await producer.send("one", b"v")
    page = scraped(registry)
    assert value(page, "buffered_records") == 7
    assert value(page, "oldest_unacked_seconds") >= 0
    await producer.flush()
    page = scraped(registry)
    assert value(page, "records_accepted_total", client_id="shop") == 7
    assert [value(page, "records_acked_total", topic=topic) for topic in ("four", "one")] == [6, 1]
    assert value(page, "batches_total", topic="four") == 2
    assert value(page, "batch_records_sum") == 7
    assert value(page, "batch_records_count") == value(page, "delivery_time_seconds_count") == 3
    assert value(page, "requests_total", broker="1") == value(page, "request_time_seconds_count", broker="1")
    assert value(page, "sent_bytes_total", broker="1") > 0
    assert value(page, "connection_up", broker="1", address=f"127.0.0.1:{kafka.brokers[0].port}") == 1
    assert value(page, "ready") == value(page, "live") == 1
    assert value(page, "buffered_records") == value(page, "in_flight_bytes") == 0
    assert page.values("aioproducer_oldest_unacked_seconds") == []
    assert value(page, "buffer_memory_bytes") == producer.config.buffer_memory
    collector.remove(producer)


async def test_retried_failed_and_throttled(
    make: Make, kafka: EmbeddedKafka, registry: CollectorRegistry
) -> None:
    """Three repetitions, a request without an answer, a failure of each outcome, a pause that the broker asks for."""
    producer = make(linger_ms=0)
    ProducerCollector(producer, registry=registry)
    await warm(producer)
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=2, topic="one")
    await producer.send_and_wait("one", b"v")
    kafka.faults.cut(times=1, topic="one")
    await producer.send_and_wait("one", b"v")
    kafka.faults.error("INVALID_RECORD", times=1, topic="one")
    assert await (await producer.send("one", b"v")).wait(LIMIT) is Outcome.NOT_WRITTEN
    kafka.faults.throttle(1, mute=False, times=1)
    await producer.send_and_wait("one", b"v")
    silence = kafka.faults.silence(topic="four", times=None)
    lost = await producer.send("four", b"v", partition=0, timeout=2)
    await silence.reached()
    assert await lost.wait(LIMIT) is Outcome.UNKNOWN
    page = scraped(registry)
    assert value(page, "records_retried_total", topic="one") == 3
    assert (
        value(page, "records_failed_total", topic="one", error="INVALID_RECORD", outcome="not_written") == 1
    )
    assert value(page, "records_failed_total", topic="four", outcome="unknown") == 1
    assert value(page, "records_acked_total", topic="one") == 3
    assert value(page, "throttle_seconds_total", broker="1") == pytest.approx(0.001)
    assert value(page, "request_errors_total", broker="1") >= 1
    assert value(page, "connects_total", broker="1") >= 2


async def test_split_batches(make: Make, kafka: EmbeddedKafka, registry: CollectorRegistry) -> None:
    """A batch that the broker finds too large."""
    kafka.create_topic("small", max_message_bytes=400)
    producer = make(linger_ms=1_000)
    ProducerCollector(producer, registry=registry)
    await warm(producer)
    deliveries = [await producer.send("small", bytes(100)) for _ in range(8)]
    await producer.flush()
    assert {delivery.outcome for delivery in deliveries} == {Outcome.ACKED}
    page = scraped(registry)
    assert value(page, "batches_split_total") >= 1
    assert value(page, "records_acked_total", topic="small") == 8


async def test_an_unreachable_broker(make: Make, kafka: EmbeddedKafka, registry: CollectorRegistry) -> None:
    """It is not up, and the producer is not ready."""
    producer = make(reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
    ProducerCollector(producer, registry=registry)
    await warm(producer)
    await producer.send_and_wait("one", b"v")
    await kafka.faults.stop_broker(1)
    await producer.send("one", b"v")
    await until(lambda: any(each.failures for each in producer.stats().connections))
    page = scraped(registry)
    assert sum(page.values("aioproducer_connect_failures_total")) >= 1
    assert value(page, "connection_up", broker="1") == 0
    assert value(page, "live") == 1


async def test_transactions(make: Make, kafka: EmbeddedKafka, registry: CollectorRegistry) -> None:
    """Committed, aborted, and of unknown outcome."""
    producer = make(transactional_id="books")
    ProducerCollector(producer, registry=registry)
    await producer.start()
    for _ in range(2):
        async with producer.transaction():
            await producer.send("one", b"v")
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            raise ZeroDivisionError
    fault = kafka.faults.silence(api="EndTxn", times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        async with producer.transaction(timeout=1):
            await producer.send("one", b"v")
    fault.heal()
    page = scraped(registry)
    outcomes = ("committed", "aborted", "unknown")
    assert [value(page, "transactions_total", outcome=outcome) for outcome in outcomes] == [2, 1, 1]
    assert value(page, "transaction_commit_seconds_count") == 2
    assert value(page, "info", transactional="true") == 1


async def test_no_content_and_no_credential_is_on_the_page(
    make: Make, kafka: EmbeddedKafka, registry: CollectorRegistry
) -> None:
    """Keys, values, headers, passwords, transactional ids and texts of errors are not shown."""
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": f"user-{CANARY}",
        "sasl_password": f"password-{CANARY}",
        "allow_plaintext_credentials": True,
    }
    refused = make(**settings, client_id="refused")
    plain = make(transactional_id=f"id-{CANARY}", client_id="plain")
    ProducerCollector(refused, plain, registry=registry)
    await refused.start()
    await plain.start()
    lost = refused.send_nowait("one", f"value-{CANARY}".encode(), key=CANARY.encode(), timeout=0.2)
    kafka.faults.error("INVALID_RECORD", times=1, topic="one")
    with pytest.raises(Exception, match="INVALID_RECORD"):
        async with plain.transaction():
            headers = [(f"header-{CANARY}", CANARY.encode())]
            await plain.send("one", f"value-{CANARY}".encode(), key=CANARY.encode(), headers=headers)
    assert await lost.wait(LIMIT) is Outcome.NOT_WRITTEN
    page = scraped(registry)
    assert value(page, "records_failed_total", client_id="refused", topic="one") == 1
    assert value(page, "records_failed_total", client_id="plain", error="INVALID_RECORD") == 1
    assert CANARY not in page.text
    assert {label for _, labels in page.samples for _, label in labels if CANARY in label} == set()
