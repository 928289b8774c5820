"""All machines together against a model of the brokers: whatever happens, every record ends as the promise says.

Twice: hypothesis looks for short lives that break the promise and prints the steps and the blob that replays them
(`@reproduce_failure`); long lives, in which everything happens often, are drawn from a seed that a failure prints.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.state.life import AMBIGUOUS, PARTITIONS, REFUSALS, Life, Setting
from tests.state.machines import LINGER
from tests.state.wires import NODES, WELL, Fate

SETTINGS = st.builds(
    Setting,
    memory=st.sampled_from([1500, 100_000]),
    codec=st.sampled_from([0, 0, 1]),
    epoch=st.sampled_from([0, 32765]),
    sequence=st.sampled_from([0, (1 << 31) - 3]),
    retries=st.sampled_from([2, 1 << 31]),
    late_identity=st.booleans(),
)
FATES = st.lists(st.sampled_from((WELL, WELL, WELL, *REFUSALS, *AMBIGUOUS)), min_size=1, max_size=3)
SIZES = (0, 120, 120, 400)
TIMEOUTS = (None, None, None, None, 1.0, 90.0)
SECONDS = (0.001, LINGER, LINGER, 0.2, 1.0, 1.0)


class WholeWay(RuleBasedStateMachine):
    """Appends, requests, answers, losses, moves of leaders and time, in any order."""

    life: Life | None = None

    @initialize(setting=SETTINGS)
    def start(self, setting: Setting) -> None:
        self.life = Life(setting)

    @property
    def it(self) -> Life:
        assert self.life is not None
        return self.life

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=4),
        timeout=st.sampled_from(TIMEOUTS),
    )
    def send(self, partition: int, sizes: list[int], timeout: float | None) -> None:
        self.it.send(partition, sizes, timeout)

    @precondition(lambda self: self.it.can_write)
    @rule(node=st.sampled_from(NODES), written=st.sampled_from([True, True, True, True, False]))
    def write(self, node: int, written: bool) -> None:
        self.it.write_request(node, written=written)
        self.it.write_request(3 - node)

    @precondition(lambda self: self.it.on_their_way)
    @rule(node=st.sampled_from(NODES), fates=FATES, answer=st.booleans())
    def arrive(self, node: int, fates: list[Fate], answer: bool) -> None:
        self.it.arrive(node, fates)
        if answer:
            self.it.answer(node)

    @precondition(lambda self: self.it.on_their_way)
    @rule(node=st.sampled_from(NODES))
    def answer(self, node: int) -> None:
        self.it.answer(node)

    @precondition(lambda self: self.it.on_their_way)
    @rule(node=st.sampled_from(NODES), stray=st.booleans())
    def disconnect(self, node: int, stray: bool) -> None:
        self.it.disconnect(node, stray=stray)

    @precondition(lambda self: any(self.it.strays))
    @rule()
    def stray_arrives(self) -> None:
        self.it.stray_arrives()

    @rule(partition=st.integers(0, PARTITIONS - 1), node=st.sampled_from([*NODES, -1]))
    def lead(self, partition: int, node: int) -> None:
        self.it.lead(partition, node)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def restart(self, partition: int) -> None:
        self.it.logs[partition].restart()

    @rule(seconds=st.sampled_from([*SECONDS, 59.0]))
    def time_passes(self, seconds: float) -> None:
        self.it.time_passes(seconds)

    @rule(back=st.integers(0, 7))
    def withdraw(self, back: int) -> None:
        self.it.withdraw(back)

    @rule(purge=st.sampled_from([False, False, True]))
    def flush(self, purge: bool) -> None:
        self.it.flush(purge=purge)

    @precondition(lambda self: self.it.sealing)
    @rule()
    def compression_ends(self) -> None:
        self.it.compress_one()

    @precondition(lambda self: self.it.m.sequences.wanted)
    @rule()
    def identity_arrives(self) -> None:
        self.it.identity_arrives()

    @invariant()
    def promise_holds(self) -> None:
        if self.life is not None:
            self.life.check()

    def teardown(self) -> None:
        if self.life is not None:
            self.life.end()


WholeWay.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestWholeWay: Any = WholeWay.TestCase


def fates(rng: random.Random, trouble: float) -> list[Fate]:
    """Fates of the batches of one request; each is in trouble with this probability."""
    troubles = (*REFUSALS, *AMBIGUOUS)
    return [rng.choice(troubles) if rng.random() < trouble else WELL for _ in range(PARTITIONS)]


def steps(life: Life, rng: random.Random, trouble: float) -> dict[Callable[[], object], float]:
    """The possible next steps, and the weight of each."""
    node = rng.choice(NODES)
    partition = rng.randrange(PARTITIONS)
    return {
        lambda: life.send(partition, rng.choices(SIZES, k=rng.randint(1, 4)), rng.choice(TIMEOUTS)): 20,
        lambda: life.write_request(node): 25,
        lambda: life.write_request(node, written=False): trouble,
        lambda: life.arrive(node, fates(rng, trouble)): 22,
        lambda: life.answer(node): 22,
        lambda: life.time_passes(rng.choice(SECONDS)): 15,
        lambda: life.time_passes(58.0): trouble / 2,
        lambda: life.disconnect(node, stray=rng.random() < 0.5): 8 * trouble,
        life.stray_arrives: 4,
        lambda: life.lead(partition, rng.choice([*NODES, *NODES, -1])): 4 * trouble,
        life.logs[partition].restart: 3 * trouble,
        lambda: life.withdraw(rng.randrange(8)): 2,
        lambda: life.flush(purge=rng.random() < 0.2): 1,
        life.compress_one: 15 if life.sealing else 0,
        life.identity_arrives: 2,
    }


@pytest.mark.parametrize("seed", range(60))
def test_a_long_life_keeps_the_promise(seed: int) -> None:
    """Hundreds of steps in which everything happens, in calm and in troubled times."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    life = Life(
        Setting(
            memory=rng.choice([1500, 100_000]),
            codec=rng.choice([0, 0, 1]),
            epoch=rng.choice([0, 32765]),
            sequence=rng.choice([0, (1 << 31) - 3]),
            retries=rng.choice([2, 1 << 31, 1 << 31]),
            late_identity=rng.random() < 0.2,
        )
    )
    trouble = rng.choice([0.1, 0.3, 0.6])
    for _ in range(250):
        possible = steps(life, rng, trouble)
        rng.choices(list(possible), weights=list(possible.values()))[0]()
        life.check()
    life.end()
