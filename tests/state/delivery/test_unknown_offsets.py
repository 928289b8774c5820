"""Where the broker names no offset for a batch, none of its records has one."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ERRORS
from aioproducer.outcome import Outcome
from tests.state.machines import Machines

NONE = 0
DUPLICATE = next(code for code, known in ERRORS.items() if known.name == "DUPLICATE_SEQUENCE_NUMBER")


@pytest.mark.parametrize("code", [NONE, DUPLICATE])
def test_no_record_of_a_batch_without_an_offset_has_one(code: int) -> None:
    """B10, C09: nothing is added to -1, so that the second record does not seem to stand at the beginning of the log."""
    m = Machines().introduced(1)
    deliveries = [m.append(b"%d" % number) for number in range(3)]
    m.close()
    m.answer(m.only(), code, -1)
    assert [delivery.outcome for delivery in deliveries] == [Outcome.ACKED] * 3
    assert [delivery.result().offset for delivery in deliveries] == [-1] * 3
