"""The cost of a scrape, and that sending does not pay for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from aioproducer import Failure, Outcome, Stats, TopicStats
from aioproducer.prometheus import ProducerCollector
from aioproducer.stats import SECONDS_BOUNDS
from aioproducer.testing import MockProducer
from tests.api.prometheus.told import WELL, Told, connection, histogram
from tests.slowness import SLOWNESS

LIMIT_MS = 10.0
# The collector takes 2 ms of processor time and the rendering by prometheus_client 6 ms, on two processors that other
# programs use as well: then each takes up to twice as long.
MARGIN = 2.0


def large(topics: int, brokers: int) -> Stats:
    """Statistics in which each topic has failed once, and each broker has answered."""
    names = [f"a-topic-of-usual-length-{number}" for number in range(topics)]
    times = histogram(SECONDS_BOUNDS, 5, 6, 7.5)
    return Stats(
        topics={name: TopicStats(1_234_567, 123_456_789, 3, 1_234, 12_345) for name in names},
        failures=tuple(Failure(name, "REQUEST_TIMED_OUT", Outcome.UNKNOWN, 3) for name in names),
        connections=tuple(
            connection(str(number), requests=123_456, bytes_sent=123_456_789, request_time=times)
            for number in range(brokers)
        ),
    )


def least_ms(call: Callable[[], object], times: int) -> float:
    """The least processor time of a call in milliseconds."""

    def once() -> float:
        began = time.thread_time()
        call()
        return time.thread_time() - began

    return 1_000 * min(once() for _ in range(times))


def test_a_scrape_of_50_topics_and_10_brokers_takes_10_ms() -> None:
    """Processor time of a whole page; that of other programs does not count."""
    registry, producer = CollectorRegistry(), Told(large(50, 10), WELL)
    ProducerCollector(producer, registry=registry)
    assert least_ms(lambda: generate_latest(registry), 20) <= LIMIT_MS * MARGIN * SLOWNESS


def test_work_grows_with_what_is_shown() -> None:
    """A scrape asks each producer once, and topics without a name make no samples."""
    registry, producers = CollectorRegistry(), [Told(large(1_000, 3), WELL) for _ in range(4)]
    collector = ProducerCollector(*producers, registry=registry, max_topics=10)
    samples = sum(len(family.samples) for family in collector.collect())
    assert [producer.asked for producer in producers] == [1] * 4
    few = ProducerCollector(few_topics := Told(large(11, 3), WELL), max_topics=10)
    assert samples == sum(len(family.samples) for family in few.collect())
    assert few_topics.asked == 1


async def test_sending_does_not_pay() -> None:
    """No listener, and the fast path stays; nothing is called until a scrape."""
    registry = CollectorRegistry()
    async with MockProducer() as producer:
        collector = ProducerCollector(producer, registry=registry)
        await producer.send_and_wait("orders", b"v")
        assert producer.config.listeners == ()
        assert collector._producers._clients["aioproducer"].members[0].counts.counters == {}
