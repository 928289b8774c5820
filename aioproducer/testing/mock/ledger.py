"""What a `MockProducer` has accepted, and what became of it: the one place where its records are settled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator

import attrs

from aioproducer._callers.owners import Told
from aioproducer._core import Batch, Delivery
from aioproducer.errors import (
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    RecordTooLargeError,
    RefusedAsTooLargeError,
)
from aioproducer.outcome import Outcome
from aioproducer.records import FlushReport
from aioproducer.testing.mock.checks import PlainHeaders
from aioproducer.testing.mock.topics import MockPartition

ACKED = 1
NUMBER = {Outcome.NOT_WRITTEN: 2, Outcome.UNKNOWN: 3}
FIRST_ERRORS = 10


@attrs.frozen(kw_only=True)
class MockRecord:
    """A record as it would be written: after interceptors and serializers, with its partition chosen."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def record_of(
    batch: Batch, key: bytes | None, value: bytes | None, headers: PlainHeaders, timestamp: int
) -> MockRecord:
    """The fact about a record that was appended to a batch of its own."""
    return MockRecord(
        topic=batch.topic,
        partition=batch.partition,
        key=key,
        value=value,
        headers=headers or (),
        timestamp=timestamp,
    )


@attrs.frozen(eq=False)
class Held:
    """One accepted record without an outcome."""

    record: MockRecord
    delivery: Delivery
    batch: Batch
    partition: MockPartition


@attrs.frozen
class Totals:
    """How many records ended in each outcome."""

    acked: int = 0
    not_written: int = 0
    unknown: int = 0

    def since(self, before: Totals) -> Totals:
        """What came after `before`."""
        return Totals(
            self.acked - before.acked, self.not_written - before.not_written, self.unknown - before.unknown
        )


