"""The page of one producer: names, kinds, labels and values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import attrs
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from aioproducer import Health, Stats, __version__
from aioproducer.prometheus import ProducerCollector
from tests.api.prometheus.page import Page, scraped
from tests.api.prometheus.told import FULL, WELL, Told, acked
from tests.repo.source import ROOT

COUNTERS = {
    "records_accepted": "",
    "accepted_bytes": "",
    "records_acked": "topic",
    "acked_bytes": "topic",
    "records_retried": "topic",
    "batches": "topic",
    "records_failed": "topic error outcome",
    "dead_letters": "topic",
    "batches_split": "",
    "suspected_data_losses": "",
    "memory_waits": "",
    "memory_wait_seconds": "",
    "metadata_waits": "",
    "metadata_wait_seconds": "",
    "loop_stalls": "",
    "loop_stall_seconds": "",
    "requests": "broker",
    "request_errors": "broker",
    "sent_bytes": "broker",
    "received_bytes": "broker",
    "throttle_seconds": "broker",
    "connects": "broker",
    "connect_failures": "broker",
    "transactions": "outcome",
}
GAUGES = {
    "buffered_records": "",
    "buffered_bytes": "",
    "buffer_memory_bytes": "",
    "in_flight_records": "",
    "in_flight_bytes": "",
    "waiting_calls": "",
    "oldest_unacked_seconds": "",
    "seconds_since_last_ack": "",
    "metadata_age_seconds": "",
    "ready": "",
    "live": "",
    "requests_in_flight": "broker",
    "connection_up": "broker address",
}
HISTOGRAMS = {
    "queue_time_seconds": "",
    "delivery_time_seconds": "",
    "batch_size_bytes": "",
    "batch_records": "",
    "compression_ratio": "",
    "transaction_commit_seconds": "",
    "request_time_seconds": "broker",
}


def page_of(*producers: Told, **options: Any) -> Page:
    """The page of these producers."""
    registry = CollectorRegistry()
    collector = ProducerCollector(*producers, registry=registry, **options)
    page = scraped(registry)
    registry.unregister(collector)
    return page


def test_names_kinds_and_labels() -> None:
    """Each metric has its kind and its labels; no other is there."""
    page = page_of(Told(FULL, WELL), labels={"team": "checkout"})
    kinds = {"counter": COUNTERS, "gauge": GAUGES, "histogram": HISTOGRAMS}
    expected = {f"aioproducer_{name}": kind for kind, names in kinds.items() for name in names}
    assert page.kinds == expected | {"aioproducer": "info"}
    for metrics, ending in ((COUNTERS, "_total"), (GAUGES, ""), (HISTOGRAMS, "_sum")):
        for name, further in metrics.items():
            labels = {"client_id", "team", *further.split()}
            assert page.labels(f"aioproducer_{name}{ending}") == labels, name


def test_each_number_has_its_place() -> None:
    """Each field of the statistics is the value of its metric."""
    page = page_of(Told(FULL, WELL))

    def value(name: str, **labels: str) -> float:
        return page.value(f"aioproducer_{name}", **labels)

    def values(names: str, ending: str = "_total", **labels: str) -> list[float]:
        return [value(f"{name}{ending}", **labels) for name in names.split()]

    assert values("records_accepted accepted_bytes") == [1, 2]
    by_topic = "records_acked acked_bytes records_retried batches"
    assert values(by_topic, topic="orders") == [3, 4, 5, 6]
    assert values(by_topic, topic="carts") == [12, 13, 14, 15]
    failed = "records_failed_total"
    assert value(failed, topic="orders", error="NOT_ENOUGH_REPLICAS", outcome="not_written") == 7
    assert value(failed, topic="orders", error="REQUEST_TIMED_OUT", outcome="unknown") == 2
    assert value("dead_letters_total", topic="orders") == 16
    assert values("batches_split suspected_data_losses memory_waits memory_wait_seconds") == [
        17,
        18,
        19,
        20.5,
    ]
    assert values("metadata_waits metadata_wait_seconds loop_stalls loop_stall_seconds") == [
        21,
        22.5,
        23,
        24.5,
    ]
    of_a_broker = (
        "requests request_errors sent_bytes received_bytes throttle_seconds connects connect_failures"
    )
    assert values(of_a_broker, broker="1") == [25, 26, 27, 28, 29.5, 30, 31]
    assert value("requests_in_flight", broker="1") == 32
    outcomes = ("committed", "aborted", "unknown")
    assert [value("transactions_total", outcome=outcome) for outcome in outcomes] == [34, 35, 36]
    amounts = (
        "buffered_records buffered_bytes buffer_memory_bytes in_flight_records in_flight_bytes waiting_calls"
    )
    assert values(amounts, "") == [38, 39, 40, 41, 42, 43]
    ages = "oldest_unacked_seconds seconds_since_last_ack metadata_age_seconds"
    assert values(ages, "") == [44.5, 45.5, 46.5]


def test_histograms_are_cumulative() -> None:
    """Buckets count all values up to their bounds; sum and count are those of all values."""
    page = page_of(Told(FULL, WELL))
    for name, first, count, total in (
        ("queue_time_seconds", 5, 11, 47.5),
        ("delivery_time_seconds", 7, 15, 48.5),
        ("batch_size_bytes", 9, 19, 49.5),
        ("batch_records", 11, 23, 50.5),
        ("compression_ratio", 13, 27, 51.5),
        ("transaction_commit_seconds", 3, 7, 37.5),
    ):
        assert set(page.values(f"aioproducer_{name}_bucket")) == {first, count}
        assert page.value(f"aioproducer_{name}_bucket", le="+Inf") == count
        assert page.value(f"aioproducer_{name}_count") == count
        assert page.value(f"aioproducer_{name}_sum") == total
    assert page.value("aioproducer_request_time_seconds_sum", broker="1") == 33.5
    assert page.value("aioproducer_request_time_seconds_bucket", broker="1", le="0.001") == 1


def test_connections_are_up_or_not() -> None:
    """Connected and throttled ones are; a connection that was never tried has no address and is left out."""
    page = page_of(Told(FULL, WELL))
    up = {
        broker: page.values("aioproducer_connection_up", broker=broker)
        for broker in ("1", "2", "3", "metadata")
    }
    assert up == {"1": [1], "2": [1], "3": [0], "metadata": []}
    assert page.value("aioproducer_connection_up", address="10.0.0.1:9092") == 1


def test_ages_that_are_not_known_are_left_out() -> None:
    """Nothing is NaN or zero in place of None."""
    page = page_of(Told(Stats(), Health("new")))
    ages = {"oldest_unacked_seconds", "seconds_since_last_ack", "metadata_age_seconds"}
    assert {f"aioproducer_{age}" for age in ages} & page.names() == set()
    assert "NaN" not in page.text


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({}, ("all", "none", "true", "false")),
        ({"acks": 1, "enable_idempotence": False, "compression_type": "lz4"}, ("1", "lz4", "false", "false")),
        ({"transactional_id": "payments-7"}, ("all", "none", "true", "true")),
    ],
)
def test_info_has_version_and_settings(settings: dict[str, Any], facts: tuple[str, ...]) -> None:
    """The value is 1; the transactional id itself is not shown."""
    page = page_of(Told(FULL, WELL, **settings))
    labels = dict(zip(("acks", "compression_type", "idempotence", "transactional"), facts, strict=True))
    assert page.value("aioproducer_info", client_id="shop", version=__version__, **labels) == 1
    assert "payments-7" not in page.text


def topics_of(page: Page) -> dict[str, float]:
    """The written records by topic."""
    found = page.samples.items()
    return {
        dict(labels)["topic"]: value
        for (name, labels), value in found
        if name == "aioproducer_records_acked_total"
    }


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, {"a": 1, "b": 2, "c": 4, "_other": 8}),
        ({"topics": False}, {"_other": 15}),
        ({"topics": ["c", "a", "never"]}, {"a": 1, "c": 4, "_other": 10}),
        ({"topics": ()}, {"_other": 15}),
        ({"max_topics": 2}, {"a": 1, "b": 2, "_other": 12}),
        ({"max_topics": 0}, {"_other": 15}),
        ({"max_topics": 3}, {"a": 1, "b": 2, "c": 4, "_other": 8}),
        ({"topics": ("b", "c"), "max_topics": 1}, {"b": 2, "_other": 13}),
    ],
)
def test_topics_without_a_name_are_other(options: dict[str, Any], shown: dict[str, float]) -> None:
    """`_other` is the sum, also of what the producer itself counts under that name."""
    producer = Told(Stats(topics=acked(_other=8, a=1, b=2, c=4)))
    assert topics_of(page_of(producer, **options)) == shown


def test_failures_and_dead_letters_of_other_topics_are_summed() -> None:
    """One sample for each error and outcome."""
    failures = FULL.failures + tuple(failure._replace(topic="carts") for failure in FULL.failures)
    stats = attrs.evolve(FULL, failures=failures, dead_letters={"orders": 1, "carts": 2})
    page = page_of(Told(stats), topics=False)
    assert page.value("aioproducer_records_failed_total", topic="_other", outcome="unknown") == 4
    assert page.value("aioproducer_records_failed_total", topic="_other", outcome="not_written") == 14
    assert page.value("aioproducer_dead_letters_total", topic="_other") == 3


def test_a_topic_keeps_its_name_or_never_gets_one() -> None:
    """Its counters would go back if it moved out of `_other`."""
    registry, producer = CollectorRegistry(), Told(Stats(topics=acked(a=1, b=2, c=3)))
    collector = ProducerCollector(producer, registry=registry, max_topics=2)
    assert topics_of(scraped(registry)) == {"a": 1, "b": 2, "_other": 3}
    producer.told_stats = Stats(topics=acked(d=9, c=30, b=20, a=10))
    assert topics_of(scraped(registry)) == {"a": 10, "b": 20, "_other": 39}
    collector.remove(producer)


def test_at_most_max_topics_names_on_a_page() -> None:
    """The limit is one for all producers of a collector."""
    producers = [Told(Stats(topics=acked(**{f"t{index}": 1})), client_id=f"c{index}") for index in range(9)]
    page = page_of(*producers, max_topics=3)
    names = {
        dict(labels)["topic"] for name, labels in page.samples if name == "aioproducer_records_acked_total"
    }
    assert names == {"t0", "t1", "t2", "_other"}


def test_namespace_and_labels() -> None:
    """Each sample has the labels of the collector, and begins with its namespace."""
    page = page_of(Told(FULL, WELL), namespace="kafka_out", labels={"team": "checkout", "zone": "b"})
    assert all(name.startswith("kafka_out_") for name in page.names())
    assert all({("team", "checkout"), ("zone", "b")} <= labels for _, labels in page.samples)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"namespace": ""}, "namespace"),
        ({"namespace": "a-b"}, "namespace"),
        ({"labels": {"client_id": "x"}}, "aioproducer's own"),
        ({"labels": {"topic": "x"}}, "aioproducer's own"),
        ({"labels": {"le": "x"}}, "aioproducer's own"),
        ({"labels": {"a-b": "x"}}, "not the name of a label"),
        ({"labels": {"__name__": "x"}}, "not the name of a label"),
        ({"labels": {"site": "\ud800"}}, "UTF-8"),
        ({"max_topics": -1}, "max_topics"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], said: str) -> None:
    """When the collector is made, and not at the first scrape."""
    with pytest.raises(ValueError, match=said):
        ProducerCollector(**options)


def test_one_string_is_not_a_collection_of_topics() -> None:
    """Its letters would be the names."""
    with pytest.raises(TypeError, match="topics"):
        ProducerCollector(topics="orders")


def test_odd_names_are_escaped() -> None:
    """A client id and a label may have any printable character."""
    name = 'a "b" \\ \u00e9\u6f22 {c="d"} # \\n'
    page = page_of(Told(FULL, WELL, client_id=name), labels={"team": "x\ny"})
    assert page.value("aioproducer_ready", client_id=name, team="x\ny") == 1


def test_describe_asks_nobody() -> None:
    """Registering asks for no statistics; the names are those of a page."""
    registry, producer = CollectorRegistry(), Told(FULL, WELL)
    collector = ProducerCollector(producer, registry=registry)
    described = list(collector.describe())
    assert producer.asked == 0
    assert all(not family.samples for family in described)
    assert [(each.name, each.type) for each in described] == [
        (each.name, each.type) for each in collector.collect()
    ]
    assert producer.asked == 1


def test_a_registry_has_one_collector_of_a_namespace() -> None:
    """A second one would make the page invalid; another namespace is accepted."""
    registry = CollectorRegistry()
    ProducerCollector(registry=registry)
    with pytest.raises(ValueError, match="aioproducer_records_accepted"):
        ProducerCollector(registry=registry)
    ProducerCollector(registry=registry, namespace="other")


def test_a_page_can_be_restricted() -> None:
    """`?name[]=` of an exporter returns the samples of that name."""
    registry, producer = CollectorRegistry(), Told(FULL, WELL)
    ProducerCollector(producer, registry=registry)
    text = generate_latest(registry.restricted_registry(["aioproducer_ready"])).decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'aioproducer_ready{client_id="shop"} 1.0'
    ]


def test_a_page_without_producers_is_valid() -> None:
    """It has the names and no samples."""
    page = page_of()
    assert page.samples == {}
    assert "# TYPE aioproducer_records_acked_total counter" in page.text


def test_without_the_package_the_extra_is_named() -> None:
    """Importing the library needs nothing of it."""
    code = (
        "import sys\n"
        "sys.modules['prometheus_client'] = None\n"
        "import aioproducer\n"
        "try:\n    import aioproducer.prometheus\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == (
        "aioproducer.prometheus requires the extra prometheus: pip install 'aioproducer[prometheus]'\n"
    )
