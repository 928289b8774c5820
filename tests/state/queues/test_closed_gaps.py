"""A sequence is whole again only if all batches after the acknowledged one continue it."""

from __future__ import annotations

import pytest

from tests.state.machines import Machines

TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


def test_an_acknowledgement_before_the_gap_does_not_close_it(m: Machines) -> None:
    """The first of three arrives, the second was refused: nothing new goes out behind the third, which cannot arrive."""
    first, second, third = [m.fill(b"%d" % number) for number in range(3)]
    assert [m.only(), m.only(), m.only()] == [first, second, third]
    m.answer(second, TOPIC_AUTHORIZATION_FAILED)
    m.lose(third, first)
    m.wait_for_retry()
    assert m.only() is first
    m.acknowledge(first)
    m.wait_for_retry()
    assert m.only() is third
    m.fill(b"new")
    assert m.drain() == []
