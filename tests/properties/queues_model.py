"""The batches that must be queued, ready, charged and reported, in plain lists: the reference of the accumulator.

It has no heaps, no ready queues, no counters: every question is answered by looking at everything. Time and the answers
of brokers are facts that it receives; the one thing it takes from the library is where a split batch was cut and how long
a backoff is, which leave a choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from aioproducer._core import Delivery
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.flush import Flush
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer.outcome import Outcome
from tests.properties.sizes import Content, framed, together

STAYS_OPEN = 1.0


@attrs.define(eq=False)
class Record:
    """One accepted record, and the reports that it must have."""

    number: int
    content: Content
    due: float
    delivery: Delivery
    outcome: Outcome = Outcome.PENDING

    @property
    def pending(self) -> bool:
        return self.outcome is Outcome.PENDING


@attrs.define(eq=False)
class Batch:
    """Records that travel together."""

    records: list[Record]
    real: QueuedBatch
    opened_at: float
    limit: int
    node: int
    """Whose memory it is charged to."""
    charged: int = 0
    closed: bool = False
    hurried: bool = False
    packing: bool = False
    packed: bool = False
    attempts: int = 0
    dirty: bool = False
    flying: bool = False
    retry_at: float = 0.0
    tried_on: int = -1
    ended: bool = False

    @property
    def pending(self) -> list[Record]:
        return [record for record in self.records if record.pending]

    @property
    def numbers(self) -> list[int]:
        return [record.number for record in self.records]

    @property
    def size(self) -> int:
        """Its bytes without compression."""
        return together(record.content for record in self.records)

    def takes(self, content: Content, now: float, stays_open: float) -> bool:
        """May this record join it?"""
        more = framed(content, len(self.records), self.records[0].content.timestamp)
        return not self.closed and self.size + more <= self.limit and now < self.opened_at + stays_open


@attrs.define(eq=False)
class Partition:
    """A line of batches, in the order of the calls, and those that are under way."""

    real: PartitionQueue
    leader: int
    queue: list[Batch] = attrs.Factory(list)
    flying: list[Batch] = attrs.Factory(list)

    @property
    def last_open(self) -> Batch | None:
        return self.queue[-1] if self.queue and not self.queue[-1].closed else None

    def put_back(self, batch: Batch) -> None:
        """Among those that wait, it stands where its records stood in the order of the calls."""
        older = sum(other.numbers[0] < batch.numbers[0] for other in self.queue)
        self.queue.insert(older, batch)


@attrs.define(eq=False)
class Watch:
    """A flush, and the records whose outcome it waits for: those that were there when it was called."""

    real: Flush
    covers: list[Record]

    @property
    def done(self) -> bool:
        return not any(record.pending for record in self.covers)

    def ended_as(self, outcome: Outcome) -> int:
        """How many of the records did."""
        return sum(record.outcome is outcome for record in self.covers)


@attrs.define(eq=False)
class Reference:
    """Everything that one producer without idempotence has buffered."""

    linger: float
    delivery_timeout: float
    one_at_a_time: bool
    retries: int
    partitions: list[Partition] = attrs.Factory(list)
    gone: list[Partition] = attrs.Factory(list)
    batches: list[Batch] = attrs.Factory(list)
    records: list[Record] = attrs.Factory(list)
    watches: list[Watch] = attrs.Factory(list)
    closing: bool = False
    news: list[Record] = attrs.Factory(list)

    @property
    def stays_open(self) -> float:
        return max(self.linger, STAYS_OPEN)

    def everywhere(self) -> Iterator[Partition]:
        yield from self.partitions
        yield from self.gone

    def home(self, batch: Batch) -> Partition:
        return next(each for each in self.everywhere() if batch in each.queue or batch in each.flying)

    def of(self, real: QueuedBatch) -> Batch:
        return next(batch for batch in self.batches if batch.real is real)

    # -- facts

    def accepted(self, partition: Partition, record: Record, real: QueuedBatch, now: float) -> None:
        """A record joins the open batch, if that takes it, or opens the next."""
        batch = partition.last_open
        if batch is None or not batch.takes(record.content, now, self.stays_open):
            assert all(real is not other.real for other in self.batches), "it joined a batch that is full"
            if batch is not None:
                batch.closed = True
            batch = Batch([record], real, now, real.limit, partition.leader)
            partition.queue.append(batch)
            self.batches.append(batch)
        else:
            assert real is batch.real, "it opened a batch, and there was room"
            batch.records.append(record)
        batch.charged = batch.size
        self.records.append(record)

    def leads(self, partition: Partition, leader: int) -> None:
        """Waiting records are charged to the new leader; records in flight to the broker that they were sent to."""
        if leader != partition.leader:
            partition.leader = leader
            for batch in partition.queue:
                batch.node = leader

    def looked_at(self, partition: Partition, real: QueuedBatch) -> None:
        """The first batch is written anew without what has ended, before it leaves or is found to be too large."""
        batch = partition.queue[0]
        if real is not batch.real:
            assert len(batch.pending) < len(batch.records), "there was no reason to write it anew"
            assert not batch.attempts, "what was written once is written again as a whole"
            batch.records = batch.pending
            batch.charged = min(batch.charged, batch.size)
            batch.real = real
            batch.closed = batch.packed = True
            batch.retry_at = 0.0

    def did_not_fit(self, candidates: Sequence[Partition]) -> None:
        """One of these was closed for sending, and was too large for the rest of the request."""
        closed = [each for each in candidates if each.last_open is each.queue[0] and each.real.open is None]
        assert len(closed) <= 1, "what was not looked at was closed"
        for partition in closed:
            partition.queue[0].closed = True

    def left(self, partition: Partition, real: QueuedBatch) -> Batch:
        """The first batch leaves for its broker: the first time without what has ended meanwhile, and then as it was."""
        self.looked_at(partition, real)
        batch = partition.queue.pop(0)
        assert batch.attempts or batch.pending == batch.records, "what has ended leaves with it"
        batch.closed = batch.packed = batch.flying = True
        batch.attempts += 1
        batch.tried_on = partition.leader
        partition.flying.append(batch)
        return batch

    def landed(self, batch: Batch) -> Partition:
        """Nothing of it is under way any more."""
        partition = self.home(batch)
        partition.flying.remove(batch)
        batch.flying = False
        return partition

    def acknowledged(self, batch: Batch) -> None:
        self.landed(batch)
        if not batch.ended:
            self._end(batch, Outcome.ACKED)

    def failed(self, batch: Batch, *, proven: bool, retriable: bool, retry_at: float) -> None:
        """An attempt did not succeed; `proven`: the broker certainly did not append it."""
        partition = self.landed(batch)
        if batch.ended:
            return
        batch.dirty |= not proven
        if not retriable or batch.attempts > self.retries:
            self._end(batch, Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN)
            return
        batch.retry_at = retry_at
        partition.put_back(batch)

    def split(self, batch: Batch, parts: Sequence[QueuedBatch]) -> None:
        """It was too large: its records go on in smaller batches, in the same place; what has ended does not."""
        partition = self.landed(batch)
        if batch.ended:
            return
        rest, room = batch.pending, batch.charged
        children = []
        for real in parts:
            part, rest = rest[: real.record_count], rest[real.record_count :]
            child = Batch(part, real, batch.opened_at, real.limit, batch.node)
            child.closed = child.hurried = child.packed = True
            child.attempts, child.dirty = batch.attempts, batch.dirty
            child.charged = min(child.size, room)
            room -= child.charged
            children.append(child)
            partition.put_back(child)
        assert not rest, "records were lost in the split"
        self.batches.remove(batch)
        self.batches.extend(children)
        batch.ended = True

    def withdrawn(self, record: Record) -> bool:
        """A record whose batch has never left is taken back."""
        batch = next((each for each in self.batches if record in each.records), None)
        if batch is None or batch.attempts or not record.pending:
            return False
        self._settle(record, Outcome.NOT_WRITTEN)
        self._end_if_empty(batch)
        return True

    def purged(self) -> None:
        for batch in [batch for batch in self.batches if not batch.attempts]:
            self._end(batch, Outcome.NOT_WRITTEN)

    def leave_together(self, now: float) -> None:
        """With a batch that may leave from now on, all leave that linger."""
        for partition in self.everywhere():
            head = partition.queue[0] if partition.queue else None
            if head is None or self.is_due(partition, now) or head.real.linger_at > now:
                continue
            assert any(self.may_leave(each, now) for each in self.everywhere()), "nothing leaves with it"
            head.hurried = True

    def time_passed(self, now: float) -> None:
        """Whatever is due by now has its outcome."""
        for batch in list(self.batches):
            overdue = [record for record in batch.pending if record.due <= now]
            everything = len(overdue) == len(batch.pending)
            # One that ends alone in a batch that was sent before may be in the log, or come there with the others.
            written = batch.flying or batch.dirty or (batch.attempts > 0 and not everything)
            for record in overdue:
                self._settle(record, Outcome.UNKNOWN if written else Outcome.NOT_WRITTEN)
            if overdue or now >= batch.opened_at + self.delivery_timeout:
                self._end_if_empty(batch)

    def abandoned(self) -> None:
        for batch in list(self.batches):
            written = batch.flying or batch.dirty
            self._end(batch, Outcome.UNKNOWN if written else Outcome.NOT_WRITTEN)

    def flushed(self, real: Flush) -> None:
        """Everything is urgent, and watched."""
        for batch in self.batches:
            batch.hurried = True
        self.watches.append(Watch(real, [record for batch in self.batches for record in batch.pending]))

    def _settle(self, record: Record, outcome: Outcome) -> None:
        record.outcome = outcome
        self.news.append(record)

    def _end(self, batch: Batch, outcome: Outcome) -> None:
        for record in batch.pending:
            self._settle(record, outcome)
        self._end_if_empty(batch)

    def _end_if_empty(self, batch: Batch) -> None:
        if batch.pending:
            return
        batch.ended = batch.closed = True
        self.batches.remove(batch)
        for partition in self.everywhere():
            if batch in partition.queue:
                partition.queue.remove(batch)

    # -- questions

    def is_due(self, partition: Partition, now: float) -> bool:
        """Its first batch does not linger any longer."""
        head = partition.queue[0]
        return (
            head.closed
            or head.hurried
            or now >= head.opened_at + self.linger
            or len(partition.queue) > 1
            or self.closing
        )

    def may_leave(self, partition: Partition, now: float) -> bool:
        """Its first batch may be sent now."""
        if not partition.queue or partition.leader < 0:
            return False
        head = partition.queue[0]
        backs_off = now < head.retry_at and head.tried_on == partition.leader
        must_wait = self.one_at_a_time and bool(partition.flying)
        return not (head.packing or backs_off or must_wait) and self.is_due(partition, now)

    def ready(self, node: int, now: float) -> list[Partition]:
        return [each for each in self.everywhere() if each.leader == node and self.may_leave(each, now)]

    def next_time(self, now: float) -> float:
        """The time of an event that nothing announces."""
        return min(self._times(now), default=math.inf)

    def _times(self, now: float) -> Iterator[float]:
        for batch in self.batches:
            yield from (record.due for record in batch.pending)
        for partition in self.everywhere():
            # A sender checks its batches, and finds the remaining ones.
            if partition.queue and partition.leader >= 0 and not partition.real.is_ready:
                head = partition.queue[0]
                if now < head.retry_at and head.tried_on == partition.leader:
                    yield head.retry_at
                if not self.is_due(partition, now):
                    yield head.opened_at + self.linger

    def charged_to(self, node: int) -> int:
        return sum(batch.charged for batch in self.batches if batch.node == node)
