"""Misuse of deliveries and of the calls that return them: callbacks that lie, and calls that are given up and repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import BatchDelivery, ConfigurationError, Delivery, Outcome, Producer, StateError
from aioproducer._core import adopt, batches_from, refuse_record, reserve_place
from aioproducer.testing import EmbeddedKafka
from tests.callers.zoo import Own, Raising
from tests.net.support import LIMIT, Make, turns, warm
from tests.runtime.support import sound


@pytest.fixture(params=[False, True], ids=["quick loop", "debugging loop"])
async def producer(request: pytest.FixtureRequest, make: Make, kafka: EmbeddedKafka) -> Producer[Any, Any]:
    """A running producer, whose loop may look at each callback that it is given."""
    asyncio.get_running_loop().set_debug(request.param)
    return await warm(make(kafka, linger_ms=20), "one")


class Compared:
    """A callback that does something when it is compared with another."""

    def __init__(self, deed: Any) -> None:
        self.deed = deed

    def __call__(self, _: Delivery) -> None:
        """Called at the end."""

    def __eq__(self, _other: object) -> bool:
        return bool(self.deed())

    __hash__ = None  # type: ignore[assignment]


async def test_a_callback_that_raises_when_it_is_compared(producer: Producer[Any, Any]) -> None:
    """remove_done_callback() raises that error; every waiter of the record stays registered."""

    def raising() -> bool:
        raise Own

    told: list[Delivery] = []
    delivery = await producer.send("one", b"v")
    waiting = [asyncio.ensure_future(delivery.wait(LIMIT)), asyncio.ensure_future(one_more(delivery))]
    await turns()
    delivery.add_done_callback(told.append)
    with pytest.raises(Own):
        delivery.remove_done_callback(Compared(raising))
    assert (await asyncio.gather(*waiting))[0] is Outcome.ACKED
    await turns()
    assert told == [delivery]
    await sound(producer)


async def one_more(delivery: Delivery) -> Any:
    """As a task of its own."""
    return await delivery


async def test_a_callback_that_changes_others_when_it_is_compared(producer: Producer[Any, Any]) -> None:
    """Callbacks that are added or removed meanwhile are there, or are gone."""
    told: list[str] = []
    delivery = await producer.send("one", b"v")

    def removed(_: Delivery) -> None:
        told.append("removed")

    def changes() -> bool:
        delivery.add_done_callback(lambda _: told.append("added"))
        delivery.remove_done_callback(removed)
        return False

    delivery.add_done_callback(removed)
    delivery.add_done_callback(lambda _: told.append("kept"))
    assert delivery.remove_done_callback(Compared(changes)) == 0
    await delivery
    await turns()
    assert told[0] == "kept"
    assert set(told[1:]) == {"added"}
    await sound(producer)


async def nobody_awaits(_: Delivery) -> None:
    """A coroutine function as a callback."""


class Looked:
    """A callback that raises when a loop in its debug mode looks at it, but not at first."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, _: Delivery) -> None:
        """Called at the end."""

    def __getattr__(self, name: str) -> Any:
        self.looks += 1
        if self.looks > 8:
            raise Own
        raise AttributeError(name)


