"""The rows of one task on their way: sent batch by batch, and reported as written only when all of them are."""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from aioproducer import (
    BatchDelivery,
    BatchResult,
    BrokerError,
    DeliveryError,
    KafkaError,
    Outcome,
    Producer,
    RecordError,
    SerializationError,
)
from aioproducer.outlets.rule import OF_THE_RECORD, shares_a_refusal
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.shipping.columns import Layout, Parcel
from aioproducer.spark.shipping.dead_letters import dead_letter
from aioproducer.spark.shipping.inspection import NO_TOPIC, Inspection
from aioproducer.spark.shipping.watch import watch_of

__all__ = ["RowsRefusedError", "Shipment", "Written", "rows_of_partitions", "size_of"]

# The format of the offsets of each type, as `memoryview.cast` names it.
OFFSETS: Final[Mapping[Any, Literal["i", "q"]]] = {
    pa.binary(): "i",
    pa.string(): "i",
    pa.large_binary(): "q",
    pa.large_string(): "q",
}


@attrs.define
class Written:
    """The result of one task. The driver adds the results."""

    rows: int = 0
    bytes: int = 0
    dead_letters: int = 0
    # Rows that an earlier attempt has written.
    skipped: int = 0
    retried: int = 0
    # Attempts to write a batch of Kafka; in an exactly-once stream, one of them has the mark.
    batches: int = 0
    # Attempts of tasks that failed, and transactions that were repeated without refused rows.
    aborted_attempts: int = 0
    tasks: int = 0
    seconds: float = 0.0
    fence_seconds: float = 0.0
    commit_seconds: float = 0.0
    # From the opening of a batch of Kafka to its outcome.
    longest_delivery: float = 0.0
    # Rows by topic and partition.
    places: Counter[tuple[str, int]] = attrs.Factory(Counter)

    def add(self, other: Written) -> None:
        """Add another result; times are those of the slowest."""
        self.rows += other.rows
        self.bytes += other.bytes
        self.dead_letters += other.dead_letters
        self.skipped += other.skipped
        self.retried += other.retried
        self.batches += other.batches
        self.aborted_attempts += other.aborted_attempts
        self.tasks += other.tasks
        self.seconds = max(self.seconds, other.seconds)
        self.fence_seconds = max(self.fence_seconds, other.fence_seconds)
        self.commit_seconds = max(self.commit_seconds, other.commit_seconds)
        self.longest_delivery = max(self.longest_delivery, other.longest_delivery)
        self.places.update(other.places)


class RowsRefusedError(KafkaError):
    """Rows that a broker refused, by their numbers in the task: the transaction must be repeated without them."""

    summary = "rows were refused"

    def __init__(self, message: str | None = None, *, rows: Mapping[int, KafkaError]) -> None:
        self.rows = rows
        super().__init__(message)


