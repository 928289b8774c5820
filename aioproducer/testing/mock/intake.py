"""The way of a record into a `MockProducer`: interceptors, serializers and checks, then its place in a partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from aioproducer._callers.refusals import Reading
from aioproducer._core import (
    APPENDED,
    BATCH_OVERHEAD,
    NO_ROOM_NOW,
    PARTITION_UNKNOWN,
    RECORD_TOO_LARGE,
    Batch,
    Budget,
    Delivery,
    MemoryShare,
    SendPath,
    observe,
    queued_delivery,
    record_size,
)
from aioproducer.config import ProducerConfig
from aioproducer.errors import (
    BufferFullError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    RecordTooLargeError,
    SerializationError,
    StateError,
)
from aioproducer.interceptors import run_on_acknowledgement, run_on_send
from aioproducer.partitioners import bind as bind_partitioner
from aioproducer.partitioners import choose
from aioproducer.records import Record
from aioproducer.serializers import AsyncBound
from aioproducer.serializers import bind as bind_serializer
from aioproducer.testing.mock.calls import Call, MockCall, MockLines, Ready, wait_for_all
from aioproducer.testing.mock.checks import (
    PlainHeaders,
    checked_bytes,
    checked_headers,
    checked_partition,
    checked_seconds,
    checked_timestamp,
    checked_topic,
)
from aioproducer.testing.mock.ledger import Held, Ledger, record_of
from aioproducer.testing.mock.plan import Plan
from aioproducer.testing.mock.room import MockRoom
from aioproducer.testing.mock.topics import MockPartition, MockTopic

log = logging.getLogger("aioproducer")


class MockIntake:
    """Prepares and places the records of one running mock producer."""

    def __init__(
        self,
        config: ProducerConfig,
        plan: Plan,
        path: SendPath[Any, Any],
        ledger: Ledger,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.config = config
        self.plan = plan
        self.path = path
        self.ledger = ledger
        self.loop = loop
        self.topics: dict[str, MockTopic] = {}
        self.lines = MockLines(loop)
        self.serialize_key = (
            None if config.key_serializer is None else bind_serializer(config.key_serializer, "key")
        )
        self.serialize_value = (
            None if config.value_serializer is None else bind_serializer(config.value_serializer, "value")
        )
        self.partitioner = bind_partitioner(config.partitioner)
        self.interceptors = tuple(config.interceptors)
        self.share = MemoryShare(Budget(config.buffer_memory))
        self.room = MockRoom()
        ledger.on_room = self.room.freed
        # Told of every record that is not accepted, unless its caller went away.
        self.on_refused: Callable[[KafkaError], None] = _ignore

    @property
    def waits_for_serializers(self) -> bool:
        """True when a serializer is a coroutine function."""
        return any(s is not None and s.is_coroutine for s in (self.serialize_key, self.serialize_value))

    @property
    def plain(self) -> bool:
        """True when nothing of the user's has to see each record."""
        users = (self.serialize_key, self.serialize_value, self.partitioner)
        return not self.interceptors and all(each is None for each in users)

    # -- taking calls

    def take(self, call: Call) -> MockCall:
        """Accept or refuse a call; with coroutine serializers, and without memory, that comes later."""
        taken = MockCall(self.path._pace)  # noqa: SLF001  # the send path is built for this
        record = None
        try:
            with Reading(call.topic):
                record = self.intercepted(call)
                patience = self._patience(call)
                topic = checked_topic(record.topic)
                ready = None if self.waits_for_serializers else self.prepared(record, call)
            waits = ready is None or self.room.is_waited_for or bool(self.lines.earlier(topic))
            if ready is not None and not waits:
                taken.delivery = self.place(ready)
            if taken.delivery is None:
                self.lines.join(taken, topic, self._finish_later(taken, record, call, ready, patience))
        except KafkaError as error:
            taken.error = self.refused(record, error)
        return taken

    def _patience(self, call: Call) -> float:
        """How long serializers and the wait for memory may take, in seconds."""
        limits = (checked_seconds("timeout", call.timeout), checked_seconds("max_block", call.max_block))
        default = self.config.max_block_ms / 1000
        given = default if limits[1] is None else limits[1]
        return given if limits[0] is None else min(given, limits[0])

    async def _finish_later(
        self, taken: MockCall, record: Record[Any, Any], call: Call, ready: Ready | None, patience: float
    ) -> None:
        """Accept or refuse a call whose record is not serialized yet, or waits for memory."""
        until = self.loop.time() + patience
        earlier = self.lines.earlier(checked_topic(record.topic))
        try:
            if ready is None:
                with Reading(record.topic):
                    ready = await self.prepared_within(record, call, patience)
            if not await wait_for_all(earlier, max(until - self.loop.time(), 0.0)):
                raise BufferFullError(topic=ready.topic, waited=patience)
            taken.delivery = await self.placed_within(ready, until, patience)
        except KafkaError as error:
            taken.error = self.refused(record, error)

    async def placed_within(self, ready: Ready, until: float, patience: float) -> Delivery:
        """Give the record its place as soon as there is memory; `BufferFullError` when there is none by then."""
        delivery = None if self.room.is_waited_for else self.place(ready)
        if delivery is None:
            left = max(until - self.loop.time(), 0.0)
            delivery = await self.room.placed(partial(self.place, ready), left)
        if delivery is None:
            raise BufferFullError(topic=ready.topic, waited=patience)
        return delivery

    def place_now(self, ready: Ready) -> Delivery:
        """Give the record its place, without waiting for memory."""
        delivery = None if self.room.is_waited_for else self.place(ready)
        if delivery is None:
            raise BufferFullError(topic=ready.topic, waited=0)
        return delivery

    def take_now(self, call: Call) -> Delivery:
        """Accept a call that cannot wait, or raise why not."""
        if self.waits_for_serializers:
            text = "send_nowait() cannot wait for a serializer that is a coroutine function: use send()"
            raise StateError(text)
        with Reading(call.topic):
            checked_seconds("timeout", call.timeout)
            record = self.intercepted(call)
        try:
            return self._taken_now(record, call)
        except KafkaError as error:
            run_on_acknowledgement(self.interceptors, None, error, log)
            raise

    def _taken_now(self, record: Record[Any, Any], call: Call) -> Delivery:
        with Reading(record.topic):
            ready = self.prepared(record, call)
        try:
            return self.place_now(ready)
        except MetadataTimeoutError as error:
            return self._told_later(ready, error)

    def _told_later(self, ready: Ready, cause: KafkaError) -> Delivery:
        # The real producer queues what waits for metadata, so the refusal arrives in the delivery.
        placeholder_batch = Batch(ready.topic, -1, 0, opened_at=self.loop.time(), loop=self.loop)
        delivery = queued_delivery(placeholder_batch)
        error = DeliveryTimeoutError(topic=ready.topic, partition=ready.partition, cause=cause)
        placeholder_batch.fail(error)
        self.ledger.count_failure(ready.topic, error)
        self.on_refused(error)
        return self.watched(delivery)

    # -- preparing

    def intercepted(self, call: Call) -> Record[Any, Any]:
        """The record after the interceptors saw it."""
        record = Record(
            call.topic,
            call.value,
            key=call.key,
            partition=call.partition,
            timestamp=call.timestamp,
            headers=call.headers,
        )
        return run_on_send(self.interceptors, record, log) if self.interceptors else record

    def refused(self, record: Record[Any, Any] | None, error: KafkaError) -> KafkaError:
        """Have the interceptors, and the transaction, told that the record is not accepted."""
        self.on_refused(error)
        if record is not None and self.interceptors:
            run_on_acknowledgement(self.interceptors, None, error, log)
        return error

    def prepared(self, record: Record[Any, Any], call: Call) -> Ready:
        """The record through serializers that answer at once."""
        topic = checked_topic(record.topic)
        headers = checked_headers(record.headers, topic)
        made = []
        for serialize, data in ((self.serialize_key, record.key), (self.serialize_value, record.value)):
            made.append(data if serialize is None else serialize(topic, headers, data))
        return self._checked(record, call, headers, *made)

    async def prepared_within(self, record: Record[Any, Any], call: Call, patience: float) -> Ready:
        """The record through serializers, of which some are coroutine functions, in at most so many seconds."""
        began = self.loop.time()
        try:
            async with asyncio.timeout(patience):
                return await self._prepared_later(record, call)
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            text, waited = "the serializer did not finish in time", self.loop.time() - began
            raise BufferFullError(text, topic=record.topic, waited=waited) from None

    async def _prepared_later(self, record: Record[Any, Any], call: Call) -> Ready:
        headers = checked_headers(record.headers, record.topic)
        checked_partition(record.partition, record.topic)
        checked_timestamp(record.timestamp, record.topic)
        made = []
        for serialize, data in ((self.serialize_key, record.key), (self.serialize_value, record.value)):
            if serialize is None:
                made.append(data)
            elif serialize.is_coroutine:
                made.append(await _awaited(serialize, record.topic, headers, data))
            else:
                made.append(serialize(record.topic, headers, data))
        return self._checked(record, call, headers, *made)

    def _checked(
        self, record: Record[Any, Any], call: Call, headers: PlainHeaders, key: object, value: object
    ) -> Ready:
        topic = checked_topic(record.topic)
        return Ready(
            topic=topic,
            key=checked_bytes("key", key, topic),
            value=checked_bytes("value", value, topic),
            headers=headers,
            timestamp=checked_timestamp(record.timestamp, topic),
            partition=checked_partition(record.partition, topic),
            timeout=checked_seconds("timeout", call.timeout),
        )

    # -- placing

    def topic(self, name: str) -> MockTopic:
        """A topic, which is made when it is first asked for."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = MockTopic(name)
            topic.sticky_limit = self.config.batch_size
            topic.ignore_keys = self.config.partitioner_ignore_keys
            for index in range(self.plan.partitions_of(name)):
                topic.partitions.append(
                    MockPartition(topic, index, self.share, self.loop, self.ledger.withdraw)
                )
        return topic

    def place(self, ready: Ready) -> Delivery | None:
        """Give the record its place, and its outcome unless the test is to do that; None where there is no memory now."""
        ordered = self.plan.refusals.take(ready.topic)
        if ordered is not None:
            raise ordered
        topic = self.topic(ready.topic)
        stamp = self.path._wall_ms() if ready.timestamp is None else ready.timestamp  # noqa: SLF001
        status, delivery, partition = self.path._append_checked(  # noqa: SLF001
            topic, ready.key, ready.value, ready.headers, stamp, self._chosen(topic, ready), 0.0, True
        )
        if status == NO_ROOM_NOW:
            return None
        if status != APPENDED or delivery is None:
            raise self._no_place(status, ready)
        batch = partition.take()
        record = record_of(batch, ready.key, ready.value, ready.headers, stamp)
        self._settle(Held(record, delivery, batch, partition), ready.timeout)
        return self.watched(delivery)

    def _chosen(self, topic: MockTopic, ready: Ready) -> int:
        """The partition that was asked for, or that a partitioner of the user's chooses; -1: the core chooses."""
        chosen = ready.partition
        if chosen is None and self.partitioner is not None:
            everything = range(len(topic.partitions))
            chosen = choose(self.partitioner, topic.name, ready.key, ready.value, everything, everything)
        return -1 if chosen is None else chosen

    def _no_place(self, status: int, ready: Ready) -> KafkaError:
        if status == RECORD_TOO_LARGE:
            size = BATCH_OVERHEAD + record_size(ready.key, ready.value, ready.headers)
            return RecordTooLargeError(topic=ready.topic, size=size, limit=self.config.max_request_size)
        if status == PARTITION_UNKNOWN:
            count = self.plan.partitions_of(ready.topic)
            return MetadataTimeoutError(
                "the partition does not exist",
                topic=ready.topic,
                partition=ready.partition,
                partition_count=count,
                waited=0,
            )
        return StateError("the producer belongs to another event loop: make one per loop")

    def _settle(self, held: Held, timeout: float | None) -> None:
        self.ledger.accept(held)
        ordered = self.plan.failures.take(held.record.topic)
        if ordered is not None:
            self.ledger.fail(held, ordered)
        elif self.plan.auto_complete:
            self.ledger.acknowledge(held)
        else:
            limit = self.config.delivery_timeout_ms / 1000 if timeout is None else timeout
            self.ledger.expire_after(held, limit)

    def watched(self, delivery: Delivery) -> Delivery:
        """Have the interceptors told what becomes of the record."""
        if self.interceptors:
            observe(delivery, self._acknowledged)
        return delivery

    def _acknowledged(self, delivery: Delivery) -> None:
        error = delivery.exception()
        metadata = None if error is not None else delivery.result()
        run_on_acknowledgement(self.interceptors, metadata, error, log)


async def _awaited(serialize: AsyncBound, topic: str, headers: PlainHeaders, data: object) -> object:
    try:
        return await serialize(topic, headers, data)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Not with its call: what it waited for was cancelled.
        text = f"the {serialize.part} serializer was cancelled"
        raise SerializationError(text, topic=topic, part=serialize.part, cause=error) from error


def _ignore(_error: KafkaError) -> None:
    """There is no transaction."""
