"""Exactly once, in a stream: the rows of one task and the mark that tells of them are committed together, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aioproducer import Producer, StateError
from aioproducer.spark.columns import Layout
from aioproducer.spark.fingerprint import Fingerprint
from aioproducer.spark.markers import Mark, Place
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipment import Shipment, Written
from aioproducer.spark.tasks import begun, feed
from aioproducer.spark.worker import this_worker

__all__ = ["counted", "write_epoch"]


def write_epoch(
    batches: Iterable[Any], layout: Layout, options: SinkOptions, place: Place, epoch: int
) -> Written:
    """Commit the rows of a task with their mark, or find that an earlier attempt has."""
    worker = this_worker()
    batches = begun(batches)

    async def taken_over() -> tuple[Producer[Any, Any], Mark | None]:
        producer = await worker.producer(options.producer)
        # First of all: it aborts what an earlier attempt has left open, and keeps that from committing it.
        await producer.init_transactions(place.name)
        return producer, await place.read(producer)

    async def commit(shipment: Shipment, mark: Mark) -> Written:
        written = await shipment.finish()
        await producer.send_offsets_to_transaction(place.offsets(mark), place.name)
        await producer.commit_transaction()
        return written

    async def begin() -> Shipment:
        await producer.begin_transaction()
        return Shipment(producer, layout, options)

    try:
        producer, mark = worker.run(taken_over())
        seen = Fingerprint()
        if mark is not None and mark.epoch >= epoch:
            return _found(batches, layout, place, epoch, mark)
        shipment = worker.run(begin())
        feed(worker, shipment, counted(batches, layout, seen))
        return worker.run(commit(shipment, Mark(epoch, str(seen))))
    except BaseException:
        worker.run(worker.forget(options.producer))
        raise


def _found(batches: Iterable[Any], layout: Layout, place: Place, epoch: int, mark: Mark) -> Written:
    """Nothing is written again; but these have to be the rows that were."""
    if mark.epoch > epoch:
        raise StateError(
            f"epoch {epoch} is to be written, but {place.name!r} has committed epoch {mark.epoch}: the checkpoint was "
            "set back, or two queries have the same sink.id. Nothing was written; see docs/spark.md"
        )
    seen = Fingerprint()
    for _ in counted(batches, layout, seen):
        pass
    mark.require_same(seen, place)
    return Written(skipped=seen.rows)


def counted(batches: Iterable[Any], layout: Layout, seen: Fingerprint) -> Iterator[Any]:
    """The same batches; `seen` knows all of them when they have ended."""
    for batch in batches:
        seen.add(batch, layout)
        yield batch
