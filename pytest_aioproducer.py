"""The fixtures `embedded_kafka` and `embedded_registry`: a Kafka of one broker, and a schema registry, for each test.

They run in the event loop of the test, so they come from whatever runs that: pytest-asyncio (both modes) or anyio (asyncio
backend). More brokers or options: `async with EmbeddedKafka(3) as kafka:` in a fixture of your own.

pytest loads this module in every project of an environment in which the library is installed. So it stands outside of the
package, whose modules are imported when a test asks for the fixture.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry

WITHOUT_A_LOOP = """\
{fixture} runs in the event loop of the test that asks for it, and {name}() is no coroutine function: it could answer nobody \
while that runs.

Either make the test a coroutine function (`async def`); a web application is called by
`httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app")` then, in place of a TestClient.
Or let it run in a thread:

    from anyio.from_thread import start_blocking_portal
    from aioproducer.testing import EmbeddedKafka

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(EmbeddedKafka()) as kafka:
        ...  # kafka.bootstrap_servers as usual; what changes it by portal.call(kafka.create_topic, "orders")
"""

_asyncio_fixture: Any
try:
    from pytest_asyncio import fixture as _asyncio_fixture
except ImportError:  # anyio comes with the package, pytest-asyncio need not be there
    _asyncio_fixture = pytest.fixture


def _make_fixture() -> Callable[[], AsyncIterator[EmbeddedKafka]]:
    async def fixture() -> AsyncIterator[EmbeddedKafka]:
        from aioproducer.testing import EmbeddedKafka  # noqa: PLC0415  # see above

        async with EmbeddedKafka() as kafka:
            yield kafka

    return fixture


def _make_registry_fixture() -> Callable[[], AsyncIterator[EmbeddedRegistry]]:
    async def fixture() -> AsyncIterator[EmbeddedRegistry]:
        from aioproducer.testing import EmbeddedRegistry  # noqa: PLC0415  # see above

        async with EmbeddedRegistry() as registry:
            yield registry

    return fixture


# Two functions: pytest-asyncio puts its mark on the function that it is given.
_for_asyncio = _asyncio_fixture(name="_embedded_kafka_for_asyncio")(_make_fixture())
_for_anyio = pytest.fixture(name="_embedded_kafka_for_anyio")(_make_fixture())
_registry_for_asyncio = _asyncio_fixture(name="_embedded_registry_for_asyncio")(_make_registry_fixture())
_registry_for_anyio = pytest.fixture(name="_embedded_registry_for_anyio")(_make_registry_fixture())


@pytest.fixture
def embedded_kafka(request: pytest.FixtureRequest) -> EmbeddedKafka:
    """A Kafka of one broker in this process, which creates topics when they are asked for."""
    kafka: EmbeddedKafka = _in_the_loop_of(request, "embedded_kafka")
    return kafka


@pytest.fixture
def embedded_registry(request: pytest.FixtureRequest) -> EmbeddedRegistry:
    """A schema registry in this process; clients take its `url`."""
    registry: EmbeddedRegistry = _in_the_loop_of(request, "embedded_registry")
    return registry


def _in_the_loop_of(request: pytest.FixtureRequest, name: str) -> Any:
    if not _is_coroutine_function(request.function):
        pytest.fail(WITHOUT_A_LOOP.format(fixture=name, name=request.node.name), pytrace=False)
    # Each plugin only sets up the fixtures that are its own: anyio those of tests that have its backend.
    runner = "anyio" if "anyio_backend" in request.fixturenames else "asyncio"
    return request.getfixturevalue(f"_{name}_for_{runner}")


def _is_coroutine_function(test: Any) -> bool:
    # hypothesis wraps a test in a function that is none, whose inner test is run by the plugin.
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", test)
    return inspect.iscoroutinefunction(inner)
