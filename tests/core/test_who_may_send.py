"""The fast path serves the thread and the loop that started the producer; all others take the long way, which refuses them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from aioproducer._core import Delivery
from tests.state.machines import Machines, Path

A_WHILE = 0.001


class Gate(Path):
    """A send path that counts what does not go the fast way; `here` is the loop that seems to run."""

    here: Any
    slow = 0

    def _send_now(self, *_call: object) -> None:
        self.slow += 1

    def takes(self) -> bool:
        """Whether a send goes the fast way."""
        before = self.slow
        delivery: Delivery | None = self.send_nowait("t", b"v", partition=0)
        return self.slow == before and delivery is not None


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


@pytest.fixture
def gate(m: Machines) -> Gate:
    gate = Gate()
    gate.here = m.loop
    gate._bind(m.accumulator.cluster.topics, m.clock, m.loop, lambda: gate.here, m.limits.max_request_size)
    gate._plain = gate._accepting = True
    return gate


def test_its_own_thread_and_loop_are_served(gate: Gate) -> None:
    """The first record opens a batch, the second finds one."""
    assert gate.takes()
    assert gate.takes()


@pytest.mark.parametrize("is_open", [False, True])
def test_another_thread_is_not_served(gate: Gate, is_open: bool) -> None:
    """Whether there is an open batch or not, and whatever loop seems to run there."""
    if is_open:
        assert gate.takes()
    told: list[bool] = []
    other = threading.Thread(target=lambda: told.append(gate.takes()))
    other.start()
    other.join()
    assert told == [False]


def test_another_loop_opens_no_batch(gate: Gate) -> None:
    """Also when the loop of the producer had a turn just now."""
    gate.here = object()
    assert not gate.takes()


def test_another_loop_is_noticed_after_a_while(m: Machines, gate: Gate) -> None:
    """Into a batch that is open already a record gets only while the last turn of the loop was just now."""
    assert gate.takes()
    gate.here = object()
    m.clock.monotonic += A_WHILE
    assert not gate.takes()


def test_a_producer_that_does_not_run_takes_nothing(gate: Gate) -> None:
    """Neither before its start nor after its end."""
    gate._accepting = False
    assert not gate.takes()
