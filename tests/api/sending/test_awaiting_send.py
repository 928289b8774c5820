"""The result of `send()` behaves as a coroutine that returns the delivery."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from aioproducer import Delivery, Outcome, Producer, RecordMetadata
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import first_step, started, turns, unknown_topic, values, warm


async def test_await_gives_a_delivery(producer: Producer) -> None:
    """Awaiting send() gives the delivery of the record."""
    delivery = await producer.send("one", b"v")
    assert isinstance(delivery, Delivery)
    assert (delivery.topic, delivery.partition) == ("one", 0)


async def test_delivery_gives_metadata(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Awaiting the delivery gives topic, partition, offset, timestamp and sizes of the written record."""
    delivery = await producer.send("one", b"value", key=b"key")
    metadata = await delivery
    (record,) = kafka.records("one")
    assert isinstance(metadata, RecordMetadata)
    assert metadata[:4] == ("one", 0, 0, record.timestamp)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 5)


async def test_accepted_send_does_not_suspend(producer: Producer) -> None:
    """With metadata and room, the await ends at its first step."""
    assert isinstance(first_step(producer.send("one", b"v")), Delivery)


async def test_acceptance_happens_inside_the_call(producer: Producer) -> None:
    """A record of a known topic has its place when send() returns, before any await."""
    sending = producer.send("one", b"v")
    assert sending.delivery is not None
    assert producer.stats().records_accepted == 1
    await sending


async def test_first_send_to_a_topic_waits_and_then_gives_the_same(producer: Producer) -> None:
    """A send to an unknown topic waits for it and then returns a delivery as well."""
    sending = producer.send("new", b"v")
    assert sending.delivery is None
    delivery = await sending
    assert (await delivery).topic == "new"


async def test_is_a_coroutine_for_isinstance(producer: Producer) -> None:
    """The object is an instance of the abstract Coroutine and Awaitable."""
    sending = producer.send("one", b"v")
    assert isinstance(sending, Coroutine)
    assert isinstance(sending, Awaitable)
    assert asyncio.iscoroutine(sending)
    assert inspect.isawaitable(sending)
    await sending


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_gather(producer: Producer, kafka: EmbeddedKafka, topic: str) -> None:
    """gather() of sends returns their deliveries in the order of the calls, on the fast path and on the slow one."""
    deliveries = await asyncio.gather(*(producer.send(topic, b"%d" % i) for i in range(20)))
    offsets = [metadata.offset for metadata in await asyncio.gather(*deliveries)]
    assert offsets == list(range(20))
    assert values(kafka, topic) == [b"%d" % i for i in range(20)]


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_create_task(producer: Producer, topic: str) -> None:
    """create_task() takes it."""
    delivery = await asyncio.get_running_loop().create_task(producer.send(topic, b"v"))
    assert (await delivery).offset == 0


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_task_group(producer: Producer, topic: str) -> None:
    """A TaskGroup takes it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(producer.send(topic, b"v")) for _ in range(3)]
    assert sorted([(await task.result()).offset for task in tasks]) == [0, 1, 2]


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_wait_for(producer: Producer, topic: str) -> None:
    """wait_for() takes it."""
    delivery = await asyncio.wait_for(producer.send(topic, b"v"), 5)
    assert (await delivery).offset == 0


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_ensure_future(producer: Producer, topic: str) -> None:
    """ensure_future() takes it."""
    delivery = await asyncio.ensure_future(producer.send(topic, b"v"))
    assert (await delivery).offset == 0


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_timeout_block(producer: Producer, topic: str) -> None:
    """asyncio.timeout() around it works."""
    async with asyncio.timeout(5):
        delivery = await producer.send(topic, b"v")
    assert (await delivery).offset == 0


@pytest.mark.parametrize("topic", ["one", "new"])
async def test_shield(producer: Producer, topic: str) -> None:
    """asyncio.shield() takes it."""
    delivery = await asyncio.shield(producer.send(topic, b"v"))
    assert (await delivery).offset == 0


async def test_wait_with_tasks(producer: Producer) -> None:
    """asyncio.wait() of tasks of sends gives them all."""
    done, pending = await asyncio.wait([started(producer.send("new", b"v")) for _ in range(3)])
    assert len(done) == 3
    assert not pending


async def test_close_of_an_accepted_send_keeps_the_record(producer: Producer, kafka: EmbeddedKafka) -> None:
    """close() on the awaitable of an accepted record is quiet, and the record is written."""
    producer.send("one", b"v").close()
    await producer.flush()
    assert values(kafka) == [b"v"]


async def test_throw_into_an_accepted_send_raises_and_keeps_the_record(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """throw() raises its exception; an accepted record is still written."""
    sending = producer.send("one", b"v")
    with pytest.raises(ZeroDivisionError):
        sending.throw(ZeroDivisionError())
    await producer.flush()
    assert values(kafka) == [b"v"]


async def test_throw_into_a_waiting_send_withdraws_it(producer: Producer, kafka: EmbeddedKafka) -> None:
    """throw() into a send that waits for its topic raises its exception, and the record is not sent."""
    hold = unknown_topic(kafka)
    sending = producer.send("new", b"v")
    sending.send(None)
    with pytest.raises(ZeroDivisionError):
        sending.throw(ZeroDivisionError)
    hold.release()
    await producer.partitions_for("new")
    await producer.flush()
    assert values(kafka, "new") == []


async def test_unawaited_send_warns_and_still_sends(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A send that is dropped without an await gives a RuntimeWarning; its record is written."""
    with pytest.warns(RuntimeWarning, match="never awaited"):
        producer.send("one", b"v")
    await producer.flush()
    assert values(kafka) == [b"v"]


