"""Tasks, loops and scopes that other code ends: cancelled from outside, closed first, used from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aioproducer import Outcome, Producer, StateError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, memory_in_use, turns, until, warm
from tests.runtime.support import no_task_left, run_program, sound

# -- F05: everything is cancelled


async def test_f05_all_tasks_cancelled_by_a_third_party(make: Make, kafka: EmbeddedKafka) -> None:
    """Every record resolves, every waiting call ends, and what follows is refused inside the call."""
    producer = await warm(make(kafka, linger_ms=60_000), "one", "four")
    hold = kafka.faults.delay(times=None)
    flying = await producer.send("one", b"flying")
    waiting = asyncio.ensure_future(producer.flush())
    await hold.reached()
    buffered = await producer.send("four", b"buffered")
    others = asyncio.all_tasks() - {asyncio.current_task()} - broker_tasks()
    for task in others:
        task.cancel()
    await asyncio.wait([*others], timeout=LIMIT)
    await turns()
    assert waiting.cancelled()
    assert (flying.outcome, buffered.outcome) == (Outcome.UNKNOWN, Outcome.NOT_WRITTEN)
    assert producer.health().state == "failed"
    assert memory_in_use(producer) == 0
    sending = producer.send("one", b"late")
    with pytest.raises(StateError, match="background task has ended"):
        sending.send(None)
    hold.heal()
    await asyncio.wait_for(producer.close(), 1)
    await no_task_left()


def broker_tasks() -> set[asyncio.Task[Any]]:
    """The tasks of the embedded Kafka, which are not under test."""
    return {task for task in asyncio.all_tasks() if "aioproducer.testing" in repr(task.get_coro())} | {
        task for task in asyncio.all_tasks() if "testing/" in repr(task)
    }


LEFT_RUNNING = """
import asyncio
from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka

async def main():
    global producer, deliveries
    kafka = EmbeddedKafka()
    await kafka.start()
    kafka.create_topic("one", 1)
    producer = Producer(kafka.bootstrap_servers, topics=["one"], linger_ms=60_000)
    await producer.start(wait_ready=5)
    deliveries = [await producer.send("one", b"v") for _ in range(7)]

asyncio.run(main())
print({str(one.outcome.name) for one in deliveries}, producer.health().state)
try:
    producer.send("one", b"v").send(None)
except Exception as error:
    print(type(error).__name__)
"""


def test_f05_end_of_asyncio_run() -> None:
    """`asyncio.run()` cancels a producer that was left running: outcomes are known, and stderr has one line on it."""
    done = run_program(LEFT_RUNNING)
    assert done.stdout.splitlines() == ["{'NOT_WRITTEN'} failed", "StateError"]
    (line,) = done.stderr.splitlines()
    assert "background task ended" in line
    assert done.returncode == 0


# -- F06: scopes round the calls

Call = Callable[[Producer[Any, Any]], Awaitable[Any]]
STUCK: dict[str, Call] = {
    "send": lambda producer: producer.send("new", b"v"),
    "send_and_wait": lambda producer: producer.send_and_wait("one", b"v"),
    "send_batch": lambda producer: producer.send_batch("new", [b"v"]),
    "flush": lambda producer: producer.flush(),
    "flush with a limit": lambda producer: producer.flush(LIMIT),
    "partitions_for": lambda producer: producer.partitions_for("new"),
}


async def in_timeout(call: Awaitable[Any]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call


async def in_task_group(call: Awaitable[Any]) -> None:
    async def sibling() -> None:
        await turns(20)
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(awaited(call))
            group.create_task(sibling())
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


async def awaited(call: Awaitable[Any]) -> None:
    await call


async def in_anyio_scope(call: Awaitable[Any]) -> None:
    with anyio.move_on_after(0.01) as scope:
        await call
    assert scope.cancelled_caught


async def in_anyio_fail_after(call: Awaitable[Any]) -> None:
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.01):
            await call


async def in_anyio_group(call: Awaitable[Any]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(awaited, call)
        await turns(20)
        group.cancel_scope.cancel()


SCOPES = [in_timeout, in_task_group, in_anyio_scope, in_anyio_fail_after, in_anyio_group]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", STUCK)
async def test_f06_scopes(
    name: str, scope: Callable[[Awaitable[Any]], Awaitable[None]], make: Make, kafka: EmbeddedKafka
) -> None:
    """A call that is cancelled by a scope of asyncio's or anyio's ends there; the producer goes on as before."""
    producer = await warm(make(kafka), "one")
    await sound(producer)
    kafka.faults.delay(times=None)
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    await producer.send("one", b"before")
    await scope(STUCK[name](producer))
    kafka.faults.heal()
    await sound(producer)


@pytest.mark.parametrize("scope", SCOPES)
async def test_f06_scopes_round_close(
    scope: Callable[[Awaitable[Any]], Awaitable[None]], make: Make, kafka: EmbeddedKafka
) -> None:
    """A close() that is cancelled by a scope has closed all the same: outcomes are known, and no task is left."""
    producer = await warm(make(kafka), "one")
    hold = kafka.faults.delay(times=None)
    delivery = await producer.send("one", b"v")
    await hold.reached()
    await scope(producer.close(60))
    assert producer.health().state == "closed"
    assert delivery.outcome is Outcome.UNKNOWN
    await no_task_left()


async def test_f06_async_with_inside_a_cancelled_scope(kafka: EmbeddedKafka) -> None:
    """anyio cancels every await in a scope that has ended: the block still closes, and leaves nothing behind."""
    with anyio.move_on_after(0.05):
        async with Producer[Any, Any](kafka.bootstrap_servers) as producer:
            kafka.faults.delay(times=None)
            delivery = producer.send_nowait("one", b"v")
            await anyio.sleep_forever()
    assert producer.health().state == "closed"
    assert delivery.done()
    await no_task_left()


# -- F07: loops and threads


LOOP_CLOSED_FIRST = """
import asyncio, gc, time, warnings
from aioproducer import Producer, StateError
from tests.runtime.support import KafkaElsewhere

