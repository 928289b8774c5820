"""First steps of coroutines: a coroutine's first step runs as in a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from aioproducer._net.runtime.first_step import FirstSteps, Suspended
from tests.net.support import turns

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour")


@pytest.fixture
async def steps() -> AsyncIterator[FirstSteps]:
    """First steps in the loop of the test, whose spare task ends with it."""
    made = FirstSteps(asyncio.get_running_loop(), "spare")
    yield made
    spare = made.end()
    if spare is not None:
        await asyncio.wait([spare])
    assert [task for task in asyncio.all_tasks() if task.get_name() == "spare"] == []


class Work:
    """A coroutine that begins in the call and continues in the spare task."""

    def __init__(self, steps: FirstSteps, made: Any) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.rest: Any = steps.take(made)
        assert isinstance(self.rest, Suspended)
        self.rest.spare.work(self._run(), self.rest)

    async def _run(self) -> None:
        try:
            self.result = await self.rest
        except Exception as error:  # noqa: BLE001  # read by the test
            self.error = error
        except asyncio.CancelledError as error:
            self.error = error
            raise

    async def ended(self) -> Any:
        """Wait for the task; returns its result, or its exception."""
        await asyncio.wait([self.rest.spare.task])
        return self.result if self.error is None else self.error

    def cancel(self) -> None:
        """Cancel it as the producer does."""
        self.rest.spare.cancel()


async def at_once(value: Any) -> Any:
    """A coroutine that never suspends."""
    return value


async def test_a_coroutine_that_never_suspends_costs_no_task(steps: FirstSteps) -> None:
    """A hundred of them run while one spare task is made."""
    before = len(asyncio.all_tasks())
    assert [steps.take(at_once(number)) for number in range(100)] == list(range(100))
    assert len(asyncio.all_tasks()) == before + 1


@pytest.mark.parametrize(
    "kind", [ZeroDivisionError, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt]
)
async def test_what_the_first_step_raises_is_raised(kind: type[BaseException], steps: FirstSteps) -> None:
    """For any class; the caller's task is the current one afterwards, and the next step is taken."""

    async def raises() -> None:
        raise kind

    caller = asyncio.current_task()
    with pytest.raises(kind):
        steps.take(raises())
    assert asyncio.current_task() is caller
    assert steps.take(at_once(1)) == 1


async def test_one_task_from_the_first_step_to_the_last(steps: FirstSteps) -> None:
    """`current_task()` is not the caller's, is the same after the coroutine has suspended, and differs for each coroutine."""
    seen: list[Any] = []

    async def look() -> str:
        seen.append(asyncio.current_task())
        for pause in (0, 0.001, 0):
            # Suspended without and with an awaited object.
            await asyncio.sleep(pause)
            seen.append(asyncio.current_task())
        return "done"

    caller = asyncio.current_task()
    first, second = Work(steps, look()), Work(steps, look())
    assert asyncio.current_task() is caller
    assert [await first.ended(), await second.ended()] == ["done", "done"]
    assert set(seen) == {first.rest.spare.task, second.rest.spare.task}
    assert len(set(seen)) == 2
    assert caller not in seen


async def test_the_spare_task_is_given_to_one_coroutine(steps: FirstSteps) -> None:
    """A coroutine that did not suspend leaves it; of two that suspend then, the second gets another one."""
    assert steps.take(at_once(1)) == 1
    works = [Work(steps, asyncio.sleep(0, number)) for number in range(3)]
    assert len({work.rest.spare.task for work in works}) == 3
    assert [await work.ended() for work in works] == [0, 1, 2]


async def test_one_context_from_the_first_step_to_the_last(steps: FirstSteps) -> None:
    """The context begins as the caller's; changes of the coroutine stay in it, and the caller does not see them."""
    seen: list[str] = []

    async def paint() -> None:
        seen.append(COLOUR.get())
        COLOUR.set("green")
        await asyncio.sleep(0)
        seen.append(COLOUR.get())
        asyncio.get_running_loop().call_soon(lambda: seen.append("in a callback: " + COLOUR.get()))
        await asyncio.sleep(0)

    COLOUR.set("red")
    work = Work(steps, paint())
    assert COLOUR.get() == "red"
    COLOUR.set("blue")
    await work.ended()
    assert steps.take(at_once(COLOUR.get())) == "blue"
    assert seen == ["red", "green", "in a callback: green"]


