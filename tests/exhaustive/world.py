"""The world of a model: the machines of one producer, two brokers, and requests in flight; it moves by named events.

The same events in the same order always lead to the same world, so a list of names replays it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import attrs

from aioproducer import Outcome
from aioproducer._core import APPENDED
from aioproducer._state.batching.limits import Limits
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import StateError
from tests.exhaustive.model import (
    CUT,
    DELIVERY_TIMEOUT,
    FATES,
    MOVE,
    PRODUCER_ID,
    SPACING,
    STRAY,
    UNSENT,
    WITHDRAW,
    Model,
)
from tests.judge.history import digest_of, value_of
from tests.state.machines import LINGER, Call, Machines
from tests.state.model_broker import SEQUENCES, ProducerState
from tests.state.wires import NODES, WELL, Wires, read

LAST_EPOCH = 32767
PENDING = Outcome.PENDING
LIMITS = Limits(linger=LINGER, batch_size=1000, max_request_size=4000, delivery_timeout=DELIVERY_TIMEOUT)
Place = tuple[int, int, int, int]


@attrs.define(eq=False)
class Record:
    """One record that was handed over."""

    number: int
    partition: int
    value: bytes
    digest: bytes
    call: Call
    resolved_at: float = -1.0

    @property
    def due_at(self) -> float:
        """When its outcome must be known; a call may wait for memory as long as a record may take."""
        if self.call.delivery is None and self.call.waiting is not None:
            return self.call.waiting.give_up_at
        return self.call.accepted_at + DELIVERY_TIMEOUT

    @property
    def outcome(self) -> Outcome:
        delivery = self.call.delivery
        if delivery is not None:
            return delivery.outcome
        return PENDING if self.call.error is None else self.call.error.outcome


class World(Wires):
    """The present state, and the possible events."""

    def __init__(self, model: Model) -> None:
        self.model = model
        identity = (PRODUCER_ID, model.epoch)
        machines = Machines(LIMITS, model.memory, identity=identity, retries=model.retries)
        super().__init__(machines, len(model.leaders))
        self.leaders = list(model.leaders)
        self.records: list[Record] = []
        self.unresolved: list[Record] = []
        self.producer_id = PRODUCER_ID
        self.sent = 0
        self.closed = False
        # What the wire saw: the last bytes of each batch, and which record each sequence number was given to.
        self.written: dict[QueuedBatch, bytes] = {}
        self.given: dict[Place, tuple[bytes | None, QueuedBatch]] = {}
        # Which broker's last answer for a partition was OUT_OF_ORDER_SEQUENCE_NUMBER.
        self.refused_number_at: dict[int, int | None] = {}
        self.m.learn(*model.leaders)
        if model.introduced:
            self._introduce()
        for _ in range(min(model.upfront, len(model.batches))):
            self.append()
            self.m.clock.monotonic += SPACING

    def _introduce(self) -> None:
        """Batches of this producer are in the logs' memory already."""
        before = (self.model.sequence - 1) % SEQUENCES
        for partition, log in enumerate(self.logs):
            queue = self.m.queue(partition)
            queue.identity, queue.next_sequence = self.m.sequences.identity, self.model.sequence
            queue.confirmed_at = self.m.now
            log.producers[PRODUCER_ID] = ProducerState(self.model.epoch)
            log.producers[PRODUCER_ID].batches.append((before, before, 0))

    # -- what can happen

    def due(self) -> list[str]:
        """The events that come sooner or later if no other does; the first of them keeps a healthy world going."""
        names = [f"answer {node}" for node in NODES if self._can_answer(node)]
        names += [f"arrive {node}" for node in NODES if self.next_to_arrive(node)]
        if self.closed:
            return names
        if self._is_misled() and self.m.stale:
            names.append("told")
        if self.m.sequences.wanted:
            names.append("identity")
        names += [f"drain {node}" for node in NODES if self._can_drain(node)]
        if self.sent < len(self.model.batches):
            names.append("append")
        if self._can_tick():
            names.append("tick")
        return names

    def possible(self) -> list[str]:
        """The events that may or may not happen: unrequested metadata, and requests that were given up."""
        names = ["told"] if not self.closed and self._is_misled() and not self.m.stale else []
        return names + [f"late {at}" for at in range(len(self.strays)) if self._can_come_late(at)]

    def faults(self) -> list[str]:
        """The faults that are possible now."""
        if self.closed:
            return []
        return [name for kind in self.model.faults for name in self._faults_of(kind)]

    def _faults_of(self, kind: str) -> Iterable[str]:
        if kind in FATES:
            yield from self._fates_of(kind)
        elif kind == CUT:
            yield from (f"{CUT} {node}" for node in NODES if self.connections[node])
        elif kind == STRAY:
            yield from (f"{STRAY} {node}" for node in NODES if self.next_to_arrive(node))
        elif kind == UNSENT:
            yield from (f"{UNSENT} {node}" for node in NODES if self._can_drain(node))
        elif kind == MOVE:
            yield from (f"{MOVE} {partition}" for partition in range(len(self.leaders)))
        elif kind == WITHDRAW:
            yield from (f"{WITHDRAW} {record.number}" for record in self.records if self._is_first(record))
        elif self.unresolved:
            yield kind

    def _fates_of(self, kind: str) -> Iterable[str]:
        for node in NODES:
            request = self.next_to_arrive(node)
            for part in request.parts if request is not None else ():
                if self.leaders[part.batch.partition] == node:
                    yield f"arrive {node} {part.batch.partition} {kind}"

    def can(self, event: str) -> bool:
        """Whether this may happen now."""
        return event in self.due() or event in self.possible() or event in self.faults()

    def do(self, event: str) -> None:
        """It happens."""
        verb, *arguments = event.split()
        if verb == "arrive":
            self.arrive(int(arguments[0]), *arguments[1:])
        else:
            getattr(self, verb)(*map(int, arguments))
        ended = [record for record in self.unresolved if record.outcome is not PENDING]
        if ended:
            for record in ended:
                record.resolved_at = self.m.now
            self.unresolved = [record for record in self.unresolved if record.outcome is PENDING]

    # -- facts

    def leader_of(self, partition: int) -> int:
        """As it is, whatever the producer knows."""
        return self.leaders[partition]

    def next_deadline(self) -> float | None:
        return min((record.due_at for record in self.unresolved), default=None)

    def _can_answer(self, node: int) -> bool:
        return bool(self.connections[node]) and self.connections[node][0].arrived

    def _can_drain(self, node: int) -> bool:
        # As a sender's task does: it looks only after a signal.
        return bool(self.m.node(node).ready) and len(self.connections[node]) < self.model.in_flight

    def _can_tick(self) -> bool:
        # The deadline of a record does not come by itself: that is a fault.
        alarm, deadline = self.m.next_alarm(), self.next_deadline()
        if alarm is None or not self.m.accumulator.live:
            return False
        return deadline is None or alarm < deadline

    def _is_misled(self) -> bool:
        return any(self.m.queue(at).node.node_id != leader for at, leader in enumerate(self.leaders))

    def _can_come_late(self, at: int) -> bool:
        """A leader fences old epochs of a producer id, but nothing tells it that one id came after another.

        A record that was UNKNOWN when the last of 32,767 epochs ended may come late; no client can prevent that.
        """
        stray = self.strays[at]
        return bool(stray) and all(part.says.producer_id == self.producer_id for part in stray[0].parts)

    def _is_first(self, record: Record) -> bool:
        delivery = record.call.delivery
        if delivery is None or record.outcome is not Outcome.PENDING:
            return False
        return any(
            not batch.attempts and batch.pending_indexes() and _holds_first(batch, record.value)
            for batch in self.m.queue(record.partition).queue
        )

    # -- events: the caller and the clock

    def append(self) -> None:
        """The next batch of the model."""
        partition, count = self.model.batches[self.sent]
        self.sent += 1
        for _ in range(count):
            self._send(partition)
        if self.m.queue(partition).open is not None:
            self.m.close(partition)

    def _send(self, partition: int) -> None:
        number = len(self.records)
        value = value_of(number)
        call = Call()
        if not self.m.admission.has_line("t"):
            status, call.delivery = self.m.offer(value, partition=partition)
            assert (status == APPENDED) == (call.delivery is not None)
            call.accepted_at = self.m.now
        if call.delivery is None:
            call = self.m.call(value, partition=partition, max_block=DELIVERY_TIMEOUT)
        self.records.append(Record(number, partition, value, _digest(value), call))
        self.unresolved.append(self.records[-1])

    def tick(self) -> None:
        """Time passes until the next alarm."""
        alarm = self.m.next_alarm()
        assert alarm is not None
        self.m.later(max(alarm - self.m.now, 1e-6))

    def expire(self) -> None:
        """Time passes until the next deadline of a record."""
        deadline = self.next_deadline()
        assert deadline is not None
        self.m.later(max(deadline - self.m.now, 0.0))

    def withdraw(self, number: int) -> None:
        delivery = self.records[number].call.delivery
        assert delivery is not None
        assert delivery.try_cancel()

    def close(self) -> None:
        """The producer ends: waiting calls are refused first, and accepted records have their outcome."""
        self.closed = True
        self.m.admission.refuse_all(lambda waiting: StateError("closed", topic=waiting.topic))
        self.m.machines.endings.abandon("the producer was closed", None, self.m.now)

    def identity(self) -> None:
        """A coordinator gives a new producer id."""
        self.producer_id += 1
        self.m.sequences.obtained(self.producer_id, 0)
        self.m.accumulator.update_all_readiness(self.m.now)

    def told(self) -> None:
        """Metadata gives the producer the leader of each partition."""
        self.m.stale.clear()
        for partition, leader in enumerate(self.leaders):
            self.m.lead(self.m.queue(partition), leader)

    # -- events: requests

    def drain(self, node: int) -> None:
        """The sender of this broker writes its next request."""
        batches = self._drained(node)
        self.written.update((batch, bytes(batch)) for batch in batches)
        if batches:
            self.put(node, batches)

    def unsent(self, node: int) -> None:
        """The connection ends between the drain and the write."""
        self.m.lose(*reversed(self._drained(node, written=False)), written=False)

    def _drained(self, node: int, *, written: bool = True) -> list[QueuedBatch]:
        if not self.m.accumulator.drainer.has_ready(self.m.node(node), self.m.now):
            return []
        batches = self.m.effects.event(self.m.accumulator.drainer.drain, self.m.node(node), self.m.now)
        for batch in batches:
            if written:
                batch.written_at = self.m.now
            again = batch.attempts > 1
            assert not again or batch.queue.sent[0] is batch or self._asked_ahead(batch, node), (
                f"{describe(batch)} goes again, and is not the first"
            )
            self._hold_to_the_identity_rule(batch)
        return batches

    def _asked_ahead(self, batch: QueuedBatch, node: int) -> bool:
        """This leader has just said that it goes on from another number than one that may be in its log."""
        alone = batch.queue.in_flight == 1
        return batch.dirty and alone and self.refused_number_at.get(batch.partition) == node

    def _hold_to_the_identity_rule(self, batch: QueuedBatch) -> None:
        data = bytes(batch)
        if batch.dirty:
            assert self.written.get(batch, data) == data, f"a dirty batch changed: {describe(batch)}"
        says = read(data)
        assert 0 <= says.epoch <= LAST_EPOCH, f"there is no epoch {says.epoch}"
        for place, value in enumerate(says.values):
            number = (says.sequence + place) % SEQUENCES
            key = (batch.partition, says.producer_id, says.epoch, number)
            holder_value, holder = self.given.get(key, (value, batch))
            if holder_value != value:
                assert _is_free(holder), (
                    f"number {number} of {describe(holder)} is given to {describe(batch)}"
                )
            self.given[key] = (value, batch)

    def arrive(self, node: int, partition: str = "", fate: str = "") -> None:
        """The oldest request of the connection reaches its broker; a batch of it may have a fate of its own."""
        request = self.next_to_arrive(node)
        assert request is not None
        own = {int(partition): FATES[fate]} if fate else {}
        self.handle(request, [own.get(part.batch.partition, WELL) for part in request.parts])

    def answer(self, node: int) -> None:
        """The answer to the oldest request of the connection."""
        for part in self.connections[node][0].parts:
            refused = part.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.refused_number_at[part.batch.partition] = node if refused else None
        self.answer_next(node)

    def cut(self, node: int, *, stray: bool = False) -> None:
        """The connection ends."""
        # The next connection may lead to a restarted broker: an earlier refusal proves nothing there.
        for partition, refused_at in self.refused_number_at.items():
            if refused_at == node:
                self.refused_number_at[partition] = None
        super().cut(node, stray=stray)

    def stray(self, node: int) -> None:
        """The connection is given up, but its written bytes have not gone."""
        self.cut(node, stray=True)

    def late(self, at: int) -> None:
        """A request arrives that was given up."""
        request = self.strays[at].popleft()
        self.handle(request, [WELL] * len(request.parts))

    def move(self, partition: int) -> None:
        """The partition has another leader, which has its log."""
        self.leaders[partition] = 3 - self.leaders[partition]


@functools.cache
def _digest(value: bytes) -> bytes:
    return digest_of(None, value, (), None)


def _is_free(batch: QueuedBatch) -> bool:
    """Whether other batches may take the numbers of a batch: it is clean, and no request waits for its answer."""
    told = Outcome.ACKED, Outcome.UNKNOWN
    return not batch.dirty and not batch.in_flight and outcome_of(batch) not in told


def outcome_of(batch: QueuedBatch) -> Outcome:
    """The outcome of a batch as a whole."""
    return tuple(Outcome)[batch.outcome]


def describe(batch: QueuedBatch) -> str:
    """A batch by its place, for the text of a failure."""
    state = "dirty" if batch.dirty else "clean"
    return f"batch {batch.order} of partition {batch.partition} ({batch.identity} {batch.sequence}, {state})"


def _holds_first(batch: QueuedBatch, value: bytes) -> bool:
    return bool(batch.pending) and batch.read_records(batch.plain_records())[0][2] == value
