"""The core of it on other loops: uvloop, asyncio's debug mode, and eager tasks where Python has them."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from aioproducer import MetadataTimeoutError, Outcome, Producer
from aioproducer._net.timers.wakeup import Wakeup
from aioproducer.testing import EmbeddedKafka
from tests.net.conftest import QUICK
from tests.net.support import LIMIT


def plain() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def debugging() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 5
    return loop


def eager() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)
    return loop


Scenario = Callable[[], Coroutine[Any, Any, None]]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": plain,
    "uvloop": uvloop.new_event_loop,
    "debug": debugging,
    "eager": eager,
}


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """Each of these tests has a loop of its own, and looks after it itself."""


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a scenario on one kind of loop, in which nothing may be left at its end."""

    def on_loop(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(checked(scenario))

    async def checked(scenario: Scenario) -> None:
        async with asyncio.timeout(LIMIT):
            await scenario()
        for _ in range(5):
            await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []

    return on_loop


def test_faults_at_random(run: Callable[..., None]) -> None:
    """Records under several faults: each once, in order."""

    async def scenario() -> None:
        async with (
            EmbeddedKafka() as kafka,
            Producer(kafka.bootstrap_servers, batch_size=200, topics=["one"], **QUICK) as producer,
        ):
            rng = random.Random(5)
            kafka.create_topic("one", 2)
            for skip in (1, 3, 6):
                kafka.faults.cut(before=rng.random() < 0.5, skip=skip)
                kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=skip + 1)
            deliveries = [await producer.send("one", b"%d" % n, partition=n % 2) for n in range(200)]
            await producer.flush()
            assert {one.outcome for one in deliveries} == {Outcome.ACKED}
            for partition in (0, 1):
                written = [int(record.value or b"") for record in kafka.records("one", partition)]
                assert written == list(range(partition, 200, 2))

    run(scenario)


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


def test_topics_are_known_when_ready(run: Callable[..., None]) -> None:
    """The topics of the setting are known when the producer is ready."""

    async def scenario() -> None:
        async with EmbeddedKafka() as kafka:
            kafka.create_topic("one", 3)
            producer: Producer = Producer(kafka.bootstrap_servers, topics=["one"], **QUICK)
            await producer.start(wait_ready=5)
            requests = len(kafka.requests)
            assert len(await producer.partitions_for("one")) == 3
            assert [r for r in kafka.requests[requests:] if r.api == "Metadata"] == []
            await producer.close()

    run(scenario)


def test_alarms_that_are_due_already(run: Callable[..., None]) -> None:
    """An alarm for a time that has passed rings at once, whatever kind of handle the loop makes for it."""

    async def scenario() -> None:
        wakeup = Wakeup(asyncio.get_running_loop())
        wakeup.by(-1.0)
        wakeup.by(-2.0)
        await wakeup.wait()

    run(scenario)


def test_nobody_there(run: Callable[..., None]) -> None:
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
