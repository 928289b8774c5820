"""`Delivery.resolve_unknown()`: one search for each batch, which all callers for its records wait for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aioproducer._net.resolving.leaders import Leaders
from aioproducer._net.resolving.reading import Reading
from aioproducer._state.identity.sequences import ANONYMOUS
from aioproducer._state.resolving.search import UNREAD, Verdict
from aioproducer.errors import ConfigurationError
from aioproducer.outcome import Outcome
from aioproducer.records import Resolution

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aioproducer._net.cluster.metadata_task import Cluster
    from aioproducer._net.cluster.session import Session
    from aioproducer._state.queues.batches import QueuedBatch

NOT_IDEMPOTENT: Final = (
    "resolve_unknown() needs the numbers of an idempotent producer: set enable_idempotence=True"
)
CLOSED: Final = "the producer was closed"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5


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
        loop = self._session.loop
        if batch.identity is None or batch.identity == ANONYMOUS:
            raise ConfigurationError(
                NOT_IDEMPOTENT, topic=batch.topic, partition=batch.partition, outcome=Outcome.UNKNOWN
            )
        limit = self._session.config.delivery_timeout_ms / 1000 if timeout is None else timeout
        search = self._searches.get(batch)
        if search is None:
            search = self._begin(batch)
        if search is None:
            return Resolution(Outcome.UNKNOWN, reason=CLOSED)
        search.until = max(search.until, loop.time() + limit)
        await asyncio.wait([search.done], timeout=limit)
        verdict = search.verdict
        offset = verdict.offset + index if verdict.offset >= 0 else -1
        return Resolution(verdict.outcome, offset, verdict.reason)

    def _begin(self, batch: QueuedBatch) -> _Search | None:
        """The search for this batch; None where the producer has ended."""
        search = _Search(self._session.loop, Reading(self._session, self._cluster, self._leaders, batch))

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


class _Search:
    """The search for one batch, until it is decided, or the time of all callers is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reading: Reading) -> None:
        self._loop = loop
        self._reading = reading
        self.done: asyncio.Future[None] = loop.create_future()
        self.until = 0.0
        self.verdict = Verdict(Outcome.UNKNOWN, reason=UNREAD)

    async def run(self, wall_ms: Callable[[], int]) -> None:
        """Read until the verdict is certain, or the time is over."""
        try:
            await self._read_on(wall_ms)
        except asyncio.CancelledError:
            self.verdict = Verdict(Outcome.UNKNOWN, reason=CLOSED)
            raise
        finally:
            if not self.done.done():
                self.done.set_result(None)

    async def _read_on(self, wall_ms: Callable[[], int]) -> None:
        pause = SHORTEST_PAUSE
        while (left := self.until - self._loop.time()) > 0 and not self._reading.is_hopeless:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._reading.step()
            self.verdict = self._reading.verdict(wall_ms())
            if self.verdict.outcome is not Outcome.UNKNOWN:
                return
            if not self._reading.has_more:
                await asyncio.sleep(min(pause, max(0.0, self.until - self._loop.time())))
                pause = min(pause * 2, LONGEST_PAUSE)
