"""Several producers: sums, and producers that come and go."""

from __future__ import annotations

import gc
import logging
import random
import threading
import weakref
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from aioproducer import Health, Stats
from aioproducer._metrics.readings import Counts
from aioproducer._metrics.topic_names import TopicNames
from aioproducer.prometheus import ProducerCollector
from aioproducer.stats import SECONDS_BOUNDS
from aioproducer.testing import MockProducer
from tests.api.prometheus.page import Key, Page, collected, scraped, went_back
from tests.api.prometheus.told import FULL, WELL, Told, acked, connection, histogram
from tests.api.support import LIMIT
from tests.effort import SCENARIO, seeds

ACKED = "aioproducer_records_acked_total"
ACCEPTED = "aioproducer_records_accepted_total"


class Scraped:
    """A collector in a registry of its own, and the producers that are to live as long."""

    def __init__(self, *producers: Any, **options: Any) -> None:
        self.producers = producers
        self.registry = CollectorRegistry()
        self.collector = ProducerCollector(*producers, registry=self.registry, **options)

    def page(self) -> Page:
        """Scrape."""
        return scraped(self.registry)


def closed(stats: Stats, **settings: Any) -> Told:
    """A producer that was closed."""
    return Told(stats, Health("closed", seconds_since_last_ack=9_999.0), **settings)


def test_producers_of_equal_client_id_are_summed() -> None:
    """Every counter and histogram, and the gauges that are amounts."""
    one, both = Scraped(Told(FULL, WELL)).page(), Scraped(Told(FULL, WELL), Told(FULL, WELL)).page()
    assert both.counters() == {key: 2 * value for key, value in one.counters().items()}
    amounts = (
        "buffered_records buffered_bytes buffer_memory_bytes in_flight_records in_flight_bytes waiting_calls "
        "requests_in_flight"
    )
    for name in amounts.split():
        assert both.values(f"aioproducer_{name}") == [2 * each for each in one.values(f"aioproducer_{name}")]


def test_other_client_ids_are_apart() -> None:
    """Each has its own samples."""
    producers = [Told(Stats(records_accepted=count), client_id=f"c{count}") for count in (1, 2)]
    page = Scraped(*producers).page()
    assert [page.value(ACCEPTED, client_id=name) for name in ("c1", "c2")] == [1, 2]


def test_ages_are_the_oldest() -> None:
    """One that is None has no part in it."""
    producers = [
        Told(Stats(oldest_unacked_seconds=first), Health("running", seconds_since_last_ack=second))
        for first, second in ((1.0, None), (5.0, 2.0), (None, 8.0))
    ]
    page = Scraped(*producers).page()
    assert page.value("aioproducer_oldest_unacked_seconds") == 5
    assert page.value("aioproducer_seconds_since_last_ack") == 8
    assert page.values("aioproducer_metadata_age_seconds") == []


def test_ready_and_live_are_the_least() -> None:
    """One that is not ready makes the client not ready."""
    page = Scraped(
        Told(health=Health("running", ready=True)), Told(health=Health("failed", live=False))
    ).page()
    assert page.value("aioproducer_ready") == 0
    assert page.value("aioproducer_live") == 0


def test_a_broker_is_up_if_one_producer_is_connected() -> None:
    """The value is 0 or 1; a producer that is idle may have no connection."""
    producers = [
        Told(Stats(connections=(connection("1", state),))) for state in ("connected", "idle", "throttled")
    ]
    assert Scraped(*producers).page().value("aioproducer_connection_up", broker="1") == 1


