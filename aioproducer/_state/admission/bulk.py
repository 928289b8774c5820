"""Bulk admission: one call with many records, which takes memory step by step, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import attrs

from aioproducer._core import (
    APPENDED,
    NO_ROOM_NOW,
    PARTITION_UNKNOWN,
    RECORD_TOO_LARGE,
    adopt,
    batches_from,
    reserve_place,
)
from aioproducer._state.admission.ready import (
    ReadyRecord,
    check_size,
    largest,
    size_alone,
    too_large,
    without_memory,
)
from aioproducer._state.admission.waiting import Waiting
from aioproducer._state.cluster.facts import OUT_OF_MEMORY
from aioproducer.errors import RecordError, RecordTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import BatchDelivery, Column, Delivery
    from aioproducer._state.admission.lines import Admission
    from aioproducer._state.admission.ready import PlainHeaders
    from aioproducer._state.admission.waiting import WaitingCalls
    from aioproducer._state.batching.accumulator import Accumulator
    from aioproducer._state.queues.partition_queue import PartitionQueue, TopicQueues
    from aioproducer.errors import KafkaError

# The lengths of a record, of its key and of its value need up to four bytes more each than those of an empty record.
LENGTHS = 12

# The number of records that user code sees before other tasks run.
SINGLY_AT_ONCE = 100


class BulkAppender(Protocol):
    """The part of the send path that appends many records."""

    def _append_many(
        self,
        topic: TopicQueues,
        values: Column,
        keys: Column | None,
        partitions: int | list[int | None] | None,
        timestamps: Column | None,
        headers: PlainHeaders | list[PlainHeaders],
        start: int,
        deadline: float,
        into: BatchDelivery,
        context: object = None,
    ) -> tuple[int, int]: ...

    def _chosen_partition(self) -> Any: ...  # a PartitionQueue, as the core's base class


class Columns(NamedTuple):
    """The records of one bulk send, checked, column by column."""

    values: Column
    keys: Column | None
    partitions: int | list[int | None] | None
    timestamps: Column | None
    headers: PlainHeaders | list[PlainHeaders]
    # Records that were refused earlier.
    refused: frozenset[int] = frozenset()
    # The token of the context that the call was made in.
    context: object = None

    def record(self, at: int) -> ReadyRecord:
        """A single record."""
        partition = self.partitions[at] if isinstance(self.partitions, list) else self.partitions
        return ReadyRecord(
            key=None if self.keys is None else self.keys.value_at(at),
            value=self.values.value_at(at),
            headers=self.headers[at] if isinstance(self.headers, list) else self.headers,
            timestamp=None if self.timestamps is None else self.timestamps.value_at(at),
            partition=partition,
            context=self.context,
        )

    def larger_than(self, limit: int) -> list[int]:
        """The records that may be larger than this in a batch of their own; no other record is."""
        count = self.values.length
        if isinstance(self.headers, list):
            return list(range(count))
        room = limit - size_alone(ReadyRecord(None, None, self.headers, None, None)) - LENGTHS
        value_at = self.values.value_at
        if self.keys is None:
            return [at for at in range(count) if len(value_at(at) or b"") > room]
        key_at = self.keys.value_at
        return [at for at in range(count) if len(value_at(at) or b"") + len(key_at(at) or b"") > room]


@attrs.define(eq=False, kw_only=True)
class PartWaiting(Waiting):
    """One record of a bulk send that waits for memory separately."""

    whole: BulkWaiting

    def choose_again(self, admission: Admission) -> None:
        """The record's partition is gone: the bulk send appends the record again."""
        admission.calls.end(self)
        self.whole.alone = None

    def not_placed(self, calls: WaitingCalls) -> bool:
        """The whole bulk send is withdrawn."""
        self.whole.not_placed(calls)
        return self.ended


