"""The state of idempotent producers in a partition, and the batches that it accepts next.

The rules are those of Kafka's `ProducerStateEntry` and `ProducerAppendInfo`: the newest five batches of each producer
are remembered; one of them sent again is a duplicate; any other batch must continue after the newest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final

import attrs

from aioproducer._wire.error_codes import ErrorCode

REMEMBERED_BATCHES: Final = 5
SEQUENCE_LIMIT: Final = 2**31


def last_sequence(base: int, count: int) -> int:
    """The sequence of the last of `count` records that begin at `base`; 2^31-1 is followed by 0."""
    return (base + count - 1) % SEQUENCE_LIMIT


@attrs.frozen
class ProducedBatch:
    """The producer's facts in a batch header."""

    producer_id: int
    epoch: int
    base_sequence: int
    count: int

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record of the batch."""
        return last_sequence(self.base_sequence, self.count)


@attrs.frozen
class Accepted:
    """The batch is the next one and is to be appended."""


@attrs.frozen
class Duplicate:
    """The batch is in the log already, at this offset."""

    offset: int
    timestamp: int


@attrs.frozen
class Refused:
    """The batch must not be appended."""

    error: ErrorCode
    message: str


Verdict = Accepted | Duplicate | Refused

_ACCEPTED: Final = Accepted()


@attrs.frozen
class RememberedBatch:
    """A batch in the log, with the fields that identify its duplicates."""

    base_sequence: int
    last_sequence: int
    offset: int
    timestamp: int


@attrs.define
class ProducerEntry:
    """The newest epoch of one producer in one partition, and its newest batches, oldest first."""

    epoch: int
    appended_at: float
    batches: deque[RememberedBatch] = attrs.field(factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    def find(self, batch: ProducedBatch) -> RememberedBatch | None:
        """The remembered batch with exactly this epoch and this range of sequences."""
        if batch.epoch != self.epoch:
            return None
        wanted = (batch.base_sequence, batch.last_sequence)
        return next(
            (known for known in self.batches if (known.base_sequence, known.last_sequence) == wanted), None
        )

    def keep_newest_before(self, offset: int) -> None:
        """Of the batches before this offset, remember only the newest."""
        older = [batch for batch in self.batches if batch.offset < offset]
        for _ in older[:-1]:
            self.batches.popleft()


@attrs.define
class ProducerStates:
    """All producers that one partition remembers."""

    expiration: float = 86_400.0
    _entries: dict[int, ProducerEntry] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._entries

    def judge(self, batch: ProducedBatch) -> Verdict:
        """The decision about the batch; changes nothing.

        A duplicate is recognised before anything else, as in `UnifiedLog.analyzeAndValidateProducerState`.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            return _ACCEPTED  # Kafka takes any sequence of a producer it has no memory of (KIP-360).
        known = entry.find(batch)
        if known is not None:
            return Duplicate(known.offset, known.timestamp)
        return _judge_epoch(entry, batch) or _judge_sequence(entry, batch) or _ACCEPTED

    def remember(self, batch: ProducedBatch, offset: int, timestamp: int, now: float) -> None:
        """Note that the batch was appended at `offset`."""
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.epoch:
            entry = self._entries[batch.producer_id] = ProducerEntry(batch.epoch, now)
        entry.appended_at = now
        entry.batches.append(RememberedBatch(batch.base_sequence, batch.last_sequence, offset, timestamp))

    def bump(self, producer_id: int, epoch: int, now: float) -> None:
        """Apply a marker: the state of an older epoch ends, that of this epoch continues."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = self._entries[producer_id] = ProducerEntry(epoch, now)
        entry.appended_at = now

    def expire(self, now: float, but: Container[int] = ()) -> None:
        """Forget the producers that appended nothing for the time of `producer.id.expiration.ms`.

        The producers in `but` have an open transaction.
        """
        for producer_id in [
            pid
            for pid, entry in self._entries.items()
            if now - entry.appended_at >= self.expiration and pid not in but
        ]:
            del self._entries[producer_id]

    def reload(self, end_offset: int) -> None:
        """Restore a snapshot of this end of the log, which has only the newest batch of each producer."""
        for entry in self._entries.values():
            entry.keep_newest_before(end_offset)

    def forget(self, producer_id: int | None = None) -> None:
        """Forget one producer, or all of them."""
        if producer_id is None:
            self._entries.clear()
        else:
            self._entries.pop(producer_id, None)


def _judge_epoch(entry: ProducerEntry, batch: ProducedBatch) -> Refused | None:
    if batch.epoch >= entry.epoch:
        return None
    return Refused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch of producer {batch.producer_id} is {batch.epoch}, which is smaller than the last seen epoch {entry.epoch}",
    )


def _judge_sequence(entry: ProducerEntry, batch: ProducedBatch) -> Refused | None:
    goes_on = batch.epoch == entry.epoch and entry.batches  # A marker leaves an epoch without batches.
    newest = entry.batches[-1].last_sequence if goes_on else -1
    expected = (newest + 1) % SEQUENCE_LIMIT
    if batch.base_sequence == expected:
        return None
    return Refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Out of order sequence number of producer {batch.producer_id} epoch {batch.epoch}: "
        f"{batch.base_sequence} (incoming sequence number), {expected} (expected)",
    )
