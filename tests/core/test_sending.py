"""Awaiting an accepted send: its answer, by every protocol in which Python may ask for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer._core import Delivery, Sending, sending_of
from tests.state.machines import Machines


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


def accepted(m: Machines) -> Sending[Delivery]:
    """A send that was accepted inside the call."""
    sending = m.path.send("t", b"v", partition=0)
    assert sending.delivery is not None
    return sending


def settled(m: Machines) -> Delivery:
    """The delivery of a written record."""
    delivery = m.append(b"v")
    m.later(m.limits.linger)
    m.acknowledge(m.only())
    return delivery


def stop_of(step: Callable[[], Any]) -> StopIteration:
    """The exception that ends an iterator at this step."""
    try:
        step()
    except StopIteration as stop:
        return stop.with_traceback(None)
    raise AssertionError("it goes on")


def ended(awaitable: Any) -> StopIteration:
    """The exception that ends it at its first step."""
    return stop_of(lambda: next(awaitable.__await__()))


def run(awaitable: Any) -> Any:
    """The result of an await."""

    async def awaiting() -> Any:
        return await awaitable

    return asyncio.run(awaiting())


def test_each_way_of_asking_gives_the_delivery(m: Machines) -> None:
    """`await`, a task, `next()`, `__next__()` and `send(None)`."""
    sendings = [accepted(m) for _ in range(5)]
    deliveries = [sending.delivery for sending in sendings]

    async def in_a_task() -> Any:
        return await asyncio.create_task(sendings[1])

    given = [
        run(sendings[0]),
        asyncio.run(in_a_task()),
        stop_of(lambda: next(sendings[2].__await__())).value,
        stop_of(sendings[3].__await__().__next__).value,
        stop_of(lambda: sendings[4].send(None)).value,
    ]
    assert all(each is delivery for each, delivery in zip(given, deliveries, strict=True))


def test_an_answer_that_is_a_tuple_stays_one(m: Machines) -> None:
    """Metadata is a tuple, which StopIteration would take for its arguments."""
    delivery = settled(m)
    assert ended(delivery).value == run(delivery) == delivery.result()


def test_an_exception_that_somebody_holds_is_theirs(m: Machines) -> None:
    """The one that ended an earlier await keeps its answer when others are awaited."""
    deliveries = [settled(m) for _ in range(3)]
    held = [ended(delivery) for delivery in deliveries]
    held.append(ended(deliveries[0]))
    assert len({id(stop) for stop in held}) == 4
    assert [stop.value for stop in held] == [delivery.result() for delivery in [*deliveries, deliveries[0]]]


@pytest.mark.parametrize("trace", ["note", "cause", "attribute", "traceback"])
def test_what_was_left_in_an_exception_is_not_seen_again(m: Machines, trace: str) -> None:
    """An error that was raised for another await, and dropped, does not appear in the next await."""
    delivery = settled(m)
    stop: Any = None
    try:
        next(delivery.__await__())
    except StopIteration as raised:
        stop = raised if trace == "traceback" else raised.with_traceback(None)
    if trace == "note":
        stop.add_note("old")
    elif trace == "cause":
        stop.__cause__ = ValueError("old")
    elif trace == "attribute":
        stop.old = True
    del stop
    following = ended(delivery)
    assert (following.__cause__, following.__context__) == (None, None)
    assert not hasattr(following, "old")
    assert not hasattr(following, "__notes__")


def test_an_answer_is_not_held_after_it_was_given(m: Machines) -> None:
    """A dropped delivery is freed at once: its unread failure is reported now, not with the next send."""
    sending = accepted(m)
    delivery = run(sending)
    del sending
    assert sys.getrefcount(delivery) <= 2


def test_awaiting_while_an_error_is_handled_does_not_blame_it(m: Machines) -> None:
    """The answer is not added as context to an exception that is being handled."""
    sending, delivery = accepted(m), settled(m)
    try:
        raise ValueError("handled")
    except ValueError:
        stops = [ended(sending), ended(delivery)]
    assert [stop.__context__ for stop in stops] == [None, None] or sys.version_info < (3, 12)


def test_a_program_that_watches_exceptions_sees_the_usual_ones(m: Machines) -> None:
    """With a tracer, `await` goes the same way."""
    seen: list[str] = []
    sending = accepted(m)

    def tracer(frame: Any, event: str, _argument: Any) -> Any:
        seen.append(event)
        return tracer

    sys.settrace(tracer)
    try:
        delivery = run(sending)
    finally:
        sys.settrace(None)
    assert isinstance(delivery, Delivery)
    assert "call" in seen


class Reentrant:
    """The entry of a waiting call, whose first step of waiting runs code that awaits the same call again."""

    delivery = None

    def __init__(self, again: Callable[[Sending[Any]], object]) -> None:
        self.again = again
        self.sending: Sending[Any] = sending_of(self)

    async def accepted(self) -> Any:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="awaited already"):
                self.again(self.sending)
        return "accepted"

    def withdraw(self) -> None:
        raise AssertionError("nothing was cancelled")


@pytest.mark.parametrize(
    "again",
    [
        lambda sending: sending.__await__(),
        lambda sending: sending.send(None),
        lambda sending: sending.throw(KeyError()),
    ],
)
def test_a_call_that_is_awaited_again_inside_its_first_step(again: Callable[[Sending[Any]], object]) -> None:
    """It is refused: the step that runs is not freed, and gives its answer."""
    assert run(Reentrant(again).sending) == "accepted"
