"""Rows as the queries of the stores give them."""

from __future__ import annotations

import math
from typing import Any

from aioproducer.outbox.columns import headers_of
from aioproducer.outbox.rows import Row

__all__ = ["row_of"]


def row_of(
    number: int,
    topic: str,
    value: Any,
    key: Any,
    headers: Any,
    partition: int | None,
    timestamp: Any,
) -> Row:
    """The row of these columns, in the order of both stores' queries. The relay refuses columns that are of no use."""
    return Row(number, topic, _octets(value), _octets(key), headers_of(headers), partition, _whole(timestamp))


def _octets(data: Any) -> Any:
    """A text, of a row that was inserted by SQL or of a table with other columns, is its bytes in UTF-8."""
    return data.encode(errors="surrogateescape") if isinstance(data, str) else data


def _whole(timestamp: Any) -> Any:
    """SQLite keeps the fraction of `unixepoch('subsec') * 1000`."""
    return int(timestamp) if isinstance(timestamp, float) and math.isfinite(timestamp) else timestamp
