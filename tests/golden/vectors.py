"""The output of the Java client, read from the files beside this one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import attrs

from tests.golden.java import HERE

Headers = tuple[tuple[str, bytes | None], ...]
Identity = tuple[int, int, int]

NO_PRODUCER: Final[Identity] = (-1, -1, -1)


@attrs.frozen
class GoldenRecord:
    """A record that went into a batch."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@attrs.frozen
class GoldenBatch:
    """Records, and the batch Java made of them; `written` is None where the file has only size and digest."""

    name: str
    codec: str
    identity: Identity
    transactional: bool
    records: tuple[GoldenRecord, ...]
    size: int
    sha256: str
    written: bytes | None


@attrs.frozen
class GoldenKey:
    """A key, its murmur2 as Java's signed int, and its partition for each count of partitions."""

    key: bytes
    murmur2: int
    partitions: dict[int, int]


def golden_batches() -> list[GoldenBatch]:
    """Every batch of batches.jsonl."""
    return [_batch(json.loads(line)) for line in _lines("batches.jsonl")]


def golden_keys() -> list[GoldenKey]:
    """Every key of partitions.jsonl."""
    head, *lines = _lines("partitions.jsonl")
    counts = json.loads(head)["counts"]
    rows = (json.loads(line) for line in lines)
    return [GoldenKey(bytes.fromhex(key), h, dict(zip(counts, p, strict=True))) for key, h, p in rows]


def _lines(file: str) -> list[str]:
    return (HERE / file).read_text(encoding="utf-8").splitlines()


def _batch(line: dict[str, Any]) -> GoldenBatch:
    return GoldenBatch(
        name=line["name"],
        codec=line["codec"],
        identity=(line["producer_id"], line["epoch"], line["sequence"]),
        transactional=line["transactional"],
        records=tuple(_records(line["records"])),
        size=line["size"],
        sha256=line["sha256"],
        written=None if line["bytes"] is None else bytes.fromhex(line["bytes"]),
    )


def _records(rows: list[Any]) -> Iterator[GoldenRecord]:
    for timestamp, key, value, headers, times in rows:
        pairs = tuple((name, _bytes(data)) for name, data in headers)
        yield from [GoldenRecord(timestamp, _bytes(key), _bytes(value), pairs)] * times


def _bytes(field: str | list[int] | None) -> bytes | None:
    if isinstance(field, list):
        byte, count = field
        return bytes([byte]) * count
    return None if field is None else bytes.fromhex(field)
