"""Records for tests: parsing stored batches, and writing batches.

Both are written for clarity, and separately from the client's compiled code: a mistake cannot be in both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import attrs
from crc32c import crc32c

from aioproducer._codecs import compress, decompress
from aioproducer.testing.broker.logs.batches import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    BatchHeader,
    read_header,
)

Headers = tuple[tuple[str, bytes | None], ...]
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


class StoredRecord(NamedTuple):
    """One record of a log, with the facts of its batch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer_id: int
    producer_epoch: int
    sequence: int
    """The sequence of this record, -1 without a producer id."""
    compression: int


@attrs.frozen
class NewRecord:
    """One record of a batch that a test writes."""

    value: bytes | None = None
    key: bytes | None = None
    timestamp: int = 0
    headers: Headers = ()


class MalformedRecordsError(ValueError):
    """The records of a batch do not agree with its header."""


def parse_batch(topic: str, partition: int, batch: bytes) -> list[StoredRecord]:
    """All records of one batch; `MalformedRecordsError` if count or lengths are wrong."""
    header = read_header(batch)
    reader = _Reader(decompress(batch[HEADER_SIZE : header.size], header.compression))
    parsed = [_parse_record(reader, header, topic, partition) for _ in range(header.record_count)]
    if reader.at != len(reader.data):
        message = (
            f"{len(reader.data) - reader.at} bytes follow the {header.record_count} records of the batch"
        )
        raise MalformedRecordsError(message)
    return parsed


def split_batches(data: bytes) -> Iterator[bytes]:
    """The single batches of a fetched or stored run; an incomplete last batch is ignored, as in consumers."""
    at = 0
    while at + LENGTH_OVERHEAD <= len(data):
        end = at + LENGTH_OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if end > len(data) or end < at + HEADER_SIZE:
            return
        yield data[at:end]
        at = end


def write_batch(
    records: Sequence[NewRecord],
    *,
    producer_id: int = NO_PRODUCER,
    epoch: int = -1,
    sequence: int = -1,
    compression: int = 0,
    attributes: int = 0,
    count: int | None = None,
    last_offset_delta: int | None = None,
    magic: int = 2,
) -> bytes:
    """A record batch as a producer sends it; `count` and `last_offset_delta` may be set to wrong values."""
    base = records[0].timestamp if records else 0
    body = compress(b"".join(_write_record(i, base, record) for i, record in enumerate(records)), compression)
    batch = bytearray(
        _HEADER.pack(
            0,
            HEADER_SIZE - LENGTH_OVERHEAD + len(body),
            -1,
            magic,
            0,
            attributes | compression,
            len(records) - 1 if last_offset_delta is None else last_offset_delta,
            base,
            max((record.timestamp for record in records), default=-1),
            producer_id,
            epoch,
            sequence,
            len(records) if count is None else count,
        )
    )
    batch += body
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


def _parse_record(reader: _Reader, header: BatchHeader, topic: str, partition: int) -> StoredRecord:
    end = reader.varint() + reader.at
    reader.skip(1)
    timestamp = header.base_timestamp + reader.varint()
    delta = reader.varint()
    record = StoredRecord(
        topic=topic,
        partition=partition,
        offset=header.base_offset + delta,
        timestamp=header.max_timestamp if header.attributes & LOG_APPEND_TIME else timestamp,
        key=reader.nullable_bytes(),
        value=reader.nullable_bytes(),
        headers=tuple(_parse_headers(reader)),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=-1 if header.producer_id == NO_PRODUCER else (header.base_sequence + delta) % 2**31,
        compression=header.compression,
    )
    if reader.at != end:
        message = (
            f"the record at offset {record.offset} claims to end at byte {end}, its fields end at {reader.at}"
        )
        raise MalformedRecordsError(message)
    return record


def _parse_headers(reader: _Reader) -> Iterator[tuple[str, bytes | None]]:
    for _ in range(reader.varint()):
        yield (reader.nullable_bytes() or b"").decode(), reader.nullable_bytes()


def _write_record(index: int, base_timestamp: int, record: NewRecord) -> bytes:
    body = b"".join(
        (
            b"\x00",
            _varint(record.timestamp - base_timestamp),
            _varint(index),
            _nullable(record.key),
            _nullable(record.value),
            _varint(len(record.headers)),
            *_header_fields(record.headers),
        )
    )
    return _varint(len(body)) + body


def _header_fields(headers: Headers) -> Iterable[bytes]:
    for name, value in headers:
        yield _nullable(name.encode())
        yield _nullable(value)


def _nullable(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Zigzag varint, as in protocol buffers."""
    left = number * 2 if number >= 0 else -number * 2 - 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


@attrs.define
class _Reader:
    """A place in the bytes of the records."""

    data: bytes
    at: int = 0

    def varint(self) -> int:
        """The next zigzag varint."""
        encoded = shift = 0
        try:
            while (byte := self.data[self.at]) >= 0x80:
                encoded |= (byte & 0x7F) << shift
                shift += 7
                self.at += 1
        except IndexError:
            raise self._cut() from None
        self.at += 1
        encoded |= byte << shift
        return (encoded >> 1) ^ -(encoded & 1)

    def nullable_bytes(self) -> bytes | None:
        """The next length and its bytes."""
        length = self.varint()
        return None if length < 0 else self._take(length)

    def skip(self, count: int) -> None:
        """Skip bytes."""
        self._take(count)

    def _take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise self._cut()
        self.at += count
        return taken

    def _cut(self) -> MalformedRecordsError:
        return MalformedRecordsError(
            f"the records end at byte {len(self.data)}, in the middle of a field at {self.at}"
        )
