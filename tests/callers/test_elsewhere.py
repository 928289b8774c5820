"""`send_threadsafe()` whose event loop ends: no thread waits without end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from aioproducer import Delivery, Outcome, Producer, StateError
from aioproducer._callers.threads import run_in_loop
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.net.support import LIMIT, Make, until, warm


async def answers(value: int = 7) -> int:
    """Work that is done."""
    await asyncio.sleep(0)
    return value


async def never() -> int:
    """Work that is not."""
    await asyncio.get_running_loop().create_future()
    return 0


def handed_over(loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[int]]) -> Future[int]:
    """By another thread."""
    futures: list[Future[int]] = []
    thread = threading.Thread(target=lambda: futures.append(run_in_loop(loop, work)))
    thread.start()
    thread.join(LIMIT)
    return futures[0]


def test_a_loop_that_runs() -> None:
    """The future has the result, or the error, of whatever class."""

    class Own(BaseException):
        pass

    async def raising() -> int:
        raise Own

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        for work, error in ((answers, None), (raising, Own)):
            future = handed_over(loop, work)
            # The loop turns for a while: a call of another thread reaches it by its self-pipe.
            runner.run(asyncio.sleep(0.01))
            assert type(future.exception(LIMIT)) is (type(None) if error is None else error)


def test_a_loop_that_is_closed() -> None:
    """The call raises the reason, and leaves no coroutine without an await."""
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(StateError, match="the event loop of the producer is closed"):
        run_in_loop(loop, answers)
    gc.collect()


def test_a_loop_that_is_closed_before_it_looks() -> None:
    """The work was never begun: the future says so."""
    loop = asyncio.new_event_loop()
    future = handed_over(loop, answers)
    loop.close()
    error = future.exception(LIMIT)
    assert isinstance(error, StateError)
    assert error.outcome is Outcome.NOT_WRITTEN


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed_meanwhile() -> None:
    """Its tasks are not cancelled: the future says that the outcome is unknown."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    future = handed_over(loop, never)
    # The loop turns for a while: a call of another thread reaches it by its self-pipe.
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    gc.collect()
    error = future.exception(LIMIT)
    assert isinstance(error, StateError)
    assert error.outcome is Outcome.UNKNOWN


def test_cancelling() -> None:
    """Cancelled before, meanwhile, or by the loop; and after the loop was closed."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        before = handed_over(loop, answers)
        assert before.cancel()
        meanwhile, late, never_cancelled = (handed_over(loop, never) for _ in range(3))
        # The loop turns for a while: a call of another thread reaches it by its self-pipe.
        runner.run(asyncio.sleep(0.01))
        assert meanwhile.cancel()
        # The loop turns for a while: a call of another thread reaches it by its self-pipe.
        runner.run(asyncio.sleep(0.01))
        tasks = asyncio.all_tasks(loop)
        assert len(tasks) == 2
    for future in (late, never_cancelled):
        with pytest.raises(CancelledError):
            future.result(LIMIT)
        assert future.cancelled()


@pytest.mark.parametrize("kind", ["producer", "mock"])
async def test_arguments_that_raise(kind: str, make: Make, kafka: EmbeddedKafka) -> None:
    """An exception in the loop is raised by the future, and has no effect on the loop."""

    class Raising:
        def __iter__(self) -> Any:
            raise StopIteration

    producer: Any = MockProducer() if kind == "mock" else make(kafka)
    if kind == "mock":
        await producer.start()
    else:
        await warm(producer, "one")

    def send() -> BaseException | None:
        future: Future[Any] = producer.send_threadsafe("one", b"v", headers=Raising())
        return future.exception(LIMIT)

    assert isinstance(await asyncio.to_thread(send), Exception)
    futures: list[Future[Any]] = []
    thread = threading.Thread(target=lambda: futures.append(producer.send_threadsafe("one", b"good")))
    thread.start()
    await until(lambda: futures and futures[0].done())
    thread.join()
    assert futures[0].result(0).offset == 0
    await producer.close()


def test_the_producer_is_dropped_with_its_loop() -> None:
    """A thread that waits for a record of a producer whose loop was closed gets an error."""

    async def begun() -> tuple[Producer[Any, Any], EmbeddedKafka]:
        kafka = EmbeddedKafka()
        await kafka.start()
        producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers)
        await producer.start(wait_ready=LIMIT)
        kafka.faults.delay(before=True, times=None)
        return producer, kafka

    async def stopped(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
        await producer.close(0)
        kafka.faults.heal()
        await kafka.stop()

    with asyncio.Runner() as runner:
        producer, kafka = runner.run(begun())
        futures: list[Future[Any]] = []
        for _ in range(2):
            thread = threading.Thread(target=lambda: futures.append(producer.send_threadsafe("one", b"v")))
            thread.start()
            thread.join(LIMIT)
            # The loop turns for a while: a call of another thread reaches it by its self-pipe.
            runner.run(asyncio.sleep(0.01))
        runner.run(stopped(producer, kafka))
    assert all(future.done() for future in futures)


@pytest.mark.parametrize("kind", ["placed", "queued"])
async def test_only_the_own_loop_takes_a_record_back(kind: str, make: Make, kafka: EmbeddedKafka) -> None:
    """try_cancel() in another thread, with a loop of its own or without, says so and leaves the record where it is."""

    async def taken(delivery: Delivery) -> bool:
        return delivery.try_cancel()

    kafka.faults.delay(api="Metadata", topic="unknown", times=None)
    producer = await warm(make(kafka, linger_ms=10_000))
    delivery = await producer.send("one", b"1") if kind == "placed" else producer.send_nowait("unknown", b"1")
    with pytest.raises(StateError, match="call_soon_threadsafe"):
        await asyncio.to_thread(delivery.try_cancel)
    with pytest.raises(StateError, match="call_soon_threadsafe"):
        await asyncio.to_thread(asyncio.run, taken(delivery))
    assert delivery.outcome is Outcome.PENDING
    assert delivery.try_cancel()
    assert not await asyncio.to_thread(delivery.try_cancel)
