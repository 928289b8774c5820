"""At the end of a producer, each batch has an outcome according to its known attempts."""

from __future__ import annotations

import pytest

from aioproducer.outcome import Outcome
from tests.state.machines import Machines

NOT_LEADER = 6


@pytest.mark.parametrize(("written", "outcome"), [(True, Outcome.UNKNOWN), (False, Outcome.NOT_WRITTEN)])
def test_a_batch_that_waits_for_its_retry(written: bool, outcome: Outcome) -> None:
    """An attempt that may have reached the broker is not forgotten because the next one was not made yet."""
    m = Machines().introduced(1)
    delivery = m.append()
    m.close()
    m.lose(m.only(), written=written)
    m.machines.endings.abandon("closed", None, m.now)
    assert delivery.outcome is outcome
    assert m.is_clean()


def test_a_batch_that_was_refused_after_an_attempt_that_nobody_answered() -> None:
    """The refusal of the second attempt says nothing of the first."""
    m = Machines().introduced(1)
    delivery = m.append()
    m.close()
    m.lose(m.only())
    m.wait_for_retry()
    m.answer(m.only(), NOT_LEADER)
    m.machines.endings.abandon("closed", None, m.now)
    assert delivery.outcome is Outcome.UNKNOWN
