"""Batches for the contract tests."""

from __future__ import annotations

import time

from aioproducer.testing.broker.logs.records import NewRecord, write_batch

NOW = time.time_ns() // 1_000_000


def records(count: int, timestamp: int = NOW) -> list[NewRecord]:
    """So many records, a millisecond apart."""
    return [NewRecord(b"value %d" % i, b"key", timestamp + i) for i in range(count)]


def plain(count: int = 1, timestamp: int = NOW) -> bytes:
    """A batch of a producer without an id."""
    return write_batch(records(count, timestamp))


def sequenced(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    return write_batch(records(count), producer_id=producer_id, epoch=epoch, sequence=sequence)
