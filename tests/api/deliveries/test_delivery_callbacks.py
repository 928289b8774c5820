"""Done callbacks of deliveries run once, in their context, and never delay other callbacks."""

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
    calls: list[tuple[Delivery, Outcome]] = []
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda one: calls.append((one, one.outcome)))
    await delivery
    await turns()
    assert calls == [(delivery, Outcome.ACKED)]


async def test_callback_after_the_outcome(producer: Producer) -> None:
    """A callback that is added to a done delivery is called soon, not at once."""
    delivery = await producer.send("one", b"v")
    await delivery
    calls: list[Delivery] = []
    delivery.add_done_callback(calls.append)
    at_once = list(calls)
    await turns(1)
    assert (at_once, calls) == ([], [delivery])


async def test_remove_done_callback(producer: Producer) -> None:
    """remove_done_callback() removes every such callback, says how many, and leaves others."""
    calls: list[str] = []

    def first(_: Delivery) -> None:
        calls.append("first")

    def second(_: Delivery) -> None:
        calls.append("second")

    delivery = await producer.send("one", b"v")
    for callback in (first, second, first):
        delivery.add_done_callback(callback)
    assert (delivery.remove_done_callback(first), delivery.remove_done_callback(first)) == (2, 0)
    await delivery
    await turns()
    assert calls == ["second"]


async def test_callback_runs_in_the_context_it_was_given(producer: Producer) -> None:
    """Callbacks run in the context that is given, or else in that of add_done_callback()."""
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="none")
    given = contextvars.copy_context()
    given.run(place.set, "given")
    calls: list[str] = []
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: calls.append(place.get()), context=given)
    place.set("caller")
    delivery.add_done_callback(lambda _: calls.append(place.get()))
    place.set("later")
    await delivery
    await turns()
    assert calls == ["given", "caller"]


async def test_exception_in_a_callback_goes_to_the_loop(producer: Producer) -> None:
    """An exception of a callback goes to the loop's exception handler and harms nothing else."""
    loop = asyncio.get_running_loop()
    calls: list[object] = []
    loop.set_exception_handler(lambda _, context: calls.append(context.get("exception")))
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: 1 / 0)
    after: list[Delivery] = []
    delivery.add_done_callback(after.append)
    await delivery
    await turns()
    assert [type(error) for error in calls] == [ZeroDivisionError]
    assert after == [delivery]
    assert (await producer.send_and_wait("one", b"w")).offset == 1


async def test_waiting_task_is_freed_after_the_outcome(producer: Producer) -> None:
    """A delivery keeps no reference to a waiting task after its outcome."""

    class Mark:
        """An object that a weak reference can point to."""

    mark = Mark()
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _, kept=mark: None)  # type: ignore[misc]
    await delivery
    await turns()
    reference = weakref.ref(mark)
    del mark
    gc.collect()
    assert reference() is None
