"""Many records in one call of a `MockProducer`: `send_batch` and `send_all`."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from aioproducer._core import BatchDelivery, Delivery, SendPath
from aioproducer.config import check_progress
from aioproducer.errors import KafkaError, RecordError, StateError
from aioproducer.outcome import Outcome
from aioproducer.records import BatchResult, Record
from aioproducer.refusals import Reading
from aioproducer.testing.mock_calls import Call, MockCall, wait_for_all
from aioproducer.testing.mock_checks import checked_seconds, checked_topic
from aioproducer.testing.mock_intake import MockIntake

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
            ready = intake.prepared(record, call)
        delivery.adopt(at, intake.place(ready))
    except KafkaError as error:
        delivery.refuse(at, intake.refused(record, error))


async def _place_later(intake: MockIntake, delivery: BatchDelivery, calls: list[Call]) -> None:
    earlier = intake.lines.earlier(delivery.topic)
    patience = intake.config.max_block_ms / 1000
    try:
        for at, call in enumerate(calls):
            record = intake.intercepted(call)
            try:
                with Reading(call.topic):
                    ready = await intake.prepared_within(record, call, patience)
                await wait_for_all(earlier)
                delivery.adopt(at, intake.place(ready))
            except KafkaError as error:
                delivery.refuse(at, intake.refused(record, error))
    finally:
        text = "the wait for send_batch() ended before this record was accepted"
        delivery.refuse_rest(0, RecordError(text, topic=delivery.topic, retriable=True))


def _calls_of(intake: MockIntake, call: BulkCall) -> list[Call]:
    """The records of a bulk call, one by one."""
    total = _length("values", call.values)
    return [
        Call(call.topic, value, key, partition, timestamp, headers, call.timeout)
        for value, key, partition, timestamp, headers in zip(
            _column("values", call.values, total, encode=intake.serialize_value is None),
            _column("keys", call.keys, total, encode=intake.serialize_key is None),
            _each("partition", call.partition, total, several=isinstance(call.partition, list | tuple)),
            _column("timestamps", call.timestamps, total, encode=False),
            _each("headers", call.headers, total, several=_is_per_record(call.headers)),
            strict=True,
        )
    ]


def _length(name: str, column: Any) -> int:
    if isinstance(column, str | bytes | bytearray | Mapping) or not hasattr(column, "__len__"):
        raise RecordError(f"{name} must be a sequence or an Arrow array, not {type(column).__name__}")
    return len(column)


def _column(name: str, column: Any, total: int, *, encode: bool) -> list[Any]:
    if column is None:
        return [None] * total
    _check_length(name, _length(name, column), total)
    if not hasattr(column, "to_pylist"):
        items = list(itertools.islice(column, total + 1))
        _check_length(name, len(items), total)
        return items
    return [_from_arrow(item, encode=encode) for item in column.to_pylist()]


def _from_arrow(item: Any, *, encode: bool) -> Any:
    """One item of an Arrow array: text is UTF-8 already, and a time without a zone is one of UTC."""
    if encode and isinstance(item, str):
        return item.encode()
    if isinstance(item, datetime.datetime) and item.tzinfo is None:
        return item.replace(tzinfo=datetime.UTC)
    return item


def _each(name: str, given: Any, total: int, *, several: bool) -> list[Any]:
    if not several:
        return [given] * total
    _check_length(name, len(given), total)
    return list(given)


def _check_length(name: str, length: int, total: int) -> None:
    if length != total:
        raise RecordError(f"{length} {name} for {total} values")


def _is_per_record(headers: Any) -> bool:
    """True for one set of headers per record, false for one set for all: a mapping, or pairs that begin with a str."""
    if not headers or isinstance(headers, Mapping) or not isinstance(headers, Sequence):
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
