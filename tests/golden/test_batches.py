"""The batches of the producer are, byte for byte, those of the Java client."""

from __future__ import annotations

import hashlib

import pytest
from crc32c import crc32c

from aioproducer._core import Batch, BatchSettings, record_size
from tests.golden.vectors import GoldenBatch, GoldenRecord, golden_batches

_OURS = [batch for batch in golden_batches() if batch.codec == "none" and not batch.transactional]


def _write(golden: GoldenBatch) -> bytes:
    batch = Batch("golden", 0, 1 << 23, BatchSettings())
    for record in golden.records:
        batch.append(record.key, record.value, record.headers or None, record.timestamp)
    batch.stamp(*golden.identity, crc32c)
    return bytes(batch)


@pytest.mark.parametrize("golden", _OURS, ids=lambda golden: golden.name)
def test_a_batch_equals_what_java_writes(golden: GoldenBatch) -> None:
    """The same records under the same identity give the bytes the Java producer gives."""
    ours = _write(golden)
    assert golden.written in (ours, None)
    assert (len(ours), hashlib.sha256(ours).hexdigest()) == (golden.size, golden.sha256)


@pytest.mark.parametrize(
    "golden", [golden for golden in _OURS if len(golden.records) == 1], ids=lambda golden: golden.name
)
def test_the_size_of_a_record_is_known_before_it_is_written(golden: GoldenBatch) -> None:
    """The predicted size of a record as the first of its batch is the size that Java's batch of it alone has."""
    (record,) = golden.records
    assert record_size(record.key, record.value, record.headers or None) == golden.size - 61


def test_a_record_read_back_from_an_open_batch_is_the_record_that_went_in() -> None:
    """Re-encoding starts from the batch's own bytes, so these must give all fields back."""
    for golden in _OURS:
        batch = Batch("golden", 0, 1 << 23, BatchSettings())
        for record in golden.records:
            batch.append(record.key, record.value, record.headers or None, record.timestamp)
        read = batch.read_records(batch.plain_records())
        assert tuple(GoldenRecord(t, key, value, h or ()) for t, key, value, h in read) == golden.records
