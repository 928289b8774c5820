"""Transaction markers: the control batches that end a transaction in a partition's log."""

from __future__ import annotations

import struct
from typing import Final

import attrs

from aioproducer.testing.broker.logs.batches import CONTROL, TRANSACTIONAL
from aioproducer.testing.broker.logs.records import NewRecord, parse_batch, write_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
_ABORT, _COMMIT = 0, 1
NO_SEQUENCE: Final = -1


@attrs.frozen
class Marker:
    """The end of one producer's transaction."""

    producer_id: int
    epoch: int
    """Since KIP-890 one more than that of the records, so that no late record can follow."""
    commit: bool
    coordinator_epoch: int = 0


def write_marker(marker: Marker, timestamp: int) -> bytes:
    """The control batch: one record, whose key distinguishes commit and abort (`EndTransactionMarker`)."""
    record = NewRecord(
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
        key=_KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT),
        timestamp=timestamp,
    )
    return write_batch(
        [record],
        producer_id=marker.producer_id,
        epoch=marker.epoch,
        sequence=NO_SEQUENCE,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read_marker(batch: bytes) -> Marker:
    """The marker in a control batch."""
    [record] = parse_batch("", 0, batch)
    _, kind = _KEY.unpack(record.key or b"")
    _, coordinator_epoch = _VALUE.unpack(record.value or b"")
    return Marker(record.producer_id, record.producer_epoch, kind == _COMMIT, coordinator_epoch)
