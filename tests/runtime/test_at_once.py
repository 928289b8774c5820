"""Calls that meet: start, send, flush and close at the same time; deliveries that are cancelled; ten thousand in line."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import BufferFullError, CloseReport, KafkaError, Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, engine, memory_in_use, turns, until, warm
from tests.runtime.support import History, no_task_left, sound
from tests.seeds import fresh_seed
from tests.slowness import SLOWNESS

SLACK = 10.0 * SLOWNESS
"""Seconds that a busy machine may be late."""

# -- F04: handles that are cancelled


@pytest.mark.parametrize("how", ["cancel", "gather", "wait_for", "task"])
async def test_f04_cancelled_handles(how: str, make: Make, kafka: EmbeddedKafka) -> None:
    """For any cancellation of a delivery's handle, the record is written in its place, and nothing is logged."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    producer = await warm(make(kafka, batch_size=200), "one")
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=3)
    history = History()
    values = [history.value() for _ in range(40)]
    sent = [(value, await producer.send("one", value)) for value in values]
    for _, delivery in sent[::3]:
        await cancel(how, delivery)
    await producer.flush()
    for value, delivery in sent:
        assert await delivery.wait(LIMIT) is Outcome.ACKED
        history.accepted(value, delivery)
    history.check(kafka, ["one"])
    await turns()
    assert told == []


async def cancel(how: str, delivery: Any) -> None:
    """In one of the ways in which futures are cancelled."""
    if how == "cancel":
        delivery.cancel()
    elif how == "gather":
        gathered = asyncio.gather(delivery)
        await turns(1)
        gathered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathered
    elif how == "wait_for":
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery, 0)
    else:
        waiting = asyncio.ensure_future(delivery.wait())
        await turns(1)
        waiting.cancel()


# -- F18: a crowd


async def test_f18_ten_thousand_waiting_senders_some_cancelled(make: Make, kafka: EmbeddedKafka) -> None:
    """A third of 10,000 sends that wait for memory go away while it comes back: all others get it, in their order."""
    seed = fresh_seed()
    rng = random.Random(seed)
    producer = await warm(make(kafka, buffer_memory=20_000, batch_size=2_000), "one")
    hold = kafka.faults.delay(before=True, times=None)
    history, sends = History(), []
    for _ in range(10_000):
        value = history.value()
        sending = producer.send("one", value)
        sends.append((value, sending, asyncio.ensure_future(sending)))
    await hold.reached()
    waiting = [send for send in sends if send[1].delivery is None]
    assert len(waiting) > 8_000
    hold.heal()
    leaving = rng.sample(waiting, len(waiting) // 3)
    for at in range(0, len(leaving), 100):
        # In waves, while those before them are served.
        for _, _, task in leaving[at : at + 100]:
            task.cancel()
        await turns(1)
    async with asyncio.timeout(LIMIT):
        await asyncio.wait([task for _, _, task in sends])
    for value, sending, task in sends:
        if sending.delivery is None:
            assert task.cancelled()
            history.refused(value, "one")
        else:
            assert await sending.delivery.wait(LIMIT) is Outcome.ACKED
            history.accepted(value, sending.delivery)
    history.check(kafka, ["one"])
    assert engine(producer).accumulator.budget.peak <= 20_000
    await sound(producer)


async def test_f18_each_waits_at_most_max_block(make: Make, kafka: EmbeddedKafka) -> None:
    """With a broker that takes nothing, each of 500 waiting sends ends after its `max_block`, not later."""
    producer = await warm(make(kafka, buffer_memory=5_000), "one")
    kafka.faults.silence(api="Produce")
    told: list[float] = []

    async def send() -> None:
        began = time.monotonic()
        try:
            await producer.send("one", bytes(200), max_block=0.3)
        except BufferFullError:
            told.append(time.monotonic() - began)

    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(send() for _ in range(500)))
    assert len(told) > 450
    assert min(told) >= 0.29
    assert max(told) < 0.3 + SLACK
    assert producer.stats().waiting_calls == 0


# -- F20: everything at once


