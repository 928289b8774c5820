"""Memory and the lines of calls that wait for it: exact accounts, first come first served, no call forgotten.

The reference is a list of callers in the order of their calls, and one question: would the first of a line fit?
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from aioproducer._core import APPENDED, BatchDelivery, Column, MemoryShare
from aioproducer._state.admission.bulk import BulkWaiting, Columns
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer._state.admission.waiting import Waiting
from aioproducer._state.batching.limits import Limits
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer.errors import KafkaError, RecordError
from aioproducer.outcome import Outcome
from aioproducer.testing.broker.logs.records import parse_batch
from tests.judge.history import Found, Sent, digest_of, found, number_of, told, value_of
from tests.judge.judge import Rules, judge
from tests.properties.runs import broken_off, in_parts, run
from tests.properties.sizes import HEADER, Content, alone, framed
from tests.properties.swarm import SwarmMachine
from tests.state.machines import DELIVERY_TIMEOUT, LINGER, Call, Machines

NODES = (1, 2)
NOBODY = -1
PARTITIONS = 3
NOON = 1_700_000_000_000
LIMITS = Limits(linger=LINGER, batch_size=150, max_request_size=450, delivery_timeout=DELIVERY_TIMEOUT)
MEMORY = (450, 700, 1200)

# Each lets one more record of a bulk call have its place, or moves the time on by a second.
ROUNDS = 500

SIZES = st.sampled_from([0, 0, 60, 120, 300])
MAX_BLOCK = st.sampled_from([0.5, 2.0, 30.0])
WHICH = st.integers(0, 20)


def content_of(number: int, size: int) -> Content:
    return Content(None, value_of(number, bytes(size)), None, NOON)


@attrs.define(eq=False)
class Caller:
    """One record, from the call until it has a place or is turned away."""

    number: int
    topic: str
    partition: int
    content: Content
    max_block: float
    call: Call = attrs.Factory(Call)
    withdrawn: bool = False
    held: int = 0
    in_bulk: bool = False
    # Of a bulk call: it is behind us. What became of it, the log tells.
    placed: bool = False

    @property
    def accepted(self) -> bool:
        return self.call.delivery is not None

    @property
    def waits(self) -> bool:
        return not (self.call.ended or self.withdrawn or self.placed)

    @property
    def share(self) -> MemoryShare | None:
        """The line for memory that it stands in."""
        return None if self.call.waiting is None else self.call.waiting.share


@attrs.define(eq=False)
class Bulk:
    """One call with many records; each of them is a caller."""

    callers: list[Caller]
    seen: bool
    waiting: BulkWaiting | None = None
    turns: int = 0
    over: bool = False


class MemoryMachine(SwarmMachine):
    """Calls of all kinds, requests, answers, withdrawals, dead brokers and time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[Caller] = []
        # Those of them that may still wait.
        self.alive: list[Caller] = []
        self.bulks: list[Bulk] = []
        self.flying: list[QueuedBatch] = []
        self.logs: dict[tuple[str, int], list[Found]] = {}
        self.lines: dict[MemoryShare, list[Caller]] = {}
        self.dead: set[int] = set()
        self.alarm = math.inf
        self.front: Caller | Bulk | None = None

    @initialize(memory=st.sampled_from(MEMORY))
    def start(self, memory: int) -> None:
        """One topic is known, another is not yet."""
        self.m = Machines(LIMITS, memory, idempotent=False, one_at_a_time=True)
        for node in (*NODES, NOBODY):
            self.m.node(node)
        self.m.learn(1, 2, 1)

    @property
    def now(self) -> float:
        return self.m.now

    # -- the reference

    def known(self, topic: str) -> bool:
        return topic in self.m.accumulator.cluster.topics

    def slow(self, node: int) -> bool:
        """Takes nothing now: it does not answer, or there is no leader."""
        return node == NOBODY or node in self.dead

    def fits(self, topic: str, partition: int, content: Content) -> bool:
        """Is there memory for this record?"""
        queue = self.m.queue(partition, topic)
        needed = self.needed(queue, content)
        if not self.is_free(needed, queue.share):
            return False
        if not self.slow(queue.node.node_id):
            return True
        allowed = self.m.memory if self.dead.issuperset(NODES) else self.m.memory // 2
        stuck = sum(
            node.share.used for id_, node in self.m.accumulator.cluster.nodes.items() if self.slow(id_)
        )
        # Where nothing is buffered, a record of any size has room.
        return stuck + needed <= allowed or self.m.used == 0

    def is_free(self, needed: int, share: MemoryShare) -> bool:
        """An eighth is kept back, in equal parts, for the brokers that hold little."""
        kept = self.m.memory // 8
        free = self.m.memory - self.m.used - needed
        return free >= (0 if share.used < kept // len(NODES) else kept)

    def needed(self, queue: PartitionQueue, content: Content) -> int:
        batch = queue.open
        if batch is not None and not batch.closed and self.now < batch.stale_at:
            more = framed(content, batch.record_count, NOON)
            if batch.size + more <= batch.limit:
                return more
        return alone(content)

    # -- calls

    @rule(topic=st.sampled_from("tttu"), partition=st.integers(0, 2), size=SIZES, max_block=MAX_BLOCK)
    def send(self, topic: str, partition: int, size: int, max_block: float) -> None:
        """The fast path takes a record exactly when no call waits before it and it fits; otherwise it waits."""
        caller = self._new(topic, partition, size, max_block)
        assert caller.content.value is not None
        if self.known(topic) and not self.m.accumulator.cluster.topics[topic].waiting:
            queue = self.m.queue(partition, topic)
            free = not any(c.waits and c.share is queue.share for c in self.alive)
            expected = free and self.fits(topic, partition, caller.content)
            status, delivery = self.m.offer(caller.content.value, partition=partition, topic=topic)
            assert (status == APPENDED) == expected
            caller.call.delivery = delivery
        if not caller.accepted:
            caller.call = self.m.call(
                caller.content.value, partition=partition, topic=topic, max_block=max_block
            )
        self._remember(caller)

    @rule(partition=st.integers(0, 2), size=SIZES, max_block=MAX_BLOCK)
    def send_nowait(self, partition: int, size: int, max_block: float) -> None:
        """A record of a topic that is not known holds its memory while it waits; without room it is refused."""
        caller = self._new("u", partition, size, max_block)
        assert caller.content.value is not None
        holds = alone(caller.content) - HEADER
        if self.known("u") or not self.is_free(holds, self.m.admission.calls.unrouted_memory):
            return
        caller.held = holds
        caller.call = self.m.call(
            caller.content.value, partition=partition, topic="u", max_block=max_block, held=True
        )
        self._remember(caller)

    @rule(partition=st.integers(0, 2), size=SIZES, max_block=MAX_BLOCK)
    def send_serialized(self, partition: int, size: int, max_block: float) -> None:
        """A serializer is at work: the record keeps its place."""
        caller = self._new("t", partition, size, max_block)
        caller.call = self.m.call(None, partition=partition, max_block=max_block)
        self._remember(caller)

    @rule(which=WHICH)
    def serializer_ends(self, which: int) -> None:
        """It ends for one of them, in any order."""
        unprepared = [c for c in self.alive if c.waits and not c.in_bulk and not self._waiting(c).prepared]
        if unprepared:
            caller = unprepared[which % len(unprepared)]
            self._prepare(caller)
            self.m.admission.advance("t", self.now)

    def _prepare(self, caller: Caller) -> None:
        record = ReadyRecord(None, caller.content.value, None, None, caller.partition)
        self._waiting(caller).record = record

    @rule(
        records=st.lists(st.tuples(st.integers(0, 2), SIZES), min_size=2, max_size=7),
        max_block=MAX_BLOCK,
        seen=st.booleans(),
    )
    def send_many(self, records: list[tuple[int, int]], max_block: float, seen: bool) -> None:
        """One call with several records, which interceptors may want to see one by one."""
        first = len(self.callers) + 1
        made = [
            Caller(first + at, "t", partition, content_of(first + at, size), max_block, in_bulk=True)
            for at, (partition, size) in enumerate(records)
        ]
        self.callers += made
        self.alive += made
        bulk = Bulk(made, seen)
        self.bulks.append(bulk)
        bulk.waiting = self._bulk_waiting(bulk, max_block)
        self.m.admission.join(bulk.waiting, self.now)

    def _bulk_waiting(self, bulk: Bulk, max_block: float) -> BulkWaiting:
        values = [caller.content.value for caller in bulk.callers]

        def again() -> None:
            bulk.turns += 1

        def refused(at: int, error: KafkaError) -> None:
            assert bulk.over or bulk is not self.front, "refused, and all it needed was a turn of the loop"
            assert bulk.callers[at].waits, "refused, and it had a place"
            bulk.callers[at].call.error = error

        def over(error: KafkaError | None = None) -> None:
            bulk.over = True
            if error is not None:
                assert bulk.waiting is not None
                bulk.waiting.refuse_rest(error)

        return BulkWaiting(
            topic="t",
            record=None,
            asked_at=self.now,
            give_up_at=self.now + max_block,
            record_deadline=0.0,
            on_accepted=_never,
            on_refused=over,
            delivery=BatchDelivery("t", len(values), self.m.loop),
            columns=Columns(Column.of_items(values), None, [c.partition for c in bulk.callers], None, None),
            appender=self.m.path,
            max_block=max_block,
            again=again,
            on_done=over,
            on_refusal=refused,
            on_each=_nothing if bulk.seen else None,
        )

    @precondition(lambda self: any(bulk.turns for bulk in self.bulks))
    @rule()
    def turn(self) -> None:
        """The loop turns: bulk calls that asked for it go on."""
        for bulk in self.bulks:
            while bulk.turns:
                bulk.turns -= 1
                self.m.admission.advance("t", self.now)

    def _new(self, topic: str, partition: int, size: int, max_block: float) -> Caller:
        number = len(self.callers) + 1
        return Caller(number, topic, partition, content_of(number, size), max_block)

    def _remember(self, caller: Caller) -> None:
        self.callers.append(caller)
        self.alive.append(caller)

    def _waiting(self, caller: Caller) -> Waiting:
        assert caller.call.waiting is not None
        return caller.call.waiting

    # -- leaving

    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        """A waiting call goes away; a bulk call with all records that have no place yet."""
        waiting = [caller for caller in self.alive if caller.waits and not caller.in_bulk]
        bulks = [bulk for bulk in self.bulks if not bulk.over]
        if not waiting and not bulks:
            return
        at = which % (len(waiting) + len(bulks))
        if at < len(waiting):
            waiting[at].withdrawn = True
            assert self.m.admission.withdraw(self._waiting(waiting[at]), self.now)
        else:
            self._cancel_bulk(bulks[at - len(waiting)])

    def _cancel_bulk(self, bulk: Bulk) -> None:
        assert bulk.waiting is not None
        bulk.over = True
        bulk.waiting.refuse_rest(RecordError("withdrawn"))
        assert self.m.admission.withdraw(bulk.waiting, self.now)

    @rule(which=WHICH, purge=st.sampled_from([False, False, True]))
    def take_back(self, which: int, purge: bool) -> None:
        """A record that was accepted is taken out of its batch, or everything that was never sent."""
        accepted = [caller.call.delivery for caller in self.callers if caller.call.delivery is not None]
        if purge:
            self.m.machines.endings.purge(None, self.now)
        elif accepted:
            accepted[-1 - which % len(accepted)].try_cancel()

    # -- the cluster, and time

    @rule(node=st.sampled_from(NODES))
    def request(self, node: int) -> None:
        """A request leaves, unless its broker does not answer."""
        if node not in self.dead:
            self.flying += self.m.drain(node)

    @precondition(lambda self: self.flying)
    @rule(which=WHICH, code=st.sampled_from([0, 0, 0, 29, 19, 10]))
    def land(self, which: int, code: int) -> None:
        """A batch is written, refused, or has to be sent again, perhaps in parts."""
        batch = self.flying.pop(which % len(self.flying))
        self.m.answer(batch, code, self._append(batch) if code == 0 else -1)

    def _append(self, batch: QueuedBatch) -> int:
        if batch.settled:
            return -1
        log = self.logs.setdefault((batch.topic, batch.partition), [])
        base = len(log)
        log += [
            found(batch.topic, batch.partition, base + at, r.key, r.value, r.headers, r.timestamp)
            for at, r in enumerate(parse_batch(batch.topic, batch.partition, bytes(batch)))
        ]
        return base

    @rule(dead=st.sets(st.sampled_from(NODES)))
    def brokers_die(self, dead: set[int]) -> None:
        """These brokers do not answer now, the others do: as the engine says it."""
        self.dead = dead
        self.m.machines.share_memory(dead)

    @rule(partition=st.integers(0, 2), node=st.sampled_from([*NODES, *NODES, NOBODY]))
    def lead(self, partition: int, node: int) -> None:
        """A partition gets another leader, or none; its memory and the calls that wait for it go there."""
        queue = self.m.queue(partition)
        if queue.node.node_id != node:
            # The calls that wait for it go behind those that wait there already.
            movers = [c for c in self.alive if c.waits and c.share and self._waiting(c).queue is queue]
            for line in self.lines.values():
                line[:] = [caller for caller in line if caller not in movers]
            self.lines.setdefault(self.m.node(node).share, []).extend(movers)
        self.m.lead(queue, node)

    @precondition(lambda self: not self.known("u"))
    @rule(leaders=st.tuples(*[st.sampled_from(NODES)] * PARTITIONS))
    def learn(self, leaders: tuple[int, ...]) -> None:
        """The unknown topic is known now."""
        self.m.learn(*leaders, topic="u")

    @rule(seconds=st.sampled_from([0.002, LINGER, 0.4, 1.5, 1.5, 29.0]))
    def time_passes(self, seconds: float) -> None:
        """Deadlines are processed."""
        self.front = next(self._line_of("t"), None)
        self.m.later(seconds)
        self.alarm = math.inf if (due := self.m.next_alarm()) is None else due

    # -- what always holds

    @invariant()
    def all_is_well(self) -> None:
        """After every step."""
        self.find_bulk_records()
        self.alive = [caller for caller in self.alive if caller.waits]
        self.accounts_are_exact()
        self.counters_are_true()
        self.nobody_was_passed()
        self.nobody_is_forgotten()
        self.what_is_in_the_way_leaves()
        self.nobody_waits_too_long()

    def find_bulk_records(self) -> None:
        """Which records of the bulk calls have a place, and which one waits for memory on its own."""
        for bulk in self.bulks:
            assert bulk.waiting is not None
            if bulk.over and not any(caller.waits for caller in bulk.callers):
                continue
            if bulk.waiting.ended and not bulk.over:
                raise AssertionError("a bulk call ended and was not told")
            for caller in bulk.callers[: bulk.waiting.at]:
                caller.placed = True
            part = bulk.waiting.alone
            if part is not None and not part.ended:
                bulk.callers[bulk.waiting.at].call.waiting = part

    def accounts_are_exact(self) -> None:
        """Every byte belongs to a batch that has no outcome, or to a record that holds it while it waits."""
        m = self.m
        shares = {id_: node.share for id_, node in m.accumulator.cluster.nodes.items()}
        held = sum(c.held for c in self.alive if c.waits and c.share is None)
        assert m.admission.calls.unrouted_memory.used == held
        for share in shares.values():
            assert share.used == sum(batch.charged for batch in m.accumulator.live if batch.share is share)
        assert m.used == held + sum(share.used for share in shares.values())
        assert m.used <= m.memory
        budget = m.accumulator.budget
        assert budget.stuck == sum(share.used for id_, share in shares.items() if self.slow(id_))

    def counters_are_true(self) -> None:
        """The counters that close the fast path equal the number of waiting calls."""
        m = self.m
        singles = [c for c in self.alive if c.waits and c.call.waiting is not None]
        bulks = [bulk for bulk in self.bulks if not bulk.over]
        assert m.admission.calls.waiting == len(singles) + len(bulks)
        for node in m.accumulator.cluster.nodes.values():
            assert node.share.waiting == sum(c.share is node.share for c in singles)
        for name, topic in m.accumulator.cluster.topics.items():
            in_line = [c for c in singles if c.topic == name and c.share is None]
            assert topic.waiting == len(in_line) + (len(bulks) if name == "t" else 0)
            for queue in topic.in_use:
                assert queue.waiting == sum(self._waiting(c).queue is queue for c in singles)

    def nobody_was_passed(self) -> None:
        """Within a line for memory no call got a place while an earlier one still waits."""
        for share, line in self.lines.items():
            someone_waits = False
            for caller in line:
                someone_waits |= caller.waits and caller.share is share
                assert not (someone_waits and caller.accepted), caller
        standing = [c for c in self.alive if c.waits and c.share is not None]
        lines: dict[MemoryShare, list[Caller]] = {}
        for share, line in self.lines.items():
            lines[share] = [caller for caller in line if caller.waits]
        placed = {id(caller) for line in lines.values() for caller in line}
        for caller in standing:
            if id(caller) not in placed and caller.share is not None:
                lines.setdefault(caller.share, []).append(caller)
        self.lines = lines

    def nobody_is_forgotten(self) -> None:
        """The first of a line waits only for something that has not come."""
        for line in self.lines.values():
            for first in line[:1]:
                assert not self.fits(first.topic, first.partition, first.content), first
        for topic in ("t", "u"):
            first_in_line = next(self._line_of(topic), None)
            if isinstance(first_in_line, Caller):
                assert not self.known(topic) or not self._waiting(first_in_line).prepared
            elif first_in_line is not None:
                part = first_in_line.waiting and first_in_line.waiting.alone
                assert first_in_line.turns or (part is not None and not part.ended)

    def _line_of(self, topic: str) -> Iterator[Caller | Bulk]:
        """The calls that wait for a topic, in their order."""
        line: list[tuple[int, Caller | Bulk]] = [
            (bulk.callers[0].number, bulk)
            for bulk in self.bulks
            if not bulk.over and bulk.callers[0].topic == topic
        ]
        line += [
            (caller.number, caller)
            for caller in self.alive
            if caller.topic == topic and caller.waits and not caller.in_bulk and caller.share is None
        ]
        yield from (who for _, who in sorted(line, key=lambda entry: entry[0]))

    def what_is_in_the_way_leaves(self) -> None:
        """While records wait for memory of a broker, nothing of it lingers."""
        for node in self.m.accumulator.cluster.nodes.values():
            if not node.share.waiting or node.node_id == NOBODY:
                continue
            for topic in self.m.accumulator.cluster.topics.values():
                for queue in topic.in_use:
                    if queue.node is node and queue.queue and not queue.in_flight:
                        head = queue.queue[0]
                        backs_off = self.now < head.retry_at and head.retry_leader == node.node_id
                        assert backs_off or queue in node.ready

    def nobody_waits_too_long(self) -> None:
        """Every waiting call has a timer for the end of its max_block."""
        self.alarm = min([self.alarm, *self.m.alarms])
        self.m.alarms.clear()
        waiting = [self._waiting(c) for c in self.alive if c.waits and c.call.waiting is not None]
        waiting += [bulk.waiting for bulk in self.bulks if not bulk.over and bulk.waiting is not None]
        for call in waiting:
            assert call.give_up_at > self.now
            assert self.alarm <= call.give_up_at

    # -- the end

    def teardown(self) -> None:
        if broken_off() or not hasattr(self, "m"):
            return
        self.brokers_die(set())
        for partition in range(PARTITIONS):
            if self.m.queue(partition).node.node_id == NOBODY:
                self.lead(partition, 1)
        self.all_is_well()
        for _ in range(ROUNDS):
            if self.m.is_clean():
                break
            self.turn()
            self.request(1)
            self.request(2)
            while self.flying:
                self.land(0, 0)
            self.time_passes(1.0)
            self.all_is_well()
        # Calls that wait for a serializer, or for an unknown topic, have given up by now.
        assert not any(caller.waits for caller in self.callers)
        assert self.m.is_clean()
        self._judge()

    def _judge(self) -> None:
        log = [each for records in self.logs.values() for each in records]
        written = {each.number: each.offset for each in log}
        assert judge(map(self._sent, self.callers, [written] * len(self.callers)), log, Rules()) == []

    def _sent(self, caller: Caller, written: dict[int, int]) -> Sent:
        content = caller.content
        digest = digest_of(None, content.value, (), NOON)
        assert number_of(content.value) == caller.number
        delivery = caller.call.delivery
        if delivery is not None:
            return told(caller.number, digest, delivery)
        placed_in_bulk = caller.in_bulk and caller.call.error is None and caller.number in written
        outcome = Outcome.ACKED if placed_in_bulk else Outcome.NOT_WRITTEN
        return Sent(
            caller.number, digest, caller.topic, caller.partition, outcome, written.get(caller.number, -1)
        )


def _never(_delivery: object) -> None:
    raise AssertionError("a bulk call is not accepted as one record")


def _nothing(_delivery: Any) -> None:
    """Looks at each record, as interceptors do."""


@in_parts
def test_accounts_are_exact_and_nobody_is_forgotten(part: int) -> None:
    """Whatever comes in whatever order."""
    run(MemoryMachine, part)
