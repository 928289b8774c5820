"""The header of a record batch (magic 2): reading it, checking it, and stamping what a broker decides.

The records stay opaque bytes. A broker may change base offset and leader epoch without touching the checksum, which
starts after them; a topic with log append time costs a new checksum.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, NoReturn

from crc32c import crc32c

from .codes import Code
from .producer_state import ProducedBatch

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_CHECKSUM: Final = struct.Struct(">I")

HEADER_SIZE: Final = _HEADER.size
LENGTH_OVERHEAD: Final = 12
EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35

NO_PRODUCER: Final = -1
COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
ZSTD: Final = 4


class RefusedRecords(Exception):  # noqa: N818 - a verdict that travels up, not a failure of the broker
    """The records of a partition cannot be appended."""

    def __init__(
        self, error: Code, message: str | None = None, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(error, message, record_errors)
        self.error = error
        self.message = message
        self.record_errors = record_errors


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in the order of the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def produced(self) -> ProducedBatch:
        """What the producer state needs to know."""
        return ProducedBatch(self.producer_id, self.producer_epoch, self.base_sequence, self.record_count)


def read_header(data: bytes, at: int = 0) -> BatchHeader:
    """The header at this place; the bytes must be there."""
    return BatchHeader._make(_HEADER.unpack_from(data, at))


def checked_header(records: bytes, max_bytes: int) -> BatchHeader:
    """The header of the one batch that a produce request may hold, or `RefusedRecords` saying why it is not one.

    The order of the checks is that of `ProduceRequest.validateRecords`, then `UnifiedLog.analyzeAndValidateRecords`,
    then `LogValidator.validateBatch`.
    """
    if not records:
        _refuse(Code.INVALID_RECORD, "Produce requests must have at least one record batch per partition")
    if len(records) < HEADER_SIZE:
        _refuse(Code.CORRUPT_MESSAGE, f"{len(records)} bytes are less than the header of a record batch")
    header = read_header(records)
    if header.magic != 2:
        _refuse(Code.INVALID_RECORD, "Produce requests must contain only record batches with magic version 2")
    if header.size < HEADER_SIZE or header.size > len(records):
        _refuse(
            Code.CORRUPT_MESSAGE, f"The batch claims {header.size} bytes, the request holds {len(records)}"
        )
    if header.size < len(records):
        _refuse(Code.INVALID_RECORD, "Produce requests must contain exactly one record batch per partition")
    if header.base_offset != 0:
        _refuse(
            Code.INVALID_RECORD,
            f"The baseOffset of the record batch should be 0, but it is {header.base_offset}",
        )
    if header.size > max_bytes:
        _refuse(Code.MESSAGE_TOO_LARGE, None)
    if crc32c(memoryview(records)[ATTRIBUTES_AT:]) != header.crc:
        _refuse(Code.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")
    _check_fields(header)
    return header


def _check_fields(header: BatchHeader) -> None:
    if header.last_offset_delta < 0:
        _refuse(Code.INVALID_RECORD, f"Batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if header.record_count <= 0:
        _refuse(Code.INVALID_RECORD, f"Invalid reported count for record batch: {header.record_count}")
    if header.last_offset_delta + 1 != header.record_count:
        _refuse(
            Code.INVALID_RECORD,
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {header.record_count}",
        )
    if header.attributes & CONTROL:
        _refuse(Code.INVALID_RECORD, "Clients are not allowed to write control records")
    if header.producer_id != NO_PRODUCER and header.base_sequence < 0:
        _refuse(Code.INVALID_RECORD, f"Invalid sequence number {header.base_sequence} in record batch")


def stamp_place(records: bytes, offset: int, leader_epoch: int) -> bytearray:
    """A copy of the batch as it goes into the log."""
    stamped = bytearray(records)
    _OFFSET.pack_into(stamped, 0, offset)
    _EPOCH.pack_into(stamped, EPOCH_AT, leader_epoch)
    return stamped


def stamp_append_time(batch: bytearray, attributes: int, timestamp: int) -> None:
    """Give all records of the batch the time of the broker, which changes the checksum."""
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(batch, MAX_TIMESTAMP_AT, timestamp)
    _CHECKSUM.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def _refuse(error: Code, message: str | None) -> NoReturn:
    raise RefusedRecords(error, message)
