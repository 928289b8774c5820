"""Calls of a `MockProducer`: what they were given, what became of them, and those still at their serializers."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NamedTuple

from aioproducer._core import BatchDelivery, Delivery
from aioproducer.errors import KafkaError, StateError
from aioproducer.testing.mock.checks import PlainHeaders


class Call(NamedTuple):
    """The arguments of one `send`, as the user gave them."""

    topic: Any
    value: Any
    key: Any
    partition: Any
    timestamp: Any
    headers: Any
    timeout: Any
    max_block: Any = None


class Ready(NamedTuple):
    """A record that only needs its place."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: PlainHeaders
    timestamp: int | None
    partition: int | None
    timeout: float | None


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the loop run once."""
    yield


class MockCall:
    """What `Sending` observes: a call that is accepted, refused, or still at its serializers (`work`)."""

    def __init__(self, pace: Callable[[], bool] = bool) -> None:
        self.pace = pace
        self.delivery: Delivery | BatchDelivery | None = None
        self.error: KafkaError | None = None
        self.work: asyncio.Task[None] | None = None

    async def accepted(self) -> Any:
        """Wait until the record is accepted; raises why it is not. Cancelled before that, it is withdrawn."""
        if self.work is not None:
            try:
                await asyncio.wait([self.work])
            except BaseException:
                self.withdraw()
                raise
        if self.delivery is None and self.error is None:
            self.error = StateError("the record has no place: its serializer was cancelled")
        if self.error is not None:
            raise self.error
        if self.pace():
            await _one_turn()
        return self.delivery

    def withdraw(self) -> None:
        """The caller went away; what is not accepted yet never will be."""
        if self.work is not None:
            self.work.cancel()
            if self.delivery is None and self.error is None:
                self.error = StateError("this send() was cancelled before its record was accepted")


class MockLines:
    """Calls whose serializers are coroutine functions, by topic, in the order of the calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lines: dict[str, list[tuple[MockCall, asyncio.Task[None]]]] = {}
        # Told whenever a call has its place, or was refused.
        self.on_left: Callable[[], None] = _nothing

    def join(self, taken: MockCall, topic: str, work: Coroutine[Any, Any, None]) -> None:
        """Run the work of a call in a task; it may look at those of the same topic that came before."""
        task = self.loop.create_task(work, name=f"aioproducer mock: a record of {topic}")
        taken.work = task
        line = self._lines.setdefault(topic, [])
        line.append((taken, task))
        task.add_done_callback(lambda _: self._leave(topic))

    def _leave(self, topic: str) -> None:
        left = [entry for entry in self._lines.get(topic, ()) if not entry[1].done()]
        if left:
            self._lines[topic] = left
        else:
            self._lines.pop(topic, None)
        self.on_left()

    def earlier(self, topic: str) -> list[asyncio.Task[None]]:
        """The work on this topic that came before the current task's."""
        current = asyncio.current_task()
        tasks = [task for _, task in self._lines.get(topic, ())]
        return tasks[: tasks.index(current)] if current in tasks else tasks

    def at_work(self) -> list[tuple[MockCall, asyncio.Task[None]]]:
        """Every call that is not accepted yet."""
        return [entry for line in self._lines.values() for entry in line if not entry[1].done()]

    def refuse_all(self, error: KafkaError) -> None:
        """The producer ends: nobody waits any longer."""
        for call, task in self.at_work():
            # That of a bulk send has its own place for what was refused; what was told first counts.
            if call.delivery is None and call.error is None:
                call.error = error
            task.cancel()


def _nothing() -> None:
    """Nobody waits for that."""


async def wait_for_all(tasks: list[asyncio.Task[None]], timeout: float | None = None) -> bool:
    """Wait until all of these have ended, however they do; False when they have not after so many seconds."""
    if not tasks:
        return True
    _, pending = await asyncio.wait(tasks, timeout=timeout)
    return not pending
