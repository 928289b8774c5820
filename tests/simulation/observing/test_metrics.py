"""The metrics of chaotic lives: their sums are those of the judge, and no counter goes back."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from contextlib import suppress
from typing import Any, Final
from unittest import mock

import pytest

from aioproducer import BatchReport, ConnectionReport, KafkaError, Outcome, Producer
from aioproducer.prometheus import ProducerCollector
from tests.api.prometheus.page import Key, Page, collected, went_back
from tests.effort import SHARED, seeds
from tests.judge.transactions import Fate
from tests.simulation import bookkeeping
from tests.simulation.chaos import live
from tests.simulation.world import World, simulate

ACKED: Final = "aioproducer_records_acked_total"
# The topic of the records that a listener sends.
ECHO: Final = "echo"


class Scraping:
    """Scrapes a world now and then; every producer of the world is added when it is made."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        self.collector = ProducerCollector(**options)
        self.before: dict[Key, float] = {}

    async def run(self) -> None:
        """Scrape until cancelled."""
        while True:
            self.page()
            await asyncio.sleep(0.3)

    def page(self) -> Page:
        """Scrape once: no counter went back."""
        for producer in self.world.producers:
            self.collector.add(producer)
        page = collected(self.collector)
        assert went_back(self.before, page) == []
        self.before = page.counters()
        return page


def play_scraped(seed: int, play: Any) -> tuple[World, Scraping]:
    """Play a life while it is scraped, and to its end."""
    found: list[Scraping] = []

    async def scraped(world: World) -> None:
        found.append(Scraping(world))
        scraping = asyncio.ensure_future(found[0].run())
        try:
            await play(world)
        finally:
            scraping.cancel()
            await asyncio.wait([scraping])

    return simulate(scraped, seed), found[0]


@pytest.mark.parametrize("seed", seeds(SHARED))
def test_sums_are_those_of_the_judge(seed: int) -> None:
    """Accepted, acked, not written and unknown records, as the callers were told."""
    world, scraping = play_scraped(seed, live)
    page = scraping.page()
    accepted = [entry for entry in world.ledger.entries if entry.accepted]
    outcomes = Counter(world.ledger._sent(entry).outcome for entry in accepted)
    assert page.value("aioproducer_records_accepted_total") == len(accepted)
    assert sum(page.values("aioproducer_records_acked_total")) == outcomes[Outcome.ACKED]
    for outcome in (Outcome.NOT_WRITTEN, Outcome.UNKNOWN):
        failed = page.values("aioproducer_records_failed_total", outcome=outcome.name.lower())
        assert sum(failed) == outcomes[outcome]
    assert page.value("aioproducer_buffered_records") == page.value("aioproducer_in_flight_records") == 0
    assert page.value("aioproducer_batch_size_bytes_count") == sum(page.values("aioproducer_batches_total"))


@pytest.mark.parametrize("seed", seeds(SHARED))
def test_transactions_are_those_of_the_books(seed: int) -> None:
    """Each transaction whose commit succeeded for its program is counted as committed."""
    books: list[bookkeeping.Books] = []

    async def play(world: World) -> None:
        books.append((await bookkeeping.live(world))[0])

    _, scraping = play_scraped(seed, play)
    page = scraping.page()
    fates = Counter(entry.fate for entry in books[0].entries)
    committed = page.value("aioproducer_transactions_total", outcome="committed")
    assert committed >= fates[Fate.COMMITTED]
    assert page.value("aioproducer_transaction_commit_seconds_count") <= committed


class HostileListener:
    """A listener that in turn fails, holds up the loop, and calls the producer again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.turn = 0

    def on_batch(self, report: BatchReport) -> None:
        self.turn += 1
        kind = self.turn % 5
        if kind == 0:
            raise RuntimeError("a listener that fails")
        if kind == 1:
            self.world.loop.stall(0.15)
        elif kind == 2 and report.topic != ECHO:
            with suppress(KafkaError):
                self.world.producers[-1].send_nowait(ECHO, b"a record of the listener")
        elif kind == 3:
            self.look()

    def on_connection(self, report: ConnectionReport) -> None:
        self.turn += 1
        if self.turn % 2:
            raise RuntimeError("a listener that fails")
        self.look()

    def look(self) -> None:
        for producer in self.world.producers:
            producer.stats()
            producer.health()


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_listener_changes_no_outcome(seed: int) -> None:
    """It raises, is slow, and sends within its report: the judge finds nothing, and the sums are those of the judge."""
    found: list[HostileListener] = []
    make = World.producer

    @functools.wraps(make)
    def producer(world: World, **settings: Any) -> Producer[Any, Any]:
        if not found:
            world.forgotten.add(ECHO)
            found.append(HostileListener(world))
        return make(world, listeners=[found[0]], **settings)

    with mock.patch.object(World, "producer", producer):
        world, _ = play_scraped(seed, live)
    assert found[0].turn > 10
    assert any(sent.outcome is Outcome.ACKED for sent in world.ledger.history())
    told = Counter(world.ledger._sent(entry).outcome for entry in world.ledger.entries if entry.accepted)
    page = collected(ProducerCollector(*world.producers))
    own = sum(
        value
        for (name, labels), value in page.samples.items()
        if name == ACKED and ("topic", ECHO) not in labels
    )
    assert own == told[Outcome.ACKED]
