"""Transactions in one log: markers, the last stable offset, and the aborted transactions."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.logs.batches import TRANSACTIONAL, RefusedRecords, read_header
from aioproducer.testing.broker.logs.log import PartitionLog, Stamp
from aioproducer.testing.broker.logs.markers import Marker, read_marker, write_marker
from aioproducer.testing.broker.logs.records import NewRecord, split_batches, write_batch
from aioproducer.testing.broker.logs.stable_offset import AbortedTransaction

ONE, OTHER = 5, 6
STAMP = Stamp(leader_epoch=0, now=0.0)


class Writer:
    """A log, and the batches that two producers write to it."""

    def __init__(self) -> None:
        self.log = PartitionLog()
        self._sequences: dict[tuple[int, int], int] = {}

    def write(
        self, producer_id: int, count: int = 1, *, epoch: int = 0, attributes: int = TRANSACTIONAL,
        sequence: int | None = None, stamp: Stamp = STAMP,
    ) -> int:  # fmt: skip
        """The offset of the next batch of a producer."""
        known = self._sequences.get((producer_id, epoch), 0)
        first = known if sequence is None else sequence
        batch = write_batch(
            [NewRecord(b"v")] * count,
            producer_id=producer_id,
            epoch=epoch,
            sequence=first,
            attributes=attributes,
        )
        offset = self.log.produce(batch, read_header(batch), stamp).offset
        self._sequences[producer_id, epoch] = first + count
        return offset

    def end(self, producer_id: int, *, commit: bool = True, epoch: int = 0) -> None:
        """The end marker of this producer."""
        self.log.end_transaction(Marker(producer_id, epoch, commit), STAMP, 100)

    @property
    def committed(self) -> list[int]:
        """The offsets of the batches that readers of committed records get, without markers."""
        batches = [batch for batch in self.log.committed() if read_header(batch.data).record_count]
        return [batch.base_offset for batch in batches if not read_header(batch.data).attributes & 0x20]


@pytest.fixture
def writer() -> Writer:
    """A new log."""
    return Writer()


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_reads_back(commit: bool) -> None:
    """A control batch is read back as it was written."""
    marker = Marker(2**40, 7, commit, 3)
    assert read_marker(write_marker(marker, 12345)) == marker


def test_the_stable_offset_is_that_of_the_first_open_transaction(writer: Writer) -> None:
    """The last stable offset moves when the first open transaction ends, not when a later one does."""
    for producer_id in (ONE, OTHER, ONE):
        writer.write(producer_id, 2)
    assert (writer.log.stable_offset, writer.log.high_watermark) == (0, 6)
    writer.end(OTHER)
    assert writer.log.stable_offset == 0
    writer.end(ONE)
    assert (writer.log.stable_offset, writer.log.high_watermark) == (8, 8)


def test_reading_stops_before_an_offset(writer: Writer) -> None:
    """Batches that begin at the last stable offset or later are left out."""
    for _ in range(3):
        writer.write(ONE, 2)
    found = split_batches(writer.log.read(0, 10_000, before=4))
    assert [read_header(batch).base_offset for batch in found] == [0, 2]


def test_aborted_batches_are_not_committed(writer: Writer) -> None:
    """Readers of committed records get no aborted batch, no batch of an open transaction, and none behind it."""
    writer.write(ONE)
    writer.write(OTHER)
    writer.end(ONE, commit=False)
    writer.end(OTHER)
    writer.write(ONE)
    writer.write(OTHER, attributes=0)
    assert writer.committed == [1]
    writer.end(ONE)
    assert writer.committed == [1, 4, 5]
    assert writer.log.transactions.aborted(0, 100) == [AbortedTransaction(ONE, 0, 2)]


def test_an_abort_of_nothing_hides_nothing(writer: Writer) -> None:
    """A marker without records before it is not among the aborted transactions."""
    writer.end(ONE, commit=False)
    writer.write(ONE)
    writer.end(ONE)
    assert writer.log.transactions.aborted(0, 100) == []
    assert writer.committed == [1]


def test_sequences_follow_the_marker(writer: Writer) -> None:
    """Sequences continue under the epoch of the records; a raised epoch begins again and fences the old one."""
    writer.write(ONE, 2)
    writer.end(ONE)
    assert writer.write(ONE, 2) == 3
    writer.end(ONE, epoch=1)
    with pytest.raises(RefusedRecords) as old:
        writer.write(ONE)
    with pytest.raises(RefusedRecords) as gap:
        writer.write(ONE, epoch=1, sequence=4)
    assert [old.value.error, gap.value.error] == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]
    assert writer.write(ONE, epoch=1) == 6


def test_an_open_transaction_takes_nothing_else_of_its_producer(writer: Writer) -> None:
    """A transactional batch outside a transaction is an illegal state; a repeated batch of the log is accepted."""
    writer.write(ONE, attributes=0)
    writer.write(ONE)
    with pytest.raises(RefusedRecords) as refused:
        writer.write(ONE, attributes=0)
    assert refused.value.error == ErrorCode.INVALID_TXN_STATE
    assert writer.write(ONE, attributes=0, sequence=0) == 0


def test_a_stranger_begins_with_0_where_that_is_asked(writer: Writer) -> None:
    """A transaction begins with sequence 0 where the version asks for it (KIP-890); elsewhere any sequence begins."""
    writer.log.transactions.attempt(ONE, 0, 4, from_zero=True)
    with pytest.raises(RefusedRecords) as refused:
        writer.write(ONE, sequence=4)
    assert refused.value.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    writer.log.transactions.attempt(OTHER, 0, 4, from_zero=False)
    assert [writer.write(ONE, sequence=0), writer.write(OTHER, sequence=4)] == [0, 1]


def test_no_batch_overtakes_the_first_attempt(writer: Writer) -> None:
    """The lowest attempted sequence goes first; a new epoch starts over, and a marker forgets the attempt."""
    for epoch, sequence in ((0, 7), (0, 3), (0, 5)):
        writer.log.transactions.attempt(ONE, epoch, sequence, from_zero=False)
    with pytest.raises(RefusedRecords) as refused:
        writer.write(ONE, sequence=5)
    assert refused.value.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    writer.log.transactions.attempt(ONE, 1, 5, from_zero=False)
    assert writer.write(ONE, epoch=1, sequence=5) == 0
    writer.log.transactions.attempt(OTHER, 0, 3, from_zero=False)
    writer.end(OTHER)
    assert writer.write(OTHER, sequence=0) == 2


def test_a_producer_with_an_open_transaction_is_not_forgotten(writer: Writer) -> None:
    """The expiry forgets only producers without an open transaction."""
    writer.write(ONE)
    writer.write(OTHER, attributes=0)
    writer.write(7, attributes=0, stamp=Stamp(leader_epoch=0, now=1e9))
    assert [producer_id in writer.log.producers for producer_id in (ONE, OTHER, 7)] == [True, False, True]


def test_truncation_rebuilds_the_transactions(writer: Writer) -> None:
    """A lost marker leaves its transaction open; a kept marker has ended it."""
    writer.write(ONE)
    writer.end(ONE, commit=False)
    writer.write(OTHER)
    writer.end(OTHER, epoch=1)
    writer.log.truncate(3, now=0.0)
    assert (writer.log.stable_offset, writer.log.end_offset) == (2, 3)
    assert writer.log.transactions.aborted(0, 100) == [AbortedTransaction(ONE, 0, 1)]
    assert writer.write(OTHER) == 3


def test_retention_forgets_what_was_aborted_before_the_start(writer: Writer) -> None:
    """The last stable offset is never before the start of the log."""
    writer.write(ONE)
    writer.end(ONE, commit=False)
    writer.write(OTHER, 3)
    writer.log.delete_before(3)
    assert writer.log.transactions.aborted(0, 100) == []
    assert writer.log.stable_offset == 3
