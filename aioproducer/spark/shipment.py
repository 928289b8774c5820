"""The rows of one task on their way: sent batch by batch, and nothing is told as written before all of them are."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import attrs
import pyarrow.compute as pc

from aioproducer import BatchDelivery, BrokerError, DeliveryError, KafkaError, Outcome, Producer, RecordError
from aioproducer.spark.columns import Layout, Parcel
from aioproducer.spark.dead_letters import dead_letter
from aioproducer.spark.options import SinkOptions

__all__ = ["Shipment", "Written"]

# A broker's refusals that are about what is in the record: too large, invalid timestamp, invalid record.
OF_THE_RECORD = frozenset({10, 32, 87})
NO_TOPIC = "its topic is null, and there is no option 'topic'"


@attrs.define
class Written:
    """What one task has written: it travels to the driver, which adds them up."""

    rows: int = 0
    bytes: int = 0
    dead_letters: int = 0
    # Found written already, by an earlier attempt.
    skipped: int = 0
    retried: int = 0
    seconds: float = 0.0
    # Rows by topic and partition.
    places: Counter[tuple[str, int]] = attrs.Factory(Counter)

    def add(self, other: Written) -> None:
        """Both together; the seconds are those of the slowest."""
        self.rows += other.rows
        self.bytes += other.bytes
        self.dead_letters += other.dead_letters
        self.skipped += other.skipped
        self.retried += other.retried
        self.seconds = max(self.seconds, other.seconds)
        self.places.update(other.places)


class Shipment:
    """Sends the Arrow batches of one task through a producer that others may have used before, one task at a time."""

    def __init__(self, producer: Producer[Any, Any], layout: Layout, options: SinkOptions) -> None:
        self._producer = producer
        self._layout = layout
        self._options = options
        self._open: deque[tuple[BatchDelivery, Parcel]] = deque()
        self._written = Written()
        self._began = time.monotonic()
        self._retried_before = producer.stats().records_retried

    async def take(self, batch: Any) -> None:
        """Accept all rows of a batch: waits while the producer has no room for them."""
        for parcel in self._layout.parcels(batch):
            if not parcel.topic:
                await self._undeliverable(
                    parcel, dict.fromkeys(range(len(parcel.rows)), RecordError(NO_TOPIC))
                )
                continue
            sending = self._producer.send_batch(
                parcel.topic,
                parcel.values,
                keys=parcel.keys,
                partition=parcel.partition,
                timestamps=parcel.timestamps,
                headers=parcel.headers,
            )
            self._open.append((await sending, parcel))
        while self._open and self._open[0][0].done():
            await self._settle(*self._open.popleft())

    async def finish(self) -> Written:
        """Wait until every row has its outcome; raise if one of them was not written."""
        await self._producer.flush()
        while self._open:
            await self._settle(*self._open.popleft())
        self._written.seconds = time.monotonic() - self._began
        self._written.retried = self._producer.stats().records_retried - self._retried_before
        return self._written

    async def _settle(self, delivery: BatchDelivery, parcel: Parcel) -> None:
        result = await delivery
        if result.errors:
            await self._undeliverable(parcel, dict(result.errors))
        written = self._written
        written.rows += result.acked
        written.bytes += _size(parcel.values) + (0 if parcel.keys is None else _size(parcel.keys))
        places = Counter(result.partitions)
        # Of those that were not written.
        places.pop(-1, None)
        written.places.update({(parcel.topic, partition): rows for partition, rows in places.items()})

    async def _undeliverable(self, parcel: Parcel, errors: Mapping[int, KafkaError]) -> None:
        """Set rows aside that can never be written as they are, if the user wants that; anything else fails the task."""
        topic = self._options.dead_letters
        others = [at for at, error in errors.items() if not _is_hopeless(error)]
        if topic is None or others:
            first = errors[min(others or errors)]
            raise DeliveryError(
                f"{len(errors)} of {len(parcel.rows)} rows of an Arrow batch were not written",
                topic=parcel.topic or None,
                outcome=Outcome.UNKNOWN if first.outcome is Outcome.UNKNOWN else Outcome.NOT_WRITTEN,
                retriable=first.retriable,
                cause=first,
            )
        letters = [dead_letter(parcel, at, error) for at, error in sorted(errors.items())]
        sending = self._producer.send_batch(
            topic,
            [letter.value for letter in letters],
            keys=[letter.key for letter in letters],
            headers=[letter.headers for letter in letters],
        )
        (await (await sending)).raise_for_errors()
        self._written.dead_letters += len(letters)


def _is_hopeless(error: KafkaError) -> bool:
    """Whether the same record would be refused again, whenever it is sent; certainly not written, in any case."""
    refused = isinstance(error, RecordError) or (
        isinstance(error, BrokerError) and error.code in OF_THE_RECORD
    )
    return refused and error.outcome is Outcome.NOT_WRITTEN


def _size(column: Any) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0
