"""The last committed value of each key, from all batches of a log up to its end.

Readers of committed records wait at the first open transaction, whatever producer has it. Here the transaction of each
record is judged on its own, by the control batch behind it: the open transaction of another producer hides nothing. A
record whose transaction has no end yet is undecided.

A transaction is known by its producer id only: a coordinator may raise the epoch when it ends one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._wire.heads import batches_of
from aioproducer._wire.stored_records import commits, is_transactional, records_of
from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._wire.heads import BatchHead


class LastValues:
    """Reads a log onward from its beginning; `wanted` selects keys."""

    def __init__(self, wanted: Callable[[bytes], bool]) -> None:
        self._wanted = wanted
        self._committed: dict[bytes, tuple[int, bytes | None]] = {}
        self._open: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
        # The offset to read next.
        self.position = 0
        self.bytes_read = 0

    @property
    def values(self) -> dict[bytes, bytes]:
        """The value with the highest offset of each key; a null has deleted it."""
        return {key: value for key, (_, value) in self._committed.items() if value is not None}

    @property
    def is_undecided(self) -> bool:
        """Whether a wanted key is in a transaction without an end."""
        return bool(self._open)

    def read(self, records: bytes | memoryview | None) -> None:
        """The next batches of the log, from an answer to Fetch."""
        self.bytes_read += len(records or b"")
        for head, batch in batches_of(records):
            if head is None:
                raise ProtocolError("a batch is in a format before Kafka 0.11, which has no transactions")
            # The first batch of an answer may begin before the offset that was asked for.
            if head.last_offset >= self.position:
                self._one(head, batch)
                self.position = head.last_offset + 1

    def _one(self, head: BatchHead, batch: memoryview) -> None:
        if head.is_control:
            # Most transactions have no wanted key.
            if head.producer_id in self._open:
                self._ended(head.producer_id, commits(head, batch))
            return
        for record in records_of(head, batch):
            if record.key is not None and self._wanted(record.key):
                noted = self._noted(head, batch)
                noted[record.key] = (record.offset, record.value)

    def _noted(self, head: BatchHead, batch: memoryview) -> dict[bytes, tuple[int, bytes | None]]:
        return self._open.setdefault(head.producer_id, {}) if is_transactional(batch) else self._committed

    def _ended(self, producer_id: int, committed: bool | None) -> None:
        if committed is None:
            return
        for key, noted in self._open.pop(producer_id).items():
            if committed and noted[0] > self._committed.get(key, (-1, None))[0]:
                self._committed[key] = noted
