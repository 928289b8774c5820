"""Exactly once, in a stream: the rows of one task and their mark are committed together, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aioproducer import KafkaError, Producer, StateError
from aioproducer.documentation import page
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.markers import Mark, Place, transactional_name
from aioproducer.spark.exactly_once.rounds import write_in_rounds
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Shipment, Written
from aioproducer.spark.shipping.tasks import begun
from aioproducer.spark.shipping.worker import this_worker

__all__ = ["counted", "write_epoch"]


def write_epoch(
    batches: Iterable[Any],
    layout: Layout,
    options: SinkOptions,
    task: tuple[str, int],
    epoch: int,
) -> Written:
    """Commit the rows of a task, which has this name and number, with their mark, unless an earlier attempt has."""
    assert options.marker_topic is not None  # noqa: S101  # the options were checked
    name, number = task
    first, place = (Place(f"{transactional_name(name)}-{at}", options.marker_topic) for at in (0, number))
    worker = this_worker()
    batches = begun(batches)

    async def taken_over() -> tuple[Producer[Any, Any], Mark | None]:
        producer = await worker.producer(options.producer)
        # First of all: it aborts the open transaction of an earlier attempt, and prevents its commit.
        await producer.init_transactions(place.name)
        mark = await place.read(producer)
        if mark is None or mark.epoch < epoch - 1:
            # This task was not in the previous epoch, but the first task was: its mark may show that the checkpoint was
            # set back.
            await _require_not_set_back(producer, first, epoch)
        return producer, mark

    async def begin(refused: Mapping[int, KafkaError]) -> Shipment:
        await producer.begin_transaction()
        return Shipment(producer, layout, options, refused)

    async def undo(_refusal: KafkaError) -> None:
        await producer.abort_transaction()

    async def commit(mark: Mark) -> None:
        await producer.send_offsets_to_transaction(place.offsets(mark), place.name)
        await producer.commit_transaction()

    try:
        producer, mark = worker.run(taken_over())
        seen = Fingerprint()
        if mark is not None and mark.epoch >= epoch:
            return _found(batches, layout, options, place, epoch, mark)
        rows = counted(batches, layout, seen)
        written = write_in_rounds(worker, rows, begin, undo, sets_aside=options.dead_letters is not None)
        worker.run(commit(Mark(epoch, str(seen), options.topic)))
        return written
    except BaseException:
        worker.run(worker.forget(options.producer))
        raise


async def _require_not_set_back(producer: Producer[Any, Any], first: Place, epoch: int) -> None:
    mark = await first.read(producer)
    if mark is not None and mark.epoch > epoch:
        raise _set_back(first, mark, epoch)


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
