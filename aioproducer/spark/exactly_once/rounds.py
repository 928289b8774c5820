"""A transaction that is repeated without the rows that a broker refused in it.

The rows of a task come once. Where some of them may be set aside, all are kept until the transaction is written: in
memory, as this library does not write to disks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final

from aioproducer import DeliveryError, KafkaError
from aioproducer.spark.shipping.shipment import RowsRefusedError, Shipment, Written
from aioproducer.spark.shipping.tasks import feed
from aioproducer.spark.shipping.worker import Worker

__all__ = ["KeptRows", "write_in_rounds"]

# Each round writes the whole task, and finds at least one refused row.
MOST_ROUNDS: Final = 50


class KeptRows:
    """The Arrow batches of a task, from the first, on each iteration."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._rest = iter(batches)
        self._kept: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        yield from self._kept
        for batch in self._rest:
            self._kept.append(batch)
            yield batch


def write_in_rounds(
    worker: Worker,
    batches: Iterable[Any],
    begin: Callable[[Mapping[int, KafkaError]], Coroutine[Any, Any, Shipment]],
    undo: Callable[[RowsRefusedError], Coroutine[Any, Any, object]],
    finish: Callable[[Shipment], Coroutine[Any, Any, Written]] = Shipment.finish,
    *,
    sets_aside: bool,
) -> Written:
    """Write all rows in a transaction; `begin` and `undo` are called for each round.

    `finish` is called behind the last row of a round. It raises if one of them was not written.
    """
    if not sets_aside:
        return _write(worker, batches, begin, finish, {})
    refused: dict[int, KafkaError] = {}
    rows = KeptRows(batches)
    for aborted in range(MOST_ROUNDS):
        try:
            written = _write(worker, rows, begin, finish, refused)
            written.aborted_attempts += aborted
            return written
        except RowsRefusedError as error:
            refused |= error.rows
            worker.run(undo(error))
    raise DeliveryError(
        f"brokers have refused {len(refused)} rows one by one, and may refuse more: with kafka.max.request.size no "
        "larger than the topic's max.message.bytes, rows that are too large are detected before sending",
        cause=next(iter(refused.values())),
    )


def _write(
    worker: Worker,
    batches: Iterable[Any],
    begin: Callable[[Mapping[int, KafkaError]], Coroutine[Any, Any, Shipment]],
    finish: Callable[[Shipment], Coroutine[Any, Any, Written]],
    refused: Mapping[int, KafkaError],
) -> Written:
    shipment = worker.run(begin(refused))
    feed(worker, shipment, batches)
    return worker.run(finish(shipment))
