"""Records of batches, as an answer to Fetch has them."""

from __future__ import annotations

import struct

import crc32c
import pytest

from aioproducer._codecs import CODECS
from aioproducer._wire.heads import batches_of
from aioproducer._wire.stored_records import StoredRecord, commits, is_transactional, records_of
from aioproducer.errors import ProtocolError
from aioproducer.testing.broker.logs.batches import CONTROL, TRANSACTIONAL, stamp_place
from aioproducer.testing.broker.logs.markers import Marker, write_marker
from aioproducer.testing.broker.logs.records import NewRecord, write_batch

WRITTEN = [
    NewRecord(value=b"v" * 300, key=b"k", timestamp=5, headers=(("name", b"value"), ("none", None))),
    NewRecord(value=None, key=b"", timestamp=70_000),
    NewRecord(value=b"", key=None, timestamp=6),
]


def read(data: bytes) -> list[StoredRecord]:
    """The records of the only batch."""
    [(head, batch)] = batches_of(data)
    assert head is not None
    return list(records_of(head, batch))


@pytest.mark.parametrize("codec", CODECS)
def test_keys_and_values(codec: str) -> None:
    """Every codec; nulls and empty bytes differ; headers are skipped."""
    data = stamp_place(write_batch(WRITTEN, compression=CODECS[codec].id), 1_000, 0)
    assert read(data) == [(1_000, b"k", b"v" * 300), (1_001, b"", None), (1_002, None, b"")]


def with_checksum(data: bytearray) -> bytes:
    """The batch with the right checksum for what it has now."""
    struct.pack_into(">I", data, 17, crc32c.crc32c(memoryview(data)[21:]))
    return bytes(data)


def test_bytes_that_are_not_what_was_written() -> None:
    """A wrong checksum; and contents that cannot be, with the right one."""
    sound = write_batch(WRITTEN[:1])
    for at in range(21, len(sound)):
        broken = bytearray(sound)
        broken[at] ^= 0x40
        with pytest.raises(ProtocolError, match="wrong checksum"):
            read(bytes(broken))
    cut = bytearray(sound[:-5])
    struct.pack_into(">i", cut, 8, len(cut) - 12)
    more = bytearray(sound)
    struct.pack_into(">i", more, 57, 2)
    unknown = bytearray(sound)
    unknown[22] |= 7
    squeezed = bytearray(sound)
    squeezed[22] |= 4
    for broken in (cut, more, unknown, squeezed):
        with pytest.raises(ProtocolError, match="cannot be read"):
            read(with_checksum(broken))


def test_the_verdict_of_a_control_batch() -> None:
    """Commit, abort, and a kind that is no end of a transaction."""

    def verdict(data: bytes) -> bool | None:
        [(head, batch)] = batches_of(data)
        assert head is not None
        assert head.is_control
        assert is_transactional(batch)
        return commits(head, batch)

    assert [verdict(write_marker(Marker(7, 3, end), 0)) for end in (True, False)] == [True, False]
    for key in (struct.pack(">hh", 0, 2), b"", None):
        other = write_batch([NewRecord(value=b"", key=key, timestamp=0)], attributes=CONTROL | TRANSACTIONAL)
        assert verdict(other) is None
    assert not is_transactional(memoryview(write_batch(WRITTEN)))
