"""Produce requests, written around the bytes of their batches; those of large ones are not copied.

This is the one message that the table-driven codec does not write: it is on the hot path. A test compares it with the
output of the codec.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from aioproducer._core import write_topics
from aioproducer._wire.apis import PRODUCE

if TYPE_CHECKING:
    from aioproducer._core import Batch

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
NO_TAGS = b"\x00"
# Written forms of names and small numbers that are kept, as nearly every request repeats those of the previous one.
KEPT = 1024

_HEADER = struct.Struct(">hhi")
_SETTINGS = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ii")


class TopicBatches(NamedTuple):
    """The part of a request for one topic: its id, and the batch of each partition."""

    name: str
    topic_id: bytes
    batches: Sequence[Batch]


class ProduceHead(NamedTuple):
    """The common part of a request for all batches."""

    version: int
    correlation_id: int
    client_id: str
    acks: int
    timeout_ms: int
    transactional_id: str | None = None


def write_produce(head: ProduceHead, topics: Sequence[TopicBatches]) -> list[bytes | memoryview]:
    """The request with its header, in pieces; the bytes of large batches are among them, not copied."""
    if head.version < FLEXIBLE_FROM:
        return _classic(head, topics)
    text = _HEADER.pack(PRODUCE, head.version, head.correlation_id)
    text += _settings(head.client_id, head.transactional_id, head.acks, head.timeout_ms)
    return write_topics(text, topics, head.version >= TOPIC_IDS_FROM)


def _classic(head: ProduceHead, topics: Sequence[TopicBatches]) -> list[bytes | memoryview]:
    text = bytearray(_HEADER.pack(PRODUCE, head.version, head.correlation_id) + _string(head.client_id))
    text += _INT16.pack(-1) if head.transactional_id is None else _string(head.transactional_id)
    text += _SETTINGS.pack(head.acks, head.timeout_ms)
    text += _INT32.pack(len(topics))
    parts: list[bytes | memoryview] = []
    for topic in topics:
        text += _string(topic.name) + _INT32.pack(len(topic.batches))
        for batch in topic.batches:
            text += _PARTITION.pack(batch.partition, batch.size)
            parts += (bytes(text), batch.view())
            text.clear()
    return parts


@lru_cache(maxsize=KEPT)
def _settings(client_id: str, transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    return _string(client_id) + NO_TAGS + _compact(transactional_id) + _SETTINGS.pack(acks, timeout_ms)


@lru_cache(maxsize=KEPT)
def _string(value: str) -> bytes:
    data = value.encode()
    return _INT16.pack(len(data)) + data


@lru_cache(maxsize=KEPT)
def _compact(value: str | None) -> bytes:
    if value is None:
        return b"\x00"
    data = value.encode()
    return _uvarint(len(data) + 1) + data


@lru_cache(maxsize=KEPT)
def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:  # seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
