"""Fixtures for producers that talk to an embedded Kafka through proxies, and nothing left behind."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.net.conftest import QUICK, kafka, loop_clock, made, nothing_blocks, nothing_left
from tests.proxy.proxy import Proxy
from tests.proxy.reach import LIMIT_OF_A_TEST
from tests.proxy.support import Make, Story

__all__ = [
    "kafka",
    "loop_clock",
    "made",
    "nothing_blocks",
    "nothing_left",
]  # fixtures of whole producers elsewhere, which hold here too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every byte takes longer than every 16th."""
    for item in items:
        if "/proxy/" in item.path.as_posix() and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LIMIT_OF_A_TEST))


@pytest.fixture(autouse=True)
def no_bug_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a peer does, it shows no bug of ours: nothing is logged as an error, and no callback fails."""
    with caplog.at_level(logging.DEBUG, "aioproducer"):
        yield
    records = caplog.get_records("call")
    assert [record.getMessage() for record in records if record.levelno >= logging.ERROR] == []


@pytest.fixture
async def proxy(kafka: EmbeddedKafka) -> AsyncIterator[Proxy]:
    """In place of the broker."""
    proxy = await Proxy("127.0.0.1", kafka.brokers[0].port).start()
    # There is no public way to advertise another port than the one that is listened on.
    kafka._cluster.node(1).port = proxy.port
    yield proxy
    await proxy.stop()


@pytest.fixture
async def make(kafka: EmbeddedKafka, proxy: Proxy) -> AsyncIterator[Make]:
    """Make producers, to be started by the test; they are closed at its end, when nothing is harmed any more."""
    made: list[Producer[Any, Any]] = []

    def producer(**settings: Any) -> Producer[Any, Any]:
        made.append(Producer(kafka.bootstrap_servers, **{**QUICK, **settings}))
        return made[-1]

    yield producer
    kafka.faults.heal()
    proxy.heal()
    for one in made:
        await one.close(timeout=1)


@pytest.fixture
def story(kafka: EmbeddedKafka) -> Story:
    """The records of the test."""
    return Story(kafka)
