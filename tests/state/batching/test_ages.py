"""The line of batches by age: each leaves it from any place, and one that is freed leaves by itself."""

from __future__ import annotations

import random

import pytest

from aioproducer._core import Ages, BatchSettings
from aioproducer._state.queues.batches import QueuedBatch

SETTINGS = BatchSettings(delivery_timeout=10.0)


def batch_at(opened_at: float) -> QueuedBatch:
    """A batch that was opened then."""
    return QueuedBatch("t", 0, 1000, SETTINGS, opened_at)


@pytest.mark.parametrize("seed", range(20))
def test_batches_stay_in_the_order_of_their_age(seed: int) -> None:
    """Whichever leave, the others are found oldest first, as far as their time is over."""
    rng = random.Random(seed)
    ages = Ages()
    expected: list[QueuedBatch] = []
    for number in range(200):
        if expected and rng.random() < 0.45:
            leaves = rng.choice(expected)
            assert ages.discard(leaves)
            assert leaves not in ages
            assert not ages.discard(leaves)
            expected.remove(leaves)
        else:
            expected.append(batch_at(number))
            ages.add(expected[-1])
        assert bool(ages) == bool(expected)
        assert ages.oldest() is (expected[0] if expected else None)
        assert all(batch in ages for batch in expected)
        now = rng.uniform(0, 220)
        assert ages.overdue(now) == [batch for batch in expected if batch.opened_at + 10.0 <= now]


def test_a_batch_has_one_place() -> None:
    """A second place would cut the line in two."""
    ages, batch = Ages(), batch_at(0)
    ages.add(batch)
    with pytest.raises(ValueError, match="has its place already"):
        ages.add(batch)
    assert ages.overdue(10.0) == [batch]


def test_a_batch_that_is_freed_leaves_the_line() -> None:
    """The line holds no reference, and would read freed memory."""
    ages = Ages()
    first, second, third = batch_at(0), batch_at(1), batch_at(2)
    for batch in (first, second, third):
        ages.add(batch)
    del second, batch
    assert ages.overdue(20.0) == [first, third]
    del first
    assert ages.overdue(20.0) == [third]
    assert ages.oldest() is third


def test_a_line_that_is_freed_leaves_its_batches_alone() -> None:
    """They may join another one, or be freed behind it."""
    ages, other = Ages(), Ages()
    batch = batch_at(0)
    ages.add(batch)
    del ages
    assert not other.discard(batch)
    other.add(batch)
    assert other.oldest() is batch
