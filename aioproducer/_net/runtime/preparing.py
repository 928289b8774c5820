"""The serializers of a running producer: the tasks that run their code, their preparation, and their end."""

from __future__ import annotations

import asyncio
import inspect
from asyncio.events import _get_running_loop  # asyncio's own low-level form: None where no loop runs
from typing import TYPE_CHECKING, Any

from aioproducer._net.runtime.preparations import Preparations
from aioproducer._net.runtime.serializer_tasks import GRACE, NAME, SerializerTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aioproducer._net.log import Log
    from aioproducer.serializers import Bound

# Seconds that `close()` of a serializer may take.
CLOSE_LIMIT = 5.0


class Preparing:
    """Runs code of serializers outside the user's calls."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_bug: Callable[[BaseException], None], limit: float, log: Log
    ) -> None:
        self._loop = loop
        self._log = log
        self.tasks = SerializerTasks(loop, on_bug, log)
        self.preparations = Preparations(self.tasks, loop, limit, log)
        # Closes the serializers.
        self.closing: asyncio.Task[None] | None = None
        # Those that are being closed, or are.
        self._closed: dict[int, Any] = {}
        self._over = asyncio.Event()

    async def ended(self) -> None:
        """Wait a short time for the end of the serializers' tasks: no call waits for them."""
        self.preparations.end()
        await self.tasks.ended()
        self._over.set()

    def close(self, serializers: Iterable[Bound]) -> None:
        """Begin to close the serializers, each once; nothing uses them any more when they are closed."""
        known = self._closed
        owners = {
            id(each.owner): each.owner
            for each in serializers
            if _has_close(each) and id(each.owner) not in known
        }
        # Their resources belong to the loop of the producer, which may be gone.
        if owners and _get_running_loop() is self._loop:
            known.update(owners)
            self.closing = self._loop.create_task(self._close(list(owners.values()), self.closing), name=NAME)

    async def _close(self, owners: list[Any], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            async with asyncio.timeout(2 * GRACE):
                await self._over.wait()
        except TimeoutError:
            # The tasks of the producer were ended from outside.
            pass
        for owner in owners:
            try:
                async with asyncio.timeout(CLOSE_LIMIT):
                    answer = owner.close()
                    if inspect.isawaitable(answer):
                        await answer
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:  # user code, after the last record
                self._log.warning("close() of the serializer %s failed: %r", type(owner).__name__, error)
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise


def _has_close(serializer: Bound) -> bool:
    return callable(getattr(serializer.owner, "close", None))
