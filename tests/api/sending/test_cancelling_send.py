"""Cancelling the await of a send: before acceptance it withdraws the record, afterwards it changes nothing."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from aioproducer import Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, started, turns, unknown_topic, values, warm


async def cancel(task: asyncio.Task[object]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_while_waiting_for_metadata_is_not_sent(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """A record whose send is cancelled before its topic is known is never written; the others are."""
    hold = unknown_topic(kafka)
    sends = [started(producer.send("new", b"%d" % i)) for i in range(3)]
    await hold.reached()
    await cancel(sends[1])
    hold.release()
    await asyncio.gather(sends[0], sends[2])
    await producer.flush()
    assert values(kafka, "new") == [b"0", b"2"]


async def test_wait_for_running_out_before_acceptance_is_not_sent(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """wait_for() around a waiting send withdraws the record when its time is over."""
    hold = unknown_topic(kafka)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(producer.send("new", b"late"), 0.01)
    hold.release()
    await producer.send_and_wait("new", b"next")
    assert values(kafka, "new") == [b"next"]


async def test_cancelled_before_its_task_ran_is_not_sent_if_it_waits(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """A task of a waiting send that is cancelled before its first step withdraws the record too."""
    hold = unknown_topic(kafka)
    task = started(producer.send("new", b"v"))
    await cancel(task)
    hold.release()
    await producer.send_and_wait("new", b"next")
    assert values(kafka, "new") == [b"next"]


async def test_cancelled_while_waiting_for_memory_gives_its_place_away(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """A send cancelled in the line for memory is never written, and those behind it move up."""
    producer = await warm(make(buffer_memory=3000))
    hold = held_requests(kafka)
    first = await producer.send("one", bytes(2000))
    waiting = [started(producer.send("one", bytes(2500 - i))) for i in range(2)]
    await hold.reached()
    await cancel(waiting[0])
    hold.heal()
    await waiting[1]
    await producer.flush()
    assert [len(value or b"") for value in values(kafka)] == [2000, 2499]
    assert first.outcome is Outcome.ACKED


async def test_cancelled_waiting_send_gives_its_room_back(make: Make, kafka: EmbeddedKafka) -> None:
    """When all are cancelled and written, no memory and no call is left in the counters."""
    producer = await warm(make(buffer_memory=3000))
    hold = held_requests(kafka)
    await producer.send("one", bytes(2000))
    waiting = [started(producer.send("one", bytes(2500))) for _ in range(5)]
    await hold.reached()
    assert producer.stats().waiting_calls == 5
    for task in waiting:
        await cancel(task)
    assert producer.stats().waiting_calls == 0
    hold.heal()
    await producer.flush()
    assert producer.stats().bytes_buffered == 0
    await producer.send_and_wait("one", bytes(2500))


async def test_cancelled_during_a_coroutine_serializer_is_not_sent(make: Make, kafka: EmbeddedKafka) -> None:
    """A record whose serializer has not finished is withdrawn by a cancellation; the one behind it is sent."""
    gate = asyncio.Event()

    async def slow(value: bytes) -> bytes:
        await gate.wait()
        return value

    producer = await warm(make(value_serializer=slow))
    sends = [started(producer.send("one", b"%d" % i)) for i in range(2)]
    await turns()
    await cancel(sends[0])
    gate.set()
    await sends[1]
    await producer.flush()
    assert values(kafka) == [b"1"]


async def test_cancelled_after_acceptance_changes_nothing(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A task that is cancelled although its record was accepted inside the call leaves the record in."""
    task = started(producer.send("one", b"v"))
    await cancel(task)
    await producer.flush()
    assert values(kafka) == [b"v"]


async def test_cancelling_send_and_wait_after_acceptance_changes_nothing(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """send_and_wait() cancelled while it waits for the answer leaves the record in."""
    hold = held_requests(kafka)
    task = started(producer.send_and_wait("one", b"v"))
    await hold.reached()
    await cancel(task)
    hold.heal()
    await producer.flush()
    assert values(kafka) == [b"v"]


async def test_cancelling_send_and_wait_before_acceptance_withdraws(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """send_and_wait() cancelled while its topic is not known is not written."""
    hold = unknown_topic(kafka)
    task = started(producer.send_and_wait("new", b"v"))
    await hold.reached()
    await cancel(task)
    hold.release()
    await producer.send_and_wait("new", b"next")
    assert values(kafka, "new") == [b"next"]


async def test_cancellation_at_the_turn_of_the_loop_leaves_the_record_accepted(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """A tight loop of sends that is cancelled at any point leaves exactly the accepted records written."""

    async def flood() -> None:
        while True:
            await producer.send("one", b"v")

    task = started(flood())
    await turns(5)
    await cancel(task)
    await producer.flush()
    assert len(values(kafka)) == producer.stats().records_accepted > 0


async def test_one_cancelled_observer_of_gather_withdraws_all_waiting(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """Cancelling a gather() of waiting sends withdraws every one of them."""
    hold = unknown_topic(kafka)
    gathered = asyncio.gather(*(producer.send("new", b"v") for _ in range(5)))
    await hold.reached()
    gathered.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathered
    hold.release()
    await producer.send_and_wait("new", b"next")
    assert values(kafka, "new") == [b"next"]


class Order:
    """An object that a serializer turns into bytes."""


async def test_what_was_sent_is_not_kept(make: Make) -> None:
    """After a record is written, the producer keeps no reference to the user's objects."""
    producer = await warm(make(value_serializer=lambda order: b"order"))
    order = Order()
    reference = weakref.ref(order)
    await producer.send_and_wait("one", order)
    del order
    gc.collect()
    assert reference() is None


async def test_what_was_refused_is_not_kept(make: Make, kafka: EmbeddedKafka) -> None:
    """The producer keeps no reference to withdrawn records either."""
    producer = await warm(make(value_serializer=lambda order: b"order"))
    hold = unknown_topic(kafka)
    order = Order()
    reference = weakref.ref(order)
    task = started(producer.send("new", order))
    await hold.reached()
    await cancel(task)
    del order, task
    gc.collect()
    assert reference() is None
