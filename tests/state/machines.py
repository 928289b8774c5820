"""The state machines of one producer without a loop or a network: events go in by hand, effects are lists."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import attrs
from crc32c import crc32c

from aioproducer._codecs import decompress
from aioproducer._core import APPENDED, Delivery, ManualClock, SendPath
from aioproducer._state.admission.lines import Admission
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer._state.admission.waiting import Waiting
from aioproducer._state.backoff import Backoff
from aioproducer._state.batching.accumulator import Accumulator
from aioproducer._state.batching.limits import Limits
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.cluster.metadata import MetadataView
from aioproducer._state.delivery.settlement import Settlement
from aioproducer._state.delivery.tally import Tally
from aioproducer._state.effects import Effects
from aioproducer._state.identity.coordinated import CoordinatedIdentity
from aioproducer._state.identity.own import OwnIdentity
from aioproducer._state.identity.sequences import Sequences
from aioproducer._state.machines import Machines as WiredMachines
from aioproducer._state.queues.batches import PartitionAnswer, QueuedBatch
from aioproducer._state.queues.flush import Flush
from aioproducer._state.queues.partition_queue import NodeQueue, PartitionQueue, TopicQueues
from aioproducer.errors import KafkaError, ProtocolError

LINGER = 0.005
DELIVERY_TIMEOUT = 60.0
BACKOFF = 0.1
IDENTITY = (7000, 3)
LIMITS = Limits(linger=LINGER, batch_size=1000, max_request_size=4000, delivery_timeout=DELIVERY_TIMEOUT)
LOST = ProtocolError("the connection ended")

_HEADER = struct.Struct(">qiibIhiqqqhii")


def remain(effects: Effects) -> bool:
    """True with an effect that is not performed."""
    lines = (effects.nodes, effects.closed, effects.opened, effects.losses, effects.flushed, effects.reports)
    questions = (effects.stale, effects.wanted, effects.refused_ids)
    flags = (effects.has_room, effects.in_doubt, effects.identity_exhausted, effects.flush_without_memory)
    return any((*lines, *questions, *flags, effects.call_ended_last, effects.wake_at != math.inf))


@attrs.frozen
class WrittenBatch:
    """The content of the bytes of a batch, read without any code of the package."""

    producer_id: int
    epoch: int
    sequence: int
    count: int
    values: tuple[bytes | None, ...]


def read_batch(data: bytes) -> WrittenBatch:
    """Read a batch as a broker does: sizes and checksum first."""
    _, length, _, magic, checksum, attributes, last, _, _, producer_id, epoch, sequence, count = (
        _HEADER.unpack_from(data)
    )
    assert length == len(data) - 12
    assert magic == 2
    assert checksum == crc32c(data[21:])
    assert last == count - 1
    plain = decompress(data[61:], attributes & 7)
    at = 0
    values = []
    for index in range(count):
        size, at = _varint(plain, at)
        end = at + size
        _, at = _varint(plain, at + 1)
        offset, at = _varint(plain, at)
        assert offset == index
        _, at = _field(plain, at)
        value, at = _field(plain, at)
        values.append(value)
        at = end
    assert at == len(plain)
    return WrittenBatch(producer_id, epoch, sequence, count, tuple(values))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    number |= data[at] << shift
    return (number >> 1) ^ -(number & 1), at + 1


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


class HandLoop:
    """Stands in for the event loop that the core calls back on: scheduled calls wait in a list."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[..., object], *args: object, context: Any = None) -> None:
        if context is None:
            self.soon.append(lambda: callback(*args))
        else:
            self.soon.append(lambda: context.run(callback, *args))

    def turn(self) -> None:
        """Run the scheduled calls."""
        due, self.soon = self.soon, []
        for call in due:
            call()


class Path(SendPath[bytes, bytes]):
    """The compiled send path, with nothing behind it for records that have to wait."""


@attrs.define(eq=False)
class Call:
    """A call that had to wait, and its result."""

    waiting: Waiting | None = None
    delivery: Delivery | None = None
    error: KafkaError | None = None
    accepted_at: float = 0.0

    @property
    def ended(self) -> bool:
        return self.delivery is not None or self.error is not None


