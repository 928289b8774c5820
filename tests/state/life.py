"""One producer's life among brokers that refuse, lose, answer late and change: what happens, and what must hold."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from aioproducer._codecs import compress
from aioproducer._core import Delivery
from aioproducer._state.batching.limits import Limits
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer.outcome import Outcome
from tests.state.machines import DELIVERY_TIMEOUT, LINGER, Call, Machines
from tests.state.wires import NODES, WELL, Fate, Request, Wires

PARTITIONS = 3
IN_FLIGHT = 5


# In front of the append; retried (2, 6, 19), final (87, 29, 10 for one record), a matter of identity (45, 47, 59).
REFUSALS = tuple(Fate(code, appends=False) for code in (2, 6, 19, 19, 87, 29, 10, 45, 47, 59))
AMBIGUOUS = (Fate(7, tells_offset=False), Fate(20, tells_offset=False), Fate(6), Fate(-1, tells_offset=False))


@attrs.frozen
class Setting:
    """Where a life begins."""

    memory: int = 100_000
    codec: int = 0
    epoch: int = 0
    sequence: int = 0
    retries: int = 1 << 31
    late_identity: bool = False


@attrs.define(eq=False, repr=False)
class Sent:
    """One accepted record, and the known state of it."""

    number: int
    partition: int
    call: Call
    own_deadline: float | None

    def __repr__(self) -> str:
        return f"<record {self.number} for {self.partition}: {self.delivery}>"

    @property
    def delivery(self) -> Delivery | None:
        return self.call.delivery

    @property
    def deadline(self) -> float:
        if self.own_deadline is not None:
            return self.own_deadline
        return self.call.accepted_at + DELIVERY_TIMEOUT


class Life(Wires):
    """A producer's machines between its callers and the brokers."""

    def __init__(self, setting: Setting) -> None:
        limits = Limits(
            linger=LINGER,
            batch_size=300,
            max_request_size=700,
            delivery_timeout=DELIVERY_TIMEOUT,
            codec=setting.codec,
        )
        machines = Machines(limits, setting.memory, retries=setting.retries, identity=None)
        super().__init__(machines, PARTITIONS)
        self.records: list[Sent] = []
        self.ids = self.number = 0
        self.epoch = setting.epoch
        self.sequence = setting.sequence
        self.sealing: list[QueuedBatch] = []
        self.told: dict[int, Outcome] = {}
        if setting.codec:
            self.m.compress = self.sealing.append
        self.m.learn(*(1 + partition % 2 for partition in range(PARTITIONS)))
        if not setting.late_identity:
            self.identity_arrives()

    def identity_arrives(self) -> None:
        if self.m.sequences.wanted:
            self.ids += 1
            self.m.sequences.obtained(self.ids, self.epoch)
            self.epoch = 0
            self.m.accumulator.update_all_readiness(self.m.now)

    # -- records

    def send(self, partition: int, sizes: Sequence[int], timeout: float | None) -> None:
        for size in sizes:
            self.send_one(partition, size, timeout)

    def send_one(self, partition: int, size: int, timeout: float | None) -> None:
        number = self.number = self.number + 1
        value = b"%06d" % number + bytes(size)
        m = self.m
        call = Call()
        if not m.admission.has_line("t"):
            _, call.delivery = m.offer(value, partition=partition, timeout=timeout)
            call.accepted_at = m.now
        if call.delivery is None:
            call = m.call(value, partition=partition, timeout=timeout, max_block=min(20.0, timeout or 20.0))
        self.records.append(Sent(number, partition, call, None if timeout is None else m.now + timeout))
        if self.sequence and call.delivery is not None:
            self.begin_near_the_wrap(partition)

    def begin_near_the_wrap(self, partition: int) -> None:
        queue = self.m.queue(partition)
        if queue.identity is None and self.m.sequences.identity is not None and not queue.broken:
            queue.identity = self.m.sequences.identity
            queue.next_sequence = self.sequence

    def withdraw(self, back: int) -> None:
        """The record sent so many records ago."""
        if self.records:
            self.withdraw_one(self.records[-1 - back % len(self.records)])

    def withdraw_one(self, record: Sent) -> None:
        if record.delivery is not None:
            before = record.delivery.outcome
            if record.delivery.try_cancel():
                assert before is Outcome.PENDING
                assert record.delivery.outcome is Outcome.NOT_WRITTEN
        elif not record.call.ended:
            assert record.call.waiting is not None
            assert self.m.admission.withdraw(record.call.waiting, self.m.now)
            self.records.remove(record)

    def flush(self, *, purge: bool) -> None:
        self.m.accumulator.flush(self.m.now)
        if purge:
            self.m.machines.endings.purge(None, self.m.now)

    def compress_one(self) -> None:
        batch = self.sealing.pop(0)
        if not batch.settled:
            plain = batch.plain_records()
            made = compress(plain, 1)
            self.m.accumulator.compressed(batch, made if len(made) < len(plain) else None, self.m.now)

    # -- requests

    @property
    def on_their_way(self) -> bool:
        return any(self.connections.values())

    @property
    def can_write(self) -> bool:
        return any(self.m.node(node).ready for node in NODES)

    def write_request(self, node: int, *, written: bool = True) -> bool:
        if len(self.connections[node]) >= IN_FLIGHT:
            return False
        batches = self.m.drain(node)
        assert len({(batch.topic, batch.partition) for batch in batches}) == len(batches)
        if not batches:
            return False
        size = sum(batch.size for batch in batches)
        assert size <= self.m.limits.max_request_size or len(batches) == 1
        if not written:
            self.m.lose(*reversed(batches), written=False)
            return True
        self.put(node, batches)
        return True

    def arrive(self, node: int, fates: Sequence[Fate]) -> None:
        """The oldest request that has not arrived reaches its broker; each batch of it has its fate."""
        request = self.next_to_arrive(node) or self.next_to_arrive(3 - node)
        if request is not None:
            self.handle(request, [fates[at % len(fates)] for at in range(len(request.parts))])

    def handle_well(self, request: Request) -> None:
        self.handle(request, [WELL] * len(request.parts))

    def answer(self, node: int) -> None:
        if not self.answer_next(node):
            self.answer_next(3 - node)

    def disconnect(self, node: int, *, stray: bool) -> None:
        """A connection ends; bytes that were written to it and have not arrived may still arrive, if it strays."""
        self.cut(node if self.connections[node] else 3 - node, stray=stray)

    def stray_arrives(self) -> None:
        """A request arrives that was given up long ago.

        Not one under a former producer id: a leader fences old epochs of an id, but nothing tells it that one id came
        after the other. A record that was UNKNOWN when the last of 32,767 epochs ended may come late; no client can prevent that.
        """
        stray = next(filter(None, self.strays), None)
        if stray:
            request = stray.popleft()
            if all(part.says.producer_id == self.ids for part in request.parts):
                self.handle_well(request)

    def lead(self, partition: int, node: int) -> None:
        self.m.lead(self.m.queue(partition), node)

    # -- time

    def time_passes(self, seconds: float) -> None:
        self.m.later(seconds)
        self.nobody_is_late()

    def nobody_is_late(self) -> None:
        for record in self.records:
            if record.delivery is not None and record.deadline <= self.m.now:
                assert record.delivery.outcome is not Outcome.PENDING, record

    # -- what always holds

    def memory_is_exact(self) -> None:
        m = self.m
        assert m.used == sum(batch.charged for batch in m.accumulator.live)
        assert m.used == sum(node.share.used for node in m.accumulator.cluster.nodes.values())
        assert 0 <= m.used <= m.memory

    def queues_are_consistent(self) -> None:
        ready = [queue for node in self.m.accumulator.cluster.nodes.values() for queue in node.ready]
        assert len(ready) == len(set(ready))
        for queue in self.m.accumulator.cluster.topics["t"].in_use:
            assert queue.is_ready == (queue in queue.node.ready)
            orders = [batch.order for batch in queue.queue if batch is not queue.ahead]
            assert orders == sorted(orders)
            numbers = [batch.sequence for batch in queue.sent]
            assert len(numbers) == len(set(numbers))
            flying = [part for part in self.flying() if part.batch.partition == queue.index]
            assert queue.in_flight == len(flying)

    def logs_keep_the_promise(self) -> None:
        where = {}
        for partition, log in enumerate(self.logs):
            numbers = [int((value or b"")[:6]) for value in log.values]
            assert numbers == sorted(set(numbers)), f"partition {partition}: {numbers}"
            where.update({number: (partition, offset) for offset, number in enumerate(numbers)})
        for record in self.records:
            if record.delivery is None:
                assert record.number not in where
                continue
            outcome = record.delivery.outcome
            assert self.told.setdefault(record.number, outcome) in (outcome, Outcome.PENDING)
            self.told[record.number] = outcome
            if outcome is Outcome.NOT_WRITTEN:
                assert record.number not in where, record
            elif outcome is Outcome.ACKED:
                assert where[record.number][0] == record.partition
                offset = record.delivery.result().offset
                assert offset in (where[record.number][1], -1)

    def check(self) -> None:
        self.memory_is_exact()
        self.queues_are_consistent()
        self.logs_keep_the_promise()

    # -- the end

    def end(self) -> None:
        """Everything heals: what can be resolved is, soon; the rest at its deadline; nothing is left."""
        self.heal()
        self.identity_arrives()
        self.m.on_exhausted = self.identity_arrives
        self.run_until(self.m.now + 15.0)
        self.only_the_unprovable_wait()
        self.run_until(self.m.now + 100.0)
        assert self.m.is_clean(), self.m.accumulator.live
        assert not self.m.accumulator.cluster.topics["t"].waiting
        for record in self.records:
            if record.delivery is not None:
                assert record.delivery.outcome is not Outcome.PENDING
            else:
                assert record.call.error is not None
        self.logs_keep_the_promise()
        outcomes = list(self.told.values())
        assert self.m.tally.acked == outcomes.count(Outcome.ACKED)
        assert self.m.tally.unknown == outcomes.count(Outcome.UNKNOWN)
        assert self.m.tally.not_written == outcomes.count(Outcome.NOT_WRITTEN)

    def heal(self) -> None:
        for partition in range(PARTITIONS):
            queue = self.m.queue(partition)
            if queue.node.node_id < 0:
                self.m.lead(queue, 1)

    def run_until(self, end: float) -> None:
        """A healthy cluster and a network side that follows signals and alarms only."""
        m = self.m
        while True:
            if self.one_round():
                continue
            moment = m.next_alarm()
            if moment is None or moment > end:
                break
            m.later(max(moment - m.now, 1e-6))
            self.nobody_is_late()
        m.later(max(end - m.now, 0.0))

    def one_round(self) -> bool:
        did = False
        while self.sealing:
            self.compress_one()
            did = True
        for node in NODES:
            if self.m.accumulator.drainer.has_ready(self.m.node(node), self.m.now):
                did = self.write_request(node) or bool(self.sealing) or did
            while (request := self.next_to_arrive(node)) is not None:
                self.handle_well(request)
            while self.answer_next(node):
                did = True
        return did

    def only_the_unprovable_wait(self) -> None:
        """In a healthy cluster, an unresolved record is dirty, or waits behind a dirty one (the identity rule)."""
        for batch in self.m.accumulator.live:
            assert any(sent.dirty for sent in batch.queue.sent), batch
        for line in self.m.admission.memory.lines.values():
            assert not line.calls or self.m.accumulator.live
