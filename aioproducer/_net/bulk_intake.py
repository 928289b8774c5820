"""Bulk sends: columns of records, checked and prepared, into the same lines as single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._core import BatchDelivery, Column
from aioproducer._net.arrow import bytes_column, is_arrow, listed_times, times_column
from aioproducer._net.intake import Call
from aioproducer._net.log import log
from aioproducer._net.pending import Pending
from aioproducer._state.bulk import BulkWaiting, Columns
from aioproducer._state.checking import (
    checked_bytes,
    checked_headers,
    checked_partition,
    checked_seconds,
    checked_timestamp,
    checked_topic,
)
from aioproducer.errors import KafkaError, RecordError
from aioproducer.interceptors import run_on_acknowledgement
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._net.intake import Intake
    from aioproducer._state.admission import ReadyRecord
    from aioproducer._state.bulk import BulkAppender
    from aioproducer.records import Record


@attrs.frozen
class BulkCall:
    """The arguments of one `send_batch`, as the user gave them."""

    topic: Any
    values: Any
    keys: Any
    partition: Any
    timestamps: Any
    headers: Any
    timeout: Any

    def __attrs_post_init__(self) -> None:
        for name in ("values", "keys", "timestamps"):
            column = getattr(self, name)
            if column is None and name != "values":
                continue
            if isinstance(column, (str, bytes, bytearray, Mapping)) or not hasattr(column, "__len__"):
                raise RecordError(f"{name} must be a sequence or an Arrow array, not {type(column).__name__}")
            if len(column) != len(self.values):
                raise RecordError(f"{len(column)} {name} for {len(self.values)} values", topic=self._name())
        for name in ("partition", "headers"):
            self._check_length(name)

    def _check_length(self, name: str) -> None:
        given = getattr(self, name)
        per_record = is_per_record_headers(given) if name == "headers" else is_per_record(given)
        if per_record and len(given) != len(self.values):
            raise RecordError(f"{len(given)} {name} for {len(self.values)} values", topic=self._name())

    def _name(self) -> str | None:
        return self.topic if isinstance(self.topic, str) else None


def is_per_record(partition: object) -> bool:
    """True for one partition per record: a sequence of them, or an array of any library."""
    return hasattr(partition, "__len__") and not isinstance(partition, (str, bytes, bytearray, Mapping))


def is_per_record_headers(headers: object) -> bool:
    """True for one set of headers per record, false for one set for all.

    One set is a mapping, or a sequence of pairs whose first is a str.
    """
    if headers is None or isinstance(headers, Mapping) or not isinstance(headers, Sequence):
        return False
    if not headers:
        return False
    first = next((entry for entry in headers if entry is not None), None)
    is_pair = isinstance(first, (tuple, list)) and len(first) == 2 and isinstance(first[0], str)
    return not is_pair


class BulkIntake:
    """Prepares the columns of bulk sends and puts them into the line of their topic."""

    def __init__(self, intake: Intake, appender: BulkAppender) -> None:
        self.intake = intake
        self.appender = appender
        self.loop = intake.loop

    def take(self, call: BulkCall) -> Pending:
        """Give a bulk call its place; the result tells when all of its records are accepted or refused."""
        intake = self.intake
        topic = checked_topic(call.topic)
        timeout = checked_seconds("timeout", call.timeout, topic)
        total = len(call.values)
        delivery = BatchDelivery(topic, total, self.loop)
        pending = Pending(self.loop, intake.pace)
        pending.delivery = delivery
        if not total:
            pending.finish()
            return pending
        waiting = self._waiting(topic, delivery, pending, timeout)
        pending.on_withdraw = lambda: self._withdraw(waiting)
        if intake.waits_for_serializers:
            intake.admission.join(waiting, self.loop.time())
            intake.spawn(self._prepare_later, waiting, call)
        else:
            waiting.columns = self._columns(call, waiting)
            if not intake.admission.knows(topic):
                waiting.refuse_too_large(intake.engine.accumulator)
            if delivery.done():
                # All were refused: nothing is left that could wait.
                pending.finish()
            else:
                intake.admission.join(waiting, self.loop.time())
        return pending

    def _waiting(
        self, topic: str, delivery: BatchDelivery, pending: Pending, timeout: float | None
    ) -> BulkWaiting:
        intake = self.intake
        now = self.loop.time()

        interceptors = intake.interceptors
        gone: set[int] = set()

        def refused(at: int, error: KafkaError) -> None:
            if at not in gone:
                gone.add(at)
                if waiting.left:
                    delivery.refuse(at, error)
                else:
                    self._refuse(delivery, at, error)
                if interceptors:
                    run_on_acknowledgement(interceptors, None, error, log)

        def finished(error: KafkaError | None = None) -> None:
            if error is not None:
                waiting.refuse_rest(error)
            pending.finish()

        def again() -> None:
            self.loop.call_soon(lambda: intake.admission.advance(topic, self.loop.time()))

        patience = intake.max_block
        waiting = BulkWaiting(
            topic=topic,
            record=None,
            asked_at=now,
            give_up_at=now + (patience if timeout is None else min(patience, timeout)),
            record_deadline=0.0 if timeout is None else now + timeout,
            on_accepted=_never,
            on_refused=finished,
            on_done=finished,
            on_refusal=refused,
            on_each=intake.watch if interceptors else None,
            choose=intake.choose if intake.partitioner is not None else None,
            again=again,
            delivery=delivery,
            columns=None,
            appender=self.appender,
            max_block=patience if timeout is None else min(patience, timeout),
        )
        return waiting

    def _refuse(self, delivery: BatchDelivery, at: int, error: KafkaError) -> None:
        self.intake.engine.refused(error)
        delivery.refuse(at, error)

    def _withdraw(self, waiting: BulkWaiting) -> None:
        waiting.left = True
        error = RecordError(
            "the wait for send_batch() was cancelled before this record was accepted",
            topic=waiting.topic,
            outcome=Outcome.NOT_WRITTEN,
            retriable=True,
        )
        now = self.loop.time()
        waiting.refuse_rest(error)
        self.intake.admission.withdraw(waiting, now)

    # -- preparing

    def _columns(self, call: BulkCall, waiting: BulkWaiting) -> Columns:
        if self.intake.plain and self.intake.partitioner is None:
            return self._plain_columns(call, waiting.delivery)
        records: list[ReadyRecord | None] = []
        for at, single in enumerate(calls_of(call, waiting.topic)):
            try:
                records.append(self.intake._prepared(self._intercepted(single)))  # noqa: SLF001  # its own kin
            except KafkaError as error:
                waiting.on_refusal(at, error)
                records.append(None)
        return self._gathered(call, records)

    async def _prepare_later(self, waiting: BulkWaiting, call: BulkCall) -> None:
        records: list[ReadyRecord | None] = []
        for at, single in enumerate(calls_of(call, waiting.topic)):
            try:
                records.append(await self.intake.prepared_later(self._intercepted(single)))
            except KafkaError as error:
                waiting.on_refusal(at, error)
                records.append(None)
        waiting.columns = self._gathered(call, records)
        if waiting.delivery.done() and not waiting.ended:
            self.intake.admission.done(waiting)
        self.intake.admission.advance(waiting.topic, self.loop.time())

    def _intercepted(self, single: Call) -> Record[Any, Any]:
        record = self.intake.intercepted(single)
        if record.topic != single.topic:
            text = "an interceptor may not move a record of send_batch() to another topic"
            raise RecordError(text, topic=single.topic)
        return record

    def _gathered(self, call: BulkCall, records: list[ReadyRecord | None]) -> Columns:
        wall = self.intake.engine.wall_ms
        stamped = any(record is not None and record.timestamp is not None for record in records)
        return Columns(
            values=Column.of_items([None if r is None else r.value for r in records]),
            keys=Column.of_items([None if r is None else r.key for r in records]),
            partitions=[None if r is None else r.partition for r in records],
            timestamps=Column.of_items(
                [wall() if r is None or r.timestamp is None else r.timestamp for r in records]
            )
            if stamped
            else None,
            headers=[None if r is None else r.headers for r in records],
            refused=frozenset(at for at, record in enumerate(records) if record is None),
        )

    def _plain_columns(self, call: BulkCall, delivery: BatchDelivery) -> Columns:
        topic = call.topic
        return Columns(
            values=self._bytes_column("value", call.values, topic, delivery),
            keys=None if call.keys is None else self._bytes_column("key", call.keys, topic, delivery),
            partitions=self._partitions(call.partition, topic, delivery),
            timestamps=None if call.timestamps is None else self._times(call.timestamps, topic, delivery),
            headers=self._headers(call.headers, topic, delivery),
        )

    def _bytes_column(self, part: str, items: Any, topic: str, delivery: BatchDelivery) -> Column:
        if is_arrow(items):
            return bytes_column(part, items, topic)
        column = Column.of_bytes(items)
        if column is not None:
            return column
        made: list[bytes | None] = []
        for at, item in enumerate(items):
            try:
                made.append(checked_bytes(part, item, topic))
            except RecordError as error:
                self._refuse(delivery, at, error)
                made.append(None)
        return Column.of_items(made)

    def _partitions(
        self, given: object, topic: str, delivery: BatchDelivery
    ) -> int | list[int | None] | None:
        if not is_per_record(given):
            return checked_partition(given, topic)
        made: list[int | None] = []
        for at, item in enumerate(_listed(given)):
            try:
                made.append(checked_partition(item, topic))
            except RecordError as error:
                self._refuse(delivery, at, error)
                made.append(None)
        return made

    def _times(self, given: Any, topic: str, delivery: BatchDelivery) -> Column:
        if is_arrow(given):
            column = times_column(given, topic)
            if column is not None:
                return column
            given = listed_times(given, topic)
        made = []
        for at, item in enumerate(given):
            stamp = None
            try:
                stamp = checked_timestamp(item, topic)
            except RecordError as error:
                self._refuse(delivery, at, error)
            made.append(self.intake.engine.wall_ms() if stamp is None else stamp)
        return Column.of_items(made)

    def _headers(self, given: Any, topic: str, delivery: BatchDelivery) -> Any:  # one set, or a list of them
        if not is_per_record_headers(given):
            return checked_headers(given, topic)
        made = []
        for at, item in enumerate(given):
            headers = None
            try:
                headers = checked_headers(item, topic)
            except RecordError as error:
                self._refuse(delivery, at, error)
            made.append(headers)
        return made


def calls_of(call: BulkCall, topic: str) -> list[Call]:
    """The records of a bulk call, one by one."""
    total = len(call.values)
    nothing = [None] * total
    values, keys = (nothing if column is None else _listed(column) for column in (call.values, call.keys))
    stamps = nothing if call.timestamps is None else _listed_times(call.timestamps, topic)
    partitions = _listed(call.partition) if is_per_record(call.partition) else [call.partition] * total
    headers = _listed(call.headers) if is_per_record_headers(call.headers) else [call.headers] * total
    return [
        Call(topic, values[at], keys[at], partitions[at], stamps[at], headers[at], call.timeout)
        for at in range(total)
    ]


def _listed(column: Any) -> list[Any]:
    return list(column.to_pylist() if is_arrow(column) else column)


def _listed_times(column: Any, topic: str) -> list[Any]:
    return listed_times(column, topic) if is_arrow(column) else list(column)


def _never(_delivery: object) -> None:
    """A bulk call is not accepted as one record."""
