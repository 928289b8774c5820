"""A delivery has the protocol of futures, and the outcome of its record."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import pytest

from aioproducer import BrokerError, Delivery, DeliveryError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.support import held_requests, started, values

REFUSED = "INVALID_REQUIRED_ACKS"


async def test_await_many_times(producer: Producer) -> None:
    """Several tasks can await a delivery, more than once, and get the same result each time."""
    delivery = await producer.send("one", b"v")
    several = await asyncio.gather(*(asyncio.wait_for(_awaited(delivery), 5) for _ in range(5)))
    assert {*several, await delivery, delivery.result()} == {several[0]}


async def _awaited(delivery: Delivery) -> Any:
    return await delivery


async def test_pending(producer: Producer, kafka: EmbeddedKafka) -> None:
    """While pending: not done, not cancelled, and result() and exception() raise InvalidStateError."""
    held_requests(kafka)
    delivery = await producer.send("one", b"v")
    assert (delivery.done(), delivery.cancelled(), delivery.outcome) == (False, False, Outcome.PENDING)
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()
    with pytest.raises(asyncio.InvalidStateError):
        delivery.exception()


async def test_acked(producer: Producer) -> None:
    """When written: done, result() is the metadata, exception() None."""
    delivery = await producer.send("one", b"v")
    metadata = await delivery
    assert (delivery.done(), delivery.cancelled(), delivery.outcome) == (True, False, Outcome.ACKED)
    assert delivery.result() == metadata
    assert delivery.exception() is None


async def test_failed(producer: Producer, kafka: EmbeddedKafka) -> None:
    """When it failed: done, and await, result() and exception() give the same error."""
    kafka.faults.error(REFUSED)
    delivery = await producer.send("one", b"v")
    with pytest.raises(BrokerError) as caught:
        await delivery
    with pytest.raises(BrokerError) as again:
        delivery.result()
    assert str(caught.value) == str(again.value) == str(delivery.exception())
    assert (delivery.done(), delivery.outcome) == (True, Outcome.NOT_WRITTEN)


async def test_get_loop(producer: Producer) -> None:
    """get_loop() is the loop of the producer."""
    assert (await producer.send("one")).get_loop() is asyncio.get_running_loop()


async def test_gather_10_000(producer: Producer) -> None:
    """gather() takes ten thousand deliveries, without making a task for any."""
    await producer.send_and_wait("one", b"v")
    deliveries = [await producer.send("one", b"v") for _ in range(10_000)]
    before = len(asyncio.all_tasks())
    gathered = asyncio.gather(*deliveries)
    assert len(asyncio.all_tasks()) == before
    assert [metadata.offset for metadata in await gathered] == list(range(1, 10_001))


async def test_gather_of_done_deliveries(producer: Producer) -> None:
    """gather() takes deliveries that are done already, and mixes them with coroutines."""
    done = await producer.send("one", b"v")
    await done
    first, second = await asyncio.gather(done, producer.send_and_wait("one", b"w"))
    assert (first.offset, second.offset) == (0, 1)


async def test_gather_return_exceptions(producer: Producer, kafka: EmbeddedKafka) -> None:
    """gather(return_exceptions=True) gives the errors as results."""
    kafka.faults.error(REFUSED, topic="one")
    failing, fine = await producer.send("one", b"v"), await producer.send("four", b"w", partition=0)
    error, metadata = await asyncio.gather(failing, fine, return_exceptions=True)
    assert isinstance(error, DeliveryError)
    assert not isinstance(metadata, BaseException)
    assert metadata.offset == 0


async def test_wait_first_completed(producer: Producer, kafka: EmbeddedKafka) -> None:
    """asyncio.wait(FIRST_COMPLETED) returns the delivery that is written first."""
    fast = await producer.send("one", b"v")
    await fast
    hold = held_requests(kafka)
    slow = await producer.send("one", b"w")
    done, pending = await asyncio.wait([fast, slow], return_when="FIRST_COMPLETED")  # type: ignore[type-var]
    assert (done, pending) == ({fast}, {slow})
    hold.heal()
    assert (await slow).offset == 1


async def test_wait_all(producer: Producer) -> None:
    """asyncio.wait() of deliveries gives the deliveries themselves, done."""
    deliveries = [await producer.send("one", b"v") for _ in range(5)]
    done, pending = await asyncio.wait(deliveries)  # type: ignore[type-var]
    assert done == set(deliveries)
    assert not pending


async def test_wait_first_exception(producer: Producer, kafka: EmbeddedKafka) -> None:
    """asyncio.wait(FIRST_EXCEPTION) returns when one fails."""
    kafka.faults.error(REFUSED, topic="one")
    failing = await producer.send("one", b"v")
    never = started(asyncio.Event().wait())
    done, pending = await asyncio.wait([failing, never], return_when="FIRST_EXCEPTION")  # type: ignore[type-var]
    never.cancel()
    assert done == {failing}
    assert pending == {never}
    assert failing.exception() is not None


async def test_as_completed(producer: Producer) -> None:
    """asyncio.as_completed() takes deliveries."""
    deliveries = [await producer.send("one", b"v") for _ in range(3)]
    offsets = [(await completed).offset for completed in asyncio.as_completed(deliveries)]
    assert sorted(offsets) == [0, 1, 2]


async def test_shield(producer: Producer) -> None:
    """asyncio.shield() takes a delivery."""
    assert (await asyncio.shield(await producer.send("one", b"v"))).offset == 0


async def test_is_a_future_for_asyncio(producer: Producer) -> None:
    """asyncio.isfuture() says so, and ensure_future() gives the delivery itself."""
    delivery: Any = await producer.send("one", b"v")
    assert asyncio.isfuture(delivery)
    assert asyncio.ensure_future(delivery) is delivery


async def test_task_group(producer: Producer) -> None:
    """Tasks of a TaskGroup await deliveries."""
    deliveries = [await producer.send("one", b"v") for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_awaited(delivery)) for delivery in deliveries]
    assert [task.result().offset for task in tasks] == [0, 1, 2]


async def test_wait_gives_the_outcome(producer: Producer) -> None:
    """wait() returns the outcome as soon as it is known."""
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(5) is Outcome.ACKED
    assert await delivery.wait() is Outcome.ACKED


async def test_wait_gives_up_quietly(producer: Producer, kafka: EmbeddedKafka) -> None:
    """When its time is over wait() returns PENDING; the record is still sent."""
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(0.01) is Outcome.PENDING
    assert await delivery.wait(0) is Outcome.PENDING
    hold.heal()
    assert await delivery.wait(5) is Outcome.ACKED


async def test_wait_does_not_raise_for_failures(producer: Producer, kafka: EmbeddedKafka) -> None:
    """wait() returns a failure as an outcome."""
    kafka.faults.error(REFUSED)
    assert await (await producer.send("one", b"v")).wait(5) is Outcome.NOT_WRITTEN


async def test_timings(producer: Producer) -> None:
    """The stages of a record are in order, in the loop's time; a stage that has not happened is None."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    delivery = await producer.send("one", b"v")
    early = delivery.timings
    await delivery
    late = delivery.timings
    stages = [late.accepted, late.drained, late.written, late.answered]
    known = [stage for stage in stages if stage is not None]
    assert (early.accepted, early.drained, early.answered) == (late.accepted, None, None)
    assert sorted(known) == known
    assert before <= known[0] <= known[-1] <= loop.time()
    assert len(known) == 4


