"""The tasks that wait for coroutine serializers. Each is cancelled when the call that it prepares has ended."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer.errors import BufferFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from aioproducer._net.log import Log
    from aioproducer._state.admission.lines import Waiting

# Seconds that a cancelled serializer has for what it does in its `finally`.
GRACE = 1.0
# So many serializers that went on for longer than that may exist; each keeps its record.
MOST_DEAF = 100

# What asyncio raises out of the loop, or what closes a coroutine whose loop is gone.
_ENDS_THE_PROGRAM = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Preparing:
    """The tasks of one producer that run coroutine serializers."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_bug: Callable[[BaseException], None], log: Log
    ) -> None:
        self._log = log
        self._loop = loop
        self._on_bug = on_bug
        self._tasks: set[asyncio.Task[None]] = set()
        # Those that were cancelled and have not ended, with the time of that; the oldest first.
        self._cancelled: dict[asyncio.Task[None], float] = {}

    def check(self, topic: str) -> None:
        """Raise when too many serializers ignore that they were cancelled: each call would leave one more."""
        if len(self._cancelled) < MOST_DEAF:
            return
        since = next(islice(self._cancelled.values(), MOST_DEAF - 1, None))
        if self._loop.time() - since >= GRACE:
            text = f"{len(self._cancelled)} coroutine serializers go on although they were cancelled"
            raise BufferFullError(text, topic=topic)

    def start(self, work: Coroutine[Any, Any, None], call: Waiting) -> None:
        """Run what prepares this call, until the call has ended."""
        try:
            task = self._loop.create_task(work, name="aioproducer serializer")
        except OUT_OF_MEMORY:
            # The task may have its first step all the same, and then finds that its call has ended.
            self._loop.call_soon(work.close)
            raise
        if task.done():
            self._over(task)
            return
        try:
            stop = partial(self._stop, task)
            self._tasks.add(task)
            task.add_done_callback(self._over)
        except OUT_OF_MEMORY:
            self._tasks.discard(task)
            task.cancel()
            raise
        call.stop_preparing = stop
        if call.ended:
            stop()

    def _stop(self, task: asyncio.Task[None]) -> None:
        if not task.done():
            self._cancelled[task] = self._loop.time()
            task.cancel()

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._cancelled.pop(task, None)
        bug = None if task.cancelled() else task.exception()
        if bug is not None and not isinstance(bug, _ENDS_THE_PROGRAM):
            self._on_bug(bug)

    async def ended(self) -> None:
        """Wait until all have ended, but no longer than `GRACE`; their calls have."""
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=GRACE)
            if left:
                self._log.warning(
                    "the producer has ended, and %d coroutine serializers go on: cancelled in vain", len(left)
                )