async def test_unawaited_waiting_send_warns_and_still_sends(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The same holds for one that had to wait for its topic: the queues do not need an observer."""
    with pytest.warns(RuntimeWarning, match="never awaited"):
        producer.send("new", b"v")
    await producer.send_and_wait("new", b"w")
    assert values(kafka, "new") == [b"v", b"w"]


async def test_failure_of_an_unawaited_send_is_logged(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal of a send without an await is logged, with the topic."""
    with pytest.warns(RuntimeWarning, match="never awaited"):
        producer.send("bad/topic", b"v")
    await turns()
    assert "bad/topic" in caplog.text or "topic name" in caplog.text


async def test_one_awaited_in_another_task_than_the_caller(producer: Producer) -> None:
    """The call may be made in one task and awaited in another."""
    sending = producer.send("new", b"v")

    async def observe(awaitable: Awaitable[Any]) -> Any:
        return await awaitable

    delivery = await started(observe(sending))
    assert (await delivery).offset == 0


async def test_send_is_acceptance_not_delivery(make: Make, kafka: EmbeddedKafka) -> None:
    """An awaited send is accepted, not written: the delivery is pending until the answer."""
    producer = await warm(make())
    hold = kafka.faults.delay()
    delivery = await producer.send("one", b"v")
    before = delivery.outcome
    hold.release()
    await delivery
    assert [before, delivery.outcome] == [Outcome.PENDING, Outcome.ACKED]


async def test_bytes_are_copied_at_acceptance(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Changing a buffer after send() returned does not change the record."""
    value, key, header = bytearray(b"value"), bytearray(b"key"), bytearray(b"head")
    await producer.send("one", value, key=memoryview(key), headers=[("h", header)])
    for buffer in (value, key, header):
        buffer[0] = 0
    await producer.flush()
    (record,) = kafka.records("one")
    assert (record.value, record.key, record.headers) == (b"value", b"key", (("h", b"head"),))


async def test_repr_says_what_it_waits_for(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The repr of the awaitable separates accepted from waiting."""
    accepted, waiting = producer.send("one"), producer.send("new")
    assert "accepted" in repr(accepted)
    assert "waiting" in repr(waiting)
    await accepted
    await waiting


def step(call: Coroutine[Any, Any, Any]) -> Any:
    """Let a task that was made of a call take a step; returns the call's result at its end, None before."""
    try:
        waits_for = call.send(None)
    except StopIteration as end:
        return end.value
    if waits_for is not None:
        # A task that reads the future does the same.
        waits_for._asyncio_future_blocking = False
    return None


@pytest.mark.parametrize("name", ["send", "send_and_wait"])
async def test_steps_of_two_tasks_of_one_call(name: str, producer: Producer) -> None:
    """The steps of two tasks, taken by hand, both end with the answer; otherwise a task could not even be cancelled."""
    call = getattr(producer, name)("new", b"v")
    assert [step(call), step(call)] == [None, None]
    await producer.partitions_for("new")
    await producer.flush()
    found: list[Any] = [None, None]
    for _ in range(10):
        found = [step(call) if each is None else each for each in found]
    assert found[0] is not None
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["send", "send_and_wait"])
async def test_two_tasks_of_one_call(name: str, producer: Producer) -> None:
    """Both have the answer: neither continues after the end of the other, and hangs."""
    call = getattr(producer, name)("new", b"v")
    both = [asyncio.create_task(call) for _ in range(2)]
    first, second = await asyncio.wait_for(asyncio.gather(*both), 5)
    assert first == second
    assert first.topic == "new"
