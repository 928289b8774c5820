"""The history of a mock: the records that it accepted, and their outcomes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import attrs

from aioproducer._core import peek
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._core import Delivery
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer.testing.broker.cluster.cluster import Cluster


@attrs.frozen
class MockRecord:
    """A record as it is written: after interceptors and serializers, with its partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Entry(NamedTuple):
    """One accepted record, and its batch."""

    record: MockRecord
    delivery: Delivery
    batch: QueuedBatch

    @property
    def place(self) -> tuple[str, int, int]:
        """The place of an acknowledged record: topic, partition, offset."""
        return self.record.topic, self.record.partition, self.delivery.result().offset


class History:
    """The accepted records, in order."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.accepted: list[MockRecord] = []
        self.pending: list[Entry] = []
        self.written: list[MockRecord] = []
        # Acknowledged entries that `committed()` searches the log for.
        self.acknowledged: list[Entry] = []
        self.changed = asyncio.Event()

    def add(self, entry: Entry) -> None:
        """A record was accepted."""
        self.accepted.append(entry.record)
        self.pending.append(entry)
        self.changed.set()

    def update(self) -> None:
        """Note the outcomes since the last update."""
        pending, self.pending = self.pending, []
        for entry in pending:
            outcome = peek(entry.delivery)[0]
            if outcome is Outcome.PENDING:
                self.pending.append(entry)
            elif outcome is Outcome.ACKED:
                self.written.append(entry.record)
                self.acknowledged.append(entry)

    def committed(self) -> list[MockRecord]:
        """The acknowledged records that a reader of committed records finds."""
        found = {
            (*log, offset)
            for log in {entry.place[:2] for entry in self.acknowledged}
            for batch in self.cluster.partition(*log).log.committed()
            for offset in range(batch.base_offset, batch.last_offset + 1)
        }
        return [entry.record for entry in self.acknowledged if entry.place in found]

    def clear(self) -> None:
        """Forget the records. Those of an open transaction may still be committed."""
        self.update()
        self.accepted.clear()
        self.written.clear()
        self.acknowledged = [
            entry
            for entry in self.acknowledged
            if entry.place[2] >= self.cluster.partition(*entry.place[:2]).log.stable_offset
        ]
