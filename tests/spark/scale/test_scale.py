"""The driver's work for many tasks: the model of docs/spark-scale.md beside a simulation, and the limits that it must keep."""

from __future__ import annotations

from typing import Final

import pytest

from tests.effort import LONG_TEST, PROOF
from tests.spark.scale.picture import PAGE, PICTURE, picture
from tests.spark.scale.scale import modelled, run

# Ten thousand transactions in twenty seconds.
SECONDS_OF_A_TASK: Final = 20 / 10_000
SIZES: Final = [(20, 3), (150, 3), (150, 12), *([(1_000, 30), (1_000, 300)] if PROOF else [])]


@pytest.mark.timeout(LONG_TEST)
@pytest.mark.parametrize(("tasks", "brokers"), SIZES)
def test_the_model_is_right(tasks: int, brokers: int) -> None:
    """Times, connections and requests are those of the model, and the limits are kept."""
    expected, found = modelled(tasks, brokers), run(tasks, brokers)
    for one, other in ((expected.commit, found.commit), (expected.abort, found.abort)):
        # A few round trips do not depend on the number of tasks, and dials of one broker are made one after the other.
        assert one.seconds * 0.75 <= other.seconds <= one.seconds * 1.25 + 0.4
        assert other.connections == pytest.approx(one.connections, rel=0.1, abs=30)
        assert other.requests == pytest.approx(one.requests, rel=0.1, abs=30)
        assert other.seconds <= tasks * SECONDS_OF_A_TASK + 0.4


def test_the_picture_is_that_of_the_page() -> None:
    """`python -m tests.spark.scale.picture` draws it from the tables."""
    assert PICTURE.read_text(encoding="utf-8") == picture(PAGE.read_text(encoding="utf-8"))
