"""Cancelling a wait never cancels the record; the states of a handle that was cancelled as a future."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import BrokerError, Delivery, Outcome, Producer
from aioproducer.testing import EmbeddedKafka, Fault
from tests.api.support import held_requests, started, turns, values


@pytest.fixture
async def hold(kafka: EmbeddedKafka) -> Fault:
    """Records are not written until it is healed."""
    return held_requests(kafka)


@pytest.fixture
async def delivery(producer: Producer, hold: Fault) -> Delivery:
    """A pending delivery."""
    return await producer.send("one", b"v")


async def awaited(delivery: Delivery) -> Any:
    """Await it in a task of its own."""
    return await delivery


async def test_cancelled_task(delivery: Delivery, hold: Fault, kafka: EmbeddedKafka) -> None:
    """A cancelled task that awaits a delivery leaves it pending for all others, and the record is written."""
    tasks = [started(awaited(delivery)) for _ in range(3)]
    await turns()
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    assert (delivery.cancelled(), delivery.done()) == (False, False)
    hold.heal()
    assert (await tasks[1]) == (await tasks[2]) == delivery.result()
    assert tasks[0].cancelled()
    assert values(kafka) == [b"v"]


async def test_timeout_around_an_await(delivery: Delivery, hold: Fault) -> None:
    """asyncio.timeout() around `await delivery` ends the wait only."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await delivery
    assert not delivery.cancelled()
    hold.heal()
    assert (await delivery).offset == 0


async def test_wait_for_around_a_coroutine(delivery: Delivery, hold: Fault) -> None:
    """wait_for() around a coroutine that awaits it ends the wait only."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(awaited(delivery), 0.01)
    assert not delivery.cancelled()
    hold.heal()
    assert (await delivery).offset == 0


async def test_failing_task_group(delivery: Delivery, hold: Fault) -> None:
    """A TaskGroup that fails cancels its tasks, not the record."""

    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(awaited(delivery))
            group.create_task(fails())
    assert not delivery.cancelled()
    hold.heal()
    assert (await delivery).offset == 0


async def test_cancelled_wait_method(delivery: Delivery, hold: Fault) -> None:
    """delivery.wait() may be cancelled; it cancels nothing."""
    task = started(delivery.wait())
    await turns()
    task.cancel()
    await asyncio.wait([task])
    hold.heal()
    assert (await delivery).offset == 0


async def test_wait_for_given_the_delivery(delivery: Delivery, hold: Fault, kafka: EmbeddedKafka) -> None:
    """wait_for(delivery) times out in time; the record is still written."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(delivery, 0.01)
    hold.heal()
    assert (await delivery).offset == 0
    assert delivery.outcome is Outcome.ACKED
    assert values(kafka) == [b"v"]


async def test_cancelled_gather_given_the_delivery(delivery: Delivery, hold: Fault) -> None:
    """A cancelled gather(delivery) ends at once; the record is still written."""
    gathered = asyncio.gather(delivery)
    await turns()
    gathered.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(gathered, 5)
    hold.heal()
    assert (await delivery).offset == 0


async def test_wait_with_timeout_given_the_delivery(delivery: Delivery, hold: Fault) -> None:
    """asyncio.wait(timeout) gives it back as pending and cancels nothing."""
    done, pending = await asyncio.wait([delivery], timeout=0.01)  # type: ignore[type-var]
    assert (done, pending, delivery.cancelled()) == (set(), {delivery}, False)
    hold.heal()
    await delivery


async def test_cancelled_handle_while_pending(delivery: Delivery) -> None:
    """Cancelled and pending: done and cancelled like a future, result() and exception() raise CancelledError."""
    assert delivery.cancel()
    assert (delivery.done(), delivery.cancelled(), delivery.outcome) == (True, True, Outcome.PENDING)
    with pytest.raises(asyncio.CancelledError):
        delivery.result()
    with pytest.raises(asyncio.CancelledError):
        delivery.exception()


async def test_cancelled_handle_after_acknowledgement(delivery: Delivery, hold: Fault) -> None:
    """Cancelled, then written: not cancelled any more; await, result() and exception() give the metadata."""
    delivery.cancel()
    hold.heal()
    metadata = await delivery
    assert (delivery.done(), delivery.cancelled(), delivery.outcome) == (True, False, Outcome.ACKED)
    assert delivery.result() == metadata
    assert delivery.exception() is None


async def test_cancelled_handle_after_failure(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Cancelled, then failed: await, result() and exception() give the error."""
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    delivery = await producer.send("one", b"v")
    delivery.cancel()
    with pytest.raises(BrokerError):
        await delivery
    assert (delivery.done(), delivery.cancelled(), delivery.outcome) == (True, False, Outcome.NOT_WRITTEN)
    assert isinstance(delivery.exception(), BrokerError)


async def test_new_await_of_a_cancelled_handle(delivery: Delivery, hold: Fault) -> None:
    """An await that begins after the handle was cancelled waits for the outcome."""
    delivery.cancel()
    task = started(awaited(delivery))
    await turns()
    assert not task.done()
    hold.heal()
    assert (await task).offset == 0


async def test_cancel_calls_the_callbacks_once(delivery: Delivery, hold: Fault) -> None:
    """Callbacks of a handle that is cancelled run then, and not again with the outcome."""
    observed: list[bool] = []
    delivery.add_done_callback(lambda one: observed.append(one.cancelled()))
    delivery.cancel()
    await turns()
    hold.heal()
    await delivery
    await turns()
    assert observed == [True]


async def test_cancel_leaves_those_who_await(delivery: Delivery, hold: Fault) -> None:
    """A task that awaits the delivery is not touched when its handle is cancelled."""
    task = started(awaited(delivery))
    await turns()
    delivery.cancel()
    await turns()
    assert not task.done()
    hold.heal()
    assert (await task).offset == 0


async def test_cancel_of_a_done_delivery(producer: Producer) -> None:
    """cancel() of a delivery with a known outcome returns False and changes nothing."""
    delivery = await producer.send("one", b"v")
    await delivery
    assert (delivery.cancel(), delivery.cancelled(), delivery.outcome) == (False, False, Outcome.ACKED)


async def test_cancel_twice(delivery: Delivery) -> None:
    """A second cancel() of a pending handle returns False, as that of a future does."""
    assert (delivery.cancel(), delivery.cancel()) == (True, False)


async def test_gather_with_a_cancelled_handle(delivery: Delivery) -> None:
    """gather() of a handle that was cancelled raises CancelledError, and does not hang."""
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.gather(delivery), 5)


async def test_others_of_one_batch_are_not_cancelled(producer: Producer, hold: Fault) -> None:
    """Cancelling one handle leaves the handles of other records of its batch."""
    first, second = await producer.send("one", b"v"), await producer.send("one", b"w")
    first.cancel()
    assert (first.cancelled(), second.cancelled()) == (True, False)


async def test_try_cancel_reaches_those_who_wait(producer: Producer, hold: Fault) -> None:
    """try_cancel() reaches every waiter: awaits raise, callbacks run."""
    blocker = await producer.send("one", b"blocker")
    started_blocker = started(awaited(blocker))
    await hold.reached()
    delivery = await producer.send("one", b"v")
    task = started(awaited(delivery))
    observed: list[Outcome] = []
    delivery.add_done_callback(lambda one: observed.append(one.outcome))
    assert delivery.try_cancel()
    await asyncio.wait([task], timeout=5)
    hold.heal()
    await started_blocker
    assert str(task.exception()) == str(delivery.exception())
    assert observed == [Outcome.NOT_WRITTEN]
