"""Records of a row that may be written, and the search for them in the logs of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from aioproducer.outcome import Outcome
from aioproducer.records import Resolution

if TYPE_CHECKING:
    from aioproducer import Delivery
    from aioproducer.outbox.rows import Row

__all__ = ["Doubts", "search"]

NOT_SEARCHED: Final = "its partition was not read yet"


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
    searches = (delivery.resolve_unknown(seconds) for _, delivery in searched)
    resolutions = await asyncio.gather(*searches, return_exceptions=True)
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