class Shipment:
    """Sends the Arrow batches of one task through a producer that tasks share, one task at a time.

    `refused`: rows that were refused before, by their numbers in the task. They are set aside, and so are rows that
    would certainly be refused: in a transaction, one refusal ends all.
    """

    def __init__(
        self,
        producer: Producer[Any, Any],
        layout: Layout,
        options: SinkOptions,
        refused: Mapping[int, KafkaError] = MappingProxyType({}),
    ) -> None:
        self._producer = producer
        self._layout = layout
        self._options = options
        self._refused = refused
        self._inspection = None if options.dead_letters is None else Inspection(producer, options)
        # With the number of the first row of its Arrow batch.
        self._open: deque[tuple[BatchDelivery, Parcel, int]] = deque()
        self._rows = 0
        self._written = Written()
        self._began = time.monotonic()
        self._before = producer.stats()
        self._watch = watch_of(producer)
        self._watch.longest = 0.0

    async def take(self, batch: Any) -> None:
        """Accept all rows of a batch; waits while the producer has no room for them."""
        first, self._rows = self._rows, self._rows + len(batch)
        try:
            for parcel in self._layout.parcels(batch):
                await self._send(await self._inspected(parcel, first), first)
            while self._open and self._open[0][0].done():
                await self._settle_one()
        except KafkaError as error:
            await self._tell_refused(error)
            raise

    async def finish(self) -> Written:
        """Wait until every row has its outcome; raise if one of them was not written."""
        try:
            await self._producer.flush()
            while self._open:
                await self._settle_one()
        except KafkaError as error:
            await self._tell_refused(error)
            raise
        return self.counted()

    def counted(self) -> Written:
        """The result by the producer's counters of this moment: a mark that was sent beside the rows may have ended after them."""
        self._written.seconds = time.monotonic() - self._began
        stats = self._producer.stats()
        self._written.retried = stats.records_retried - self._before.records_retried
        self._written.batches = stats.batches - self._before.batches
        self._written.longest_delivery = self._watch.longest
        return self._written

    async def _inspected(self, parcel: Parcel, first: int) -> Parcel:
        """The parcel without the rows that would be refused."""
        unfit = _unfit(parcel)
        if self._inspection is None:
            if not parcel.topic:
                raise _failed(parcel, dict.fromkeys(range(len(parcel.rows)), RecordError(NO_TOPIC)))
            if unfit:
                raise _failed(parcel, unfit)
            return parcel
        wrong = await self._inspection.of(parcel) | unfit
        if self._refused:
            numbers = enumerate(parcel.numbers)
            wrong |= {at: self._refused[first + row] for at, row in numbers if first + row in self._refused}
        if not wrong:
            return parcel
        await self._set_aside(parcel, wrong)
        return self._layout.without(parcel, wrong)

    async def _send(self, parcel: Parcel, first: int) -> None:
        if not len(parcel.rows):
            return
        sending = self._producer.send_batch(
            parcel.topic,
            parcel.values,
            keys=parcel.keys,
            partition=parcel.partition,
            timestamps=parcel.timestamps,
            headers=parcel.headers,
        )
        self._open.append((await sending, parcel, first))

    async def _settle_one(self) -> None:
        """Settle the oldest; it stays in its place while it is a failure."""
        delivery, parcel, first = self._open[0]
        result = await delivery
        if result.errors:
            await self._undeliverable(parcel, first, dict(result.errors))
        self._open.popleft()
        written = self._written
        written.rows += result.acked
        if result.errors:
            parcel = self._layout.without(parcel, result.errors)
        written.bytes += size_of(parcel.values) + (0 if parcel.keys is None else size_of(parcel.keys))
        places = rows_of_partitions(result)
        written.places.update({(parcel.topic, partition): rows for partition, rows in places.items()})

    async def _undeliverable(self, parcel: Parcel, first: int, errors: Mapping[int, KafkaError]) -> None:
        """Set rows aside that can never be written, if the user wants that; any other error fails the task.

        Rows that were in one batch of Kafka with them are sent again. They end: each refusal names a row that is not sent again.
        """
        hopeless = {at: error for at, error in errors.items() if _is_hopeless(error)}
        beside = [at for at, error in errors.items() if _is_beside_another(error)]
        can_go_on = self._inspection is not None and not self._options.is_exactly_once
        if not can_go_on or len(hopeless) + len(beside) < len(errors):
            raise _failed(parcel, errors, self._too_slow())
        if hopeless:
            await self._set_aside(parcel, hopeless)
        if beside:
            others = set(range(len(parcel.rows))).difference(beside)
            await self._send(self._layout.without(parcel, others), first)
            await self._producer.flush()

    def _too_slow(self) -> str:
        """The reason why brokers refuse an old transaction: their answer only says that its producer was fenced."""
        limit = self._options.producer.transaction_timeout_ms / 1000
        if not self._options.is_exactly_once or time.monotonic() - self._began < limit:
            return ""
        return (
            f"; the task wrote for longer than its transaction may stay open (kafka.transaction.timeout.ms is {limit:g} s): "
            "raise it, or give the task fewer rows"
        )

    async def _tell_refused(self, failure: KafkaError) -> None:
        """For a failed transaction: RowsRefusedError, if rows that can be set aside were the reason."""
        if self._inspection is None or not self._options.is_exactly_once:
            return
        refused: dict[int, KafkaError] = {}
        # Nothing more is sent, so all of them end.
        for delivery, parcel, first in self._open:
            errors = (await delivery).errors
            refused |= {first + parcel.numbers[at]: each for at, each in errors.items() if _is_hopeless(each)}
        if refused:
            raise RowsRefusedError(f"{len(refused)} rows were refused", rows=refused) from failure

    async def _set_aside(self, parcel: Parcel, errors: Mapping[int, KafkaError]) -> None:
        topic = self._options.dead_letters
        assert topic is not None  # noqa: S101  # otherwise no row is set aside
        limit = self._options.producer.max_request_size
        letters = [dead_letter(parcel, at, error, limit) for at, error in sorted(errors.items())]
        sending = self._producer.send_batch(
            topic,
            [letter.value for letter in letters],
            keys=[letter.key for letter in letters],
            headers=[letter.headers for letter in letters],
        )
        (await (await sending)).raise_for_errors()
        self._written.dead_letters += len(letters)


