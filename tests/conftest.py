"""For the whole test suite: a real Kafka and certificates, made when a test asks for them, and the seeds of scenarios."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.collector import keep_what_is_there, stopped
from tests.effort import SCENARIO, SCENARIO_VARIANT, seeds

if TYPE_CHECKING:
    from tests.certificates import Authority, Issued
    from tests.kafka.secured import SecuredKafka
    from tools.kafka_cluster import KafkaCluster

# By default the coordinator searches for expired transactions every ten seconds.
_IMPATIENT: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
# Starting three nodes on a busy machine takes longer than a test may.
_KAFKA_TIMEOUT = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[KafkaCluster]:
    """A real Kafka of one node, which creates no topics by itself."""
    yield from _running(1)


@pytest.fixture(scope="session")
def level1_kafka() -> Iterator[KafkaCluster]:
    """A real Kafka of one node, new, whose clients do without the second version of transactions."""
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


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A real Kafka of one node with listeners for TLS and SASL."""
    from tests.kafka.secured import SecuredKafka

    with SecuredKafka.of(tmp_path_factory.mktemp("certificates")) as kafka:
        yield kafka


def _running(nodes: int, **options: Any) -> Iterator[KafkaCluster]:
    # Imported late: tests without Kafka do not need its tools.
    from tools.kafka_cluster import KafkaCluster
    from tools.kafka_node import QUICK_START

    with KafkaCluster(nodes, settings=_IMPATIENT, java_options=QUICK_START, **options) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the brokers and clients of a test."""
    from tests.certificates import Authority

    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def broker_identity(authority: Authority) -> Issued:
    """The key and the certificate of a broker on localhost."""
    return authority.issue("broker")


@pytest.fixture(scope="session")
def client_identity(authority: Authority) -> Issued:
    """Those of the client alice, which are of no use for a broker."""
    return authority.issue("client", "extendedKeyUsage=clientAuth", subject="/CN=alice")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests on a real Kafka the time that its start takes, and each of several workers its part of every file."""
    for item in items:
        if " object at 0x" in item.nodeid:
            raise pytest.UsageError(
                f"the name of a test has an address, which each worker has another of: {item.nodeid}"
            )
        if item.get_closest_marker("kafka") and not item.get_closest_marker("timeout"):
            item.add_marker(_KAFKA_TIMEOUT)
    # A worker begins with a piece of this list, and the long tests are neighbours: one would have them all.
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = [item for worker in range(workers) for item in items[worker::workers]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect all tests without the garbage collector."""
    with stopped():
        return (yield)


def pytest_collection_finish() -> None:
    """Freeze the imported modules and collected tests until the end."""
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
    """A scenario of one kind runs all of the seeds; each variant of a scenario with several runs fewer."""
    seeded = metafunc.definition.get_closest_marker("seeded")
    if seeded is None:
        return
    variants = math.prod(len(mark.args[1]) for mark in metafunc.definition.iter_markers("parametrize"))
    each = seeded.args[0] or max(SCENARIO_VARIANT, math.ceil(SCENARIO / variants))
    metafunc.parametrize("seed", seeds(each))
