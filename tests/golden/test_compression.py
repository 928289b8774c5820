"""Compressed batches are read in both directions: Java's by this library, this library's by Java."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from crc32c import crc32c

from aioproducer._codecs import CODECS, compress, decompress
from aioproducer._core import Batch, BatchSettings
from tests.golden.java import run_java
from tests.golden.vectors import GoldenRecord, golden_batches

_NOW = 1_700_000_000_000
_BY_JAVA = [batch for batch in golden_batches() if batch.codec != "none" and batch.written is not None]


def _batch(records: list[GoldenRecord] | tuple[GoldenRecord, ...]) -> Batch:
    batch = Batch("golden", 0, 1 << 23, BatchSettings())
    for record in records:
        batch.append(record.key, record.value, record.headers or None, record.timestamp)
    return batch


def _samples() -> dict[str, list[GoldenRecord]]:
    chance = random.Random(20240229)
    text = [
        GoldenRecord(_NOW + i, b"key-%d" % i, b"again and again, %d" % i, (("h", None),)) for i in range(300)
    ]
    return {
        "one byte": [GoldenRecord(_NOW, None, b"v", ())],
        "text": text,
        "more than one block of the same": [GoldenRecord(_NOW, None, b"v" * 200_000, ())],
        "more than one block of noise": [GoldenRecord(_NOW, None, chance.randbytes(1 << 20), ())] * 2,
    }


def _as_java_says(record: GoldenRecord) -> list[Any]:
    def field(data: bytes | None) -> str | None:
        return None if data is None else data.hex()

    headers = [[name, field(value)] for name, value in record.headers]
    return [record.timestamp, field(record.key), field(record.value), headers]


@pytest.mark.parametrize("golden", _BY_JAVA, ids=lambda golden: golden.name)
def test_what_java_compressed_is_read(golden: Any) -> None:
    """A batch of Java's, taken apart, has the plain records that this library's writer makes of the same records."""
    codec, payload = CODECS[golden.codec].id, golden.written[61:]
    plain = _batch(golden.records).plain_records()
    assert decompress(payload, codec) == plain


@pytest.mark.kafka
def test_java_reads_what_we_compress() -> None:
    """The Java client finds checksum, codec, identity and every record in compressed batches of this library."""
    expected, lines = [], []
    for name, codec in CODECS.items():
        for records in _samples().values():
            batch = _batch(records)
            if codec.id:
                batch.replace_records(compress(batch.plain_records(), codec.id), codec.id)
            batch.stamp(4711, 3, 17, crc32c)
            lines.append(bytes(batch).hex())
            expected.append([name, 4711, 3, 17, [_as_java_says(record) for record in records]])
    read = [
        list(json.loads(line).values()) for line in run_java("ReadBatches", "\n".join(lines)).splitlines()
    ]
    assert read == expected
