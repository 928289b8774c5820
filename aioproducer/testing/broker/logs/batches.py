"""The header of a record batch (magic 2): its fields, its checks, and the changes that a broker makes.

The records stay opaque bytes. A broker may change base offset and leader epoch without touching the checksum, which
starts after them; a topic with log append time costs a new checksum.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, NoReturn

from crc32c import crc32c

from aioproducer._codecs import CODEC_IDS
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.logs.producer_state import ProducedBatch

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")
_CHECKSUM: Final = struct.Struct(">I")

HEADER_SIZE: Final = _HEADER.size
LENGTH_OVERHEAD: Final = 12
_SHORTEST: Final = 14
_LENGTH_AT: Final = 8
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


class RefusedRecords(Exception):  # noqa: N818 - a verdict that travels up, not a failure of the broker
    """The records of a partition cannot be appended.

    Kafka returns the code, and a text only together with `record_errors`; `reason` helps to debug a test. `by_log`: the
    partition's log decided it, and not the form of the request: then the answer has the start of the log.
    """

    def __init__(
        self,
        error: ErrorCode,
        reason: str,
        *,
        told: str | None = None,
        record_errors: tuple[tuple[int, str], ...] = (),
        by_log: bool = False,
    ) -> None:
        super().__init__(error, reason)
        self.error = error
        self.reason = reason
        self.told = told
        self.record_errors = record_errors
        self.by_log = by_log


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
        """The size of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def compression(self) -> int:
        """The id of a codec in `CODEC_IDS`."""
        return self.attributes & COMPRESSION_MASK

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    def has_valid_checksum(self, batch: bytes) -> bool:
        """Whether the checksum matches the batch."""
        return bool(crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == self.crc)

    @property
    def produced(self) -> ProducedBatch:
        """The facts for the producer state."""
        return ProducedBatch(self.producer_id, self.producer_epoch, self.base_sequence, self.record_count)


def read_header(data: bytes, at: int = 0) -> BatchHeader:
    """The header at this place; the bytes must be there."""
    return BatchHeader._make(_HEADER.unpack_from(data, at))


def only_batch(records: bytes) -> tuple[BatchHeader, bytes]:
    """The single batch of a partition in a produce request, as `ProduceRequest.validateRecords` finds it.

    An incomplete batch at the end is ignored, as in `ByteBufferLogInputStream`.
    """
    end = _end_of_batch(records, 0)
    if end is None:
        raise RefusedRecords(ErrorCode.INVALID_RECORD, "There is no whole record batch for the partition.")
    if _end_of_batch(records, end) is not None:
        raise RefusedRecords(
            ErrorCode.INVALID_RECORD, "There is more than one record batch for the partition."
        )
    if records[MAGIC_AT] != 2:
        raise RefusedRecords(
            ErrorCode.INVALID_RECORD, f"The record batch has magic {records[MAGIC_AT]}, not 2."
        )
    if end < HEADER_SIZE:
        raise RefusedRecords(
            ErrorCode.CORRUPT_MESSAGE, f"The record batch of {end} bytes is shorter than its header."
        )
    return read_header(records), records if end == len(records) else records[:end]


def _end_of_batch(records: bytes, start: int) -> int | None:
    """The end of the batch that starts here, if the batch is complete."""
    left = len(records) - start
    if left < LENGTH_OVERHEAD:
        return None
    length = int.from_bytes(records[start + _LENGTH_AT : start + LENGTH_OVERHEAD], "big", signed=True)
    if length < _SHORTEST:
        _corrupt(f"Record size {length} is less than the minimum record overhead ({_SHORTEST})")
    if left <= MAGIC_AT:
        return None
    magic = records[start + MAGIC_AT]
    if magic > 2:
        _corrupt(f"Invalid magic found in record: {magic}")
    return start + LENGTH_OVERHEAD + length if left >= LENGTH_OVERHEAD + length else None


def check_batch(header: BatchHeader, batch: bytes, max_bytes: int) -> None:
    """The checks of a log, in the order of `UnifiedLog` and `LogValidator.validateBatch`."""
    if header.base_offset != 0:
        _invalid(f"The baseOffset of the record batch should be 0, but it is {header.base_offset}.")
    if len(batch) > max_bytes:
        raise RefusedRecords(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {len(batch)} bytes, max.message.bytes is {max_bytes}.",
        )
    if not header.has_valid_checksum(batch):
        raise RefusedRecords(ErrorCode.CORRUPT_MESSAGE, f"The checksum of the batch is not {header.crc}.")
    if header.last_offset_delta < 0 or header.record_count <= 0:
        _invalid(
            f"The batch claims {header.record_count} records and the last delta {header.last_offset_delta}."
        )
    if header.last_offset_delta + 1 != header.record_count:
        _invalid(
            f"{header.record_count} records do not agree with the last delta {header.last_offset_delta}."
        )
    if header.attributes & CONTROL:
        _invalid("Clients are not allowed to write control records.")
    if header.producer_id != NO_PRODUCER and header.base_sequence < 0:
        _invalid(f"Invalid sequence number {header.base_sequence} in record batch.")
    if header.compression not in CODEC_IDS:
        raise RefusedRecords(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type {header.compression}.", by_log=True
        )


def stamp_place(batch: bytes, offset: int, leader_epoch: int) -> bytes:
    """The batch as it is stored in the log."""
    length = batch[_LENGTH_AT:EPOCH_AT]
    rest = memoryview(batch)[MAGIC_AT:]
    return b"".join((_OFFSET.pack(offset), length, _EPOCH.pack(leader_epoch), rest))


def stamp_append_time(batch: bytes, attributes: int, timestamp: int) -> bytes:
    """The batch with the time of the broker for all its records, which changes the checksum."""
    stamped = bytearray(batch)
    _ATTRIBUTES.pack_into(stamped, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(stamped, MAX_TIMESTAMP_AT, timestamp)
    _CHECKSUM.pack_into(stamped, CRC_AT, crc32c(memoryview(stamped)[ATTRIBUTES_AT:]))
    return bytes(stamped)


def _invalid(reason: str) -> NoReturn:
    raise RefusedRecords(ErrorCode.INVALID_RECORD, reason, by_log=True)


def _corrupt(reason: str) -> NoReturn:
    raise RefusedRecords(ErrorCode.CORRUPT_MESSAGE, reason, told=reason)