async def main():
    producer = Producer(kafka.bootstrap_servers, topics=["one"], linger_ms=60_000)
    await producer.start(wait_ready=5)
    flying = await producer.send("one", b"flying")
    flushing = asyncio.ensure_future(producer.flush())
    while not producer.stats().requests:
        await asyncio.sleep(0)
    buffered = await producer.send("one", b"buffered")
    flushing.cancel()
    return producer, [flying, buffered]

async def elsewhere(producer, deliveries):
    # Whose loop it is, is asked when the last turn of the producer's own was more than a millisecond ago.
    await asyncio.sleep(0.005)
    for use in (
        lambda: producer.send("one", b"v"),
        lambda: producer.send_and_wait("one", b"v"),
        lambda: producer.flush(),
        lambda: producer.close(),
        lambda: producer.close(0),
        lambda: producer.ready(),
        lambda: producer.partitions_for("one"),
    ):
        try:
            await asyncio.wait_for(use(), 1)
        except StateError as error:
            print("StateError", "loop" in str(error))
    async def awaited(what):
        await what

    for wait in (lambda: deliveries[0], lambda: deliveries[0].wait(), lambda: deliveries[0].wait(1)):
        try:
            await asyncio.wait_for(awaited(wait()), 1)
        except RuntimeError as error:
            print(type(error).__name__)