def test_a_closed_producer_does_not_speak_for_its_successor() -> None:
    """Its counters stay in the sums; `ready` and the ages are those of the one in use."""
    former = closed(Stats(topics=acked(orders=3), metadata_age_seconds=9_999.0, buffer_memory=32))
    scrape = Scraped(former)
    assert scrape.page().value("aioproducer_ready") == 0
    present = Told(Stats(topics=acked(orders=4), metadata_age_seconds=1.0, buffer_memory=32), WELL)
    scrape.collector.add(present)
    page = scrape.page()
    assert page.value(ACKED, topic="orders") == 7
    assert page.value("aioproducer_ready") == 1
    assert page.value("aioproducer_metadata_age_seconds") == 1
    assert page.value("aioproducer_seconds_since_last_ack") == 45.5
    assert page.value("aioproducer_buffer_memory_bytes") == 32


def test_settings_that_differ_have_an_info_each() -> None:
    """Equal ones have one for all."""
    page = Scraped(Told(), Told(), Told(compression_type="zstd")).page()
    assert page.values("aioproducer_info") == [1, 1]


def test_a_number_that_a_producer_drops_stays() -> None:
    """A broker that has left the cluster has no connection in the statistics any more."""
    producer = Told(Stats(connections=(connection("1", requests=5), connection("2", requests=7))))
    scrape = Scraped(producer)
    assert scrape.page().value("aioproducer_requests_total", broker="2") == 7
    producer.told_stats = Stats(connections=(connection("1", requests=6),))
    page = scrape.page()
    assert [page.value("aioproducer_requests_total", broker=broker) for broker in "12"] == [6, 7]
    assert page.values("aioproducer_connection_up", broker="2") == []


def test_added_twice_is_counted_once() -> None:
    """Also by the constructor and `add()`."""
    producer = Told(Stats(records_accepted=3))
    scrape = Scraped(producer, producer)
    scrape.collector.add(producer)
    assert scrape.page().value(ACCEPTED) == 3


def test_a_removed_producer_leaves_its_counters() -> None:
    """Those of that moment, as long as another producer of its client id is shown; its gauges end."""
    one, two = Told(Stats(records_accepted=3, records_buffered=5)), Told(Stats(records_accepted=4))
    scrape = Scraped(one, two)
    one.told_stats = Stats(records_accepted=30, records_buffered=5)
    scrape.collector.remove(one)
    one.told_stats = Stats(records_accepted=300)
    page = scrape.page()
    assert page.value(ACCEPTED) == 34
    assert page.value("aioproducer_buffered_records") == 0


async def test_a_removed_producer_is_collected() -> None:
    """Its records since the removal are not counted."""
    scrape = Scraped(Told(Stats(records_accepted=4)))
    async with MockProducer(client_id="shop") as producer:
        scrape.collector.add(producer)
        await producer.send_and_wait("orders", b"v")
        scrape.collector.remove(producer)
        await producer.send_and_wait("orders", b"v")
    del producer
    gc.collect()
    assert scrape.page().value(ACCEPTED) == 5


def test_a_client_without_producers_is_not_shown() -> None:
    """Its counters continue when one is added again."""
    one, two = Told(Stats(records_accepted=3)), Told(Stats(records_accepted=4))
    scrape = Scraped(one, two)
    scrape.collector.remove(one)
    scrape.collector.remove(two)
    assert scrape.page().samples == {}
    three = Told(Stats(records_accepted=5))
    scrape.collector.add(three)
    assert scrape.page().value(ACCEPTED) == 12


def test_a_producer_that_is_added_again_is_counted_once() -> None:
    """Its counters are not added to those that it left."""
    producer = Told(Stats(records_accepted=3))
    scrape = Scraped(producer)
    scrape.collector.remove(producer)
    producer.told_stats = Stats(records_accepted=8)
    scrape.collector.add(producer)
    assert scrape.page().value(ACCEPTED) == 8


def test_removing_what_was_not_added_changes_nothing() -> None:
    """Nor does a second removal."""
    known, other = Told(Stats(records_accepted=3)), Told()
    scrape = Scraped(known)
    scrape.collector.remove(other)
    scrape.collector.remove(Told(client_id="elsewhere"))
    assert scrape.page().value(ACCEPTED) == 3
    assert other.asked == 0


