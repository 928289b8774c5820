"""Timers and failures on each kind of event loop: timeouts of requests, overdue alarms, a missing broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from aioproducer import MetadataTimeoutError, Outcome, Producer
from aioproducer._net.timers.wakeup import Wakeup
from aioproducer.testing import EmbeddedKafka
from tests.loops import LOOPS, run_on
from tests.net.conftest import QUICK


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """Each of these tests has a loop of its own, and checks it itself."""


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a scenario on one kind of loop."""
    return partial(run_on, request.param)


def test_request_timeout(run: Callable[..., None]) -> None:
    """A request without an answer is sent again on another connection."""

    async def scenario() -> None:
        async with (
            EmbeddedKafka() as kafka,
            Producer(kafka.bootstrap_servers, request_timeout_ms=100, **QUICK) as producer,
        ):
            await producer.send_and_wait("one", b"0")
            kafka.faults.silence(api="Produce", times=1)
            assert (await producer.send_and_wait("one", b"1")).offset == 1

    run(scenario)


def test_alarms_that_are_due_already(run: Callable[..., None]) -> None:
    """An alarm for a past time fires at once, for every kind of handle of a loop."""

    async def scenario() -> None:
        wakeup = Wakeup(asyncio.get_running_loop())
        wakeup.by(-1.0)
        wakeup.by(-2.0)
        await wakeup.wait()

    run(scenario)


def test_no_broker_at_all(run: Callable[..., None]) -> None:
    """A start that fails, a close at once, and a close with a record that cannot be sent."""

    async def scenario() -> None:
        async with EmbeddedKafka() as kafka:
            servers = kafka.bootstrap_servers
        producer: Producer = Producer(servers, **QUICK)
        with pytest.raises(MetadataTimeoutError):
            await producer.start(wait_ready=0.05)
        await producer.start()
        await producer.close()
        async with EmbeddedKafka() as kafka:
            producer = Producer(kafka.bootstrap_servers, topics=["one"], **QUICK)
            await producer.start(wait_ready=5)
            await producer.partitions_for("one")
            await kafka.faults.stop_broker(1)
            delivery = await producer.send("one", b"0")
            await producer.close(timeout=0.05)
            assert delivery.outcome is not Outcome.PENDING

    run(scenario)
