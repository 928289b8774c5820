"""All machines together against a model of the brokers: whatever happens, every record ends as the promise says.

A failure prints the steps that lead to it, and the blob that replays it (`@reproduce_failure`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aioproducer._core import Delivery
from aioproducer._state.accumulator import Limits
from aioproducer._state.batches import QueuedBatch
from aioproducer._wire.compression import compress
from aioproducer.outcome import Outcome
from tests.state.machines import DELIVERY_TIMEOUT, LINGER, Call, Machines
from tests.state.model_broker import NOT_LEADER, OK, PartitionLog

PARTITIONS = 3
NODES = (1, 2)
IN_FLIGHT = 5

# Refused in front of the append; retried (2, 6, 19), final (87, 29, 10 for one record), a matter of identity (59).
REFUSALS = [2, 6, 19, 87, 29, 10, 59]
# Answers after which the batch is in the log all the same: (code, whether the answer has the offset).
AFTER_APPEND = [(7, False), (20, False), (6, True), (-1, False)]


@attrs.define(eq=False)
class Part:
    """One batch of a request, as it was written."""

    batch: QueuedBatch
    view: memoryview
    written: bytes
    code: int = OK
    offset: int = -1


@attrs.define(eq=False)
class Request:
    """One request on its way."""

    node: int
    parts: list[Part]
    arrived: bool = False


@attrs.define(eq=False, repr=False)
class Sent:
    """One record that was handed over, and what is known of it."""

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


class WholeWay(RuleBasedStateMachine):
    """Appends, requests, answers, losses, moves of leaders and time, in any order."""

    @initialize(
        memory=st.sampled_from([1500, 100_000]),
        codec=st.sampled_from([0, 0, 1]),
        epoch=st.sampled_from([0, 32765]),
        late_identity=st.booleans(),
        retries=st.sampled_from([2, 1 << 31]),
        sequence=st.sampled_from([0, (1 << 31) - 3]),
    )
    def start(
        self, memory: int, codec: int, epoch: int, late_identity: bool, retries: int, sequence: int
    ) -> None:
        limits = Limits(
            linger=LINGER,
            batch_size=300,
            max_request_size=700,
            delivery_timeout=DELIVERY_TIMEOUT,
            codec=codec,
        )
        self.m = Machines(limits, memory, retries=retries, identity=None)
        self.logs = [PartitionLog() for _ in range(PARTITIONS)]
        self.records: list[Sent] = []
        self.connections: dict[int, deque[Request]] = {node: deque() for node in NODES}
        self.strays: list[deque[Request]] = []
        self.ids = self.number = 0
        self.epoch = epoch
        self.sequence = sequence
        self.sealing: list[QueuedBatch] = []
        self.told: dict[int, Outcome] = {}
        if codec:
            self.m.accumulator.compress = self.sealing.append
        self.m.learn(*(1 + partition % 2 for partition in range(PARTITIONS)))
        if not late_identity:
            self.identity_arrives()

    # -- identity

    def identity_arrives(self) -> None:
        if self.m.sequences.wanted:
            self.ids += 1
            self.m.sequences.obtained(self.ids, self.epoch)
            self.epoch = 0
            self.m.accumulator.consider_all(self.m.now)

    @precondition(lambda self: self.m.sequences.wanted)
    @rule()
    def obtain_identity(self) -> None:
        self.identity_arrives()

    # -- records

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        sizes=st.lists(st.sampled_from([0, 120, 120, 400]), min_size=1, max_size=4),
        timeout=st.sampled_from([None, None, None, 1.0, 90.0]),
    )
    def send(self, partition: int, sizes: list[int], timeout: float | None) -> None:
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

    @precondition(lambda self: self.records)
    @rule(backs=st.lists(st.integers(0, 7), max_size=3))
    def withdraw(self, backs: list[int]) -> None:
        for back in backs:
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

    @rule(purge=st.sampled_from([False, False, True]))
    def flush(self, purge: bool) -> None:
        self.m.accumulator.flush(self.m.now)
        if purge:
            self.m.settlement.purge(None, self.m.now)

    @precondition(lambda self: self.sealing)
    @rule()
    def compression_ends(self) -> None:
        self.compress_one()

    def compress_one(self) -> None:
        batch = self.sealing.pop(0)
        if not batch.settled:
            plain = batch.plain_records()
            made = compress(plain, 1)
            self.m.accumulator.compressed(batch, made if len(made) < len(plain) else None, self.m.now)

    # -- requests

    @precondition(lambda self: any(self.m.node(node).ready for node in NODES))
    @rule(node=st.sampled_from(NODES), written=st.sampled_from([True, True, True, True, False]))
    def write(self, node: int, written: bool) -> None:
        self.write_request(node, written=written)
        self.write_request(3 - node)

    @precondition(lambda self: any(self.m.node(node).ready for node in NODES))
    @rule()
    def go_well(self) -> None:
        self.one_round()

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
        parts = [Part(batch, batch.view(), bytes(batch)) for batch in batches]
        self.connections[node].append(Request(node, parts))
        return True

    def next_to_arrive(self, node: int) -> Request | None:
        return next((request for request in self.connections[node] if not request.arrived), None)

    @precondition(lambda self: any(map(self.next_to_arrive, NODES)))
    @rule(
        node=st.sampled_from(NODES),
        fate=st.sampled_from(["ok", "ok", "ok", "refuse", "hide"]),
        data=st.data(),
    )
    def arrive(self, node: int, fate: str, data: st.DataObject) -> None:
        request = self.next_to_arrive(node) or self.next_to_arrive(3 - node)
        assert request is not None
        request.arrived = True
        for part in request.parts:
            self.handle(request, part, fate, data)

    def handle(self, request: Request, part: Part, fate: str, data: st.DataObject | None) -> None:
        assert bytes(part.view) == part.written
        log = self.logs[part.batch.partition]
        if self.m.queue(part.batch.partition).node.node_id != request.node:
            part.code = NOT_LEADER
        elif fate == "refuse" and data is not None:
            part.code = data.draw(st.sampled_from(REFUSALS), label="refusal")
        else:
            part.code, part.offset = log.append(part.written)
            if fate == "hide" and data is not None and part.code == OK:
                part.code, tells = data.draw(st.sampled_from(AFTER_APPEND), label="after append")
                part.offset = part.offset if tells else -1

    @precondition(lambda self: any(self.connections.values()))
    @rule(node=st.sampled_from(NODES))
    def answer(self, node: int) -> None:
        self.answer_next(node) or self.answer_next(3 - node)

    def answer_next(self, node: int) -> bool:
        requests = self.connections[node]
        if not requests or not requests[0].arrived:
            return False
        for part in requests.popleft().parts:
            assert bytes(part.view) == part.written
            self.m.answer(part.batch, part.code, part.offset)
        return True

    @precondition(lambda self: any(self.connections.values()))
    @rule(node=st.sampled_from(NODES), stray=st.booleans())
    def disconnect(self, node: int, stray: bool) -> None:
        self.cut(node if self.connections[node] else 3 - node, stray=stray)

    def cut(self, node: int, *, stray: bool) -> None:
        requests, self.connections[node] = self.connections[node], deque()
        if stray:
            self.strays.append(deque(request for request in requests if not request.arrived))
        for request in requests:
            self.m.lose(*(part.batch for part in reversed(request.parts)))

    @precondition(lambda self: any(self.strays))
    @rule()
    def stray_arrives(self) -> None:
        """What was written to a connection that is gone may still reach its broker."""
        stray = next(filter(None, self.strays))
        request = stray.popleft()
        for part in request.parts:
            self.handle(request, part, "ok", None)

    @rule(partition=st.integers(0, PARTITIONS - 1), node=st.sampled_from([*NODES, -1]))
    def lead(self, partition: int, node: int) -> None:
        self.m.lead(self.m.queue(partition), node)

    # -- time

    @rule(seconds=st.sampled_from([0.001, LINGER, LINGER, 0.2, 1.0, 1.0, 59.0]))
    def time_passes(self, seconds: float) -> None:
        self.m.later(seconds)
        self.nobody_is_late()

    def nobody_is_late(self) -> None:
        for record in self.records:
            if record.delivery is not None and record.deadline <= self.m.now:
                assert record.delivery.outcome is not Outcome.PENDING, record

    # -- what always holds

    @invariant()
    def memory_is_exact(self) -> None:
        m = self.m
        assert m.used == sum(batch.charged for batch in m.accumulator.live)
        assert m.used == sum(node.lane.used for node in m.accumulator.nodes.values())
        assert 0 <= m.used <= m.memory

    @invariant()
    def queues_are_consistent(self) -> None:
        ready = [queue for node in self.m.accumulator.nodes.values() for queue in node.ready]
        assert len(ready) == len(set(ready))
        for queue in self.m.accumulator.topics["t"].queues():
            assert queue.is_ready == (queue in queue.node.ready)
            orders = [batch.order for batch in queue.queue]
            assert orders == sorted(orders)
            numbers = [batch.sequence for batch in queue.sent]
            assert len(numbers) == len(set(numbers))
            flying = [
                part
                for requests in self.connections.values()
                for request in requests
                for part in request.parts
                if part.batch.partition == queue.index
            ]
            assert queue.in_flight == len(flying)

    @invariant()
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

    # -- the end

    def teardown(self) -> None:
        if not hasattr(self, "logs"):
            return
        self.heal()
        self.identity_arrives()
        self.m.sequences.on_exhausted = self.identity_arrives
        self.run_until(self.m.now + 15.0)
        self.only_the_unprovable_wait()
        self.run_until(self.m.now + 100.0)
        assert self.m.is_clean(), self.m.accumulator.live
        assert not self.m.accumulator.topics["t"].waiting
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
            if self.m.accumulator.has_ready(self.m.node(node), self.m.now):
                did = self.write_request(node) or bool(self.sealing) or did
            while (request := self.next_to_arrive(node)) is not None:
                request.arrived = True
                for part in request.parts:
                    self.handle(request, part, "ok", None)
            while self.answer_next(node):
                did = True
        return did

    def only_the_unprovable_wait(self) -> None:
        """What is unresolved in a healthy cluster is dirty, or waits behind what is (the identity rule)."""
        for batch in self.m.accumulator.live:
            assert any(sent.dirty for sent in batch.queue.sent), batch
        for line in self.m.admission.lane_lines.values():
            assert not line.calls or self.m.accumulator.live


WholeWay.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestWholeWay: Any = WholeWay.TestCase
