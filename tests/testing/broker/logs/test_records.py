"""Batches that tests write and read: both directions, and the errors of broken batches."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._codecs import compress, decompress
from aioproducer.testing.broker.logs.batches import read_header
from aioproducer.testing.broker.logs.records import (
    MalformedRecordsError,
    NewRecord,
    parse_batch,
    split_batches,
    write_batch,
)

maybe_bytes = st.none() | st.binary(max_size=300)
records = st.builds(
    NewRecord,
    value=maybe_bytes,
    key=maybe_bytes,
    timestamp=st.integers(-(2**40), 2**41),
    headers=st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=3).map(tuple),
)


@given(batch=st.lists(records, min_size=1, max_size=8), compression=st.integers(0, 4))
def test_what_is_written_is_read(batch: list[NewRecord], compression: int) -> None:
    """Values, keys, times and headers survive every codec; the checksum is right."""
    data = write_batch(batch, compression=compression, producer_id=9, epoch=2, sequence=2**31 - 1)
    assert read_header(data).has_valid_checksum(data)
    parsed = parse_batch("t", 3, data)
    assert [NewRecord(r.value, r.key, r.timestamp, r.headers) for r in parsed] == batch
    assert [r.offset for r in parsed] == list(range(len(batch)))
    assert [r.sequence for r in parsed] == [(2**31 - 1 + i) % 2**31 for i in range(len(batch))]
    assert {(r.topic, r.partition, r.producer_id, r.producer_epoch, r.compression) for r in parsed} == {
        ("t", 3, 9, 2, compression)
    }


@given(batch=st.lists(records, min_size=1, max_size=5))
def test_aiokafka_reads_what_is_written(batch: list[NewRecord]) -> None:
    """An independent reader agrees."""
    reader = DefaultRecordBatch(write_batch(batch))
    assert reader.validate_crc()
    assert [NewRecord(r.value, r.key, r.timestamp, tuple(r.headers)) for r in reader] == batch


@pytest.mark.parametrize("compression", range(5))
def test_what_aiokafka_writes_is_read(compression: int) -> None:
    """A batch of an independent writer is read, with every codec and its framing."""
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 100_000)
    for i in range(50):
        builder.append(i, timestamp=1000 + i, key=b"k%d" % i, value=bytes(200), headers=[("h", b"x")])
    parsed = parse_batch("t", 0, bytes(builder.build()))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in parsed] == [
        (i, 1000 + i, b"k%d" % i, bytes(200), (("h", b"x"),)) for i in range(50)
    ]


@given(cut=st.data())
def test_a_cut_batch_is_malformed(cut: st.DataObject) -> None:
    """Records that end too early raise MalformedRecordsError and no other exception."""
    data = write_batch([NewRecord(b"value", b"key", 5, (("a", b"b"),)), NewRecord(b"v")])
    end = cut.draw(st.integers(61, len(data) - 1))
    with pytest.raises(MalformedRecordsError):
        parse_batch("t", 0, data[:end])


def test_records_left_over_are_malformed() -> None:
    """A count that is too low does not hide records."""
    data = write_batch([NewRecord(b"a"), NewRecord(b"b")], count=1, last_offset_delta=0)
    with pytest.raises(MalformedRecordsError, match="bytes follow the 1 records"):
        parse_batch("t", 0, data)


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5), lost=st.integers(0, 80))
def test_a_run_is_split_into_its_whole_batches(sizes: list[int], lost: int) -> None:
    """Batches are found one after the other; a truncated last batch is left out."""
    batches = [write_batch([NewRecord(bytes(size))]) for size in sizes]
    run = b"".join(batches)
    kept = len(run) - min(lost, len(batches[-1]))
    assert list(split_batches(run[:kept])) == batches[: len(batches) - bool(lost)]


def test_an_unknown_codec_is_named() -> None:
    """The codecs have the ids 0 to 4."""
    with pytest.raises(ValueError, match="codec 6 is unknown"):
        decompress(b"", 6)
    with pytest.raises(ValueError, match="codec 5 is unknown"):
        compress(b"", 5)