class Ledger:
    """Every record that was accepted. `acks_tell_offsets` is false with `acks=0`."""

    def __init__(self, *, acks_tell_offsets: bool) -> None:
        self.acks_tell_offsets = acks_tell_offsets
        self.pending: dict[Batch, Held] = {}
        self.history: list[MockRecord] = []
        self.written: list[MockRecord] = []
        # What a reader of committed records finds, and what it does not find yet.
        self.committed: list[MockRecord] = []
        self.unseen: list[MockRecord] = []
        # False when records are written in transactions.
        self.seen_at_once = True
        # Told of every record that fails, unless somebody took it back; and of every record that has its outcome.
        self.on_lost: Callable[[KafkaError], None] = _ignore
        self.on_settled: Callable[[], None] = _nothing
        # Told whenever memory comes back.
        self.on_room: Callable[[], None] = _nothing
        self.totals = Totals()
        self.acked_bytes = 0
        self.failed_by_error: Counter[str] = Counter()
        self.losses_by_topic: Counter[str] = Counter()
        self.last_ack: float | None = None
        self.last_error: KafkaError | None = None
        self.last_error_at: float | None = None
        self._timers: dict[Batch, asyncio.TimerHandle] = {}
        self._watching: list[asyncio.Future[None]] = []
        # Every failure, with the batch of the record that failed, if it had one.
        self._failures: list[tuple[Batch | None, KafkaError]] = []

    # -- accepted

    def accept(self, held: Held) -> None:
        """A record has its place; its outcome comes later."""
        self.history.append(held.record)
        self.pending[held.batch] = held
        watching, self._watching = self._watching, []
        for each in watching:
            if not each.done():
                each.set_result(None)

    def expire_after(self, held: Held, seconds: float) -> None:
        """Have the record fail if it has no outcome by then."""
        if held.batch in self.pending:
            self._timers[held.batch] = held.batch.loop.call_later(seconds, self._expire, held)

    def _expire(self, held: Held) -> None:
        elapsed = held.batch.loop.time() - held.batch.opened_at
        where = held.record
        self.fail(held, DeliveryTimeoutError(topic=where.topic, partition=where.partition, elapsed=elapsed))

    async def news(self) -> None:
        """Wait until another record is accepted."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.append(future)
        await future

    def waiting(self, topic: str | None) -> Iterator[Held]:
        """The records (of one topic) without an outcome, oldest first, as they are now."""
        return iter([held for held in self.pending.values() if topic in (None, held.record.topic)])

    # -- settled

    def acknowledge(self, held: Held) -> None:
        """The record is written: it has the next offset of its partition."""
        batch, partition = held.batch, held.partition
        now = batch.drained_at = batch.written_at = batch.answered_at = batch.loop.time()
        offset = partition.next_offset
        partition.next_offset += 1
        size = self._release(held)
        batch.acknowledge(offset if self.acks_tell_offsets else -1)
        self.written.append(held.record)
        (self.committed if self.seen_at_once else self.unseen).append(held.record)
        self.totals = attrs.evolve(self.totals, acked=self.totals.acked + 1)
        self.acked_bytes += size
        self.last_ack = now
        self.on_settled()

    def fail(self, held: Held, error: Exception) -> None:
        """The record ends with this error, which becomes a `DeliveryError` if it is none."""
        told = as_delivery_error(error, held.record)
        self.end(held, told)
        self.on_lost(told)

    def end(self, held: Held, told: DeliveryError) -> None:
        """The record ends with this, and no transaction fails by that."""
        self._release(held)
        held.batch.fail(told)
        self.count_failure(held.record.topic, told, held.batch)
        self.on_settled()

    def reveal(self, *, committed: bool) -> None:
        """The transaction has ended: readers find what it wrote, or never will."""
        if committed:
            self.committed += self.unseen
        self.unseen = []

    def withdraw(self, batch: Batch, text: str = "withdrawn by try_cancel()") -> bool:
        """Take a record back; False: it has its outcome already."""
        held = self.pending.get(batch)
        if held is None:
            return False
        self.end(held, DeliveryError(text, topic=batch.topic, partition=batch.partition))
        return True

    def _release(self, held: Held) -> int:
        batch = held.batch
        del self.pending[batch]
        timer = self._timers.pop(batch, None)
        if timer is not None:
            timer.cancel()
        held.partition.share.release(batch.charged)
        self.on_room()
        return batch.charged

    def count_failure(self, topic: str, error: KafkaError, batch: Batch | None = None) -> None:
        """Count a record that was not written, or perhaps."""
        before = self.totals
        if error.outcome is Outcome.UNKNOWN:
            self.totals = attrs.evolve(before, unknown=before.unknown + 1)
        else:
            self.totals = attrs.evolve(before, not_written=before.not_written + 1)
        self.failed_by_error[str(getattr(error, "name", type(error).__name__))] += 1
        self.losses_by_topic[topic] += 1
        self.last_error = error
        self.last_error_at = asyncio.get_running_loop().time()
        self._failures.append((batch, error))

    def told_now(self) -> Told:
        """What somebody knows who is told of everything up to now."""
        return Told(self.totals.acked, self.totals.not_written, self.totals.unknown, len(self._failures))

    def report(self, began: Told, waited_for: Collection[Held], told: Told) -> tuple[FlushReport, Told]:
        """What an owner of reports is told by a flush that began then and waited for these, and what it knows by that."""
        ends = Counter(held.batch.fate(0)[0] for held in waited_for)
        now = Told(
            began.acked + ends[ACKED],
            began.not_written + ends[NUMBER[Outcome.NOT_WRITTEN]],
            began.unknown + ends[NUMBER[Outcome.UNKNOWN]],
            began.failures,
            self._numbers_of({held.batch for held in waited_for}, began.failures),
        )
        if now.records < told.records:
            # Another flush of the same owner began later, and has told all of this.
            return FlushReport(), told
        new = sorted({*range(told.failures, now.failures), *now.ahead} - told.ahead)
        errors = tuple(self._failures[number][1] for number in new[:FIRST_ERRORS])
        report = FlushReport(
            now.acked - told.acked, now.not_written - told.not_written, now.unknown - told.unknown, errors
        )
        return report, now

    def _numbers_of(self, batches: Collection[Batch], begin: int) -> frozenset[int]:
        behind = enumerate(self._failures[begin:], begin)
        return frozenset(number for number, (batch, _) in behind if batch in batches)


def check_failure(error: object) -> None:
    """Refuse at once what no delivery can end with."""
    if not isinstance(error, Exception):
        raise TypeError(f"a delivery ends with an exception, not {type(error).__name__}")
    outcome = getattr(error, "outcome", Outcome.NOT_WRITTEN)
    if outcome not in NUMBER:
        raise ValueError(f"a record that failed is NOT_WRITTEN or UNKNOWN, not {outcome}")


def as_delivery_error(error: Exception, record: MockRecord) -> DeliveryError:
    """What awaiting a delivery raises: a `DeliveryError`, with anything else as its cause."""
    outcome = getattr(error, "outcome", Outcome.NOT_WRITTEN)
    if isinstance(error, DeliveryError):
        return error
    if isinstance(error, RecordTooLargeError):
        # Of an accepted record it can only be the broker's.
        return RefusedAsTooLargeError(
            size=error.size,
            setting="max.message.bytes",
            code=10,
            name="MESSAGE_TOO_LARGE",
            topic=record.topic,
            partition=record.partition,
            attempts=1,
        )
    return DeliveryError(
        topic=record.topic,
        partition=record.partition,
        outcome=outcome,
        retriable=getattr(error, "retriable", None),
        attempts=1,
        cause=error,
    )


def _ignore(_error: KafkaError) -> None:
    """There is no transaction."""


def _nothing() -> None:
    """Nobody waits for that."""
