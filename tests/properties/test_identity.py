"""Identities and sequence numbers under Kafka's append rules: a whole life, and a ledger of all that goes out.

The rules and the brokers are those of `tests/state/life.py`; this adds the ledger, topics that are forgotten
and come back, metadata that flaps, and the judge at the end.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from aioproducer.outcome import Outcome
from tests.judge.history import Found, Sent
from tests.judge.judge import judge
from tests.properties.numbers_model import REMEMBERED, Attempt, Ledger
from tests.properties.runs import broken_off, in_parts, run
from tests.properties.swarm import SwarmMachine
from tests.state.life import AMBIGUOUS, PARTITIONS, REFUSALS, Life, Setting
from tests.state.machines import LINGER
from tests.state.test_whole_way import SETTINGS, WholeWay
from tests.state.wires import NODES, WELL, Fate, Part, Request

TOO_LARGE = Fate(10, appends=False)
TROUBLES = st.lists(st.sampled_from((WELL, WELL, *REFUSALS, *AMBIGUOUS, TOO_LARGE)), min_size=1, max_size=4)


class WatchedLife(Life):
    """A life of which every batch that goes out, and every answer, is written down."""

    def __init__(self, setting: Setting) -> None:
        self.attempts: dict[int, Attempt] = {}
        self.begun: set[int] = set()
        super().__init__(setting)
        starts = (0, self.sequence) if self.sequence else (0,)
        self.ledgers = [Ledger(self.is_pending, starts) for _ in range(PARTITIONS)]

    def is_pending(self, number: int) -> bool:
        delivery = next(record.delivery for record in self.records if record.number == number)
        return delivery is not None and delivery.outcome is Outcome.PENDING

    def begin_near_the_wrap(self, partition: int) -> None:
        if partition not in self.begun:
            super().begin_near_the_wrap(partition)
            self.begun.add(partition)

    # -- the ledger

    def write_request(self, node: int, *, written: bool = True) -> bool:
        known = len(self.connections[node])
        did = super().write_request(node, written=written)
        for request in list(self.connections[node])[known:]:
            for part in request.parts:
                self.attempts[id(part)] = self.ledgers[part.batch.partition].wrote(part.written)
        return did

    def answer_next(self, node: int) -> bool:
        answered = next(iter(self.connections[node]), None)
        if answered is not None and answered.arrived:
            for part in answered.parts:
                self._ledger(part).answered(self.attempts[id(part)], part.code, part.offset)
        return super().answer_next(node)

    def cut(self, node: int, *, stray: bool = False) -> None:
        for request in self.connections[node]:
            for part in request.parts:
                self._ledger(part).lost(self.attempts[id(part)])
        super().cut(node, stray=stray)

    def _ledger(self, part: Part) -> Ledger:
        return self.ledgers[part.batch.partition]

    # -- what else may happen

    def forget_topic(self) -> None:
        """The topic is unused for long, and known again later: it counts on, or begins an epoch."""
        leaders = [self.m.queue(partition).node.node_id for partition in range(PARTITIONS)]
        self.run_until(self.m.now + 2.0)
        if not self.m.accumulator.live and not self.on_their_way and not self.m.admission.calls.waiting:
            self.begun.update(range(PARTITIONS))
            self.m.accumulator.cluster.forget("t")
            self.m.learn(*leaders)

    def burst(self, partition: int, count: int, timeout: float | None, *, move: bool) -> None:
        """Many batches under way at once, the first of which may end early; then, perhaps, to another leader."""
        for at in range(count):
            self.send_one(partition, 400, timeout if at == 0 else None)
        self.time_passes(LINGER)
        self._write_all(partition)
        if move:
            self.lead(partition, 3 - max(self.m.queue(partition).node.node_id, 1))
            self._write_all(partition)

    def _write_all(self, partition: int) -> None:
        node = self.m.queue(partition).node.node_id
        while node >= 0 and self.write_request(node):
            pass

    def flap(self, times: int) -> None:
        """Metadata names no leader, then the same as before, some times."""
        leaders = [self.m.queue(partition).node.node_id for partition in range(PARTITIONS)]
        for _ in range(times):
            self.m.learn(*[-1] * PARTITIONS)
            self.m.learn(*leaders)

    # -- the end

    def judge(self) -> None:
        log = [
            Found("t", partition, offset, int((value or b"")[:6]), value or b"")
            for partition, each in enumerate(self.logs)
            for offset, value in enumerate(each.values)
        ]
        content = {record.number: record.digest for record in log}
        history = [
            Sent(
                record.number,
                content.get(record.number, b""),
                "t",
                record.partition,
                self._outcome(record.number),
                self._offset(record.number),
            )
            for record in self.records
        ]
        assert judge(history, log) == []

    def _outcome(self, number: int) -> Outcome:
        delivery = next(record.delivery for record in self.records if record.number == number)
        return Outcome.NOT_WRITTEN if delivery is None else delivery.outcome

    def _offset(self, number: int) -> int:
        delivery = next(record.delivery for record in self.records if record.number == number)
        if delivery is None or delivery.outcome is not Outcome.ACKED:
            return -1
        return delivery.result().offset


class IdentityMachine(SwarmMachine, WholeWay):
    """The life of the machines, and what else befalls an identity."""

    life: WatchedLife | None = None

    @initialize(setting=SETTINGS)
    def start(self, setting: Setting) -> None:
        """One producer, perhaps near the end of its numbers or epochs."""
        self.life = WatchedLife(setting)

    @property
    def it(self) -> WatchedLife:
        assert self.life is not None
        return self.life

    @rule(really=st.sampled_from([False, False, False, False, True]))
    def forget_topic(self, really: bool) -> None:
        """A topic goes and comes back; before that all calms down, so not too often."""
        if really:
            self.it.forget_topic()

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        count=st.integers(1, 4),
        fates=TROUBLES,
        answers=st.integers(0, 4),
    )
    def trouble(self, partition: int, count: int, fates: list[Fate], answers: int) -> None:
        """A batch of some records leaves, requests arrive with trouble, and some of them are answered."""
        self.it.send(partition, [0] * count, None)
        self.it.time_passes(0.2)
        for node in NODES:
            self.it.write_request(node)
        for at, fate in enumerate(fates):
            self.it.arrive(NODES[at % 2], [fate])
        for at in range(answers):
            self.it.answer(NODES[at % 2])

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        count=st.integers(2, 8),
        timeout=st.sampled_from([None, None, 1.0]),
        move=st.booleans(),
    )
    def burst(self, partition: int, count: int, timeout: float | None, move: bool) -> None:
        """Many batches of one partition at once."""
        self.it.burst(partition, count, timeout, move=move)

    @rule(times=st.integers(1, 3))
    def flap(self, times: int) -> None:
        """Metadata flaps."""
        self.it.flap(times)

    def teardown(self) -> None:
        if broken_off() or self.life is None:
            return
        super().teardown()
        self.life.judge()


def test_the_ledger_knows_all_parts_of_a_request() -> None:
    """A request that is cut off leaves no attempt behind that counts as under way."""
    life = WatchedLife(Setting())
    life.send(0, [0], None)
    life.time_passes(1.0)
    assert life.write_request(NODES[0]) or life.write_request(NODES[1])
    requests: list[deque[Request]] = [life.connections[node] for node in NODES]
    assert sum(map(len, requests)) == 1
    for node in NODES:
        life.cut(node, stray=False)
    states: list[Any] = [attempt.state.name for ledger in life.ledgers for attempt in ledger.attempts]
    assert states == ["OPEN"]


def test_each_part_of_a_split_batch_counts() -> None:
    """A leader remembers five batches, and each part is one of them: no sixth one is sent while all are without an outcome."""
    state = IdentityMachine()
    state.start(setting=Setting())
    state.burst(partition=0, count=2, timeout=None, move=False)
    state.arrive(node=1, fates=[WELL], answer=True)
    state.flush(purge=True)
    state.send(partition=0, sizes=[0, 0, 400, 0], timeout=None)
    may_be_written = Fate(6, appends=True, tells_offset=True)
    state.trouble(partition=0, count=1, fates=[may_be_written, WELL, WELL, WELL], answers=1)
    state.trouble(partition=0, count=1, fates=[TOO_LARGE], answers=0)
    state.answer(node=1)
    state.burst(partition=0, count=2, timeout=None, move=False)
    state.arrive(node=1, fates=[WELL], answer=False)
    state.answer(node=1)
    state.burst(partition=0, count=2, timeout=None, move=True)
    unresolved = state.it.ledgers[0].unresolved()
    assert len(unresolved) == REMEMBERED
    state.teardown()


@in_parts
def test_numbers_and_identities_keep_the_rules(part: int) -> None:
    """Whatever comes in whatever order."""
    run(IdentityMachine, part)
