"""Records of a row that may be written, and the search for them in the logs of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aioproducer.outcome import Outcome
from aioproducer.records import Resolution

if TYPE_CHECKING:
    from aioproducer import Delivery
    from aioproducer.outbox.rows import Row

__all__ = ["Doubts", "search"]

NOT_SEARCHED: Final = "its partition was not read yet"
# So many searches begin in one turn of the event loop: thousands would hold it up.
BEGUN_AT_ONCE: Final = 32


class Doubts:
    """The records of one row that may be written, of all its attempts. None is forgotten before it is certain."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.deliveries: list[Delivery] = []
        # Why the newest search was not certain.
        self.reason = NOT_SEARCHED

    @property
    def are_cleared(self) -> bool:
        """True when none of the records is written, for certain."""
        return not self.deliveries

    @property
    def places(self) -> Collection[tuple[str, int | None]]:
        """The partitions in which the records may be."""
        return {(delivery.topic, delivery.partition) for delivery in self.deliveries}


async def search(in_doubt: Sequence[Doubts], seconds: float) -> set[int]:
    """The ids of the rows of which a record is in the log of its partition. Records that are not written are forgotten."""
    searched = [(each, delivery) for each in in_doubt for delivery in each.deliveries]
    resolutions = await _resolved([delivery for _, delivery in searched], seconds)
    found = set()
    for (doubts, delivery), resolution in zip(searched, resolutions, strict=True):
        if not isinstance(resolution, Resolution):
            doubts.reason = str(resolution) or type(resolution).__name__
        elif resolution.outcome is Outcome.ACKED:
            found.add(doubts.row.id)
        elif resolution.outcome is Outcome.NOT_WRITTEN:
            doubts.deliveries.remove(delivery)
        else:
            doubts.reason = resolution.reason
    return found


async def _resolved(deliveries: Sequence[Delivery], seconds: float) -> list[Resolution | BaseException]:
    """The resolution of each delivery, or its error; all are searched for at the same time."""
    searches: list[asyncio.Future[list[Resolution | BaseException]]] = []
    try:
        for at in range(0, len(deliveries), BEGUN_AT_ONCE):
            some = (each.resolve_unknown(seconds) for each in deliveries[at : at + BEGUN_AT_ONCE])
            searches.append(asyncio.gather(*some, return_exceptions=True))
            await asyncio.sleep(0)
        return [each for some_found in searches for each in await some_found]
    finally:
        # Without effect, unless this is cancelled.
        for search in searches:
            search.cancel()
        for search in searches:
            with suppress(asyncio.CancelledError):
                await search
