"""Bulk sends: columns of records are checked and prepared, then join the same lines as single records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from aioproducer._callers.refusals import Reading, refusal_of
from aioproducer._core import BatchDelivery, Column, refuse_record, sending_of
from aioproducer._net.accepting.columns import BulkCall, taken_over
from aioproducer._net.accepting.intake import Call, times_of_call
from aioproducer._net.accepting.pending import Pending
from aioproducer._net.accepting.serializing import Unready
from aioproducer._net.runtime.first_step import Suspended
from aioproducer._state.admission.bulk import BulkWaiting, Columns
from aioproducer._state.admission.checking import (
    checked_bytes,
    checked_headers,
    checked_partition,
    checked_timestamp,
)
from aioproducer.errors import KafkaError, RecordError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import Delivery, Sending
    from aioproducer._net.accepting.columns import Items
    from aioproducer._net.accepting.contexts import CallContext, RecordTrace
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._state.admission.bulk import BulkAppender
    from aioproducer._state.admission.ready import ReadyRecord
    from aioproducer.records import Record

    Refuse = Callable[[int, KafkaError], None]
    # The spans of records, by their places in the call.
    Traces = dict[int, RecordTrace]


class BulkIntake:
    """Prepares the columns of bulk sends and puts them into the line of their topic."""

    def __init__(self, intake: Intake, appender: BulkAppender) -> None:
        self.intake = intake
        self.appender = appender
        self.loop = intake.loop
        # True when no user code must see each record.
        self.plain = intake.plain and intake.partitioner is None

    def take(self, *arguments: object) -> Sending[BatchDelivery]:
        """Give a `send_batch` its place; the result resolves when all of its records are accepted or refused."""
        with Reading(arguments[0]):
            call = taken_over(*arguments, as_columns=self.plain)
        pending = Pending(self.loop, self.intake.pace, self.intake.log)
        delivery = pending.delivery = BatchDelivery(call.topic, call.total, self.loop)
        # As for a single record.
        sending: Sending[BatchDelivery] = sending_of(pending)
        try:
            self._take(call, pending, delivery)
        except BaseException:
            sending.close()
            pending.withdraw()
            raise
        return sending

    def _take(self, call: BulkCall, pending: Pending, delivery: BatchDelivery) -> None:
        intake = self.intake
        topic = call.topic
        if not call.total:
            pending.finish()
            return
        traces: Traces = {}
        waiting = self._waiting(topic, delivery, pending, call.timeout, traces)
        pending.on_withdraw = lambda: self._withdraw(waiting)
        rest = None
        try:
            rest = self._begun(call, waiting, traces)
            if rest is None and not intake.admission.calls.knows(topic):
                waiting.refuse_too_large(intake.engine.accumulator)
            intake.usable()
            if delivery.done():
                # All records were refused: none is left to wait.
                pending.finish()
                return
            intake.admission.join(waiting, self.loop.time())
        except BaseException:
            intake.drop(rest)
            raise
        if rest is not None:
            intake.tasks.go_on(rest, self._prepare_later(waiting, rest), waiting)

    def _begun(
        self, call: BulkCall, waiting: BulkWaiting, traces: Traces
    ) -> Suspended[list[ReadyRecord | None]] | None:
        """Make the columns, as far as possible in this call; the rest of a coroutine where a serializer has to wait."""
        with Reading(call.topic):
            context = self.intake.contexts.of_bulk_call(call.topic)
            if self.plain and not self.intake.watches_each:
                waiting.columns = self._plain_columns(call, waiting.delivery, context)
                return None
            taken = self._each(call, waiting, context, traces)
            if Unready in map(type, taken):
                self.intake.tasks.check(call.topic)
                ready = self.intake.tasks.first_steps.take(self._made_later(waiting, taken))
                if isinstance(ready, Suspended):
                    return ready
            else:
                ready = cast("list[ReadyRecord | None]", taken)
            waiting.columns = self._gathered(ready)
        return None

    def _waiting(
        self,
        topic: str,
        delivery: BatchDelivery,
        pending: Pending,
        timeout: float | None,
        traces: Traces,
    ) -> BulkWaiting:
        intake = self.intake
        now = self.loop.time()

        gone: set[int] = set()

        def refused(at: int, error: KafkaError) -> None:
            if at not in gone:
                gone.add(at)
                if waiting.left:
                    refuse_record(delivery, at, error)
                else:
                    self._refuse(delivery, at, error)
                intake.tell(error, traces.pop(at, None))

        def watched(delivery: Delivery) -> None:
            intake.watch(delivery, traces.pop(waiting.at, None))

        def finished(error: KafkaError | None = None) -> None:
            if error is not None:
                waiting.refuse_rest(error)
            intake.note_wait(waiting)
            pending.finish()

        def again() -> None:
            self.loop.call_soon(lambda: intake.admission.advance(topic, self.loop.time()))

        max_block = intake.max_block
        asked_at, give_up_at, record_deadline = times_of_call(now, max_block, timeout)
        waiting = BulkWaiting(
            topic=topic,
            record=None,
            asked_at=asked_at,
            give_up_at=give_up_at,
            record_deadline=record_deadline,
            on_accepted=_never,
            on_refused=finished,
            on_done=finished,
            on_refusal=refused,
            on_left=self._withdraw,
            on_each=watched if intake.watches_each else None,
            choose=intake.choose if intake.partitioner is not None else None,
            again=again,
            delivery=delivery,
            columns=None,
            appender=self.appender,
            max_block=max_block if timeout is None else min(max_block, timeout),
        )
        return waiting

    def _refuse(self, delivery: BatchDelivery, at: int, error: KafkaError) -> None:
        self.intake.engine.refused(error)
        refuse_record(delivery, at, error)

    def _withdraw(self, waiting: BulkWaiting) -> None:
        waiting.left = True
        if waiting.is_being_placed:
            # Records that have their place by the end of the event keep it; the others are withdrawn then.
            return
        error = RecordError(
            "the wait for send_batch() was cancelled before this record was accepted",
            topic=waiting.topic,
            outcome=Outcome.NOT_WRITTEN,
            retriable=True,
        )
        # First of all, because interceptors receive each record and may do anything.
        self.intake.admission.withdraw(waiting, self.loop.time())
        self.intake.note_wait(waiting)
        waiting.refuse_rest(error)

    # -- preparing

    def _each(
        self, call: BulkCall, waiting: BulkWaiting, context: CallContext | None, traces: Traces
    ) -> list[ReadyRecord | Unready | None]:
        """Each record as far as it is ready in this call, None for a refused one."""
        made: list[ReadyRecord | Unready | None] = []
        for at, single in enumerate(calls_of(call)):
            one = None
            try:
                with Reading(call.topic):
                    record = self._intercepted(single)
                    own = self.intake.contexts.of_bulk_record(call.topic) or context
                    if own is not None and own.trace is not None:
                        traces[at] = own.trace
                    one = self.intake.serializing.taken(record, own)
            except KafkaError as error:
                waiting.on_refusal(at, error)
            made.append(one)
        return made

    async def _made_later(
        self, waiting: BulkWaiting, records: list[ReadyRecord | Unready | None]
    ) -> list[ReadyRecord | None]:
        return [
            await self._one_later(waiting, at, record) if isinstance(record, Unready) else record
            for at, record in enumerate(records)
        ]

    async def _one_later(self, waiting: BulkWaiting, at: int, record: Unready) -> ReadyRecord | None:
        try:
            return await self.intake.serializing.made_later(record, waiting.give_up_at)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if waiting.ended:
                # Cancelled with the call: none of the other records will be sent either.
                raise
            waiting.on_refusal(at, refusal_of(error, waiting.topic))
            return None

    async def _prepare_later(self, waiting: BulkWaiting, rest: Suspended[list[ReadyRecord | None]]) -> None:
        made: list[ReadyRecord | None] = []
        try:
            made = await rest
        except BaseException as error:  # noqa: BLE001  # raised again where it must end more than the call
            self.intake.not_prepared(waiting, error)
        waiting.stop_preparing = None
        if not waiting.ended:
            waiting.columns = self._gathered(made)
            if waiting.delivery.done():
                self.intake.admission.calls.done(waiting, waiting.on_done)
        self.intake.admission.advance(waiting.topic, self.loop.time())

    def _intercepted(self, single: Call) -> Record[Any, Any]:
        record = self.intake.intercepted(single)
        if record.topic != single.topic:
            text = "an interceptor may not move a record of send_batch() to another topic"
            raise RecordError(text, topic=single.topic)
        return record

    def _gathered(self, records: list[ReadyRecord | None]) -> Columns:
        wall = self.intake.engine.wall_ms
        contexts = [record.context for record in records if record is not None]
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
            # All records have the context of the call.
            context=contexts[0] if contexts else None,
        )

    def _plain_columns(self, call: BulkCall, delivery: BatchDelivery, context: CallContext | None) -> Columns:
        topic = call.topic
        refused: set[int] = set()

        def refuse(at: int, error: KafkaError) -> None:
            refused.add(at)
            self._refuse(delivery, at, error)

        return Columns(
            values=self._bytes_column("value", call.values, topic, refuse),
            keys=None if call.keys is None else self._bytes_column("key", call.keys, topic, refuse),
            partitions=None
            if call.partition is None
            else self._each_of(checked_partition, call.partition, topic, refuse),
            timestamps=None if call.timestamps is None else self._times(call.timestamps, topic, refuse),
            headers=self._headers(call, refuse, context),
            refused=frozenset(refused),
            context=None if context is None else context.token,
        )

    def _headers(self, call: BulkCall, refuse: Refuse, context: CallContext | None) -> Any:
        own = call.headers
        if own is not None:
            own = self._each_of(checked_headers, own, call.topic, refuse)
        if context is None:
            return own
        return [context.joined(one) for one in own] if isinstance(own, list) else context.joined(own)

    def _bytes_column(self, part: str, items: Items, topic: str, refuse: Refuse) -> Column:
        column = items if isinstance(items, Column) else Column.of_bytes(items)
        if column is not None:
            return column
        return Column.of_items(
            self._each_of(lambda item, name: checked_bytes(part, item, name), items, topic, refuse)
        )

    def _times(self, items: Items, topic: str, refuse: Refuse) -> Column:
        if isinstance(items, Column):
            return items
        stamps = self._each_of(checked_timestamp, items, topic, refuse)
        wall = self.intake.engine.wall_ms
        return Column.of_items([wall() if stamp is None else stamp for stamp in stamps])

    def _each_of(self, check: Callable[[Any, str], Any], given: Any, topic: str, refuse: Refuse) -> Any:
        """A column after the check of each of its items, or the one object for all records after its check."""
        if not isinstance(given, list):
            return check(given, topic)
        made = []
        for at, item in enumerate(given):
            one = None
            try:
                with Reading(topic):
                    one = check(item, topic)
            except KafkaError as error:
                refuse(at, error)
            made.append(one)
        return made


def calls_of(call: BulkCall) -> list[Call]:
    """The records of a bulk call, one by one."""
    columns = (call.values, call.keys, call.partition, call.timestamps, call.headers)
    each = (_each_one(column, call.total) for column in columns)
    return [
        Call(call.topic, value, key, partition, timestamp, headers, call.timeout)
        for value, key, partition, timestamp, headers in zip(*each, strict=True)
    ]


def _each_one(column: Any, total: int) -> list[Any]:
    if isinstance(column, Column):
        return [column.value_at(at) for at in range(total)]
    return column if isinstance(column, list) else [column] * total


def _never(_delivery: object) -> None:
    """A bulk call is not accepted as one record."""