def test_producers_are_held_weakly() -> None:
    """The collector does not keep one alive; its counters stay, its gauges end."""
    producer = Told(Stats(records_accepted=3), WELL)
    scrape = Scraped()
    scrape.collector.add(producer)
    assert scrape.page().value("aioproducer_ready") == 1
    reference = weakref.ref(producer)
    del producer
    assert reference() is None
    page = scrape.page()
    assert page.value(ACCEPTED) == 3
    assert page.values("aioproducer_ready") == page.values("aioproducer_info") == []
    assert scrape.collector._producers._clients["shop"].members == []


def test_a_collector_can_be_collected() -> None:
    """A producer does not keep its collector alive."""
    producer = Told()
    collector = ProducerCollector(producer)
    reference = weakref.ref(collector)
    del collector
    assert reference() is None
    assert producer.asked == 0


async def test_the_last_records_of_a_collected_producer_are_counted() -> None:
    """Also when no scrape fell into its life."""
    scrape = Scraped()
    for _ in range(3):
        async with MockProducer(client_id="nightly") as producer:
            scrape.collector.add(producer)
            await producer.send_and_wait("orders", b"v")
        del producer
        gc.collect()
    page = scrape.page()
    assert page.value(ACKED, client_id="nightly", topic="orders") == 3
    assert page.values("aioproducer_ready") == []
    assert scrape.collector._producers._clients["nightly"].members == []


async def test_a_scrape_before_the_finalizer_loses_nothing() -> None:
    """A garbage collection clears weak references first; another finalizer, or thread, may scrape then."""

    class Scraping:
        itself: Scraping
        producer: MockProducer[Any, Any]

        def __del__(self) -> None:
            pages.append(collected(scrape.collector))

    scrape, pages = Scraped(), list[Page]()
    # The older of two objects is finalized first.
    garbage = Scraping()
    async with MockProducer(client_id="shop") as producer:
        scrape.collector.add(producer)
        await producer.send_and_wait("orders", b"v")
    garbage.itself, garbage.producer = garbage, producer
    del garbage, producer
    gc.collect()
    assert len(pages) == 1
    assert scrape.page().value(ACCEPTED) == 1


async def test_one_of_two_equal_ones_is_collected() -> None:
    """No counter of the page goes back."""
    one, two = (MockProducer(client_id="shop", topics=["orders"]) for _ in range(2))
    scrape = Scraped()
    for producer in (one, two):
        scrape.collector.add(producer)
    await two.start()
    async with one:
        for producer, count in ((one, 5), (two, 2)):
            for _ in range(count):
                await producer.send_and_wait("orders", b"v")
        before = scrape.page()
        await one.send_and_wait("orders", b"the last one")
    del one, producer
    gc.collect()
    after = scrape.page()
    assert went_back(before.counters(), after) == []
    assert after.value(ACKED, topic="orders") == 8
    assert after.value("aioproducer_ready") == 1
    await two.close()


@pytest.mark.parametrize("seed", seeds(SCENARIO))
async def test_no_counter_goes_back_while_producers_come_and_go(seed: int) -> None:
    """Producers of two client ids start, send, close, are removed, added again and dropped; each record is counted once."""
    rng = random.Random(seed)
    scrape, known = Scraped(max_topics=2), dict[Key, float]()
    alive: list[MockProducer[Any, Any]] = []
    sent = {"a": 0, "b": 0}
    for _ in range(60):
        step = rng.randrange(7)
        if step == 0 or not alive:
            producer = MockProducer(client_id=rng.choice("ab"))
            await producer.start()
            scrape.collector.add(producer)
            alive.append(producer)
            continue
        producer = rng.choice(alive)
        if step in (1, 2) and producer.health().state == "running":
            await producer.send_and_wait(rng.choice(("x", "y", "z")), b"v")
            sent[producer.config.client_id] += 1
        elif step == 3:
            scrape.collector.remove(producer)
        elif step == 4:
            scrape.collector.add(producer)
        elif step == 5:
            await producer.close()
            if rng.random() < 0.5:
                # Records of a removed producer are not counted.
                scrape.collector.add(producer)
                alive.remove(producer)
        page = collected(scrape.collector)
        del producer
        # A client id whose producers are all removed is not shown, and continues later.
        assert went_back({key: known[key] for key in known.keys() & page.samples.keys()}, page) == []
        known |= page.counters()
    for producer in alive:
        scrape.collector.add(producer)
        await producer.close()
    del producer
    alive.clear()
    gc.collect()
    page = scrape.page()
    for client_id, count in sent.items():
        assert sum(page.values(ACKED, client_id=client_id)) == count