with KafkaElsewhere("one") as kafka:
    kafka.faults.silence(api="Produce")
    loop = asyncio.new_event_loop()
    producer, deliveries = loop.run_until_complete(main())
    loop.close()
    asyncio.run(elsewhere(producer, deliveries))
    print(kafka.brokers[0].connections > 0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del producer
        # Once for the producer, once more for what it let go of.
        gc.collect()
        gc.collect()
    print(sorted({each.category.__name__ for each in told}), "never closed" in str(told[0].message))
    until = time.monotonic() + 5
    while kafka.brokers[0].connections and time.monotonic() < until:
        time.sleep(0.001)
    print(kafka.brokers[0].connections, [one.outcome.name for one in deliveries])
"""


def test_f07_f10_loop_closed_before_the_producer() -> None:
    """Every call from elsewhere says so at once; dropped, its sockets are freed, and its records have outcomes."""
    done = run_program(LOOP_CLOSED_FIRST)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *["StateError True"] * 7,
        *["RuntimeError"] * 3,
        "True",
        "['ResourceWarning'] True",
        "0 ['UNKNOWN', 'NOT_WRITTEN']",
    ]


LOOP_CLOSED_WITH_TASKS = """
import asyncio
import logging
from aioproducer import BatchReport, StateError
from aioproducer.serializers import NotPrepared
from aioproducer.testing import MockProducer

class Registered:
    def serialize(self, topic, headers, data):
        if topic == "unknown":
            raise NotPrepared
        return data

    async def prepare(self, topic, headers, data):
        await asyncio.Event().wait()

class Listener:
    def on_batch(self, report):
        reported.append((report.outcome.name, report.records))

class Lines(logging.Handler):
    def emit(self, record):
        print(record.getMessage())

async def main():
    producer = MockProducer(
        auto_complete=False, buffer_memory=30_000, max_request_size=20_000, transactional_id="id",
        value_serializer=Registered(), listeners=[Listener()],
    )
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    deliveries = [producer.send_nowait("one", bytes(9_000)) for _ in range(3)]
    queued = producer.send_nowait("one", b"queued", partition=7)
    waiting = [
        asyncio.ensure_future(what)
        for what in (
            deliveries[0].wait(None),
            deliveries[2].wait(None),
            queued.wait(None),
            producer.flush(),
            producer.send("one", bytes(19_000), partition=0),
            producer.send("unknown", b""),
            producer.partitions_for("one"),
            producer.commit_transaction(),
        )
    ]
    await asyncio.sleep(0.01)
    return producer, [*deliveries, queued], waiting

reported = []
logging.getLogger("aioproducer").addHandler(Lines(logging.ERROR))
loop = asyncio.new_event_loop()
producer, deliveries, waiting = loop.run_until_complete(main())
loop.close()
engine = producer._engine
engine.settle_without_loop(StateError("dropped"))
print([delivery.outcome.name for delivery in deliveries], reported)
effects = engine.effects
settings = {"perform", "reports_outcomes", "room_of", "wake_at"}
left = [name for name in effects.__slots__ if name not in settings and getattr(effects, name)]
print(engine.admission.calls.waiting, engine.accumulator.budget.used, not left and effects.wake_at == float("inf"))
"""


def test_f10_loop_closed_with_tasks_that_wait() -> None:
    """They were destroyed with it and cannot be woken; each record has its outcome, and nothing is logged as a bug."""
    done = run_program(LOOP_CLOSED_WITH_TASKS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{['NOT_WRITTEN'] * 4} {[('NOT_WRITTEN', 1)] * 3}",
        "0 0 True",
    ]


LOOP_CLOSED_WITH_AN_ATTEMPT = """
import asyncio
from aioproducer import Producer, StateError
from aioproducer.testing import EmbeddedKafka

async def main():
    kafka = await EmbeddedKafka(2).__aenter__()
    kafka.create_topic("one", 2)
    producer = Producer(kafka.bootstrap_servers, linger_ms=0)
    await producer.start()
    for partition in range(2):
        await producer.send_and_wait("one", b"v", partition=partition)
    silence = kafka.faults.silence(api="ApiVersions", broker=2, times=None)
    kafka.faults.drop_connections(2)
    for partition in range(2):
        producer.send_nowait("one", b"v", partition=partition)
    while not silence.hits:
        await asyncio.sleep(0.01)
    return kafka, producer

loop = asyncio.new_event_loop()
kafka, producer = loop.run_until_complete(main())
addresses = producer._engine.addresses
connections = list(addresses._open)
print(len(addresses._under_way) > 0, len(connections) > 0)
loop.close()
producer._engine.settle_without_loop(StateError("dropped"))
print(all(connection.closed for connection in connections))
"""


def test_f10_loop_closed_with_an_attempt_under_way() -> None:
    """It was destroyed with the loop and cannot be cancelled; the connections that are open are closed."""
    done = run_program(LOOP_CLOSED_WITH_AN_ATTEMPT)
    assert done.stdout.splitlines() == ["True True", "True"], done.stderr


async def test_f07_from_a_thread_without_a_loop(make: Make, kafka: EmbeddedKafka) -> None:
    """In a plain thread each call is refused at once, before it is awaited or when it is; none waits."""
    producer = await warm(make(kafka), "one")
    uses: list[Callable[[], Any]] = [
        lambda: producer.send("one", b"v"),
        lambda: producer.send_batch("one", [b"v"]),
        lambda: producer.send_nowait("one", b"v"),
        producer.flush,
        producer.close,
        producer.purge,
    ]

    def in_thread() -> list[str]:
        told = []
        for use in uses:
            try:
                use().send(None)
            except StateError as error:
                told.append(str(error))
        return told

    told = await asyncio.to_thread(in_thread)
    assert len(told) == len(uses)
    assert all("thread" in text for text in told)
    await sound(producer)
    assert kafka.records("one") == []


async def test_f07_stopped_from_another_thread(make: Make, kafka: EmbeddedKafka) -> None:
    """Threads that send while the producer closes get an outcome each: none of their futures waits without end."""
    producer = await warm(make(kafka), "one")

    def flood() -> list[bool]:
        told: list[bool] = []
        while True:
            try:
                window = [producer.send_threadsafe("one", b"v") for _ in range(10)]
            except StateError:
                return told
            for future in window:
                error = future.exception(LIMIT)
                assert error is None or isinstance(error, StateError)
                told.append(error is None)

    threads = [asyncio.ensure_future(asyncio.to_thread(flood)) for _ in range(2)]
    await until(lambda: producer.stats().records_acked > 40)
    await producer.close()
    told = [each for found in await asyncio.wait_for(asyncio.gather(*threads), LIMIT) for each in found]
    # The last ones, of a window that was not full when the producer closed, were not awaited.
    assert 20 < told.count(True) <= len(kafka.records("one")) < told.count(True) + 20
