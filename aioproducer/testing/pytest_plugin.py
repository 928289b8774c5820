"""The fixture `embedded_kafka`: a Kafka of one broker for each test that asks for it.

It runs in the event loop of the test, so it comes from whatever runs that: pytest-asyncio (both modes) or anyio (asyncio
backend). More brokers or options: `async with EmbeddedKafka(3) as kafka:` in a fixture of your own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .embedded import EmbeddedKafka

_asyncio_fixture: Any
try:
    from pytest_asyncio import fixture as _asyncio_fixture
except ImportError:  # anyio comes with the package, pytest-asyncio need not be there
    _asyncio_fixture = pytest.fixture


def _make_fixture() -> Callable[[], AsyncIterator[EmbeddedKafka]]:
    async def fixture() -> AsyncIterator[EmbeddedKafka]:
        # Imported late: pytest loads this file for everyone who has the package installed.
        from .embedded import EmbeddedKafka  # noqa: PLC0415

        async with EmbeddedKafka() as kafka:
            yield kafka

    return fixture


# Two functions: pytest-asyncio puts its mark on the function that it is given.
_for_asyncio = _asyncio_fixture(name="_embedded_kafka_for_asyncio")(_make_fixture())
_for_anyio = pytest.fixture(name="_embedded_kafka_for_anyio")(_make_fixture())


@pytest.fixture
def embedded_kafka(request: pytest.FixtureRequest) -> EmbeddedKafka:
    """A Kafka of one broker in this process, which creates topics when they are asked for."""
    # Each plugin only sets up the fixtures that are its own: anyio those of tests that have its backend.
    runner = "anyio" if "anyio_backend" in request.fixturenames else "asyncio"
    kafka: EmbeddedKafka = request.getfixturevalue(f"_embedded_kafka_for_{runner}")
    return kafka
