"""Many records in one call of a `MockProducer`: `send_batch` and `send_all`."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from aioproducer._callers.refusals import Reading
from aioproducer._core import BatchDelivery, Delivery, SendPath
from aioproducer.config import check_progress
from aioproducer.errors import KafkaError, RecordError, StateError
from aioproducer.outcome import Outcome
from aioproducer.records import BatchResult, Record
from aioproducer.testing.mock.calls import Call, MockCall, wait_for_all
from aioproducer.testing.mock.checks import checked_headers, checked_partition, checked_seconds, checked_topic
from aioproducer.testing.mock.intake import MockIntake

PROGRESS_EVERY = 1000


class BulkCall(NamedTuple):
    """The arguments of one `send_batch`, as the user gave them."""

    topic: Any
    values: Any
    keys: Any
    partition: Any
    timestamps: Any
    headers: Any
    timeout: Any


# -- send_batch


def take_batch(intake: MockIntake, call: BulkCall) -> MockCall:
    """Accept or refuse each record of a bulk call; with coroutine serializers that comes later."""
    with Reading(call.topic):
        topic = checked_topic(call.topic)
        checked_seconds("timeout", call.timeout, topic)
        singles = _calls_of(intake, call._replace(topic=topic))
    taken = MockCall(intake.path._pace)  # noqa: SLF001  # the send path is built for this
    delivery = taken.delivery = BatchDelivery(topic, len(singles), intake.loop)
    if intake.waits_for_serializers and singles:
        intake.lines.join(taken, topic, _place_later(intake, delivery, singles))
        return taken
    for at, single in enumerate(singles):
        _place(intake, delivery, at, single)
    return taken


def _place(intake: MockIntake, delivery: BatchDelivery, at: int, call: Call) -> None:
    record = intake.intercepted(call)
    try:
        with Reading(call.topic):
            _check_place(record, call.topic)
            ready = intake.prepared(record, call)
        delivery.adopt(at, intake.place_now(ready))
    except KafkaError as error:
        delivery.refuse(at, intake.refused(record, error))


def _check_place(record: Record[Any, Any], topic: str) -> None:
    if record.topic != topic:
        text = "an interceptor may not move a record of send_batch() to another topic"
        raise RecordError(text, topic=topic)


async def _place_later(intake: MockIntake, delivery: BatchDelivery, calls: list[Call]) -> None:
    earlier = intake.lines.earlier(delivery.topic)
    patience = intake.config.max_block_ms / 1000
    try:
        for at, call in enumerate(calls):
            record = intake.intercepted(call)
            try:
                with Reading(call.topic):
                    _check_place(record, call.topic)
                    ready = await intake.prepared_within(record, call, patience)
                await wait_for_all(earlier)
                delivery.adopt(at, intake.place_now(ready))
            except KafkaError as error:
                delivery.refuse(at, intake.refused(record, error))
    finally:
        text = "the wait for send_batch() ended before this record was accepted"
        delivery.refuse_rest(0, RecordError(text, topic=delivery.topic, retriable=True))


def _calls_of(intake: MockIntake, call: BulkCall) -> list[Call]:
    """The records of a bulk call, one by one."""
    topic = call.topic
    values = _column("values", call.values, topic, as_bytes=intake.serialize_value is None)
    total = len(values)
    columns = (
        values,
        _optional("keys", call.keys, total, topic, as_bytes=intake.serialize_key is None),
        _each("partition", call.partition, total, topic, several=_is_column(call.partition)),
        _optional("timestamps", call.timestamps, total, topic, as_bytes=False),
        _each("headers", _read_once(call.headers), total, topic, several=_is_per_record(call.headers)),
    )
    if intake.plain and total:
        # What is one for all refuses all.
        if not _is_column(call.partition):
            checked_partition(call.partition, topic)
        if not _is_per_record(call.headers):
            checked_headers(columns[-1][0], topic)
    return [
        Call(topic, value, key, partition, timestamp, headers, call.timeout)
        for value, key, partition, timestamp, headers in zip(*columns, strict=True)
    ]


def _is_column(given: object) -> bool:
    return hasattr(given, "__len__") and not isinstance(given, str | bytes | bytearray | Mapping)


def _optional(name: str, column: Any, total: int, topic: str, *, as_bytes: bool) -> list[Any]:
    if column is None:
        return [None] * total
    return _of_length(name, _column(name, column, topic, as_bytes=as_bytes), total, topic)


def _column(name: str, column: Any, topic: str, *, as_bytes: bool) -> list[Any]:
    if not _is_column(column):
        text = f"{name} must be a sequence or an Arrow array, not {type(column).__name__}"
        raise RecordError(text, topic=topic)
    if hasattr(column, "to_pylist"):
        return [_from_arrow(item, as_bytes=as_bytes) for item in column.to_pylist()]
    # One more than there should be: it need not end.
    return _of_length(name, list(itertools.islice(column, len(column) + 1)), len(column), topic)


def _from_arrow(item: Any, *, as_bytes: bool) -> Any:
    """One item of an Arrow array: text is UTF-8 already, and a time without a zone is one of UTC."""
    if as_bytes and isinstance(item, str):
        return item.encode()
    if isinstance(item, datetime.datetime) and item.tzinfo is None:
        return item.replace(tzinfo=datetime.UTC)
    return item


def _each(name: str, given: Any, total: int, topic: str, *, several: bool) -> list[Any]:
    if not several:
        return [given] * total
    return _of_length(name, _column(name, given, topic, as_bytes=False), total, topic)


def _of_length(name: str, items: list[Any], total: int, topic: str) -> list[Any]:
    if len(items) != total:
        raise RecordError(f"{len(items)} {name} for {total} values", topic=topic)
    return items


def _read_once(headers: Any) -> Any:
    """One set of headers in a form that each record can read."""
    return tuple(headers) if isinstance(headers, Iterator) else headers


def _is_per_record(headers: Any) -> bool:
    """True for one set of headers per record, false for one set for all: a mapping, or pairs that begin with a str."""
    if not headers or isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Sequence):
        return False
    first = next((entry for entry in headers if entry is not None), None)
    return not (isinstance(first, tuple | list) and len(first) == 2 and isinstance(first[0], str))


# -- send_all


async def send_every(
    producer: SendPath[Any, Any],
    records: Iterable[Record[Any, Any]] | AsyncIterable[Record[Any, Any]],
    on_progress: Callable[[int], object] | None,
) -> BatchResult:
    """Send every record and count what became of it; a producer that ends, ends the stream."""
    check_progress(on_progress)
    sent: list[Delivery | KafkaError] = []
    async with aclosing(_items(records)) as items:
        async for item in items:
            try:
                sent.append(await _sent(producer, item, len(sent)))
            except StateError:
                raise
            except KafkaError as error:
                sent.append(error)
                # A send that is accepted lets the loop run by itself, one that is refused does not wait for anything.
                if producer._pace():  # noqa: SLF001  # the core's own clock
                    await asyncio.sleep(0)
    return await _counted(sent, on_progress or _ignore)


async def _items(records: object) -> AsyncGenerator[object, None]:
    if isinstance(records, AsyncIterable):
        async for record in records:
            yield record
    elif isinstance(records, Iterable):
        for record in records:
            yield record
    else:
        text = f"send_all() takes an iterable or async iterable of Record, not {type(records).__name__}"
        raise RecordError(text)


async def _sent(producer: SendPath[Any, Any], record: object, index: int) -> Delivery:
    if not isinstance(record, Record):
        raise RecordError(f"item {index} of send_all() is {type(record).__name__}, not a Record")
    return await producer.send(
        record.topic,
        record.value,
        key=record.key,
        partition=record.partition,
        timestamp=record.timestamp,
        headers=record.headers,
    )


async def _counted(sent: list[Delivery | KafkaError], on_progress: Callable[[int], object]) -> BatchResult:
    counts = dict.fromkeys(Outcome, 0)
    errors: dict[int, KafkaError] = {}
    for index, each in enumerate(sent):
        outcome = Outcome.NOT_WRITTEN if isinstance(each, KafkaError) else await each.wait(None)
        counts[outcome] += 1
        error = each if isinstance(each, KafkaError) else each.exception()
        if error is not None:
            errors[index] = error
        if (index + 1) % PROGRESS_EVERY == 0:
            on_progress(index + 1)
    on_progress(len(sent))
    return BatchResult(
        errors=errors,
        acked=counts[Outcome.ACKED],
        not_written=counts[Outcome.NOT_WRITTEN],
        unknown=counts[Outcome.UNKNOWN],
    )


def _ignore(_resolved: int) -> None:
    """Nobody asked for progress."""
