"""Streams of records with bounded memory: only deliveries without an outcome are kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from aioproducer._core import Delivery, peek
from aioproducer.config import check_progress
from aioproducer.errors import KafkaError, RecordError, StateError
from aioproducer.outcome import Outcome
from aioproducer.records import BatchResult, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import SendPath

PROGRESS_EVERY = 1000
# The number of kept deliveries above which those with an outcome are searched for behind one without.
IN_ORDER = 50_000


class Sent(Protocol):
    """A record that is sent with a way out: its dead letter."""

    def done(self) -> bool: ...
    async def wait(self, timeout: float | None = None) -> Outcome: ...
    async def placed(self) -> None: ...
    def fate(self) -> tuple[Outcome, KafkaError | None, bool]: ...


class Letters(Protocol):
    """The dead letters of a stream."""

    def send_by(self, producer: Any, *arguments: Any) -> Sent: ...


class Stream:
    """Counts the outcomes of a stream of deliveries, oldest first as far as that needs no memory.

    A partition that cannot be written may keep one record for minutes, while millions of others are acknowledged.
    """

    def __init__(self, on_progress: Callable[[int], object] | None) -> None:
        self.waiting: deque[tuple[int, Delivery | Sent]] = deque()
        self.counts = dict.fromkeys(Outcome, 0)
        self.errors: dict[int, KafkaError] = {}
        self.on_progress = on_progress
        self.resolved = 0
        self.dead_lettered = 0

    def sent(self, index: int, delivery: Delivery | Sent) -> None:
        """Add a sent record; earlier records with an outcome are counted."""
        waiting = self.waiting
        waiting.append((index, delivery))
        if len(waiting) > IN_ORDER and not waiting[0][1].done():
            # One step per record: about half of the kept deliveries have an outcome at most.
            waiting.rotate(-1)
        while waiting and waiting[0][1].done():
            self._count(*waiting.popleft())

    def refused(self, index: int, error: KafkaError) -> None:
        """A record was not accepted."""
        self.errors[index] = error
        self._counted(Outcome.NOT_WRITTEN)

    async def rest(self) -> BatchResult:
        """Wait for all remaining records."""
        while self.waiting:
            index, delivery = self.waiting.popleft()
            await delivery.wait(None)
            self._count(index, delivery)
        if self.on_progress is not None:
            self.on_progress(self.resolved)
        return BatchResult(
            errors=self.errors,
            acked=self.counts[Outcome.ACKED],
            not_written=self.counts[Outcome.NOT_WRITTEN],
            unknown=self.counts[Outcome.UNKNOWN],
            dead_lettered=self.dead_lettered,
        )

    def _count(self, index: int, delivery: Any) -> None:
        # A failure stays unseen until the whole stream is reported.
        if isinstance(delivery, Delivery):
            outcome, error = peek(delivery)
        else:
            outcome, error, is_aside = delivery.fate()
            self.dead_lettered += is_aside
            self.counts[outcome] -= is_aside
        if error is not None:
            self.errors[index] = error
        self._counted(outcome)

    def _counted(self, outcome: Outcome) -> None:
        self.counts[outcome] += 1
        self.resolved += 1
        if self.on_progress is not None and self.resolved % PROGRESS_EVERY == 0:
            self.on_progress(self.resolved)


async def send_stream(
    producer: SendPath[Any, Any],
    records: Iterable[Record[Any, Any]] | AsyncIterable[Record[Any, Any]],
    on_progress: Callable[[int], object] | None,
    letters: Letters | None = None,
) -> BatchResult:
    """Send every record and count the outcomes; the end of the producer ends the stream."""
    check_progress(on_progress)
    stream = Stream(on_progress)
    index = 0
    async with aclosing(each(records)) as items:
        async for item in items:
            try:
                delivery = await _sent(producer, item, index, letters)
            except StateError:
                raise
            except KafkaError as error:
                stream.refused(index, error)
                # An accepted send lets the loop run by itself; a refused one does not wait.
                if producer._pace():  # noqa: SLF001  # the core's own clock
                    await asyncio.sleep(0)
            else:
                stream.sent(index, delivery)
            index += 1
    return await stream.rest()


async def _sent(
    producer: SendPath[Any, Any], record: object, index: int, letters: Letters | None
) -> Delivery | Sent:
    if not isinstance(record, Record):
        raise RecordError(f"item {index} of send_all() is {type(record).__name__}, not a Record")
    if letters is not None:
        return await _sent_with_letters(producer, record, letters)
    return await producer.send(
        record.topic,
        record.value,
        key=record.key,
        partition=record.partition,
        timestamp=record.timestamp,
        headers=record.headers,
    )


async def _sent_with_letters(
    producer: SendPath[Any, Any], record: Record[Any, Any], letters: Letters
) -> Sent:
    sent = letters.send_by(
        producer,
        record.topic,
        record.value,
        record.key,
        record.partition,
        record.timestamp,
        record.headers,
        None,
        None,
    )
    await sent.placed()
    error = sent.fate()[1] if sent.done() else None
    if isinstance(error, StateError):
        raise error
    if producer._pace():  # noqa: SLF001  # the core's own clock
        await asyncio.sleep(0)
    return sent


async def each(records: Iterable[object] | AsyncIterable[object]) -> AsyncGenerator[object, None]:
    """The items of an iterable or async iterable."""
    if isinstance(records, AsyncIterable):
        async for record in records:
            yield record
    elif isinstance(records, Iterable):
        for record in records:
            yield record
    else:
        raise RecordError(
            f"send_all() takes an iterable or async iterable of Record, not {type(records).__name__}"
        )
