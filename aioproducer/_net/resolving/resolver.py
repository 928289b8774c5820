"""The search for records of unknown outcome: one for each batch, which all callers for its records wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aioproducer._net.cluster.leaders import Leaders
from aioproducer._net.log import log
from aioproducer._net.resolving.reading import Reading
from aioproducer._state.delivery.found import NOT_IDEMPOTENT
from aioproducer._state.resolving.known import known_verdict
from aioproducer._state.resolving.search import UNREAD, Verdict
from aioproducer.errors import ConfigurationError, text_of
from aioproducer.outcome import Outcome
from aioproducer.records import Resolution

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aioproducer._net.cluster.metadata_task import Cluster
    from aioproducer._net.cluster.session import Session
    from aioproducer._state.queues.batches import QueuedBatch

CLOSED: Final = "the producer was closed"
FAILED: Final = "the search failed"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
# The most questions in a second of all searches together, where they wait for something to come.
MOST_QUESTIONS: Final = 200


class Resolver:
    """The searches of a producer."""

    def __init__(
        self,
        session: Session,
        cluster: Cluster,
        *,
        wall_ms: Callable[[], int],
        look_after: Callable[[str, Callable[[], Awaitable[None]]], bool],
    ) -> None:
        self._session = session
        self._cluster = cluster
        self._wall_ms = wall_ms
        self._look_after = look_after
        self._leaders = Leaders(session)
        self._searches: dict[QueuedBatch, _Search] = {}

    async def resolve(self, batch: QueuedBatch, index: int, timeout: float | None) -> Resolution:
        """Look for one record of this batch for at most so many seconds (default: the delivery timeout)."""
        if not self._session.config.enable_idempotence:
            raise ConfigurationError(
                NOT_IDEMPOTENT, topic=batch.topic, partition=batch.partition, outcome=Outcome.UNKNOWN
            )
        verdict = (await self.verdicts([batch], timeout))[batch]
        offset = verdict.offset + index if verdict.offset >= 0 else -1
        return Resolution(verdict.outcome, offset, verdict.reason)

    async def verdicts(
        self, batches: Iterable[QueuedBatch], timeout: float | None
    ) -> dict[QueuedBatch, Verdict]:
        """Look for these batches, all at the same time."""
        limit = self._session.config.delivery_timeout_ms / 1000 if timeout is None else timeout
        until = self._session.loop.time() + limit
        verdicts = dict.fromkeys(batches, Verdict(Outcome.UNKNOWN, reason=CLOSED))
        searches: dict[QueuedBatch, _Search] = {}
        for batch in verdicts:
            known = known_verdict(batch)
            search = None if known is not None else self._searches.get(batch) or self._begin(batch)
            if known is not None:
                verdicts[batch] = known
            elif search is not None:
                searches[batch] = search
        if searches:
            await _ended(searches.values(), until, limit)
        return verdicts | {batch: search.verdict for batch, search in searches.items()}

    def _begin(self, batch: QueuedBatch) -> _Search | None:
        """The search for this batch; None where the producer has ended."""
        search = _Search(
            self._session.loop,
            Reading(self._session, self._cluster, self._leaders, batch),
            self._longest_pause,
        )

        async def run() -> None:
            self._leaders.enter()
            try:
                await search.run(self._wall_ms)
            finally:
                self._leaders.leave()
                del self._searches[batch]

        self._searches[batch] = search
        if self._look_after("resolving", run):
            return search
        del self._searches[batch]
        return None

    def _longest_pause(self) -> float:
        return max(LONGEST_PAUSE, len(self._searches) / MOST_QUESTIONS)


async def _ended(searches: Iterable[_Search], until: float, limit: float) -> None:
    """Wait until all have ended, or the time is over. A search without a caller ends."""
    waited_for = list(searches)
    for search in waited_for:
        search.enter(until)
    try:
        await asyncio.wait([search.done for search in waited_for], timeout=limit)
    finally:
        for search in waited_for:
            search.leave()


class _Search:
    """The search for one batch, until it is decided, or the time of all callers is over."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, reading: Reading, longest_pause: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._reading = reading
        self._longest_pause = longest_pause
        self._callers = 0
        self._until = 0.0
        # Of the present step or pause.
        self._limit: asyncio.Timeout | None = None
        self.done: asyncio.Future[None] = loop.create_future()
        self.verdict = Verdict(Outcome.UNKNOWN, reason=UNREAD)

    def enter(self, until: float) -> None:
        """One more caller, who waits until then."""
        self._callers += 1
        self._until = max(self._until, until)

    def leave(self) -> None:
        """One caller less."""
        self._callers -= 1
        if not self._callers:
            self._until = self._loop.time()
            if self._limit is not None and not self._limit.expired():
                self._limit.reschedule(self._until)

    async def run(self, wall_ms: Callable[[], int]) -> None:
        """Read until the verdict is certain, or the time is over."""
        try:
            await self._read_on(wall_ms)
        except asyncio.CancelledError:
            self.verdict = Verdict(Outcome.UNKNOWN, reason=CLOSED)
            raise
        except Exception as error:
            # A defect costs the verdict about one batch. It is no reason to end the producer.
            self.verdict = Verdict(
                Outcome.UNKNOWN, reason=f"{FAILED}: {type(error).__name__}: {text_of(error)}"
            )
            log.exception("the search for records of unknown outcome failed")
        finally:
            if not self.done.done():
                self.done.set_result(None)

    async def _read_on(self, wall_ms: Callable[[], int]) -> None:
        pause = SHORTEST_PAUSE
        while self._until > self._loop.time() and not self._reading.is_hopeless:
            await self._in_time(self._reading.step())
            self.verdict = self._reading.verdict(wall_ms())
            if self.verdict.outcome is not Outcome.UNKNOWN:
                return
            if not self._reading.has_more:
                await self._in_time(asyncio.sleep(pause))
                pause = min(pause * 2, self._longest_pause())

    async def _in_time(self, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout_at(self._until) as self._limit:
                await work
        except TimeoutError:
            pass
        finally:
            self._limit = None
