"""What a worker process of Spark keeps from task to task: one thread with an event loop, and the producers that live in it.

Spark's workers are forked, used for one task after the other, and killed when they are idle, without a word: so nothing
may be left to be sent when a task ends, and nothing needs to be closed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from aioproducer import Producer, ProducerConfig

__all__ = ["Worker", "this_worker"]

T = TypeVar("T")

# Set where Spark runs one task after the other in a process, and collects garbage after each.
REUSED = "SPARK_REUSE_WORKER"
# A worker that serves many sinks keeps the connections of so many; tasks come one at a time.
MOST_PRODUCERS = 4
SECONDS_TO_ABORT = 5.0


class Worker:
    """The loop of this process, in a thread of its own: a task waits for Spark's batches while it sends the one before."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._producers: dict[ProducerConfig, Producer[Any, Any]] = {}
        if REUSED in os.environ:
            _spare_what_is_loaded()
        threading.Thread(target=self._loop.run_forever, name="aioproducer", daemon=True).start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done in the loop while the caller does something else."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the loop, and wait for it."""
        return self.begin(work).result()

    async def producer(self, config: ProducerConfig) -> Producer[Any, Any]:
        """The one that tasks with this configuration share; a new one, if the last has ended.

        A transactional one has the transactional id of its last task: `init_transactions()` sets another one.
        """
        found = self._producers.pop(config, None)
        if found is None or not _lives(found):
            found = Producer.from_config(config)
            await found.start()
        # The one that was used last is the last to be given up.
        self._producers[config] = found
        while len(self._producers) > MOST_PRODUCERS:
            await self._producers.pop(next(iter(self._producers))).close(timeout=0)
        return found

    async def forget(self, config: ProducerConfig) -> None:
        """A task has failed: what it has left in its producer must not become a part of the next one's."""
        found = self._producers.pop(config, None)
        if found is not None:
            # It aborts the open transaction: readers of committed records would wait for its timeout otherwise.
            await found.close(timeout=0 if config.transactional_id is None else SECONDS_TO_ABORT)


_worker: Worker | None = None


def this_worker() -> Worker:
    """The one of this process; a fork of it has to begin anew, as threads are not forked."""
    global _worker  # noqa: PLW0603  # what a process keeps from task to task can be nowhere else
    if _worker is None or _worker.pid != os.getpid():
        _worker = Worker()
    return _worker


def _spare_what_is_loaded() -> None:
    """Have Spark's collections pass over all modules: looking through them takes some 50 ms of a processor after each task.

    In small epochs that was most of what Python took: Spark writes down what it has done while its workers do this.
    """
    gc.collect()
    gc.freeze()


def _lives(producer: Producer[Any, Any]) -> bool:
    return producer.health().state == "running"
