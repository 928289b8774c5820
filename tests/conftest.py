"""For the whole test suite: a real Kafka, started when the first test asks for it, and the seeds of scenarios."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.collector import keep_what_is_there
from tests.effort import SCENARIO, SCENARIO_VARIANT, seeds

if TYPE_CHECKING:
    from tools.kafka_cluster import KafkaCluster

# Otherwise the coordinator looks every ten seconds for transactions whose time is over.
_IMPATIENT: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
# Starting three nodes on a busy machine takes longer than a test may.
_KAFKA_TIMEOUT = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[KafkaCluster]:
    """A real Kafka of one node, which creates no topics by itself."""
    yield from _running(1)


@pytest.fixture(scope="session")
def level1_kafka() -> Iterator[KafkaCluster]:
    """A real Kafka of one node, new, whose clients must do without the second version of transactions."""
    yield from _running(1, features={"transaction.version": 1})


@pytest.fixture(scope="session")
def old_kafka() -> Iterator[KafkaCluster]:
    """A real Kafka of one node, of the last version before 4."""
    from tools.kafka_jars import OLD_KAFKA_VERSION

    yield from _running(1, version=OLD_KAFKA_VERSION)


@pytest.fixture(scope="session")
def real_kafka_cluster() -> Iterator[KafkaCluster]:
    """A real Kafka of three nodes: replication factor 3, min.insync.replicas 2."""
    yield from _running(3)


def _running(nodes: int, **options: Any) -> Iterator[KafkaCluster]:
    # Imported late: what needs no Kafka needs none of its tools either.
    from tools.kafka_cluster import KafkaCluster
    from tools.kafka_node import QUICK_START

    with KafkaCluster(nodes, settings=_IMPATIENT, java_options=QUICK_START, **options) as kafka:
        yield kafka


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests on a real Kafka the time that its start takes, and each of several workers its part of every file."""
    for item in items:
        if item.get_closest_marker("kafka") and not item.get_closest_marker("timeout"):
            item.add_marker(_KAFKA_TIMEOUT)
    # A worker begins with a piece of this list, and the long tests are neighbours: one would have them all.
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = [item for worker in range(workers) for item in items[worker::workers]]


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end."""
    keep_what_is_there()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the brokers' logs with a test that failed on them."""
    report = yield
    if report.failed:
        for name in ("real_kafka", "real_kafka_cluster"):
            kafka = getattr(item, "funcargs", {}).get(name)
            if kafka is not None:
                report.sections.append(("Log of the real Kafka", kafka.log_tails()))
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario of one kind has all of the seeds; each variant of one that has several has fewer."""
    if metafunc.definition.get_closest_marker("seeded") is None:
        return
    variants = math.prod(len(mark.args[1]) for mark in metafunc.definition.iter_markers("parametrize"))
    each = max(SCENARIO_VARIANT, math.ceil(SCENARIO / variants))
    metafunc.parametrize("seed", seeds(each))