async def test_the_spare_task_keeps_no_context(steps: FirstSteps) -> None:
    """The spare task keeps no reference to the first caller's context."""
    seen: list[str] = []

    async def look() -> None:
        await asyncio.sleep(0)

    async def work() -> None:
        seen.append(COLOUR.get("none"))
        await rest

    COLOUR.set("red")
    steps.take(at_once(1))
    rest: Any = steps.take(look())
    rest.spare.work(work(), rest)
    await asyncio.wait([rest.spare.task])
    assert seen == ["none"]


def limits() -> dict[str, Callable[[], Awaitable[None]]]:
    """Time limits of several libraries that are entered in the first step."""

    async def of_asyncio() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    async def of_anyio() -> None:
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()

    async def of_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.wait_for(asyncio.Event().wait(), 0.01))

    return {"asyncio": of_asyncio, "anyio": of_anyio, "a task group": of_a_group}


@pytest.mark.parametrize("name", limits())
async def test_a_time_limit_that_is_entered_in_the_first_step(name: str, steps: FirstSteps) -> None:
    """It ends the coroutine, and does not cancel the caller."""
    work = Work(steps, limits()[name]())
    caller = asyncio.current_task()
    assert caller is not None
    error = await work.ended()
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, TimeoutError)
    assert caller.cancelling() == 0


async def test_a_time_limit_of_no_time(steps: FirstSteps) -> None:
    """It cancels the spare task before that has begun to run the rest."""

    async def limited() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    work = Work(steps, limited())
    assert isinstance(await work.ended(), TimeoutError)


@pytest.mark.parametrize("after", range(4))
async def test_a_cancellation_reaches_what_is_awaited(after: int, steps: FirstSteps) -> None:
    """At any moment: at once, before and after the spare task runs the rest. The inner task is cancelled, too."""
    inner: list[asyncio.Task[Any]] = []
    said: list[str] = []

    async def outer() -> None:
        inner.append(asyncio.ensure_future(asyncio.Event().wait()))
        try:
            await inner[0]
        except asyncio.CancelledError:
            said.append("cancelled")
            await asyncio.sleep(0)
            said.append("cleaned up")
            raise

    # With a new spare task, and with one that waits.
    for _ in range(2):
        work = Work(steps, outer())
        await turns(after)
        work.cancel()
        assert isinstance(await work.ended(), asyncio.CancelledError)
        await turns(2)
        assert inner.pop().cancelled()
    assert said == ["cancelled", "cleaned up"] * 2


async def test_a_cancellation_that_is_ignored(steps: FirstSteps) -> None:
    """The coroutine continues."""

    async def deaf() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    work = Work(steps, deaf())
    work.cancel()
    assert await work.ended() == "went on"


async def test_a_coroutine_that_cancels_its_own_task(steps: FirstSteps) -> None:
    """It is cancelled where it suspends. One that does not suspend has its result, and its task is not used again."""

    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def and_waits() -> None:
        await cancels()
        await asyncio.sleep(0)

    assert steps.take(cancels()) is None
    work = Work(steps, and_waits())
    await work.ended()
    assert work.rest.spare.task.cancelled()
    assert steps.take(at_once(1)) == 1


async def test_first_steps_within_first_steps(steps: FirstSteps) -> None:
    """A first step may begin others: each that suspends has a task of its own."""
    begun: list[Work] = []

    async def inner() -> Any:
        task = asyncio.current_task()
        await asyncio.sleep(0)
        return asyncio.current_task() is task

    async def outer() -> Any:
        task = asyncio.current_task()
        assert steps.take(at_once(1)) == 1
        begun.append(Work(steps, inner()))
        assert asyncio.current_task() is task
        await asyncio.sleep(0)
        return asyncio.current_task() is task

    begun.append(Work(steps, outer()))
    assert [await work.ended() for work in begun] == [True, True]
    assert len({work.rest.spare.task for work in begun}) == 2


async def test_from_a_callback_of_the_loop(steps: FirstSteps) -> None:
    """Without a current task before, there is none afterwards."""
    seen: list[Any] = []

    def callback() -> None:
        seen.append(steps.take(at_once("there")))
        seen.append(asyncio.current_task())

    asyncio.get_running_loop().call_soon(callback)
    await turns(2)
    assert seen == ["there", None]


async def test_results_and_errors_of_what_is_awaited(steps: FirstSteps) -> None:
    """The coroutine receives them as in a task."""
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()

    async def waits() -> list[Any]:
        received = [await first]
        try:
            await second
        except ZeroDivisionError as error:
            received.append(type(error))
        return received

    work = Work(steps, waits())
    # Before the spare task awaits it.
    first.set_result(1)
    await turns(3)
    second.set_exception(ZeroDivisionError())
    assert await work.ended() == [1, ZeroDivisionError]
