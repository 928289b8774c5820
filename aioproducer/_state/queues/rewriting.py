"""Rewriting a batch: without the records that ended before it was sent, or as several smaller ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aioproducer._codecs import decompress
from aioproducer._core import BATCH_OVERHEAD, record_size
from aioproducer._state.queues.batches import QueuedBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import Batch

    StoredRecord = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None]


# A record behind the first one needs up to this many bytes more, for its deltas of time and offset.
SLACK = 10


def _stored(batch: QueuedBatch) -> list[StoredRecord]:
    return batch.read_records(decompress(batch.plain_records(), batch.compression))


def without_settled(batch: QueuedBatch, make: Callable[[QueuedBatch, int], QueuedBatch]) -> QueuedBatch:
    """The same batch without the records that were withdrawn or have expired; they stay settled in the old one."""
    # Without a limit: timestamps are written as distances from that of the first record, so that without it all others may take
    # more bytes than before.
    return _rewrite(batch, make, math.inf, set(batch.pending_indexes()))[0]


def split(
    batch: QueuedBatch, make: Callable[[QueuedBatch, int], QueuedBatch], limit: int
) -> list[QueuedBatch]:
    """The records of a batch that was too large, in batches of at most `limit` bytes (one record at least)."""
    # Of a numbered batch all of them: the parts take over the whole range of sequence numbers.
    wanted = range(batch.record_count) if batch.sequence >= 0 else batch.pending_indexes()
    return _rewrite(batch, make, limit, set(wanted))


def half_of(batch: QueuedBatch) -> int:
    """The size of a batch that holds half of the bytes of this one's records."""
    return BATCH_OVERHEAD + (batch.plain_size - BATCH_OVERHEAD + 1) // 2 + SLACK


def largest_record(batch: QueuedBatch) -> int:
    """The size of a batch that would hold just the largest record of this one."""
    sizes = (record_size(key, value, headers) for _, key, value, headers in _stored(batch))
    return BATCH_OVERHEAD + max(sizes)


def _rewrite(
    batch: QueuedBatch, make: Callable[[QueuedBatch, int], QueuedBatch], limit: float, wanted: set[int]
) -> list[QueuedBatch]:
    deadlines, accepted, contexts = batch.deadlines(), batch.accepted_times(), batch.contexts()
    places: list[tuple[Batch, int] | None] = []
    children: list[QueuedBatch] = []
    for index, (timestamp, key, value, headers) in enumerate(_stored(batch)):
        if index not in wanted:
            places.append(None)
            continue
        size = record_size(key, value, headers) + SLACK
        if not children or children[-1].size + size > limit:
            children.append(make(batch, len(children)))
        child = children[-1]
        place = (child, child.record_count)
        child.append(key, value, headers, timestamp, now=accepted[index], deadline=deadlines[index])
        if contexts is not None:
            child.set_context(place[1], contexts[index])
        places.append(_already_settled(batch, index, place))
    for child in children:
        child.close()
    batch.forward(places)
    return children


def _already_settled(batch: QueuedBatch, index: int, place: tuple[Batch, int]) -> tuple[Batch, int] | None:
    _, error = batch.fate(index)
    if error is None:
        return place
    # It is sent for the sequence numbers only: its outcome was reported.
    place[0].fail_some([place[1]], error)
    return None
