"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from aioproducer.testing import EmbeddedKafka
from tests import ports


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """An embedded Kafka with the topic `orders` of two partitions, which makes no others by itself."""
    async with EmbeddedKafka(auto_create_topics=False) as kafka:
        kafka.create_topic("orders", 2)
        yield kafka


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port without a listener, reserved while this lasts."""
    with ports.unused_port() as port:
        yield port