async def test_callbacks_that_cannot_be_called(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """They are refused where they are added: not when a broker's answer is handled, which would end the producer."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    delivery = await producer.send("one", b"v")
    not_callbacks: list[Any] = [nobody_awaits, 5, None, "text"]
    for wrong in not_callbacks:
        with pytest.raises(TypeError, match="done callback"):
            delivery.add_done_callback(wrong)
    for _ in range(3):
        delivery.add_done_callback(Looked())
    told: list[Delivery] = []
    delivery.add_done_callback(told.append)
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    await turns()
    assert told == [delivery]
    with pytest.raises(TypeError, match="done callback"):
        delivery.add_done_callback(nobody_awaits)
    await sound(producer)


async def test_callbacks_that_use_the_producer(producer: Producer[Any, Any]) -> None:
    """They send, flush, withdraw and close; all of it ends, and each record has its outcome."""
    deliveries: list[Delivery] = []
    ended: list[asyncio.Task[Any]] = []

    def again(delivery: Delivery) -> None:
        deliveries.append(producer.send_nowait("one", b"again"))
        deliveries[-1].add_done_callback(ends)
        delivery.cancel()
        delivery.try_cancel()
        producer.purge("other")
        ended.append(asyncio.ensure_future(producer.flush(LIMIT)))

    def ends(_: Delivery) -> None:
        deliveries.append(producer.send_nowait("one", b"at the end"))
        ended.extend([asyncio.ensure_future(producer.close(LIMIT)) for _ in range(2)])

    deliveries.append(await producer.send("one", b"first"))
    deliveries[0].add_done_callback(again)
    async with asyncio.timeout(LIMIT):
        while len(ended) < 3:
            await turns()
        await asyncio.gather(*ended)
    assert [one.outcome for one in deliveries] == [Outcome.ACKED] * 3
    assert producer.health().state == "closed"


async def test_lengths_of_time_to_wait(producer: Producer[Any, Any]) -> None:
    """A negative time counts as 0, an infinite one is no limit; a refused value leaves nothing behind."""
    delivery = await producer.send("one", b"v")
    wrong_times: list[Any] = ["1", float("nan"), True, [], Raising(Own)]
    for wrong in wrong_times:
        with pytest.raises(ConfigurationError, match="must be a number of seconds"):
            await delivery.wait(wrong)
    for used_up in (-1, 0, -1e300, -(10**400)):
        assert await delivery.wait(used_up) is Outcome.PENDING
    for endless in (10**400, float("inf"), 1e300):
        assert await (await producer.send("one", b"v")).wait(endless) is Outcome.ACKED
    await sound(producer)


async def unaccepted(producer: Producer[Any, Any], kafka: EmbeddedKafka, *, many: bool) -> Any:
    """A call that waits for metadata."""
    kafka.faults.delay(0.05, api="Metadata", topic="new", times=None)
    return producer.send_batch("new", [b"1", b"2"]) if many else producer.send("new", b"v")


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_batch"])
@pytest.mark.parametrize("begun", [False, True], ids=["at once", "while it waits"])
async def test_a_call_that_was_given_up_and_is_awaited_again(
    begun: bool, many: bool, producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """It says so, and does not wait for a record that was withdrawn."""
    sending = await unaccepted(producer, kafka, many=many)
    if begun:
        sending.send(None)
    with pytest.raises(ZeroDivisionError):
        sending.throw(ZeroDivisionError())
    async with asyncio.timeout(LIMIT):
        if many:
            given = await sending
            assert isinstance(given, BatchDelivery)
            assert (await given).not_written == 2
        else:
            with pytest.raises(StateError, match="cancelled before its record was accepted"):
                await sending
    await sound(producer)
    assert kafka.records("new") == []


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_batch"])
async def test_a_call_that_two_tasks_await(
    many: bool, producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """The second is refused, as by a coroutine, and takes no step of the first. Later it may be awaited again."""
    sending = await unaccepted(producer, kafka, many=many)

    async def awaited() -> Any:
        return await sending

    first = asyncio.ensure_future(awaited())
    await turns(1)
    with pytest.raises(RuntimeError, match="being awaited already"):
        await awaited()
    async with asyncio.timeout(LIMIT):
        assert await first is await awaited()
    await sound(producer)


async def test_records_of_a_bulk_delivery_are_counted_by_itself(producer: Producer[Any, Any]) -> None:
    """Numbers of records that it does not have are refused before anything is read or written."""
    many = await producer.send_batch("one", [b"1", b"2", b"3"])
    single = await producer.send("one", b"v")
    for wrong in (-1, 3, 2**31 - 1):
        with pytest.raises(IndexError):
            adopt(many, wrong, single)
        with pytest.raises(IndexError):
            refuse_record(many, wrong, StateError())
    for _ in range(2):
        # A place that no batch takes is no batch.
        reserve_place(many)
    assert len(batches_from(many, 0)) == 1
    assert (await many).acked == 3
    await sound(producer)
