"""The core of the proof on every kind of event loop: asyncio's, in debug mode, with eager tasks, and uvloop.

Each Python that is found runs it with the rest of the suite.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.loops import LOOPS, Scene, play_on
from tests.net.conftest import QUICK
from tests.net.support import LIMIT, memory_in_use, outcomes, turns, until
from tests.runtime.stepping import Moment, cancelled_at
from tests.runtime.support import History, sound, tasks_of_the_library
from tests.seeds import fresh_seed


@pytest.fixture
def nothing_left() -> None:
    """Each of these tests has a loop of its own, and looks after it itself."""


async def faults_at_random(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Hundreds of records through cuts, errors and lost answers: each once, in order, where it was said to be."""
    rng = random.Random(fresh_seed())
    history = History()
    faults = kafka.faults
    kinds: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (faults.cut, {"before": True}),
        (faults.cut, {}),
        (faults.error, {"error": "NOT_ENOUGH_REPLICAS"}),
        (faults.error, {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}),
        (faults.cut_answer, {"at_byte": rng.randrange(60)}),
    ]
    for skip in sorted(rng.sample(range(40), 8)):
        fault, how = rng.choice(kinds)
        fault(**how, skip=skip)
    sent = []
    for number in range(400):
        value = history.value(bytes(rng.randrange(200)))
        sent.append((value, await producer.send("four", value, partition=number % 2)))
    assert set(await outcomes(delivery for _, delivery in sent)) == {Outcome.ACKED}
    for value, delivery in sent:
        history.accepted(value, delivery)
    history.check(kafka, ["four"])
    await sound(producer)


async def cancelled_everywhere(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A send to an unknown topic and its answer, cancelled at each await point in both ways."""
    kafka.faults.delay(0.001, api=None, times=None)
    history, topics = History(), list[str]()
    for moment in Moment:
        for step in itertools.count(1):
            topics.append(f"new-{len(topics)}")
            value = history.value()
            sending: Any = producer.send_and_wait(topics[-1], value)
            ended = await cancelled_at(sending, {step}, moment)
            assert (ended.cancelled, ended.error) == (ended.cancels > 0, None)
            if sending.delivery is None:
                history.refused(value, topics[-1])
            else:
                assert await sending.delivery.wait(LIMIT) is Outcome.ACKED
                history.accepted(value, sending.delivery)
            if not ended.cancels:
                break
        assert step > 2
    await producer.flush()
    history.check(kafka, topics)
    await sound(producer)


async def a_crowd(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """A thousand sends wait for memory, every fifth goes away: all others are written in their order."""
    hold = kafka.faults.delay(before=True, times=None)
    history, sends = History(), []
    for _ in range(1_000):
        value = history.value()
        sending = producer.send("one", value)
        sends.append((value, sending, asyncio.ensure_future(sending)))
    await hold.reached()
    assert producer.stats().waiting_calls > 200
    for _, sending, task in sends[::5]:
        if sending.delivery is None:
            task.cancel()
    hold.heal()
    await asyncio.wait([task for _, _, task in sends])
    for value, sending, _ in sends:
        if sending.delivery is None:
            history.refused(value, "one")
        else:
            assert await sending.delivery.wait(LIMIT) is Outcome.ACKED
            history.accepted(value, sending.delivery)
    history.check(kafka, ["one"])
    await sound(producer)


def block(seconds: float) -> None:
    """Hold up the loop, as a careless callback does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def a_stall(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Answers that had arrived when the loop stood still count, though the time of record and request is over."""
    impatient: dict[str, Any] = {**QUICK, "request_timeout_ms": 500, "delivery_timeout_ms": 600}
    async with Producer[Any, Any](kafka.bootstrap_servers, topics=["one"], **impatient) as other:
        await other.send_and_wait("one", b"before")
        hold = kafka.faults.delay(times=None)
        deliveries = [await producer.send("one", b"v", timeout=0.6), await other.send("one", b"w")]
        await hold.reached(2)
        hold.heal()
        await turns(1)
        block(0.8)
        assert await outcomes(deliveries) == [Outcome.ACKED] * 2
        assert (other.stats().records_retried, other.stats().connections[0].connects) == (0, 1)
    await sound(producer)


async def all_tasks_cancelled(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Its tasks are cancelled by a third party: every record has its outcome, and calls are refused at once."""
    hold = kafka.faults.delay(times=None)
    flying = await producer.send("one", b"flying")
    await hold.reached()
    waiting = asyncio.ensure_future(producer.send("one", b"waiting", partition=9))
    await turns()
    for task in tasks_of_the_library():
        task.cancel()
    assert await flying.wait(LIMIT) is Outcome.UNKNOWN
    with pytest.raises(StateError):
        await waiting
    with pytest.raises(StateError, match="background task has ended"):
        producer.send("one", b"late").send(None)
    assert memory_in_use(producer) == 0
    hold.heal()


async def closed_under_way(kafka: EmbeddedKafka, producer: Producer[Any, Any]) -> None:
    """Flushes, sends and two closes at once: all end, and accepted records are written."""
    kafka.faults.delay(0.002, times=None)
    sends = [producer.send("one", b"%d" % number) for number in range(20)]
    calls = [producer.flush(), producer.close(5), producer.flush(), producer.close()]
    results = await asyncio.gather(*sends, *calls, return_exceptions=True)
    assert all(not isinstance(each, BaseException) or isinstance(each, StateError) for each in results)
    accepted = [sending.delivery for sending in sends if sending.delivery is not None]
    assert {delivery.outcome for delivery in accepted} == {Outcome.ACKED}
    await until(lambda: not tasks_of_the_library())


SCENES: list[Scene] = [
    faults_at_random,
    cancelled_everywhere,
    a_crowd,
    a_stall,
    all_tasks_cancelled,
    closed_under_way,
]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("loop", LOOPS)
def test_f22_matrix(loop: str, scene: Scene) -> None:
    """The scene plays on this loop."""
    play_on(loop, scene, **QUICK, batch_size=500, buffer_memory=10_000)
