"""One cluster for all tests that submit programs."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.spark.clusters.standalone import StandaloneCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the logs of the cluster to a test that failed on it."""
    report = yield
    running = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and running is not None:
        report.sections.append(("Logs of the cluster", running.logs()))
    return report
