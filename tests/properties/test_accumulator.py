"""The accumulator against plain lists: queued, ready, charged, flushed and reported records after every step.

Without idempotence, so that nothing but the accumulator decides; `test_identity.py` has the rules of sequences.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from aioproducer._codecs import compress
from aioproducer._core import APPENDED, BATCH_OVERHEAD
from aioproducer._state.batching.limits import Limits
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer.outcome import Outcome
from aioproducer.testing import StoredRecord
from aioproducer.testing.broker.logs.records import parse_batch
from tests.judge.history import Found, digest_of, found, told, value_of
from tests.judge.judge import Rules, judge
from tests.properties.queues_model import Batch, Partition, Record, Reference
from tests.properties.runs import broken_off, in_parts, run
from tests.properties.sizes import HEADER, Content
from tests.properties.swarm import SwarmMachine
from tests.state.machines import BACKOFF, DELIVERY_TIMEOUT, Machines

NODES = (1, 2)
BATCH_SIZE = 300
MAX_REQUEST = 700
NOON = 1_700_000_000_000
# Bytes of a value, and the time that its record has to itself.
SIZES = ((0, None), (0, 1.0), (0, 90.0), (30, None), (120, None), (120, 1.0), (400, None))
HEADERS = (None, None, (("h", b"1"), ("h", None)))

partitions = st.integers(0, 3)
batches = st.integers(0, 20)


@attrs.frozen
class Setting:
    """How a producer is set up."""

    linger: float
    codec: int
    one_at_a_time: bool
    retries: int
    may_close: bool
    abandoned: bool


SETTINGS = st.builds(
    Setting,
    linger=st.sampled_from([0.005, 0.005, 2.0, 0.0]),
    codec=st.sampled_from([0, 0, 1]),
    one_at_a_time=st.booleans(),
    retries=st.sampled_from([1 << 31, 1 << 31, 1]),
    may_close=st.sampled_from([False, False, True]),
    abandoned=st.sampled_from([False, False, True]),
)


class AccumulatorMachine(SwarmMachine):
    """Records, requests, answers, losses, moves and time in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.awake: set[int] = set()
        self.alarm = math.inf
        self.packing: list[QueuedBatch] = []
        self.logs: dict[int, list[Found]] = {}
        self.number = 0

    @initialize(setting=SETTINGS)
    def start(self, setting: Setting) -> None:
        """Three partitions on two brokers."""
        self.setting = setting
        limits = Limits(
            linger=setting.linger,
            batch_size=BATCH_SIZE,
            max_request_size=MAX_REQUEST,
            delivery_timeout=DELIVERY_TIMEOUT,
            codec=setting.codec,
        )
        self.m = Machines(
            limits, idempotent=False, one_at_a_time=setting.one_at_a_time, retries=setting.retries
        )
        self.model = Reference(setting.linger, DELIVERY_TIMEOUT, setting.one_at_a_time, setting.retries)
        if setting.codec:
            self.m.compress = self._pack_later
        self.topic_id = 1
        self._learn([1, 2, 1])

    def _learn(self, leaders: list[int]) -> None:
        self.m.accumulator.cluster.learn("t", self.topic_id.to_bytes(16, "big"), tuple(leaders), self.m.now)
        kept = self.model.partitions[: len(leaders)]
        for partition in self.model.partitions[len(leaders) :]:
            self.model.leads(partition, -1)
            self.model.gone.append(partition)
        for partition, leader in zip(kept, leaders, strict=False):
            self.model.leads(partition, leader)
        for index in range(len(kept), len(leaders)):
            kept.append(self._back_or_new(index, leaders[index]))
        self.model.partitions = kept

    def _back_or_new(self, index: int, leader: int) -> Partition:
        """A partition that comes back is the one that was there before, with all that it holds."""
        back = next((each for each in self.model.gone if each.real.index == index), None)
        queue = self.m.queue(index)
        if back is None:
            return Partition(queue, leader)
        assert back.real is queue
        self.model.gone.remove(back)
        self.model.leads(back, leader)
        return back

    def _pack_later(self, real: QueuedBatch) -> None:
        batch = self.model.of(real)
        batch.closed = batch.packing = True
        self.packing.append(real)

    @property
    def now(self) -> float:
        return self.m.now

    def _partition(self, index: int) -> Partition:
        return self.model.partitions[index % len(self.model.partitions)]

    # -- records

    @rule(
        partition=st.sampled_from([0, 0, 0, 1, 2, 3, None]),
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=4),
        headers=st.sampled_from(HEADERS),
        later=st.sampled_from([None, 0, 70, -9000]),
    )
    def send(
        self, partition: int | None, sizes: list[tuple[int, float | None]], headers: Any, later: int | None
    ) -> None:
        """Some records for one partition, or for one that the accumulator chooses."""
        for size, timeout in sizes:
            self.number += 1
            timestamp = NOON if later is None else NOON + later
            content = Content(
                b"key" if size == 30 else None, value_of(self.number, bytes(size)), headers, timestamp
            )
            self._send(None if partition is None else self._partition(partition), content, timeout)

    def _send(self, partition: Partition | None, content: Content, timeout: float | None) -> None:
        status, delivery = self.m.offer(
            content.value or b"",
            partition=-1 if partition is None else partition.real.index,
            key=content.key if partition is not None else None,
            headers=content.headers,
            timestamp=content.timestamp,
            timeout=timeout,
        )
        assert status == APPENDED
        assert delivery is not None
        assert delivery.partition is not None
        if partition is None:
            content = attrs.evolve(content, key=None)
            partition = self.model.partitions[delivery.partition]
        record = Record(
            self.number, content, self.now + (DELIVERY_TIMEOUT if timeout is None else timeout), delivery
        )
        open_batch = partition.real.open
        assert isinstance(open_batch, QueuedBatch)
        self.model.accepted(partition, record, open_batch, self.now)

    @rule(back=st.integers(0, 6))
    def withdraw(self, back: int) -> None:
        """`try_cancel()` says yes exactly when the record's batch has never left."""
        if self.model.records:
            record = self.model.records[-1 - back % len(self.model.records)]
            assert record.delivery.try_cancel() == self.model.withdrawn(record)

    @rule(which=batches)
    def somebody_waits(self, which: int) -> None:
        """A record is awaited: its batch does not linger any longer."""
        waiting = [batch for partition in self.model.everywhere() for batch in partition.queue]
        if waiting:
            batch = waiting[which % len(waiting)]
            batch.hurried = True
            self.m.accumulator.send_now(batch.real)

    @rule(purge=st.sampled_from([False, False, True]))
    def flush(self, purge: bool) -> None:
        """A flush watches the present records; a purge behind it empties the queues."""
        watch = self.m.accumulator.flush(self.now)
        self.model.flushed(watch)
        assert watch.done == (not any(batch.pending for batch in self.model.batches))
        if purge:
            before = sum(record.pending for record in self.model.records)
            self.model.purged()
            left = sum(record.pending for record in self.model.records)
            assert self.m.machines.endings.purge(None, self.now) == before - left

    @precondition(lambda self: self.setting.may_close and not self.model.closing)
    @rule()
    def close(self) -> None:
        """Nothing lingers any longer."""
        self.model.closing = True
        self.m.accumulator.drain_all(self.now)

    # -- requests

    @precondition(lambda self: self.awake)
    @rule(node=st.sampled_from(NODES), all_of_it=st.booleans())
    def send_request(self, node: int, all_of_it: bool) -> None:
        """A sender that is awake writes one request, or all it has, and sleeps when nothing is left."""
        node = node if node in self.awake else 3 - node
        while self._still_awake(node):
            self._one_request(node)
            if not all_of_it:
                return

    def _still_awake(self, node: int) -> bool:
        has = self.m.accumulator.drainer.has_ready(self.m.node(node), self.now)
        assert has == bool(self.model.ready(node, self.now))
        if not has:
            self.awake.discard(node)
        return has

    def _one_request(self, node: int) -> None:
        ready = self.model.ready(node, self.now)
        drained = self.m.drain(node)
        owners = [self._owner(ready, real) for real in drained]
        assert len(set(map(id, owners))) == len(owners), "two batches of one partition in a request"
        for partition, real in zip(owners, drained, strict=True):
            batch = self.model.left(partition, real)
            written = self._read(real)
            assert [record.offset for record in written] == list(range(len(batch.records)))
            assert [record.value for record in written] == [record.content.value for record in batch.records]
        for partition in ready:
            if partition not in owners:
                self.model.looked_at(partition, partition.real.queue[0])
        size = sum(real.size for real in drained)
        assert size <= MAX_REQUEST or len(drained) == 1
        untouched = [each for each in ready if each not in owners and not each.queue[0].packing]
        # The first that did not fit ends the request, and takes no more records; those behind it come with the next.
        too_large = [each for each in untouched if size + each.queue[0].real.size > MAX_REQUEST]
        assert bool(untouched) == bool(too_large)
        self.model.did_not_fit(too_large)

    def _owner(self, ready: list[Partition], real: QueuedBatch) -> Partition:
        (owner,) = [each for each in ready if each.real is real.queue]
        return owner

    def _read(self, real: QueuedBatch) -> list[StoredRecord]:
        return parse_batch("t", real.partition, bytes(real))

    @precondition(lambda self: self.packing)
    @rule(first=st.booleans())
    def compression_ends(self, first: bool) -> None:
        """A batch was compressed, in any order; the sender learns of it."""
        real = self.packing.pop(0 if first else -1)
        batch = next((each for each in self.model.batches if each.real is real), None)
        if batch is not None:
            batch.packing, batch.packed = False, True
        payload = None
        if not real.settled:
            made = compress(real.plain_records(), 1)
            payload = made if len(made) < real.size - BATCH_OVERHEAD else None
        self.m.accumulator.compressed(real, payload, self.now)

    # -- answers

    @precondition(lambda self: any(each.flying for each in self.model.everywhere()))
    @rule(
        which=batches,
        fate=st.sampled_from(["ack", "ack", "retry", "maybe", "large", "large", "no", "lost", "unsent"]),
    )
    def land(self, which: int, fate: str) -> None:
        """One of the batches that are under way is answered, or its connection ends."""
        flying = [batch for partition in self.model.everywhere() for batch in partition.flying]
        batch = flying[which % len(flying)]
        if fate == "large" and len(batch.records) > 1 and not batch.ended:
            self._split(batch)
        elif fate == "ack":
            base = self._append(batch)
            self.m.answer(batch.real, 0, base)
            self.model.acknowledged(batch)
        else:
            self._fail(batch, fate)

    def _fail(self, batch: Batch, fate: str) -> None:
        codes = {"retry": 19, "maybe": 7, "large": 10, "no": 29}
        if fate in ("maybe", "lost"):
            self._append(batch)
        if fate in codes:
            self.m.answer(batch.real, codes[fate])
        else:
            self.m.lose(batch.real, written=fate == "lost")
        self.model.failed(
            batch,
            proven=fate in ("retry", "large", "no", "unsent"),
            retriable=fate not in ("large", "no"),
            retry_at=batch.real.retry_at,
        )
        if not batch.ended:
            wait = min(BACKOFF * 2 ** (batch.attempts - 1), 1.0)
            assert 0.8 * wait <= batch.retry_at - self.now + 1e-9 <= min(1.2 * wait, 1.0) + 2e-9

    def _split(self, batch: Batch) -> None:
        partition = self.model.home(batch)
        before = [each.real for each in partition.queue]
        self.m.answer(batch.real, 10)
        queue: PartitionQueue = partition.real
        parts = [real for real in queue.queue if not any(real is other for other in before)]
        assert len(parts) > 1 or len(batch.pending) < len(batch.records), "it is as large as before"
        self.model.split(batch, parts)

    def _append(self, batch: Batch) -> int:
        """Into the log of the incarnation of the partition that the batch was sent to."""
        if batch.ended:
            return -1
        log = self.logs.setdefault(id(self.model.home(batch)), [])
        base = len(log)
        log += [
            found("t", base_partition, base + at, each.key, each.value, each.headers, each.timestamp)
            for at, each in enumerate(self._read(batch.real))
            for base_partition in (id(self.model.home(batch)),)
        ]
        return base

    # -- the cluster, and time

    @rule(partition=partitions, leader=st.sampled_from([*NODES, *NODES, -1]))
    def lead(self, partition: int, leader: int) -> None:
        """A partition gets another leader, or none."""
        self.m.effects.event(
            self.m.accumulator.cluster.lead, self._partition(partition).real, leader, self.now
        )
        self.model.leads(self._partition(partition), leader)

    @rule(leaders=st.lists(st.sampled_from([*NODES, *NODES, -1]), min_size=1, max_size=4), anew=st.booleans())
    def learn(self, leaders: list[int], anew: bool) -> None:
        """Metadata: as many partitions as before or more; or the topic was made anew, perhaps with fewer."""
        if anew:
            self.topic_id += 1
        elif len(leaders) < len(self.model.partitions):
            leaders += [1] * (len(self.model.partitions) - len(leaders))
        self._learn(leaders)

    @rule(seconds=st.sampled_from([0.005, 0.005, 0.2, 1.0, 1.0, 59.0]))
    def time_passes(self, seconds: float) -> None:
        """Deadlines are processed."""
        self.m.later(seconds)
        self.model.leave_together(self.now)
        self.model.time_passed(self.now)
        self.alarm = math.inf if (due := self.m.next_alarm()) is None else due

    # -- what always holds

    @invariant()
    def model_and_library_agree(self) -> None:
        """After every step."""
        self.nobody_oversleeps()
        self.the_queues_are_the_models()
        self.accounts_are_exact()
        self.everything_was_told()
        self.flushes_end_with_their_records()

    def nobody_oversleeps(self) -> None:
        """Every actor was woken: a sender that has work, the clock before any deadline."""
        self._hear()
        if self.alarm <= self.now:
            # The clock was told that something is due already: it rings before anything else happens.
            self.time_passes(0.0)
            self._hear()
        for node in NODES:
            queues = self.m.node(node).ready
            assert all(each.real in queues for each in self.model.ready(node, self.now))
            assert not queues or node in self.awake
        assert self.alarm <= max(self.model.next_time(self.now), self.now)

    def _hear(self) -> None:
        self.awake.update(node.node_id for node in self.m.signals)
        self.m.signals.clear()
        self.alarm = min([self.alarm, *self.m.alarms])
        self.m.alarms.clear()

    def the_queues_are_the_models(self) -> None:
        """The same batches in the same order, with as many records; each ready partition once, with its leader."""
        for partition in self.model.everywhere():
            assert [batch.real for batch in partition.queue] == list(partition.real.queue)
            assert [len(batch.records) for batch in partition.queue] == [
                real.record_count for real in partition.real.queue
            ]
            first_numbers = [batch.numbers[0] for batch in partition.queue]
            assert first_numbers == sorted(first_numbers)
            assert partition.real.in_flight == len(partition.flying)
            assert partition.real.node.node_id == partition.leader
            ready = partition.real.node.ready
            assert ready.count(partition.real) == int(partition.real.is_ready)
        assert set(self.m.accumulator.live) == {batch.real for batch in self.model.batches}

    def accounts_are_exact(self) -> None:
        """To the byte: in all, per broker, and per batch."""
        for batch in self.model.batches:
            assert batch.real.charged == batch.charged
            assert batch.real.pending == len(batch.pending)
            if not batch.packed and not batch.real.sealed:
                assert batch.real.size == batch.size
        shares = {node.node_id: node.share.used for node in self.m.accumulator.cluster.nodes.values()}
        assert shares == {node: self.model.charged_to(node) for node in shares}
        assert self.m.used == sum(shares.values())

    def everything_was_told(self) -> None:
        """Each outcome is the model's, as soon as it is known."""
        for record in self.model.news:
            assert record.delivery.outcome is record.outcome, record
        self.model.news.clear()
        assert self.m.tally.acked == sum(record.outcome is Outcome.ACKED for record in self.model.records)
        for batch in self.model.batches:
            for record in batch.pending:
                assert record.delivery.outcome is Outcome.PENDING, record

    def flushes_end_with_their_records(self) -> None:
        """Not sooner and not later, and each ends once; it has counted its own records only."""
        for watch in self.model.watches:
            assert watch.real.done == watch.done
            times = sum(watch.real is each for each in self.m.flushed)
            assert times == int(watch.done and bool(watch.covers))
            assert watch.real.acked == watch.ended_as(Outcome.ACKED)
            assert watch.real.not_written == watch.ended_as(Outcome.NOT_WRITTEN)
            assert watch.real.unknown == watch.ended_as(Outcome.UNKNOWN)

    # -- the end

    def teardown(self) -> None:
        if broken_off() or not hasattr(self, "m"):
            return
        if self.setting.abandoned:
            self.model.abandoned()
            self.m.machines.endings.abandon("it is over", None, self.now)
        else:
            self._live_on()
        self.model_and_library_agree()
        assert self.m.used == 0
        assert not self.m.accumulator.live
        self._judge()

    def _live_on(self) -> None:
        """All faults are healed; the remaining records are written or end at their deadlines."""
        for index in range(len(self.model.partitions)):
            if self._partition(index).leader < 0:
                self.lead(index, 1)
        for seconds in (0.005, 2.0, 2.0, 2.0, 100.0):
            self._round()
            self.time_passes(seconds)
            self.model_and_library_agree()

    def _round(self) -> None:
        while self.awake or self.packing or any(each.flying for each in self.model.everywhere()):
            while self.packing:
                self.compression_ends(first=True)
            for node in NODES:
                self.nobody_oversleeps()
                if node in self.awake:
                    self.send_request(node, all_of_it=True)
            for partition in self.model.everywhere():
                while partition.flying:
                    batch = partition.flying[0]
                    self.m.answer(batch.real, 0, self._append(batch))
                    self.model.acknowledged(batch)
            self.nobody_oversleeps()

    def _judge(self) -> None:
        history = [
            attrs.evolve(
                told(record.number, self._digest(record.content), record.delivery),
                topic="t",
                partition=None,
            )
            for record in self.model.records
        ]
        log = [each for records in self.logs.values() for each in records]
        rules = Rules(duplicates=True, disorder=not self.setting.one_at_a_time)
        assert judge(history, log, rules) == []

    def _digest(self, content: Content) -> bytes:
        return digest_of(content.key, content.value, content.headers or (), content.timestamp)


def test_the_model_and_the_library_count_the_same_header() -> None:
    """The header of a batch has the 61 bytes of KIP-98 in both."""
    assert HEADER == BATCH_OVERHEAD


@in_parts
def test_the_accumulator_does_what_lists_do(part: int) -> None:
    """Whatever comes in whatever order."""
    run(AccumulatorMachine, part)