def _failed(parcel: Parcel, errors: Mapping[int, KafkaError], hint: str = "") -> DeliveryError:
    """The error of a failed task: the first error that is not of a row, if there is one."""
    hopeless = [at for at, error in errors.items() if _is_hopeless(error)]
    others = [at for at, error in errors.items() if not _is_hopeless(error) and not _is_beside_another(error)]
    first = errors[min(others or hopeless or errors)]
    return DeliveryError(
        f"{len(errors)} of {len(parcel.rows)} rows of an Arrow batch were not written{hint}",
        topic=parcel.topic or None,
        outcome=Outcome.UNKNOWN if first.outcome is Outcome.UNKNOWN else Outcome.NOT_WRITTEN,
        retriable=first.retriable,
        cause=first,
    )


def _unfit(parcel: Parcel) -> dict[int, KafkaError]:
    """The rows with a part that does not fit its format."""
    return {
        at: SerializationError(
            "; ".join(reasons.values()), part=next(iter(reasons)), topic=parcel.topic or None
        )
        for at, reasons in parcel.unfit.items()
    }


def _is_hopeless(error: KafkaError) -> bool:
    """Whether the same record would be refused again at any time; it is certainly not written."""
    refused = isinstance(error, RecordError) or (
        isinstance(error, BrokerError) and error.code in OF_THE_RECORD
    )
    return refused and error.outcome is Outcome.NOT_WRITTEN and not shares_a_refusal(error)


def _is_beside_another(error: KafkaError) -> bool:
    """Whether the broker refused another row of the same batch of Kafka: this one may be sent again."""
    return shares_a_refusal(error) and error.outcome is Outcome.NOT_WRITTEN


def rows_of_partitions(result: BatchResult) -> dict[int, int]:
    """The number of written rows of each partition, counted without an object for each row."""
    numbers = result._partitions  # noqa: SLF001  # the same package
    if isinstance(numbers, array):
        column = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
    else:
        column = pa.array(numbers, pa.int64())
    counted = pc.value_counts(column)
    found = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
    # The place of rows that were not written.
    found.pop(-1, None)
    return found


def size_of(column: Any) -> int:
    """The bytes of all values: the distance of two offsets, where none is null."""
    code = OFFSETS.get(column.type)
    if code is None or column.null_count or not len(column):
        return pc.sum(pc.binary_length(column)).as_py() or 0
    offsets = memoryview(column.buffers()[1]).cast(code)
    first: int = offsets[column.offset]
    last: int = offsets[column.offset + len(column)]
    return last - first
