"""A producer that is started again, after a failed start or its own failure: its counters go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from aioproducer import CloseReport, FlushReport, KafkaError, MetadataTimeoutError, Producer
from aioproducer.prometheus import ProducerCollector
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.prometheus.page import Page, scraped, went_back
from tests.api.support import LIMIT, until, warm


class Scraped:
    """The page of one producer."""

    def __init__(self, producer: Producer[Any, Any]) -> None:
        self._registry = CollectorRegistry()
        self._collector = ProducerCollector(producer, registry=self._registry)

    def page(self) -> Page:
        """Scrape."""
        return scraped(self._registry)


async def crashed(producer: Producer[Any, Any]) -> None:
    """End it by a bug, and wait for the end."""
    engine = producer._engine
    assert engine is not None
    engine.crash(RuntimeError("a bug"))
    await until(lambda: producer.health().state == "failed")


async def refused(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """A start that no broker answers."""
    await kafka.faults.refuse_connections(1)
    with pytest.raises(MetadataTimeoutError):
        await producer.start(wait_ready=0.02)
    await kafka.faults.accept_connections(1)


async def test_the_counters_of_a_failed_start_go_on(kafka: EmbeddedKafka) -> None:
    """The failed attempts to connect stay in the statistics."""
    producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers)
    scrape = Scraped(producer)
    await refused(producer, kafka)
    before = scrape.page()
    assert before.value("aioproducer_connect_failures_total", broker="metadata") >= 1
    await warm(producer)
    assert went_back(before.counters(), scrape.page()) == []
    assert producer.stats().connections[-1].failures >= 1
    await producer.close()


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}])
async def test_the_counters_of_a_failed_producer_go_on(kafka: EmbeddedKafka, settings: Any) -> None:
    """Each of them counts from its former value, on the page as in the statistics; the gauges are of the present life."""
    producer = await warm(Producer(kafka.bootstrap_servers, linger_ms=0, **settings))
    scrape = Scraped(producer)
    for _ in range(3):
        await producer.send_and_wait("one", b"v")
    kafka.faults.error("INVALID_RECORD", times=1)
    with pytest.raises(KafkaError):
        await producer.send_and_wait("four", b"v")
    hold = kafka.faults.delay(before=True, times=None)
    left = await producer.send("one", b"v")
    await hold.reached()
    await crashed(producer)
    hold.heal()
    with pytest.raises(KafkaError):
        await left
    before, stats = scrape.page(), producer.stats()
    await refused(producer, kafka)
    await warm(producer)
    assert went_back(before.counters(), scrape.page()) == []
    assert producer.stats().records_buffered == producer.stats().records_in_flight == 0
    assert (producer.health().last_error, producer.health().seconds_since_last_ack) == (None, None)
    await producer.send_and_wait("one", b"v")
    page, now = scrape.page(), producer.stats()
    assert page.value("aioproducer_records_acked_total", topic="one") == 4
    assert page.value("aioproducer_records_accepted_total") == now.records_accepted == 6
    assert (now.records_acked, now.records_failed) == (stats.records_acked + 1, stats.records_failed)
    assert now.batches == stats.batches + 1
    assert now.queue_time.count == stats.queue_time.count + 1
    (former,) = (each for each in stats.connections if each.broker == "1")
    (present,) = (each for each in now.connections if each.broker == "1")
    assert present.requests > former.requests
    assert present.connects == former.connects + 1
    await producer.close()
    assert went_back(page.counters(), scrape.page()) == []


async def test_reports_count_the_present_life(kafka: EmbeddedKafka) -> None:
    """The reports of flush() and close() have no records of the former life; a scope that spans both has all."""
    producer = await warm(Producer(kafka.bootstrap_servers))
    scope = producer.scope()
    async with scope:
        await producer.send_and_wait("one", b"v")
        await crashed(producer)
        await warm(producer)
        await producer.send_and_wait("one", b"v")
        assert await scope.flush() == FlushReport(acked=2)
    await producer.send_and_wait("one", b"v")
    assert (await producer.flush()).acked == 2
    assert await producer.close() == CloseReport()
    assert producer.stats().records_acked == 3


async def test_the_counters_of_a_mock_go_on() -> None:
    """As those of the producer that it stands for."""
    producer: MockProducer[Any, Any] = MockProducer()
    await producer.start()
    await producer.send_and_wait("orders", b"v")
    await crashed(producer)
    await producer.start()
    await producer.send_and_wait("orders", b"v")
    assert (producer.stats().records_accepted, producer.stats().records_acked) == (2, 2)
    assert producer.stats().topics["orders"].records_acked == 2
    await producer.close()


async def test_transactions_of_both_lives_are_counted(kafka: EmbeddedKafka) -> None:
    """Also those of unknown outcome, whose numbers begin anew."""
    producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers, transactional_id="orders")
    for life in (1, 2):
        await asyncio.wait_for(producer.start(), LIMIT)
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("one", b"v")
        counts = producer._engine.counters.transactions  # type: ignore[union-attr]
        counts.in_doubt(1)
        assert (producer.stats().transactions.committed, producer.stats().transactions.unknown) == (
            life,
            life,
        )
        assert producer.stats().transactions.commit_time.count == life
        if life == 1:
            await crashed(producer)
    await producer.close()
