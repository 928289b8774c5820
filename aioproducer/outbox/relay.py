"""The relay: its life, and the times with and without the lock."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import ConfigurationError, KafkaError, StateError
from aioproducer.outbox.backoff import Backoff
from aioproducer.outbox.flight import Flight
from aioproducer.outbox.session import LockLostError, RelayStoppedError, Session
from aioproducer.outbox.signals import END_OF_THE_PROGRAM, Signals, ended, is_cancelled
from aioproducer.outbox.statistics import RelayStats
from aioproducer.outbox.store import DeadLetterOutlet, Store
from aioproducer.producer import Producer

__all__ = ["Relay"]

log: Final = logging.getLogger("aioproducer")

# The time for each of the last two steps of a relay: to delete acknowledged rows, and to give the lock back.
LAST_STEP: Final = 0.5
# A store that fails is logged at this interval.
LOG_INTERVAL: Final = 10.0


class Relay:
    """Sends the rows of an outbox, in the order of their ids, and deletes acknowledged ones.

    `async with relay:` works behind the block; `await relay.run()` works until it is cancelled, or until `close()`. Of
    several relays of one outbox, in any processes, one works at a time; the others stand by and take over.

    `producer` is running, and gapless: a record that fails stops those behind it, and the relay begins again with the
    oldest row. `batch` rows are read at once. The lock, and a table without notifications, are looked at every `poll`
    seconds. `dead_letters` gets records that can never be written; without it they stop the relay.
    """

    def __init__(
        self,
        producer: Producer[Any, Any],
        store: Store,
        *,
        batch: int = 1000,
        poll: float = 1.0,
        dead_letters: DeadLetterOutlet | None = None,
    ) -> None:
        problems = [
            *_problems_of_producer(producer),
            *_problems_of_parts(store, dead_letters),
            *_problems_of_numbers(batch, poll),
        ]
        if problems:
            raise ConfigurationError(problems)
        self._producer = producer
        self._store = store
        self._batch = batch
        self._poll = poll
        self._dead_letters = dead_letters
        self._signals = Signals()
        self._flight = Flight(self._signals.changed)
        config = producer.config
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._deleted = 0
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: KafkaError | None = None
        self._logged_at = -math.inf

    @property
    def error(self) -> KafkaError | None:
        """The reason for which the relay has stopped; None while it works, and after `close()`."""
        return self._error

    def stats(self) -> RelayStats:
        """One snapshot of its numbers, from any thread."""
        session, flight = self._session, self._flight
        return RelayStats(
            sent=flight.sent,
            deleted=self._deleted + (session.deleted if session is not None else 0),
            pending=flight.pending,
            oldest_seconds=flight.oldest_seconds(),
            active=session is not None,
        )

    # -- life

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self) -> None:
        """Relay until this is cancelled, or until `close()`; raises `error` if the relay stops by itself.

        Cancelled, it ends at once: records without an outcome are sent again by the next relay.
        """
        task = self._start()
        try:
            await asyncio.wait([task])
        finally:
            await ended(task)
        if self._error is not None:
            raise self._error
        if not task.cancelled():
            # The log of the program may have raised.
            task.result()

    async def close(self, timeout: float | None = None) -> None:
        """Read no further rows, wait for the sent ones, delete acknowledged ones, and give the lock back.

        After `timeout` seconds (default: the producer's `close_timeout_ms`), rows without an outcome stay in the table.
        A store that does not answer then gets one second more.
        """
        limit = checked_timeout("timeout", timeout)
        if limit is None:
            limit = self._producer.config.close_timeout_ms / 1000
        self._signals.stop()
        task = self._task
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=limit)
        finally:
            await ended(task)

    def _start(self) -> asyncio.Task[None]:
        if self._task is not None or self._signals.stopping:
            raise StateError("a relay runs once: make another one")
        state = self._producer.health().state
        if state != "running":
            raise StateError(f"the producer of a relay must be running, and is {state}")
        self._task = asyncio.get_running_loop().create_task(self._work(), name="aioproducer outbox relay")
        return self._task

    # -- work

    async def _work(self) -> None:
        while not self._signals.stopping:
            try:
                pause = await self._try_once()
            except RelayStoppedError as stopped:
                self._error = stopped.error
                log.error("outbox: the relay was stopped by %s: %s", stopped.by, stopped.error)  # noqa: TRY400  # of one record
                return
            await self._signals.pause(pause)

    async def _try_once(self) -> float:
        """Take the lock and work while it lasts; the pause before the next attempt."""
        try:
            await self._attempt()
            return self._poll
        except RelayStoppedError:
            raise
        except LockLostError:
            log.warning("outbox: the relay has lost its lock, and stands by")
            return self._poll
        except END_OF_THE_PROGRAM:
            raise
        except BaseException as error:  # of the store, whatever it is
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            return self._failed(error)

    async def _attempt(self) -> None:
        try:
            has_lock = await self._store.acquire()
        except BaseException:
            # It may have taken the lock before it failed.
            await self._release()
            raise
        if has_lock:
            await self._with_lock()

    async def _with_lock(self) -> None:
        session = self._session = Session(
            self._producer,
            self._store,
            self._flight,
            self._signals,
            self._backoff,
            batch=self._batch,
            poll=self._poll,
            dead_letters=self._dead_letters,
        )
        last_steps = [session.delete_acked]
        try:
            await session.run()
        except LockLostError:
            last_steps.clear()
            raise
        finally:
            self._flight.withdraw()
            try:
                if last_steps and not is_cancelled():
                    await self._outcomes()
            finally:
                try:
                    await self._release(*last_steps)
                finally:
                    self._session = None
                    self._deleted += session.deleted

    async def _outcomes(self) -> None:
        """Wait until each sent record has its outcome: the next relay would send it again."""
        while not self._flight.is_landed:
            self._signals.clear()
            await self._signals.next_change()

    async def _release(self, *steps: Callable[[], Awaitable[None]]) -> None:
        """Do these last steps and give the lock back, also if this is cancelled meanwhile."""
        task = asyncio.create_task(self._last_steps(steps), name="aioproducer outbox release")
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def _last_steps(self, steps: Iterable[Callable[[], Awaitable[None]]]) -> None:
        for step in (*steps, self._store.release):
            try:
                async with asyncio.timeout(LAST_STEP):
                    await step()
            except END_OF_THE_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001  # of the store, whatever it is
                self._log_failure(error)

    def _failed(self, error: BaseException) -> float:
        self._log_failure(error)
        return self._backoff.next()

    def _log_failure(self, error: BaseException) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._logged_at + LOG_INTERVAL:
            self._logged_at = now
            log.warning(
                "outbox: the store has failed, and is tried again: %s: %s", type(error).__name__, error
            )


def _problems_of_producer(producer: Any) -> list[str]:
    if not isinstance(producer, Producer):
        return [f"a relay takes a Producer, not {type(producer).__name__}"]
    config = producer.config
    problems = []
    if not config.gapless:
        problems.append(
            "a relay requires a producer with gapless=True: otherwise rows overtake one that fails"
        )
    if config.transactional_id is not None:
        problems.append("a relay sends outside of transactions: make its producer without a transactional_id")
    if config.key_serializer is not None or config.value_serializer is not None:
        problems.append("rows hold bytes: make the producer of a relay without serializers")
    return problems


def _problems_of_parts(store: object, dead_letters: object) -> list[str]:
    problems = []
    if isinstance(store, type) or not isinstance(store, Store):
        problems.append(f"a relay takes the store of an outbox, not {type(store).__name__}")
    if dead_letters is not None and (
        isinstance(dead_letters, type) or not callable(getattr(dead_letters, "put", None))
    ):
        problems.append(f"dead_letters takes DeadLetters, not {type(dead_letters).__name__}")
    return problems


def _problems_of_numbers(batch: Any, poll: Any) -> list[str]:
    problems = []
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        problems.append(f"batch={batch!r:.60} must be a number of rows, at least 1")
    if isinstance(poll, bool) or not isinstance(poll, (int, float)) or not 0 < poll < math.inf:
        problems.append(f"poll={poll!r:.60} must be a number of seconds, more than 0")
    return problems
