"""The steps of the records of a flush: they get a place, are written, fail, or move to other batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aioproducer._core import Covered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Failure, Flush


class WaitsForPlace(Protocol):
    """An accepted record without a place, as flushes see it."""

    flushes: tuple[Flush, ...]


def cover_call(flush: Flush, call: WaitsForPlace) -> None:
    """The flush waits for a record that was accepted and has no place yet."""
    flush.waiting += 1
    call.flushes = (*call.flushes, flush)


def uncover(flush: Flush, batches: Iterable[QueuedBatch], calls: Iterable[WaitsForPlace]) -> None:
    """The flush has no caller any more: none of these batches refers to it."""
    for batch in batches:
        batch.flushes = [covered for covered in batch.flushes if covered.flush is not flush]
    for call in calls:
        call.flushes = tuple(one for one in call.flushes if one is not flush)


def placed(call: WaitsForPlace, batch: QueuedBatch, index: int) -> None:
    """A record that flushes wait for has its place.

    Where that raises MemoryError, none of them is done by it: they are given up.
    """
    for flush in call.flushes:
        last = batch.flushes[-1] if batch.flushes else None
        if last is not None and last.flush is flush and last.until == index:
            last.until, last.left = last.until + 1, last.left + 1
        else:
            batch.add_flush(Covered(flush, index, index + 1, 1))
        flush.waiting -= 1


def not_placed(call: WaitsForPlace, failure: Failure) -> list[Flush]:
    """A record that flushes wait for ended without a place; returns the flushes that wait for nothing more."""
    for flush in call.flushes:
        flush.failed(failure, 1)
        flush.waiting -= 1
    return [flush for flush in call.flushes if flush.done]


def records_failed(
    batch: QueuedBatch, failure: Failure, indexes: Collection[int] | None = None
) -> list[Flush]:
    """Pending records of the batch (those at `indexes`, or all) failed.

    Returns the flushes that wait for nothing more.
    """
    done: list[Flush] = []
    for covered in batch.flushes:
        flush = covered.flush
        own = (
            covered.left
            if indexes is None
            else sum(covered.first <= index < covered.until for index in indexes)
        )
        if not own:
            continue
        flush.failed(failure, own)
        covered.left -= own
        if not covered.left:
            flush.waiting -= 1
            if flush.done:
                done.append(flush)
    batch.flushes = [covered for covered in batch.flushes if covered.left]
    return done


def pass_on(batch: QueuedBatch, replacements: Sequence[QueuedBatch]) -> None:
    """The records of the batch live on in others, in order: all of them, or those that were pending."""
    all_covered, batch.flushes = batch.flushes, []
    if not all_covered:
        return
    moved_all = sum(replacement.record_count for replacement in replacements) == batch.record_count
    moved = [moved_all or not batch.fate(index)[0] for index in range(batch.record_count)]
    for covered in all_covered:
        first, until = sum(moved[: covered.first]), sum(moved[: covered.until])
        for replacement in replacements:
            begin, end = min(first, replacement.record_count), min(until, replacement.record_count)
            left = sum(not replacement.fate(index)[0] for index in range(begin, end))
            if left:
                replacement.add_flush(Covered(covered.flush, begin, end, left))
            first, until = first - begin, until - end
        covered.flush.waiting -= 1