async def test_try_cancel_withdraws(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A record whose batch is not drained is withdrawn: NOT_WRITTEN, and the others of the batch are written."""
    deliveries = [await producer.send("one", b"%d" % i) for i in range(3)]
    assert deliveries[1].try_cancel()
    with pytest.raises(DeliveryError) as caught:
        await deliveries[1]
    await producer.flush()
    assert caught.value.outcome is deliveries[1].outcome is Outcome.NOT_WRITTEN
    assert values(kafka) == [b"0", b"2"]
    assert [deliveries[i].result().offset for i in (0, 2)] == [0, 1]


async def test_try_cancel_of_all_records(producer: Producer, kafka: EmbeddedKafka) -> None:
    """When all records of a batch are withdrawn nothing is sent, and the next record is the first."""
    deliveries = [await producer.send("one", b"v") for _ in range(3)]
    assert all(delivery.try_cancel() for delivery in deliveries)
    assert (await producer.send_and_wait("one", b"next")).offset == 0
    assert values(kafka) == [b"next"]


async def test_try_cancel_twice(producer: Producer) -> None:
    """A second try_cancel() has no effect, and returns False."""
    delivery = await producer.send("one", b"v")
    assert (delivery.try_cancel(), delivery.try_cancel()) == (True, False)


async def test_try_cancel_too_late(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A record that was drained, or written, is not withdrawn."""
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    task = started(_awaited(delivery))
    await hold.reached()
    during = delivery.try_cancel()
    hold.heal()
    await task
    assert (during, delivery.try_cancel(), delivery.outcome) == (False, False, Outcome.ACKED)


async def test_repr(producer: Producer) -> None:
    """The repr has the topic, the partition and the outcome."""
    delivery = await producer.send("one", b"v")
    assert "one" in repr(delivery)
    assert "PENDING" in repr(delivery)
    await delivery
    assert "ACKED" in repr(delivery)


async def test_is_small_and_not_tracked(producer: Producer) -> None:
    """A delivery has at most 64 bytes and is invisible to the garbage collector."""
    delivery = await producer.send("one", b"v")
    assert sys.getsizeof(delivery) <= 64
    assert not gc.is_tracked(delivery)
    await delivery


async def test_cannot_be_made_by_hand() -> None:
    """Deliveries are made by send() only."""
    with pytest.raises(TypeError):
        Delivery()
