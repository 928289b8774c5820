"""Scrapes from a second thread while producers send, close and are collected."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator

import attrs
import pytest
from prometheus_client import CollectorRegistry

from aioproducer import Producer
from aioproducer.prometheus import ProducerCollector
from aioproducer.testing import EmbeddedKafka
from tests.api.prometheus.page import Key, collected, scraped, went_back
from tests.api.support import LIMIT

# Each takes two threads in turns of 0.1 ms, which a busy machine stretches to several ms.
SCRAPES = 500
PRODUCERS = 30
ACKED = "aioproducer_records_acked_total"


@attrs.define
class Scraper:
    """A thread that scrapes without pause."""

    registry: CollectorRegistry
    collector: ProducerCollector
    scrapes: int = 0
    faults: list[str] = attrs.Factory(list)
    stop: threading.Event = attrs.Factory(threading.Event)

    def run(self) -> None:
        """Every 50th scrape makes a whole page in both formats."""
        before: dict[Key, float] = {}
        try:
            while not self.stop.is_set():
                page = collected(self.collector) if self.scrapes % 50 else scraped(self.registry)
                self.faults += map(str, went_back(before, page))
                before = page.counters()
                self.scrapes += 1
        except BaseException as error:  # noqa: BLE001  # reported to the test
            self.faults.append(repr(error))


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads switch very often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def scrapers() -> Iterator[list[Scraper]]:
    """Two threads with one collector; they end with the test."""
    registry = CollectorRegistry()
    collector = ProducerCollector(registry=registry)
    both = [Scraper(registry, collector) for _ in range(2)]
    threads = [threading.Thread(target=each.run) for each in both]
    for thread in threads:
        thread.start()
    yield both
    for each in both:
        each.stop.set()
    for thread in threads:
        thread.join(LIMIT)


async def live(kafka: EmbeddedKafka, collector: ProducerCollector, number: int) -> int:
    """One producer sends 40 records and is closed; nothing refers to it afterwards."""
    async with Producer(kafka.bootstrap_servers, client_id="ab"[number % 2], linger_ms=0) as producer:
        collector.add(producer)
        topic = f"t{number % 5}"
        for _ in range(4):
            deliveries = [await producer.send(topic, b"v") for _ in range(10)]
            await asyncio.gather(*deliveries)
    return 40


@pytest.mark.usefixtures("short_turns")
@pytest.mark.timeout(240)
async def test_scrapes_from_other_threads(scrapers: list[Scraper]) -> None:
    """Hundreds of scrapes: each page is valid, no counter goes back, and each record is counted once."""
    collector, sent, number = scrapers[0].collector, 0, 0
    async with EmbeddedKafka(2) as kafka:
        while not any(each.faults for each in scrapers) and (
            number < PRODUCERS or sum(each.scrapes for each in scrapers) < SCRAPES
        ):
            sent += await live(kafka, collector, number)
            number += 1
            if number % 4 == 0:
                # In this thread; others are collected in any of the three.
                gc.collect()
        async with Producer(kafka.bootstrap_servers, client_id="a") as producer:
            collector.add(producer)
            await producer.send_and_wait("t0", b"v")
        del producer
        gc.collect()
    assert [each.faults for each in scrapers] == [[], []]
    assert sum(each.scrapes for each in scrapers) >= SCRAPES
    assert sum(collected(collector).values(ACKED)) == sent + 1
