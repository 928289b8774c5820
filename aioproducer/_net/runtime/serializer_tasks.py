"""The tasks of one producer that run code of serializers. A bounded number of them may ignore their cancellation."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from aioproducer._net.runtime.first_step import FirstSteps, Suspended
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer.errors import BufferFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from aioproducer._net.log import Log
    from aioproducer._state.admission.waiting import Waiting

NAME = "aioproducer serializer"
# Seconds that a cancelled serializer has for its `finally`.
GRACE = 1.0
# The limit of serializers that run longer than that; each keeps its record.
MOST_UNCANCELLED = 100

# Exceptions that asyncio raises out of the loop, and the one that closes a coroutine whose loop is gone.
_ENDS_THE_PROGRAM = (KeyboardInterrupt, SystemExit, GeneratorExit)


class SerializerTasks:
    """Each task is cancelled when the call that it prepares has ended, or when its own time is over."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_bug: Callable[[BaseException], None], log: Log
    ) -> None:
        self._log = log
        self._loop = loop
        self._on_bug = on_bug
        self._tasks: set[asyncio.Task[Any]] = set()
        # Cancelled tasks that have not ended, with the time of the cancellation; the oldest first.
        self._cancelled: dict[asyncio.Task[Any], float] = {}
        self.first_steps = FirstSteps(loop, NAME)

    def check(self, topic: str) -> None:
        """Raise when too many serializers ignore their cancellation: each further call could add one."""
        if len(self._cancelled) < MOST_UNCANCELLED:
            return
        since = next(islice(self._cancelled.values(), MOST_UNCANCELLED - 1, None))
        if self._loop.time() - since >= GRACE:
            text = f"{len(self._cancelled)} coroutine serializers go on although they were cancelled"
            raise BufferFullError(text, topic=topic)

    def go_on(self, rest: Suspended[Any], work: Coroutine[Any, Any, None], call: Waiting) -> None:
        """Run the work that awaits the rest of a first step, until the call has ended."""
        spare = rest.spare
        try:
            stop = partial(self._stop, spare.task, spare.cancel)
            self._tasks.add(spare.task)
            spare.task.add_done_callback(self._over)
            spare.work(work, rest)
        except OUT_OF_MEMORY:
            self._tasks.discard(spare.task)
            work.close()
            rest.close()
            spare.cancel()
            raise
        call.stop_preparing = stop
        if call.ended:
            stop()

    def drop(self, rest: Suspended[Any]) -> None:
        """Cancel the rest of a first step, whose call was refused meanwhile."""
        spare = rest.spare
        work = _ended(rest)
        try:
            self._tasks.add(spare.task)
            spare.task.add_done_callback(self._over)
            spare.work(work, rest)
        except OUT_OF_MEMORY:
            self._tasks.discard(spare.task)
            work.close()
            rest.close()
        self._stop(spare.task, spare.cancel)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run this in a task of its own, which belongs to no call."""
        try:
            task = self._loop.create_task(work, name=NAME)
        except OUT_OF_MEMORY:
            # The task may still take its first step.
            self._loop.call_soon(work.close)
            raise
        if not task.done():
            self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def stop(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task that was started here."""
        self._stop(task, task.cancel)

    def _stop(self, task: asyncio.Task[Any], cancel: Callable[[], object]) -> None:
        if not task.done() and not self._loop.is_closed():
            self._cancelled[task] = self._loop.time()
            cancel()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._cancelled.pop(task, None)
        bug = None if task.cancelled() else task.exception()
        if bug is not None and not isinstance(bug, _ENDS_THE_PROGRAM):
            self._on_bug(bug)

    async def ended(self) -> None:
        """Wait until all have ended, at most for `GRACE`; their calls have ended already."""
        spare = self.first_steps.end()
        left = self._tasks if spare is None else self._tasks | {spare}
        if left:
            _, deaf = await asyncio.wait(left, timeout=GRACE)
            if deaf:
                self._log.warning(
                    "the producer has ended; %d coroutine serializers ignore their cancellation and go on",
                    len(deaf),
                )


async def _ended(rest: Suspended[Any]) -> None:
    """Await the rest of a call that is over, and drop its result."""
    try:
        await rest
    except (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        raise
    except BaseException:  # noqa: BLE001, S110  # its record was refused for another reason
        pass