@attrs.define(eq=False)
class Machines:
    """Everything of one producer that decides, bound to a clock that stands still."""

    limits: Limits = LIMITS
    memory: int = 1 << 20
    idempotent: bool = True
    one_at_a_time: bool = False
    retries: int = 1 << 31
    identity: tuple[int, int] | None = IDENTITY
    seed: int = 1
    gapless: bool = False
    transactional: bool = False

    clock: ManualClock = attrs.field(init=False, factory=lambda: ManualClock(1000.0, 1_700_000_000_000))
    loop: Any = attrs.field(init=False, factory=HandLoop)  # stands in for an event loop
    tally: Tally = attrs.field(init=False)
    machines: WiredMachines = attrs.field(init=False)
    effects: Effects = attrs.field(init=False)
    # Called for a batch to compress, and when the last epoch is in use.
    compress: Callable[[QueuedBatch], object] = attrs.field(init=False)
    on_exhausted: Callable[[], object] = attrs.field(init=False, default=bool)
    losses: list[KafkaError] = attrs.field(init=False, factory=list)
    signals: list[NodeQueue] = attrs.field(init=False, factory=list)
    alarms: list[float] = attrs.field(init=False, factory=list)
    flushed: list[Flush] = attrs.field(init=False, factory=list)
    stale: list[str] = attrs.field(init=False, factory=list)
    wanted: list[str] = attrs.field(init=False, factory=list)
    unseen: list[Any] = attrs.field(init=False, factory=list)
    accumulator: Accumulator = attrs.field(init=False)
    sequences: Sequences = attrs.field(init=False)
    settlement: Settlement = attrs.field(init=False)
    admission: Admission = attrs.field(init=False)
    path: Path = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.compress = self._seal
        self.path = Path()
        self.machines = WiredMachines(
            self.limits,
            self.path,
            MetadataView(max_age=300.0, max_idle=300.0, backoff=Backoff(BACKOFF, 1.0)),
            random.Random(self.seed),
            buffer_memory=self.memory,
            retries=self.retries,
            backoff=Backoff(BACKOFF, 1.0),
            idempotent=self.idempotent,
            transactional_id="orders" if self.transactional else None,
            transaction_timeout=60.0,
            one_at_a_time=self.one_at_a_time,
            gapless=self.gapless,
            loop=self.loop,
            unseen_log=self.unseen,
        )
        self.effects, self.tally = self.machines.effects, self.machines.tally
        self.sequences, self.accumulator = self.machines.sequences, self.machines.accumulator
        self.settlement, self.admission = self.machines.settlement, self.machines.admission
        self.effects.perform = self.perform
        if self.idempotent and self.identity is not None:
            self.sequences.obtained(*self.identity)
        if isinstance(self.sequences, CoordinatedIdentity):
            self.sequences.begin(None)
        self.path._bind(
            self.accumulator.cluster.topics,
            self.clock,
            self.loop,
            lambda: self.loop,
            self.limits.max_request_size,
        )
        self.path._plain = self.path._accepting = True

    def perform(self) -> None:
        """Write the effects down; what concerns the machines themselves is performed."""
        effects = self.effects
        while remain(effects):
            self.machines.serve_room()
            while effects.closed:
                self.compress(effects.closed.popleft())
            if effects.wake_at != math.inf:
                self.alarms.append(effects.wake_at)
                effects.wake_at = math.inf
            if effects.identity_exhausted:
                effects.identity_exhausted = False
                self.on_exhausted()
            effects.in_doubt = effects.flush_without_memory = effects.call_ended_last = False
            for each, kept in (
                (effects.nodes, self.signals),
                (effects.stale, self.stale),
                (effects.wanted, self.wanted),
                (effects.flushed, self.flushed),
                (effects.losses, self.losses),
                (effects.opened, None),
                (effects.refused_ids, None),
                (effects.reports, None),
            ):
                taken: Any = each
                if kept is not None:
                    kept.extend(taken)
                taken.clear()

    def _seal(self, batch: QueuedBatch) -> None:
        batch.sealing, batch.sealed = False, True

    # -- facts

    @property
    def now(self) -> float:
        return self.clock.monotonic

    def later(self, seconds: float) -> None:
        """Time passes, and deadlines are processed."""
        self.clock.monotonic += seconds
        for _ in range(100):
            self.machines.expire(self.now)
            due = self.next_alarm()
            if due is None or due > self.now:
                return
        raise AssertionError(f"an alarm that was set for {due} is not served at {self.now}")

    def next_alarm(self) -> float | None:
        """When the next thing is due that no event announces."""
        due = [self.accumulator.deadlines.next_deadline(), self.admission.calls.deadlines.earliest()]
        return min((moment for moment in due if moment is not None), default=None)

    def learn(self, *leaders: int, topic: str = "t", topic_id: bytes = NO_TOPIC_ID) -> TopicQueues:
        """These brokers lead the partitions of the topic."""
        self.machines.learn(topic, topic_id, leaders, self.now)
        return self.accumulator.cluster.topics[topic]

    def introduced(self, *leaders: int) -> Machines:
        """The same, with leaders that know this producer: no first batch has to go alone."""
        topic = self.learn(*leaders)
        for queue in map(topic.queue, range(len(leaders))):
            queue.identity = self.sequences.identity
            queue.confirmed_at = self.now
        return self

    @property
    def own(self) -> OwnIdentity:
        """The identity of an idempotent producer."""
        assert isinstance(self.sequences, OwnIdentity)
        return self.sequences

    def lead(self, queue: PartitionQueue, leader: int) -> None:
        """The partition has another leader."""

        def moved() -> None:
            self.accumulator.cluster.lead(queue, leader, self.now)
            self.admission.memory.moved(queue)

        self.effects.event(moved)

    def queue(self, partition: int = 0, topic: str = "t") -> PartitionQueue:
        return self.accumulator.cluster.topics[topic].queue(partition)

    def node(self, node_id: int = 1) -> NodeQueue:
        return self.accumulator.cluster.node(node_id)

    # -- records

    def append(
        self,
        value: bytes = b"v",
        *,
        partition: int = 0,
        topic: str = "t",
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] | None = None,
        timestamp: int | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        """Append one record that finds room."""
        status, delivery = self.offer(
            value,
            partition=partition,
            topic=topic,
            key=key,
            headers=headers,
            timestamp=timestamp,
            timeout=timeout,
        )
        assert status == APPENDED
        assert delivery is not None
        return delivery

    def offer(
        self,
        value: bytes,
        *,
        partition: int = 0,
        topic: str = "t",
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] | None = None,
        timestamp: int | None = None,
        timeout: float | None = None,
    ) -> tuple[int, Delivery | None]:
        """Try to append one record."""
        deadline = 0.0 if timeout is None else self.now + timeout
        queues = self.accumulator.cluster.topics[topic]
        status, delivery, queue = self.path._append_checked(
            queues, key, value, headers, timestamp, partition, deadline, False
        )
        if status == APPENDED and deadline:
            self.accumulator.deadlines.watch(queue.open, deadline)
        return status, delivery

    def call(
        self,
        value: bytes | None = b"v",
        *,
        partition: int | None = None,
        topic: str = "t",
        max_block: float = 60.0,
        timeout: float | None = None,
        held: bool = False,
    ) -> Call:
        """A send that takes its place in the lines; `value` None: its serializer is still at work."""
        call = Call()

        def accepted(delivery: Delivery) -> None:
            call.delivery, call.accepted_at = delivery, self.now

        record = None if value is None else ReadyRecord(None, value, None, None, partition)
        call.waiting = Waiting(
            topic=topic,
            record=record,
            asked_at=self.now,
            give_up_at=self.now + max_block,
            record_deadline=0.0 if timeout is None else self.now + timeout,
            on_accepted=accepted,
            on_refused=lambda error: setattr(call, "error", error),
            queued=held,
        )
        if held:
            assert self.admission.calls.hold_memory(call.waiting)
        self.admission.join(call.waiting, self.now)
        return call

    def fill(self, *values: bytes, partition: int = 0) -> QueuedBatch:
        """One closed batch of exactly these records."""
        for value in values or (b"v",):
            self.append(value, partition=partition)
        return self.close(partition)

    def close(self, partition: int = 0) -> QueuedBatch:
        """Close the open batch of a partition, as a record that does not fit does."""
        queue = self.queue(partition)
        batch = queue.queue[-1]

        def closed() -> None:
            self.accumulator.close(batch)
            queue.open = None
            self.accumulator.update_readiness(queue, self.now)

        self.effects.event(closed)
        return batch

    # -- the broker's side

    def drain(self, node_id: int = 1) -> list[QueuedBatch]:
        """The batches of the next request to this broker."""
        if self.limits.codec:
            self.accumulator.drainer.close_ready(self.node(node_id), self.now)
        batches = self.effects.event(self.accumulator.drainer.drain, self.node(node_id), self.now)
        for batch in batches:
            batch.written_at = self.now
        return batches

    def only(self, node_id: int = 1) -> QueuedBatch:
        """The only batch of the next request."""
        (batch,) = self.drain(node_id)
        return batch

    def answer(self, batch: QueuedBatch, code: int = 0, base_offset: int = -1, **facts: Any) -> None:
        """The broker answers."""
        answer = PartitionAnswer(code, base_offset, **facts)
        self.effects.event(self.settlement.answered, batch, answer, self.now)

    def acknowledge(self, *batches: QueuedBatch) -> None:
        """The broker wrote these."""
        for batch in batches:
            self.answer(batch, 0, 100)

    def lose(self, *batches: QueuedBatch, written: bool = True) -> None:
        """The connection ended before these were answered."""
        for batch in batches:
            self.effects.event(self.settlement.lost, batch, LOST, self.now, written=written)

    def wait_for_retry(self) -> None:
        """Until every backoff is over."""
        self.later(1.5)

    # -- looking

    @property
    def used(self) -> int:
        return self.accumulator.budget.used

    def is_clean(self) -> bool:
        """Nothing is held: memory, batches, calls."""
        shares = [node.share for node in self.accumulator.cluster.nodes.values()]
        return (
            self.used == 0
            and all(share.used == 0 and share.waiting == 0 for share in shares)
            and not self.accumulator.live
            and self.admission.calls.waiting == 0
        )


def values_of(batch: QueuedBatch) -> tuple[bytes | None, ...]:
    """The values in the bytes of a batch."""
    return read_batch(bytes(batch)).values
