"""Rows as the queries of the stores give them."""

from __future__ import annotations

from aioproducer.outbox.columns import headers_of
from aioproducer.outbox.rows import Row

__all__ = ["row_of"]


def row_of(
    number: int,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: str | None,
    partition: int | None,
    timestamp: int | None,
) -> Row:
    """The row of these columns, in the order of both stores' queries."""
    return Row(number, topic, value, key, headers_of(headers), partition, timestamp)
