"""Done callbacks of deliveries: once, in their context, and never in the way of others."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref

from aioproducer import Delivery, Outcome, Producer
from tests.api.support import turns

REFUSED = "INVALID_REQUIRED_ACKS"


async def test_callback_gets_the_delivery(producer: Producer) -> None:
    """A done callback is called once, with the delivery, which is done then."""
    told: list[tuple[Delivery, Outcome]] = []
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda one: told.append((one, one.outcome)))
    await delivery
    await turns()
    assert told == [(delivery, Outcome.ACKED)]


async def test_callback_after_the_outcome(producer: Producer) -> None:
    """A callback that is added to a done delivery is called soon, not at once."""
    delivery = await producer.send("one", b"v")
    await delivery
    told: list[Delivery] = []
    delivery.add_done_callback(told.append)
    at_once = list(told)
    await turns(1)
    assert (at_once, told) == ([], [delivery])


async def test_remove_done_callback(producer: Producer) -> None:
    """remove_done_callback() removes every such callback, says how many, and leaves others."""
    told: list[str] = []

    def first(_: Delivery) -> None:
        told.append("first")

    def second(_: Delivery) -> None:
        told.append("second")

    delivery = await producer.send("one", b"v")
    for callback in (first, second, first):
        delivery.add_done_callback(callback)
    assert (delivery.remove_done_callback(first), delivery.remove_done_callback(first)) == (2, 0)
    await delivery
    await turns()
    assert told == ["second"]


async def test_callback_runs_in_the_context_it_was_given(producer: Producer) -> None:
    """Callbacks run in the context that is given, or else in that of add_done_callback()."""
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="none")
    given = contextvars.copy_context()
    given.run(place.set, "given")
    told: list[str] = []
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: told.append(place.get()), context=given)
    place.set("caller")
    delivery.add_done_callback(lambda _: told.append(place.get()))
    place.set("later")
    await delivery
    await turns()
    assert told == ["given", "caller"]


async def test_exception_in_a_callback_goes_to_the_loop(producer: Producer) -> None:
    """What a callback raises is told to the loop's exception handler and harms nothing else."""
    loop = asyncio.get_running_loop()
    told: list[object] = []
    loop.set_exception_handler(lambda _, context: told.append(context.get("exception")))
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: 1 / 0)
    after: list[Delivery] = []
    delivery.add_done_callback(after.append)
    await delivery
    await turns()
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert after == [delivery]
    assert (await producer.send_and_wait("one", b"w")).offset == 1


async def test_waiting_task_is_freed_after_the_outcome(producer: Producer) -> None:
    """What waits for a delivery is not kept by it afterwards."""

    class Mark:
        """Something to look for."""

    mark = Mark()
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _, kept=mark: None)  # type: ignore[misc]
    await delivery
    await turns()
    reference = weakref.ref(mark)
    del mark
    gc.collect()
    assert reference() is None
