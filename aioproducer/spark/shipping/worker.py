"""The state that a worker process of Spark keeps between tasks: one thread with an event loop, and its producers.

Spark's workers are forked, used for one task after the other, and killed without notice when they are idle. So no
record may be left to send when a task ends, and nothing needs to be closed.
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
from aioproducer.spark.shipping.watch import watched

__all__ = ["Worker", "this_worker"]

T = TypeVar("T")

# Set where Spark runs one task after the other in a process, and collects garbage after each.
REUSED = "SPARK_REUSE_WORKER"
# A worker for many sinks keeps the connections of so many; tasks come one at a time.
MOST_PRODUCERS = 4
SECONDS_TO_ABORT = 5.0


class Worker:
    """The loop of this process, in its own thread: a task waits for Spark's next batch while the previous one is sent."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._producers: dict[ProducerConfig, Producer[Any, Any]] = {}
        if REUSED in os.environ:
            _exclude_loaded_modules()
        threading.Thread(target=self._loop.run_forever, name="aioproducer", daemon=True).start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the loop; the caller goes on."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for it."""
        return self.begin(work).result()

    async def producer(self, config: ProducerConfig) -> Producer[Any, Any]:
        """The producer that tasks with this configuration share; a new one, if the last has ended.

        A transactional one has the transactional id of its last task: `init_transactions()` sets another one.
        """
        found = self._producers.pop(config, None)
        if found is None or not _lives(found):
            found = Producer.from_config(watched(config))
            await found.start()
        # The producer that was used last is closed last.
        self._producers[config] = found
        while len(self._producers) > MOST_PRODUCERS:
            await self._producers.pop(next(iter(self._producers))).close(timeout=0)
        return found

    async def forget(self, config: ProducerConfig) -> None:
        """A task has failed: the rest of its work must not become a part of the next task's."""
        found = self._producers.pop(config, None)
        if found is not None:
            # close() aborts the open transaction: readers of committed records would otherwise wait for its timeout.
            await found.close(timeout=0 if config.transactional_id is None else SECONDS_TO_ABORT)


_worker: Worker | None = None


def this_worker() -> Worker:
    """The worker of this process; a fork of it has to start its own, as threads are not forked."""
    global _worker  # noqa: PLW0603  # state of the process, which outlives tasks
    if _worker is None or _worker.pid != os.getpid():
        _worker = Worker()
    return _worker


def _exclude_loaded_modules() -> None:
    """Exclude all loaded modules from Spark's garbage collections, which take some 50 ms of processor time after each task.

    In small epochs that was most of Python's time: Spark stores its results while its workers do this.
    """
    gc.collect()
    gc.freeze()


def _lives(producer: Producer[Any, Any]) -> bool:
    return producer.health().state == "running"
