"""Fixtures for the tests of the embedded Kafka and of the mock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.contract.client import WireClient


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """One broker with the topic "t" of two partitions."""
    async with EmbeddedKafka() as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
async def three() -> AsyncIterator[EmbeddedKafka]:
    """Three brokers, and the topic "t" with a partition led by each."""
    async with EmbeddedKafka(brokers=3) as running:
        running.create_topic("t", 3)
        yield running


@pytest.fixture
async def client(kafka: EmbeddedKafka) -> AsyncIterator[WireClient]:
    """A connection to the one broker."""
    async with WireClient(kafka.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
async def mock() -> AsyncIterator[MockProducer]:
    """A running mock that acknowledges at once; `orders` has three partitions."""
    async with MockProducer(partitions={"orders": 3}) as producer:
        yield producer


@pytest.fixture
async def manual() -> AsyncIterator[MockProducer]:
    """A running mock whose records wait for the test."""
    async with MockProducer(auto_complete=False) as producer:
        yield producer
        producer.complete_all()
