"""The records that a mock has accepted, and what became of them."""

from __future__ import annotations

import attrs

from aioproducer._core import Delivery, peek
from aioproducer._state.batching.batches import QueuedBatch
from aioproducer.outcome import Outcome
from aioproducer.testing.broker.cluster.cluster import Cluster


@attrs.frozen(kw_only=True)
class MockRecord:
    """A record as it is written: after interceptors and serializers, with its partition chosen."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


@attrs.define(eq=False)
class Entry:
    """One accepted record. `held`: its batch, which has no other record, waits for the test."""

    record: MockRecord
    delivery: Delivery
    held: QueuedBatch | None = None


class Ledger:
    """Everything that was accepted."""

    def __init__(self, cluster: Cluster, *, transactional: bool) -> None:
        self._cluster = cluster
        self._transactional = transactional
        self.history: list[MockRecord] = []
        self.open: list[Entry] = []
        self.written: list[MockRecord] = []
        self.committed: list[MockRecord] = []
        # In the log; readers of committed records find it later, or never.
        self._unseen: list[Entry] = []

    def accept(self, entry: Entry) -> None:
        """A record has its place."""
        self.history.append(entry.record)
        self.open.append(entry)

    def look(self) -> None:
        """Note what has become of the records since the last look."""
        acked = []
        still_open = []
        for entry in self.open:
            outcome = peek(entry.delivery)[0]
            if outcome is Outcome.PENDING:
                still_open.append(entry)
            elif outcome is Outcome.ACKED:
                acked.append(entry)
        self.open = still_open
        self.written += [entry.record for entry in acked]
        if self._transactional:
            self._unseen += acked
            self._unseen = self._still_unseen()
        else:
            self.committed += [entry.record for entry in acked]

    def _still_unseen(self) -> list[Entry]:
        """Those that readers of committed records have not reached; of the others, those that were committed are found."""
        unseen = []
        found: dict[tuple[str, int], set[int]] = {}
        for entry in self._unseen:
            place, offset = (entry.record.topic, entry.record.partition), entry.delivery.result().offset
            log = self._cluster.partition(*place).log
            if offset >= log.stable_offset:
                unseen.append(entry)
                continue
            if place not in found:
                found[place] = {
                    known
                    for batch in log.committed()
                    for known in range(batch.base_offset, batch.last_offset + 1)
                }
            if offset in found[place]:
                self.committed.append(entry.record)
        return unseen

    def clear(self) -> None:
        """Forget what is settled; what an open transaction has written may still be committed."""
        self.look()
        for records in (self.history, self.written, self.committed):
            records.clear()
