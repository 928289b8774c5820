"""Compression of closed batches: small ones at once, large ones in a thread, so that the loop stays free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
from anyio import CapacityLimiter

from aioproducer._codecs import compress
from aioproducer.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.tasks import Tasks
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.delivery.losses import Losses
    from aioproducer._state.queues.batches import QueuedBatch

# Even the slowest codec takes well below a millisecond for this much.
INLINE_BYTES = 8 * 1024
THREADS = 2


class Compressor:
    """Compresses batches of one producer with one codec. Only compressed batches are sent, so the order is kept."""

    def __init__(
        self,
        accumulator: Accumulator,
        losses: Losses,
        tasks: Tasks,
        *,
        codec: int,
        level: int | None,
        now: Callable[[], float],
    ) -> None:
        self._accumulator = accumulator
        self._losses = losses
        self._tasks = tasks
        self._codec = codec
        self._level = level
        self._now = now
        self._limiter = CapacityLimiter(THREADS)

    def take(self, batch: QueuedBatch) -> None:
        """Compress this batch, now or in a thread."""
        try:
            plain = batch.plain_records()
        except ValueError:
            # A finalizer ended the batch after it was closed. A check before the read is not enough: a garbage collection
            # may run user code between the two.
            self._accumulator.compressed(batch, None, self._now())
            return
        if len(plain) <= INLINE_BYTES:
            self._accumulator.effects.event(self._finish, batch, plain, self._attempt(plain))
        else:
            self._tasks.start_soon(self._in_thread, batch, plain, name="aioproducer compression")

    async def _in_thread(self, batch: QueuedBatch, plain: bytes) -> None:
        try:
            made = await anyio.to_thread.run_sync(
                self._attempt, plain, limiter=self._limiter, abandon_on_cancel=True
            )
        except (RuntimeError, MemoryError):
            # The system has no thread left, or no memory for one: compressing in the loop is better than losing the batch.
            made = self._attempt(plain)
        self._accumulator.effects.event(self._finish, batch, plain, made)

    def _attempt(self, plain: bytes) -> bytes | Exception:
        try:
            return compress(plain, self._codec, self._level)
        except Exception as error:  # noqa: BLE001  # one batch fails, whatever the codec raised; the producer goes on
            return error

    def _finish(self, batch: QueuedBatch, plain: bytes, made: bytes | Exception) -> None:
        if isinstance(made, bytes):
            self._losses.tally.compression_ratio.add(len(made) / len(plain))
            helped = len(made) < len(plain)
            self._accumulator.compressed(batch, made if helped else None, self._now())
        elif not batch.settled:
            failed = DeliveryError(
                "compressing the batch failed", topic=batch.topic, partition=batch.partition, cause=made
            )
            self._losses.fail(batch, failed, self._now())
            # Later batches of the partition waited for this one.
            self._accumulator.update_readiness(batch.queue, self._now())
