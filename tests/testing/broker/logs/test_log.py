"""A partition's log: offsets, reading, times, and losing records."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.logs.batches import RefusedRecords, check_batch, only_batch, read_header
from aioproducer.testing.broker.logs.log import PartitionLog, Stamp
from aioproducer.testing.broker.logs.records import NewRecord, split_batches, write_batch


def _append(
    log: PartitionLog, count: int, timestamp: int = 100, *, producer_id: int = -1, sequence: int = -1
) -> int:
    records = [NewRecord(b"v", timestamp=timestamp + i) for i in range(count)]
    epoch = -1 if producer_id < 0 else 0
    batch = write_batch(records, producer_id=producer_id, epoch=epoch, sequence=sequence)
    check_batch(read_header(batch), batch, 10_000)
    return log.produce(batch, read_header(batch), Stamp(leader_epoch=4, now=0.0)).offset


@pytest.fixture
def log() -> PartitionLog:
    """Batches of 3, 1 and 2 records."""
    log = PartitionLog()
    assert [_append(log, count) for count in (3, 1, 2)] == [0, 3, 4]
    return log


@pytest.mark.parametrize(
    ("offset", "bases"), [(0, [0, 3, 4]), (2, [0, 3, 4]), (3, [3, 4]), (4, [4]), (5, [4]), (6, [])]
)
def test_reading_begins_with_the_batch_that_has_the_offset(
    log: PartitionLog, offset: int, bases: list[int]
) -> None:
    """An offset inside a batch returns the whole batch; the end offset returns nothing."""
    headers = [read_header(batch) for batch in split_batches(log.read(offset, 10_000))]
    assert [header.base_offset for header in headers] == bases
    assert {header.leader_epoch for header in headers} <= {4}


def test_the_first_batch_may_be_kept_back(log: PartitionLog) -> None:
    """Only the first partition of a fetch returns a batch over the limit."""
    assert log.read(0, 10, at_least_one=False) == b""
    assert log.read(0, 10) == log.batches[0].data


@pytest.mark.parametrize(
    ("timestamp", "found"), [(0, (0, 100)), (101, (1, 101)), (102, (2, 102)), (103, None)]
)
def test_a_time_is_found_inside_a_batch(
    log: PartitionLog, timestamp: int, found: tuple[int, int] | None
) -> None:
    """The lookup returns the first record that is not older than the timestamp."""
    assert log.find_by_time(timestamp) == found


def test_truncation_rebuilds_the_producers() -> None:
    """The producer state forgets the records that an unclean election loses, and keeps the others."""
    log = PartitionLog()
    for sequence in range(4):
        _append(log, 1, producer_id=5, sequence=sequence)
    log.truncate(2, now=0.0)
    assert log.end_offset == 2
    assert _append(log, 1, producer_id=5, sequence=1) == 1
    assert _append(log, 1, producer_id=5, sequence=2) == 2
    log.truncate(0, now=0.0)
    assert (log.end_offset, len(log.producers)) == (0, 0)


def test_retention_moves_the_start_and_keeps_the_producers() -> None:
    """Batches before the offset are removed, the batch that holds it stays; sequences continue (KIP-360)."""
    log = PartitionLog()
    for sequence in (0, 2, 4):
        _append(log, 2, producer_id=5, sequence=sequence)
    log.delete_before(3)
    assert [batch.base_offset for batch in log.batches] == [2, 4]
    assert (log.start_offset, log.end_offset) == (3, 6)
    log.delete_before(100)
    assert (log.start_offset, log.batches) == (6, ())
    assert _append(log, 1, producer_id=5, sequence=6) == 6


def test_a_refused_batch_leaves_the_log_as_it_was(log: PartitionLog) -> None:
    """A batch out of order raises with its code and appends nothing."""
    _append(log, 1, producer_id=5, sequence=0)
    with pytest.raises(RefusedRecords) as refused:
        _append(log, 1, producer_id=5, sequence=9)
    assert (refused.value.error, log.end_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 7)


def test_a_batch_shorter_than_its_header_is_corrupt() -> None:
    """A length without room for the header is refused before the header is read."""
    short = bytes(8) + (30).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(40)
    with pytest.raises(RefusedRecords) as refused:
        only_batch(short)
    assert refused.value.error == ErrorCode.CORRUPT_MESSAGE