async def test_each_record_is_counted_once_without_removals() -> None:
    """The sums are exact when producers are only closed and dropped."""
    scrape, sent = Scraped(), 0
    for number in range(20):
        producer = MockProducer(client_id="shop")
        await producer.start()
        scrape.collector.add(producer)
        for _ in range(number % 4):
            await producer.send_and_wait("orders", b"v")
            sent += 1
        if number % 3 == 0:
            collected(scrape.collector)
        await producer.close()
    del producer
    gc.collect()
    assert scrape.page().value(ACKED) == sent
    assert len(scrape.collector._producers._clients["shop"].members) == 0


def test_client_ids_of_former_producers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that gives each producer another name does not fill its memory."""
    monkeypatch.setattr("aioproducer._metrics.producers.MOST_FORMER_CLIENTS", 3)
    scrape = Scraped(Told(Stats(records_accepted=1), client_id="kept"))
    for number in range(7):
        scrape.collector.add(producer := Told(Stats(records_accepted=1), client_id=f"client {number}"))
        scrape.page()
    del producer
    page = scrape.page()
    names = {dict(labels)["client_id"] for _, labels in page.samples}
    assert names == {"kept", *(f"client {number}" for number in range(4, 7))}


def test_older_statistics_change_nothing() -> None:
    """A finalizer in another thread may read before a scrape, and be heard of after it."""
    counts, topics = Counts(), TopicNames(topics=True, max_topics=1)
    older = Stats(records_accepted=3, queue_time=histogram(SECONDS_BOUNDS, 1, 0, 0.5))
    newer = Stats(records_accepted=4, queue_time=histogram(SECONDS_BOUNDS, 2, 0, 0.7))
    for stats in (newer, older):
        counts.update(stats, topics)
    assert counts.counters["records_accepted", ()] == 4
    assert counts.histograms["queue_time_seconds", ()] == newer.queue_time


def test_finalizers_may_call_the_collector() -> None:
    """A garbage collection within a scrape may run code of the program, which adds and removes producers."""

    class Restless(Told):
        def stats(self) -> Stats:
            scrape.collector.remove(other)
            scrape.collector.add(other)
            return super().stats()

    other = Told(Stats(records_accepted=4), client_id="other")
    scrape = Scraped(Restless(Stats(records_accepted=3)), other)
    scraping = threading.Thread(target=scrape.page, daemon=True)
    scraping.start()
    scraping.join(LIMIT)
    assert not scraping.is_alive()
    assert sum(scrape.page().values(ACCEPTED)) == 7


def test_a_producer_that_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line in ten seconds; its counters stay, and the other producers are shown."""

    class Broken(Told):
        def stats(self) -> Stats:
            if self.asked:
                raise OSError("no statistics")
            return super().stats()

    scrape = Scraped(broken := Broken(Stats(records_accepted=4)), Told(FULL, WELL, client_id="other"))
    with caplog.at_level(logging.ERROR, "aioproducer"):
        for _ in range(5):
            page = scrape.page()
    assert page.value(ACCEPTED, client_id="shop") == 4
    assert page.values("aioproducer_ready", client_id="shop") == []
    assert page.value("aioproducer_ready", client_id="other") == 1
    assert [record.getMessage() for record in caplog.records] == [
        "shop: the metrics of a producer cannot be read"
    ]
    assert broken.asked == 1
