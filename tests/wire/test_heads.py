"""Headers of batches, as an answer to Fetch has them."""

from __future__ import annotations

import struct

import crc32c
import pytest

from aioproducer._core import Batch
from aioproducer._core.records import BatchSettings
from aioproducer._wire.batches import stamp
from aioproducer._wire.heads import BatchHead, heads_of
from aioproducer.errors import ProtocolError


def batch(*, base: int = 0, transactional: bool = False) -> bytearray:
    """Two records of a producer, at this offset."""
    made = Batch("t", 0, 1_000, BatchSettings())
    made.append(b"k", b"v", None, 1_000)
    made.append(b"k", b"w", None, 2_000)
    stamp(made, 7, 3, 2**31 - 1, transactional)
    data = bytearray(bytes(made))
    data[:8] = struct.pack(">q", base)
    return data


HEAD = BatchHead(5, 6, 2_000, 7, 3, 2**31 - 1, is_control=False)


def test_the_numbers_of_each_batch() -> None:
    """Offsets, identity and sequence; a batch that was cut off is left out."""
    data = bytes(batch(base=5) + batch(base=7, transactional=True))
    assert list(heads_of(data)) == [HEAD, HEAD._replace(first_offset=7, last_offset=8)]
    assert list(heads_of(data[:-1])) == [HEAD]
    assert list(heads_of(data[:70])) == []
    assert list(heads_of(None)) == []


def test_a_marker() -> None:
    """The attribute of a control batch."""
    data = batch(base=5)
    data[22] |= 0x20
    struct.pack_into(">I", data, 17, crc32c.crc32c(memoryview(data)[21:]))
    assert list(heads_of(bytes(data))) == [HEAD._replace(is_control=True)]


def test_a_format_without_producers() -> None:
    """Nothing behind it is read."""
    data = batch()
    data[16] = 1
    assert list(heads_of(bytes(batch(base=5) + data + batch()))) == [HEAD, None]


@pytest.mark.parametrize(("at", "value"), [(0, ">q"), (8, ">i"), (23, ">i")])
def test_numbers_that_cannot_be(at: int, value: str) -> None:
    """Negative offsets and lengths are an error."""
    data = batch(base=5)
    struct.pack_into(value, data, at, -1)
    with pytest.raises(ProtocolError, match="in the answer to Fetch"):
        list(heads_of(bytes(data)))


def test_bytes_that_were_changed() -> None:
    """Each number of a producer is covered by the checksum: a batch with another one could prove that a record is absent."""
    data = bytes(batch(base=5))
    for at in range(17, len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(ProtocolError, match="at offset 5 in the answer to Fetch has a wrong checksum"):
            list(heads_of(bytes(changed)))