@attrs.define(eq=False, kw_only=True)
class BulkWaiting(Waiting):
    """A bulk send in the line of its topic; it leaves the line when every record is accepted or refused.

    A record without room waits separately in the line for memory. The call keeps its place, so that later calls do not
    pass the remaining records.
    """

    delivery: BatchDelivery
    columns: Columns | None
    appender: BulkAppender
    max_block: float
    again: Callable[[], None]
    on_done: Callable[[], None]
    # Called with each refusal, and with each delivery where interceptors observe all of them.
    on_refusal: Callable[[int, KafkaError], None]
    on_each: Callable[[Delivery], object] | None = None
    # Withdraws the records without a place when the caller went away during placing.
    on_left: Callable[[BulkWaiting], None] | None = None
    at: int = 0
    alone: Waiting | None = None
    # The call has asked for a turn of the loop and waits for nothing else.
    going_on: bool = False

    def part_in_line(self) -> Waiting | None:
        """The record that waits for memory separately."""
        return self.alone

    def not_placed(self, calls: WaitingCalls) -> bool:
        """Records that have their place keep it."""
        del calls
        if self.left and not self.ended and self.on_left is not None:
            self.on_left(self)
        return self.ended

    def expire(self, calls: WaitingCalls, error: KafkaError, now: float) -> None:
        """Refuses the one record whose partition does not exist, or all records where the topic does not exist."""
        if not self.prepared or not calls.knows(self.topic):
            calls.refuse(self, error)
            return
        self.give_up_at = now + self.max_block
        if self.going_on:
            return
        self.on_refusal(self.at, error)
        self.at += 1
        if self.at == self.delivery.total:
            # The call may be in the middle of the line, where nothing else would end it.
            calls.done(self, self.on_done)

    def forget(self) -> None:
        """Drop the references to the user's objects."""
        # Without `super()`, which may need memory: the end of a call is never partial.
        Waiting.forget(self)
        self.columns = None
        self.alone = None

    @property
    def prepared(self) -> bool:
        """True when the next record needs only a place to be appended."""
        return self.columns is not None and self.alone is None

    @property
    def wanted_partition(self) -> int | None:
        """The partition that the caller chose for the next record."""
        columns = self.columns
        return (
            None if columns is None or self.at >= self.delivery.total else columns.record(self.at).partition
        )

    @property
    def singly(self) -> bool:
        """True when a partitioner of the user or interceptors must see each record."""
        return self.choose is not None or self.on_each is not None

    def place(self, admission: Admission, queues: TopicQueues, now: float) -> bool:
        """Append as many records as fit in this turn; False: the call stays the first of its topic."""
        assert self.columns is not None  # noqa: S101  # asked only when prepared
        self.going_on = False
        admission.waits.over(self, now)
        while self._goes_on():
            before = self.at
            singly = self.singly or self.asked_at < admission.accumulator.lost_at
            status = self._append_singly(admission, queues) if singly else self._append_run(admission, queues)
            if self.at > before:
                # Each record may wait for max_block; the waits of earlier records do not count.
                self.give_up_at = now + self.max_block
            if not self._goes_on():
                break
            if status == APPENDED:
                self.going_on = True
                self.again()
                return False
            if status == RECORD_TOO_LARGE:
                record = self.columns.record(self.at)
                self.on_refusal(self.at, too_large(admission.accumulator, self.topic, record))
                self.at += 1
            elif status == NO_ROOM_NOW:
                self._wait_alone(admission, self.appender._chosen_partition(), now)  # noqa: SLF001
                if self.alone is not None:
                    return False
            elif status == PARTITION_UNKNOWN:
                error = admission.missing_partition(self, queues, now)
                if error is None:
                    admission.waits.metadata_is_missing(self, now)
                    admission.effects.wanted[self.topic] = None
                    return False
                self.on_refusal(self.at, error)
                self.at += 1
        self.not_placed(admission.calls)
        admission.calls.done(self, self.on_done)
        return True

    def _goes_on(self) -> bool:
        """True while records remain, and no user code has ended the call meanwhile."""
        return self.at < self.delivery.total and not self.ended and not self.left

    def refuse_too_large(self, accumulator: Accumulator) -> None:
        """Refuse the records that can never fit before the call waits for anything; the others keep their places."""
        assert self.columns is not None  # noqa: S101  # called with what the user gave
        for at in self.columns.larger_than(largest(accumulator, self.topic)[0]):
            try:
                check_size(accumulator, self.topic, self.columns.record(at))
            except RecordTooLargeError as error:
                self.on_refusal(at, error)

    def refuse_rest(self, error: KafkaError) -> None:
        """Refuse all records that have no place yet."""
        for at in range(self.at, self.delivery.total):
            self.on_refusal(at, error)

    def _append_run(self, admission: Admission, queues: TopicQueues) -> int:
        columns = self.columns
        assert columns is not None  # noqa: S101  # asked only when prepared
        known = len(batches_from(self.delivery, 0))
        self.placing = True
        try:
            self.at, status = self.appender._append_many(  # noqa: SLF001  # the send path is built for this
                queues,
                columns.values,
                columns.keys,
                columns.partitions,
                columns.timestamps,
                columns.headers,
                self.at,
                self.record_deadline,
                self.delivery,
                columns.context,
            )
            if self.record_deadline:
                for batch in batches_from(self.delivery, max(known - 1, 0)):
                    admission.accumulator.deadlines.watch(batch, self.record_deadline)  # type: ignore[arg-type]  # QueuedBatch
        except OUT_OF_MEMORY:
            # Some records may have their places.
            admission.accumulator.deadlines.unwatched = True
            raise
        finally:
            self.placing = False
        return status

    def _append_singly(self, admission: Admission, queues: TopicQueues) -> int:
        columns = self.columns
        assert columns is not None  # noqa: S101  # asked only when prepared
        end = min(self.at + SINGLY_AT_ONCE, self.delivery.total)
        while self.at < end and self._goes_on():
            if self.at not in columns.refused:
                status = self._append_one(admission, queues, columns.record(self.at))
                if status != APPENDED:
                    return status
            self.at += 1
        return APPENDED

    def _append_one(self, admission: Admission, queues: TopicQueues, record: ReadyRecord) -> int:
        chosen = record.partition
        try:
            if chosen is None and self.choose is not None:
                chosen = self.choose(record, queues)
        except RecordError as error:
            self.on_refusal(self.at, error)
            return APPENDED  # no record remains
        if not self._goes_on():
            return APPENDED
        self.placing = True
        try:
            return self._append_chosen(admission, queues, record, -1 if chosen is None else chosen)
        finally:
            self.placing = False

    def _append_chosen(
        self, admission: Admission, queues: TopicQueues, record: ReadyRecord, chosen: int
    ) -> int:
        reserve_place(self.delivery)
        status: int
        status, delivery, queue = admission.calls.appender._append_checked(  # noqa: SLF001  # as above
            queues,
            record.key,
            record.value,
            record.headers,
            record.timestamp,
            chosen,
            self.record_deadline,
            False,  # positional, for the core
            record.context,
        )
        if status == APPENDED:
            if self.record_deadline:
                admission.accumulator.deadlines.watch(queue.open, self.record_deadline)
            place = queue.newest()
            self._adopt(delivery)
            if self.asked_at < queue.lost_at:
                admission.calls.losses.fail_late_comer(*place)
        return status

    def _adopt(self, delivery: Delivery) -> None:
        adopt(self.delivery, self.at, delivery)
        if self.on_each is not None:
            self.on_each(delivery)

    def _wait_alone(self, admission: Admission, queue: PartitionQueue, now: float) -> None:
        assert self.columns is not None  # noqa: S101  # asked only when prepared

        def accepted(delivery: Delivery) -> None:
            self._adopt(delivery)
            self.at += 1
            self.alone = None
            self.going_on = True
            try:
                self.again()
            except OUT_OF_MEMORY as error:
                admission.calls.refuse(self, without_memory(self.topic, error))

        def refused(error: KafkaError) -> None:
            self.alone = None
            admission.calls.refuse(self, error)

        reserve_place(self.delivery)
        part = PartWaiting(
            whole=self,
            topic=self.topic,
            record=self.columns.record(self.at),
            asked_at=self.asked_at,
            give_up_at=now + self.max_block,
            record_deadline=self.record_deadline,
            on_accepted=accepted,
            on_refused=refused,
        )
        self.give_up_at = part.give_up_at + self.max_block
        self.alone = part
        self.without_memory_since = now
        try:
            admission.memory.join(part, queue, now)
        except OUT_OF_MEMORY:
            self.alone = None
            raise
