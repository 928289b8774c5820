"""A finding of a soak: a failure that its user has seen and dropped is freed."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioproducer import BrokerError, Producer
from aioproducer.testing import EmbeddedKafka

_FAILURES = 300

Way = Callable[[Producer[Any, Any]], Awaitable[None]]


async def await_it(producer: Producer[Any, Any]) -> None:
    delivery = await producer.send("one", b"x")
    with pytest.raises(BrokerError):
        await delivery


async def ask_for_its_result(producer: Producer[Any, Any]) -> None:
    delivery = await producer.send("one", b"x")
    await delivery.wait()
    with pytest.raises(BrokerError):
        delivery.result()


async def raise_its_exception(producer: Producer[Any, Any]) -> None:
    delivery = await producer.send("one", b"x")
    await delivery.wait()
    error = delivery.exception()
    assert error is not None
    with pytest.raises(BrokerError):
        raise error


async def await_the_call(producer: Producer[Any, Any]) -> None:
    sending = producer.send_and_wait("one", b"x")
    with pytest.raises(BrokerError):
        await sending


def kept() -> int:
    """The number of live errors of brokers."""
    gc.collect()
    return sum(type(one) is BrokerError for one in gc.get_objects())


@pytest.mark.parametrize("way", [await_it, ask_for_its_result, raise_its_exception, await_the_call])
async def test_a_failure_that_was_seen_is_freed(way: Way) -> None:
    """Neither error nor batch stay, although the frame in the traceback has held the delivery in a variable."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        async with Producer(kafka.bootstrap_servers, linger_ms=0) as producer:
            await producer.partitions_for("one")
            before = kept()
            for _ in range(_FAILURES):
                kafka.faults.error("INVALID_TIMESTAMP")
                await way(producer)
            # The library itself remembers the last hundred of its errors, for later reports of flush().
            assert kept() - before < _FAILURES / 2
