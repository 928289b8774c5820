"""The headers of the batches in an answer to Fetch; the records stay unread."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import crc32c

from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Offset and length, the same in every format; the length counts what follows it.
_BEGINNING: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_CRC_AT, _ATTRIBUTES_AT = 17, 21
_CHECKSUM: Final = struct.Struct(">I")
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CONTROL: Final = 0x20


class BatchHead(NamedTuple):
    """The header of one batch in a log.

    `last_offset` and `sequence` are those of the batch as it was written, also where compaction removed records of it.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    producer_id: int
    epoch: int
    sequence: int
    is_control: bool


def heads_of(records: bytes | memoryview | None) -> Iterator[BatchHead | None]:
    """The header of each whole batch; None stands for a batch in a format before Kafka 0.11, and all behind it.

    The last batch may be cut off by the limit of the answer: it is left out. ProtocolError if the bytes of a batch were changed.
    """
    for head, _ in batches_of(records):
        yield head


def batches_of(records: bytes | memoryview | None) -> Iterator[tuple[BatchHead | None, memoryview]]:
    """The same with the bytes of each batch; of an old format, with all bytes that are left."""
    view = memoryview(records or b"")
    while len(view) >= _HEADER.size:
        _, length = _BEGINNING.unpack_from(view)
        if view[_MAGIC_AT] != _MAGIC:
            yield None, view
            return
        size = _BEGINNING.size + length
        if size < _HEADER.size:
            raise ProtocolError(f"a batch in the answer to Fetch has a length of {length} bytes")
        if size > len(view):
            return
        head = _head(view)
        # The offset is the only number of a head outside of it.
        if crc32c.crc32c(view[_ATTRIBUTES_AT:size]) != _CHECKSUM.unpack_from(view, _CRC_AT)[0]:
            raise ProtocolError(
                f"the batch at offset {head.first_offset} in the answer to Fetch has a wrong checksum"
            )
        yield head, view[:size]
        view = view[size:]


def _head(view: memoryview) -> BatchHead:
    base, _, _, _, _, attributes, delta, _, newest, producer_id, epoch, sequence, _ = _HEADER.unpack_from(
        view
    )
    if base < 0 or delta < 0:
        raise ProtocolError(f"a batch in the answer to Fetch has the offset {base}, and {delta} behind it")
    return BatchHead(base, base + delta, newest, producer_id, epoch, sequence, bool(attributes & _CONTROL))
