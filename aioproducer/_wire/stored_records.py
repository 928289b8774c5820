"""The records of one batch in an answer to Fetch, and the verdict of a control batch about its transaction."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from aioproducer._codecs import decompress
from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aioproducer._wire.heads import BatchHead

_ATTRIBUTES_AT, _COUNT_AT, _RECORDS_AT = 21, 57, 61
_CODEC: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_INT32: Final = struct.Struct(">i")
# The key of a control record: a version and a kind.
_CONTROL_KEY: Final = struct.Struct(">hh")
_ABORT, _COMMIT = 0, 1


class StoredRecord(NamedTuple):
    """A record in a log; its headers are left out."""

    offset: int
    key: bytes | None
    value: bytes | None


def is_transactional(batch: memoryview) -> bool:
    """Whether the records of this batch count only if their transaction was committed."""
    return bool(batch[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL)


def records_of(head: BatchHead, batch: memoryview) -> Iterator[StoredRecord]:
    """The records of a whole batch, whose checksum is right; ProtocolError if they cannot be read."""
    codec = batch[_ATTRIBUTES_AT + 1] & _CODEC
    (count,) = _INT32.unpack_from(batch, _COUNT_AT)
    try:
        data = bytes(batch[_RECORDS_AT:])
        reader = _Reader(decompress(data, codec) if codec else data)
        for _ in range(count):
            yield _record(reader, head.first_offset)
    except Exception as error:  # each decompressor has errors of its own
        raise ProtocolError(
            f"the records of the batch at offset {head.first_offset} cannot be read"
        ) from error


def commits(head: BatchHead, batch: memoryview) -> bool | None:
    """Whether a control batch commits or aborts the transaction of its producer; None for another kind of control."""
    for record in records_of(head, batch):
        kind = _CONTROL_KEY.unpack_from(record.key)[1] if record.key and len(record.key) >= 4 else -1
        return {_ABORT: False, _COMMIT: True}.get(kind)
    return None


def _record(reader: _Reader, base: int) -> StoredRecord:
    end = reader.varint() + reader.at
    reader.at += 1
    reader.varint()
    offset = base + reader.varint()
    key, value = reader.data_or_null(), reader.data_or_null()
    # Headers fill the rest.
    if not reader.at <= end <= len(reader.data):
        raise ValueError(offset)
    reader.at = end
    return StoredRecord(offset, key, value)


class _Reader:
    """A place in the bytes of the records."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def varint(self) -> int:
        """The next zigzag varint; an IndexError behind the end."""
        data, at = self.data, self.at
        encoded = data[at]
        if encoded >= 0x80:
            encoded &= 0x7F
            shift = 7
            while True:
                at += 1
                byte = data[at]
                encoded |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
        self.at = at + 1
        return (encoded >> 1) ^ -(encoded & 1)

    def data_or_null(self) -> bytes | None:
        """The next length, and so many bytes."""
        length = self.varint()
        if length < 0:
            return None
        taken = self.data[self.at : self.at + length]
        if len(taken) < length:
            raise ValueError(length)
        self.at += length
        return taken
