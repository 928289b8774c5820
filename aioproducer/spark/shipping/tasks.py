"""The writing of a task's rows: they go to Kafka while Spark makes the next ones, and are reported when all are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from itertools import chain, islice
from typing import Any

from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.shipment import Shipment, Written
from aioproducer.spark.shipping.whole_input import whole
from aioproducer.spark.shipping.worker import Worker, this_worker

__all__ = ["begun", "feed", "write_at_least_once"]


def write_at_least_once(batches: Iterable[Any], layout: Layout, options: SinkOptions) -> Written:
    """Returns when every row is written; after an exception some rows may be written."""
    worker = this_worker()

    async def shipment() -> Shipment:
        return Shipment(await worker.producer(options.producer), layout, options)

    try:
        begun = worker.run(shipment())
        feed(worker, begun, layout.encoded(whole(batches)))
        return worker.run(begun.finish())
    except BaseException:
        worker.run(worker.forget(options.producer))
        raise


def begun(batches: Iterable[Any]) -> Iterator[Any]:
    """The same batches, after the first has come: before that a task fences no other attempt.

    If the input of a task fails early, Spark may still start its worker, and later than that of the next attempt.
    """
    rest = iter(batches)
    return chain(list(islice(rest, 1)), rest)


def feed(worker: Worker, shipment: Shipment, batches: Iterable[Any]) -> None:
    """Accept one batch while Spark makes the next one: reading from Spark blocks, and so must not run in the loop."""
    accepting: Future[None] | None = None
    for batch in batches:
        if accepting is not None:
            accepting.result()
        accepting = worker.begin(shipment.take(batch))
    if accepting is not None:
        accepting.result()
