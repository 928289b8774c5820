"""The time of the append, as a broker answers it, and where it is no such time."""

from __future__ import annotations

import pytest

from tests.state.machines import Machines

TIMES = (1_600_000_000_000, 1_600_000_000_007)


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


def test_a_repetition_answered_with_the_batchs_own_time_keeps_the_records_times(m: Machines) -> None:
    """Kafka 4.3.1 answers a repetition with the latest timestamp of the batch, also where records keep their own."""
    deliveries = [m.append(timestamp=time) for time in TIMES]
    m.close()
    m.lose(m.only())
    m.wait_for_retry()
    m.answer(m.only(), 0, 5, log_append_time=TIMES[-1])
    assert [delivery.result().timestamp for delivery in deliveries] == list(TIMES)


def test_the_first_answer_is_believed(m: Machines) -> None:
    """A topic with LogAppendTime may well append a record in the millisecond of its own time."""
    deliveries = [m.append(timestamp=time) for time in TIMES]
    m.close()
    m.answer(m.only(), 0, 5, log_append_time=TIMES[-1])
    assert [delivery.result().timestamp for delivery in deliveries] == [TIMES[-1]] * 2
