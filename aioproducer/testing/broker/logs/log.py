"""One partition's log: whole batches as opaque bytes, found by offset or by time."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.logs.batches import (
    CONTROL,
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchHeader,
    RefusedRecords,
    read_header,
    stamp_append_time,
    stamp_place,
)
from aioproducer.testing.broker.logs.markers import Marker, read_marker, write_marker
from aioproducer.testing.broker.logs.producer_state import Duplicate, ProducerStates, Refused
from aioproducer.testing.broker.logs.records import parse_batch
from aioproducer.testing.broker.logs.stable_offset import LogTransactions

NO_TIMESTAMP: Final = -1


@attrs.frozen
class StoredBatch:
    """One batch in the log."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes


@attrs.frozen
class Appended:
    """The place of a batch in the log, and the time in the answer."""

    offset: int
    log_append_time: int = NO_TIMESTAMP
    log_start: int = 0


@attrs.frozen
class Stamp:
    """The broker's additions to a batch."""

    leader_epoch: int
    now: float
    append_time: int | None = None
    """Milliseconds; the time of all its records, if the broker dates them."""


@attrs.define
class PartitionLog:
    """The batches of a partition in the order of their offsets."""

    producers: ProducerStates = attrs.field(factory=ProducerStates)
    transactions: LogTransactions = attrs.field(factory=LogTransactions, init=False)
    start_offset: int = 0
    end_offset: int = 0
    _batches: list[StoredBatch] = attrs.field(factory=list, init=False)
    _offsets: list[int] = attrs.field(factory=list, init=False)

    @property
    def high_watermark(self) -> int:
        """The offset of the next record: appended records are replicated at once."""
        return self.end_offset

    @property
    def stable_offset(self) -> int:
        """The end for readers of committed records: the first record of an open transaction, or the end of the log."""
        return self.transactions.stable(self.start_offset, self.high_watermark)

    @property
    def batches(self) -> tuple[StoredBatch, ...]:
        """All batches of the log."""
        return tuple(self._batches)

    def produce(self, records: bytes, header: BatchHeader, stamp: Stamp) -> Appended:
        """Append a batch if its producer may: a duplicate keeps its place, one out of sequence is `RefusedRecords`."""
        if header.producer_id != NO_PRODUCER:
            self.producers.expire(stamp.now, self.transactions)
            verdict = self.producers.judge(header.produced)
            if isinstance(verdict, Refused):
                raise RefusedRecords(verdict.error, verdict.message, by_log=True)
            if isinstance(verdict, Duplicate):
                return Appended(verdict.offset, verdict.timestamp, self.start_offset)
            self._check_transaction(header)
        return self.append(records, header, stamp)

    def append(self, records: bytes, header: BatchHeader, stamp: Stamp) -> Appended:
        """Append a batch of any producer."""
        offset = self.end_offset
        data = stamp_place(records, offset, stamp.leader_epoch)
        timestamp = header.max_timestamp
        if stamp.append_time is not None:
            data = stamp_append_time(data, header.attributes, stamp.append_time)
            timestamp = stamp.append_time
        stored = StoredBatch(offset, offset + header.last_offset_delta, timestamp, data)
        self._store(stored)
        if header.producer_id != NO_PRODUCER:
            self._remember(header, stored, stamp.now)
        dated = NO_TIMESTAMP if stamp.append_time is None else stamp.append_time
        return Appended(offset, dated, self.start_offset)

    def end_transaction(self, marker: Marker, stamp: Stamp, wall_clock: int) -> None:
        """Append the marker that commits or aborts a producer's transaction."""
        batch = write_marker(marker, wall_clock)
        self.append(batch, read_header(batch), stamp)

    def committed(self) -> list[StoredBatch]:
        """The batches with records for readers of committed ones."""
        end = self.stable_offset
        return [batch for batch in self._batches if batch.last_offset < end and not self._is_aborted(batch)]

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, before: int | None = None
    ) -> bytes:
        """Whole batches from the one with `offset` on, up to the size limit, that begin before `before`."""
        parts: list[bytes] = []
        room = max_bytes
        for index in range(self._index_of(offset), len(self._batches)):
            batch = self._batches[index]
            if len(batch.data) > room and (parts or not at_least_one):
                break
            if before is not None and batch.base_offset >= before:
                break
            parts.append(batch.data)
            room -= len(batch.data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def find_by_time(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and time of the first record that is not older than `timestamp`."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                for record in parse_batch("", 0, batch.data):
                    if record.timestamp >= timestamp and record.offset >= self.start_offset:
                        return record.offset, record.timestamp
        return None

    def newest(self) -> tuple[int, int] | None:
        """Offset and time of the first record with the highest time."""
        if not self._batches:
            return None
        return self.find_by_time(max(batch.max_timestamp for batch in self._batches))

    def truncate(self, end_offset: int, now: float) -> None:
        """Remove the records from `end_offset` on, as an unclean leader election does.

        The producers are rebuilt from the remaining records, as after a broker's truncation.
        """
        self._keep([batch for batch in self._batches if batch.last_offset < end_offset])
        self.end_offset = self._batches[-1].last_offset + 1 if self._batches else self.start_offset
        self.producers.forget()
        self.transactions.forget()
        for batch in self._batches:
            header = read_header(batch.data)
            if header.producer_id != NO_PRODUCER:
                self._remember(header, batch, now)

    def delete_before(self, offset: int) -> None:
        """Retention: the log starts at `offset`, whole batches before it are gone; producers stay known (KIP-360)."""
        self.start_offset = min(max(offset, self.start_offset), self.end_offset)
        self._keep([batch for batch in self._batches if batch.last_offset >= self.start_offset])
        self.transactions.forget_before(self.start_offset)

    def _check_transaction(self, header: BatchHeader) -> None:
        """The checks of `ProducerAppendInfo` besides epoch and sequence."""
        transactional = header.attributes & TRANSACTIONAL
        if header.producer_id in self.transactions and not transactional:
            raise RefusedRecords(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {header.producer_id} has a transaction open, and this is no part of one.",
                by_log=True,
            )
        remembered = header.producer_id in self.producers
        if not self.transactions.allows(header.producer_id, header.base_sequence, remembered=remembered):
            raise RefusedRecords(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"A transaction cannot begin with sequence {header.base_sequence} here.",
                by_log=True,
            )

    def _remember(self, header: BatchHeader, batch: StoredBatch, now: float) -> None:
        """Update the producer's state after an append."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if header.attributes & CONTROL:
            self.producers.bump(producer_id, epoch, now)
            self.transactions.ended(producer_id, batch.base_offset, commit=read_marker(batch.data).commit)
            return
        self.producers.remember(header.produced, batch.base_offset, batch.max_timestamp, now)
        if header.attributes & TRANSACTIONAL:
            self.transactions.wrote(producer_id, epoch, batch.base_offset)

    def _is_aborted(self, batch: StoredBatch) -> bool:
        header = read_header(batch.data)
        return bool(header.attributes & TRANSACTIONAL) and self.transactions.hides(
            header.producer_id, batch.base_offset
        )

    def _store(self, batch: StoredBatch) -> None:
        self._batches.append(batch)
        self._offsets.append(batch.base_offset)
        self.end_offset = batch.last_offset + 1

    def _index_of(self, offset: int) -> int:
        index = bisect_right(self._offsets, offset) - 1
        if index < 0:
            return 0
        return index if self._batches[index].last_offset >= offset else index + 1

    def _keep(self, batches: list[StoredBatch]) -> None:
        self._batches[:] = batches
        self._offsets[:] = [batch.base_offset for batch in batches]