@pytest.mark.parametrize("seed", range(8))
async def test_f20_flush_close_and_send_at_once(seed: int, make: Make, kafka: EmbeddedKafka) -> None:
    """Sends, flushes and closes that meet in any order all end, each with a defined result, and no record is lost."""
    rng = random.Random(seed)
    producer = await warm(
        make(kafka, linger_ms=rng.choice([0, 5]), buffer_memory=5_000, batch_size=500), "one"
    )
    kafka.faults.delay(0.002, times=None)
    history, sent = History(), []

    async def send() -> None:
        value = history.value(bytes(rng.randrange(400)))
        sending = producer.send("one", value)
        sent.append((value, sending))
        await sending

    def one_more() -> Any:
        choice = rng.random()
        if choice < 0.75:
            return send()
        if choice < 0.9:
            return producer.flush(rng.choice([None, 5]))
        return producer.close(rng.choice([None, 5, 0.02])) if len(tasks) > 60 else turns(1)

    tasks: list[asyncio.Task[Any]] = []
    for _ in range(150):
        tasks.append(asyncio.ensure_future(one_more()))
        await turns(rng.randrange(3))
    tasks.append(asyncio.ensure_future(producer.close()))
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), LIMIT)
    strange = [each for each in done if isinstance(each, BaseException) and not isinstance(each, StateError)]
    assert strange == []
    assert len({each for each in done if isinstance(each, CloseReport)}) == 1
    for value, sending in sent:
        if sending.delivery is None:
            history.refused(value, "one")
        else:
            assert sending.delivery.done()
            history.accepted(value, sending.delivery)
    history.check(kafka, ["one"])
    assert memory_in_use(producer) == 0
    await no_task_left()


Meet = Callable[[Producer[Any, Any]], Any]
DURING_START: dict[str, Meet] = {
    "start": lambda producer: producer.start(),
    "close": lambda producer: producer.close(1),
    "flush": lambda producer: producer.flush(),
    "send": lambda producer: producer.send("one", b"v"),
    "send_and_wait": lambda producer: producer.send_and_wait("one", b"v"),
}


@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("wait_ready", [None, LIMIT], ids=["start", "start and wait"])
@pytest.mark.parametrize("name", DURING_START)
async def test_f20_during_start(
    name: str, wait_ready: float | None, turn: int, make: Make, kafka: EmbeddedKafka
) -> None:
    """Whatever is called while start() is under way ends, and so does start(); the second start() is refused."""
    kafka.faults.delay(0.01, api="Metadata", times=None)
    producer = make(kafka)
    starting = asyncio.ensure_future(producer.start(wait_ready=wait_ready))
    await turns(turn)

    async def meet() -> Any:
        return await DURING_START[name](producer)

    met, started = await asyncio.wait_for(asyncio.gather(meet(), starting, return_exceptions=True), LIMIT)
    for result in (met, started):
        assert not isinstance(result, BaseException) or isinstance(result, StateError)
    if name == "close":
        assert producer.health().state == "closed"
        await no_task_left()
    else:
        assert (started is None) or turn == 0
        assert producer.health().state == "running"
        await sound(producer)


# -- F21: beginnings that fail


async def test_f21_never_started(make: Make, kafka: EmbeddedKafka) -> None:
    """Without start() every call raises inside its first step; close() and the block work, and drop nothing."""
    producer = make(kafka)
    for name, call in DURING_START.items():
        if name in ("start", "close"):
            continue
        with pytest.raises(StateError, match="not started"):
            call(producer).send(None)
    assert await producer.close() == CloseReport()
    with pytest.raises(StateError, match="closed"):
        await producer.start()


async def test_f21_supervisor_that_cannot_be_made(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the loop gives no task, start() raises that, and the next one works."""
    loop = asyncio.get_running_loop()
    producer = make(kafka)

    def no_task(coroutine: Any, **_: Any) -> Any:
        coroutine.close()
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(loop, "create_task", no_task)
        with pytest.raises(MemoryError):
            await producer.start()
    assert producer.health().state == "new"
    with pytest.raises(StateError, match="not started"):
        producer.send_nowait("one", b"v")
    await producer.start(wait_ready=LIMIT)
    await sound(producer)


async def test_f21_ten_starts_that_fail(make: Make, kafka: EmbeddedKafka) -> None:
    """A start that fails again and again leaves nothing that grows; the next one with a broker works."""
    producer = make(kafka)
    await kafka.faults.refuse_connections(1)
    for _ in range(10):
        with pytest.raises(KafkaError):
            await producer.start(wait_ready=0.01)
        assert producer.health().state == "new"
        await no_task_left()
    await kafka.faults.accept_connections(1)
    await producer.start(wait_ready=LIMIT)
    await sound(producer)
    await until(lambda: kafka.brokers[0].connections == 2)
