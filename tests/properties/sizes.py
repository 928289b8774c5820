"""How many bytes records take, by Kafka's definition of a record batch (magic 2)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

HEADER = 61

Headers = tuple[tuple[str, bytes | None], ...]


@attrs.frozen
class Content:
    """The written parts of a record."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp: int


def varint(number: int) -> int:
    """The bytes of a zigzag varint: seven bits each."""
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    return max(1, -(-zigzag.bit_length() // 7))


def field(data: bytes | None) -> int:
    """The bytes of a length and what it counts; null has the length -1."""
    return 1 if data is None else varint(len(data)) + len(data)


def framed(content: Content, index: int, base_timestamp: int) -> int:
    """The bytes of a record at this place of a batch, with its length in front."""
    headers = content.headers or ()
    body = (
        1
        + varint(content.timestamp - base_timestamp)
        + varint(index)
        + field(content.key)
        + field(content.value)
        + varint(len(headers))
        + sum(field(name.encode()) + field(value) for name, value in headers)
    )
    return varint(body) + body


def alone(content: Content) -> int:
    """The bytes of a batch of just this record."""
    return HEADER + framed(content, 0, content.timestamp)


def together(contents: Iterable[Content]) -> int:
    """The bytes of an uncompressed batch."""
    listed = list(contents)
    return HEADER + sum(framed(content, index, listed[0].timestamp) for index, content in enumerate(listed))
