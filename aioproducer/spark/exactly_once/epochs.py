"""Exactly once, in a stream: the rows of one task and their mark are committed together, once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from aioproducer import KafkaError, Producer, StateError
from aioproducer.documentation import page
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.markers import Mark, Place, transactional_name
from aioproducer.spark.exactly_once.rounds import write_in_rounds
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Shipment, Written
from aioproducer.spark.shipping.summary import log
from aioproducer.spark.shipping.tasks import begun
from aioproducer.spark.shipping.worker import this_worker

__all__ = ["counted", "write_epoch"]


def write_epoch(
    batches: Iterable[Any],
    layout: Layout,
    options: SinkOptions,
    task: tuple[str, int],
    epoch: int,
    *,
    is_query: bool = False,
) -> Written:
    """Commit the rows of a task, which has this name and number, with their mark, unless an earlier attempt has.

    `is_query`: the name is the id of a query, all of whose epochs have marks, from the first on.
    """
    assert options.marker_topic is not None  # noqa: S101  # the options were checked
    name, number = task
    first, place = (
        Place(f"{transactional_name(name)}-{at}", options.marker_topic, options.ledger_topic)
        for at in (0, number)
    )
    worker = this_worker()
    batches = layout.encoded(begun(batches))

    async def taken_over() -> tuple[Producer[Any, Any], Mark | None]:
        producer = await worker.producer(options.producer)
        # First of all: it aborts the open transaction of an earlier attempt, and prevents its commit.
        await producer.init_transactions(place.name)
        mark = await place.read(producer)
        if mark is None or mark.epoch < epoch - 1:
            # This task was not in the previous epoch, but the first task was: its mark may show that the checkpoint was
            # set back, or that marks are lost.
            of_first = mark if first == place else await first.read(producer)
            _require_previous_epoch(first, of_first, epoch, is_query=is_query)
        return producer, mark

    async def begin(refused: Mapping[int, KafkaError]) -> Shipment:
        await producer.begin_transaction()
        return Shipment(producer, layout, options, refused)

    async def commit(mark: Mark) -> None:
        await place.write(producer, mark.as_offset())
        await producer.commit_transaction()

    async def commit_seen() -> None:
        await commit(Mark.new(producer, place, epoch, seen, options.topic))

    async def move(mark: Mark) -> None:
        await producer.begin_transaction()
        await commit(mark)

    try:
        began = time.monotonic()
        producer, mark = worker.run(taken_over())
        fenced = time.monotonic() - began
        seen = Fingerprint()
        if mark is not None and mark.epoch >= epoch:
            written = _found(batches, layout, options, place, epoch, mark)
            written.fence_seconds = fenced
            worker.run(place.require_same_topic(producer, mark, "sink.id"))
            if options.ledger_topic not in (None, mark.ledger):
                # Of an older version, or of another ledger: this epoch may be repeated again when its offset is
                # forgotten.
                worker.run(move(attrs.evolve(mark, ledger=options.ledger_topic)))
            return written
        rows = counted(batches, layout, seen)
        written = write_in_rounds(
            worker,
            rows,
            begin,
            lambda _refusal: producer.abort_transaction(),
            sets_aside=options.dead_letters is not None,
        )
        began = time.monotonic()
        worker.run(commit_seen())
        written.fence_seconds, written.commit_seconds = fenced, time.monotonic() - began
        return written
    except BaseException:
        worker.run(worker.forget(options.producer))
        raise


def _require_previous_epoch(first: Place, mark: Mark | None, epoch: int, *, is_query: bool) -> None:
    """Raise if the mark of the first task, which is in every epoch, is of a later epoch, or is missing."""
    if mark is not None and mark.epoch > epoch:
        raise _set_back(first, mark, epoch)
    if epoch == 0 or (mark is not None and mark.epoch >= epoch - 1):
        return
    last = "has no mark at all" if mark is None else f"has no mark since epoch {mark.epoch}"
    what = (
        f"this task writes epoch {epoch}, and {first.name!r} {last}: marks were lost (the ledger was deleted, or brokers "
        "forgot marks of an older version), or the last epochs were written without exactly-once"
    )
    if is_query:
        raise StateError(
            f"{what}. If epoch {epoch} was committed, its rows would be doubled, so this task has written nothing. To write it, "
            f"set a new sink.id; see {page('spark.md#lost-marks')}"
        )
    log.warning("%s. If epoch %d was committed before, its rows are doubled", what, epoch)


def _set_back(place: Place, mark: Mark, epoch: int) -> StateError:
    return StateError(
        f"this task writes epoch {epoch}, but {place.name!r} has committed epoch {mark.epoch}: the checkpoint was "
        f"reset, or two queries have the same sink.id. This task has written nothing; see {page('spark.md')}"
    )


def _found(
    batches: Iterable[Any], layout: Layout, options: SinkOptions, place: Place, epoch: int, mark: Mark
) -> Written:
    """Nothing is written again; but these rows must equal the committed ones."""
    if mark.epoch > epoch:
        raise _set_back(place, mark, epoch)
    seen = Fingerprint()
    for _ in counted(batches, layout, seen):
        pass
    mark.require_same(seen, options.topic, place)
    return Written(skipped=seen.rows)


def counted(batches: Iterable[Any], layout: Layout, seen: Fingerprint) -> Iterator[Any]:
    """The same batches; `seen` has all of them when they have ended."""
    for batch in batches:
        seen.add(batch, layout)
        yield batch
