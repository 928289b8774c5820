"""Calls that are awaited are coroutine functions to `inspect` and `asyncio`, and so to mocks and frameworks."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any
from unittest.mock import AsyncMock, MagicMock, create_autospec

import pytest

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.api.support import LIMIT, values

AWAITED = (
    "send",
    "send_and_wait",
    "send_batch",
    "send_all",
    "flush",
    "close",
    "start",
    "ready",
    "partitions_for",
)
CALLED = ("send_nowait", "send_threadsafe", "purge", "stats", "health", "transaction")


def made() -> Producer[Any, Any]:
    """A producer that is not started."""
    return Producer("localhost:9092")


# Users' code asks asyncio up to Python 3.15.
@pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction' is deprecated")
@pytest.mark.parametrize("kind", [Producer, MockProducer], ids=["producer", "mock"])
@pytest.mark.parametrize("name", AWAITED)
def test_what_is_awaited(kind: type[Any], name: str) -> None:
    """Of the class and of an instance, for `inspect` and for `asyncio`."""
    for function in (getattr(kind, name), getattr(kind("localhost:9092"), name)):
        assert inspect.iscoroutinefunction(function)
        assert asyncio.iscoroutinefunction(function)


@pytest.mark.parametrize("name", CALLED)
def test_what_is_not_awaited(name: str) -> None:
    """It is a plain function."""
    assert not inspect.iscoroutinefunction(getattr(Producer, name))
    assert not inspect.iscoroutinefunction(getattr(made(), name))


SPECS: dict[str, Any] = {
    "AsyncMock(spec=Producer)": lambda: AsyncMock(spec=Producer),
    "MagicMock(spec=Producer)": lambda: MagicMock(spec=Producer),
    "AsyncMock(spec=producer)": lambda: AsyncMock(spec=made()),
    "create_autospec(Producer)": lambda: create_autospec(Producer)("localhost:9092"),
    "create_autospec(Producer, instance=True)": lambda: create_autospec(Producer, instance=True),
    "create_autospec(producer)": lambda: create_autospec(made()),
    "create_autospec(Producer, spec_set=True)": lambda: create_autospec(
        Producer, spec_set=True, instance=True
    ),
}


@pytest.mark.parametrize("name", SPECS)
async def test_mocks_of_the_standard_library(name: str) -> None:
    """Code that awaits a producer awaits a mock of one; calls without an await return at once."""
    mock = SPECS[name]()
    mock.send_and_wait.return_value = "written"
    assert await mock.send_and_wait("orders", b"2") == "written"
    await mock.send("orders", b"2")
    await mock.send_batch("orders", [b"2"])
    await mock.flush()
    mock.send_and_wait.assert_awaited_once_with("orders", b"2")
    mock.send_nowait.return_value = "queued"
    assert mock.send_nowait("orders", b"2") == "queued"


async def test_it_is_still_the_compiled_call(kafka: EmbeddedKafka) -> None:
    """The flagged code object never runs: an accepted send is accepted in the call, without a Python coroutine."""
    async with Producer(kafka.bootstrap_servers, topics=["one"]) as producer:
        await producer.ready(LIMIT)
        sending = producer.send("one", b"0")
        assert sending.delivery is not None
        assert type(sending).__name__ == "Sending"
        await (await sending)
    assert values(kafka) == [b"0"]
