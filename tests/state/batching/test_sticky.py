"""The choice of a partition for records without a key."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._state.cluster.load_table import LoadTable, in_rack


class Draws:
    """Chance that gives every whole number once, in order."""

    def __init__(self) -> None:
        self.next = 0

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        drawn = self.next % stop
        self.next += 1
        return drawn


def counts(table: LoadTable, draws: int) -> dict[int, int]:
    """How often each partition is chosen when chance goes through all its values."""
    rng = Draws()
    return dict(Counter(table.choose(rng) for _ in range(draws)))


def test_without_load_all_partitions_with_a_leader_are_equal() -> None:
    """No adaptive choice: uniform among the available ones."""
    assert counts(LoadTable.of(None, [0, 2, 3], 4), 6) == {0: 2, 2: 2, 3: 2}


@pytest.mark.parametrize("sizes", [None, [3, 1]])
def test_without_any_leader_all_partitions_are_equal(sizes: list[int] | None) -> None:
    """Records for a topic without leaders wait somewhere rather than fail."""
    assert counts(LoadTable.of(sizes, [], 2), 4) == {0: 2, 1: 2}


def test_short_queues_get_more() -> None:
    """Weights are the longest queue + 1 - the own one: queues of 0, 3 and 1 share 4 : 1 : 3."""
    assert counts(LoadTable.of([0, 3, 1], [0, 1, 2], 3), 8) == {0: 4, 1: 1, 2: 3}


def test_draws_on_the_border_belong_to_the_next_partition() -> None:
    """The search is strictly greater: weights 4, 1, 3 own the draws 0-3, 4 and 5-7."""
    table = LoadTable.of([0, 3, 1], [0, 1, 2], 3)
    rng = Draws()
    assert [table.choose(rng) for _ in range(8)] == [0, 0, 0, 0, 1, 2, 2, 2]


def test_equal_queues_are_drawn_uniformly() -> None:
    """Where all queues are equally long there is nothing to weigh."""
    table = LoadTable.of([5, 5, 5], [0, 1, 2], 3)
    assert table.cumulative is None
    assert counts(table, 3) == {0: 1, 1: 1, 2: 1}


def test_partitions_without_a_leader_have_no_weight() -> None:
    """The queue of a partition without a leader is short because nothing should go there, and counts for nothing."""
    assert counts(LoadTable.of([0, 0, 2], [1, 2], 3), 4) == {1: 3, 2: 1}


def test_excluded_partitions_are_left_out() -> None:
    """A broker that takes nothing gets nothing new."""
    assert counts(LoadTable.of([0, 1, 1], [0, 1, 2], 3, excluded={0}), 4) == {1: 2, 2: 2}


def test_when_all_are_excluded_any_partition_with_a_leader_will_do() -> None:
    """If every broker is slow, the choice falls back to those with a leader."""
    assert counts(LoadTable.of([0, 1, 1], [1, 2], 3, excluded={1, 2}), 4) == {1: 2, 2: 2}


def test_load_of_some_partitions_only_is_no_load() -> None:
    """Right after partitions were added there are no figures for all: uniform, with the new ones."""
    assert counts(LoadTable.of([0, 9], [0, 1, 2], 3), 3) == {0: 1, 1: 1, 2: 1}


def test_the_nearest_leaders_are_preferred() -> None:
    """With a rack only the partitions led from there are candidates; without any, all are."""
    racks = ["a", "b", None, "a"]
    assert in_rack([0, 1, 2, 3], racks, "a") == [0, 3]
    assert in_rack([1, 2], racks, "a") == [1, 2]
    assert in_rack([0, 1], racks, None) == [0, 1]
    assert in_rack([0, 1], racks, "") == [0, 1]


def test_an_excluded_partition_is_passed_over() -> None:
    """A broker that takes nothing gets no records without a key while others do."""
    assert LoadTable.of([9, 0], [0, 1], 2, (0,)).choose(Draws()) == 1


@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    data=st.data(),
)
def test_every_candidate_is_drawn_by_its_weight_and_nothing_else_is(
    sizes: list[int], data: st.DataObject
) -> None:
    """Going once through all values of chance gives each candidate exactly its weight."""
    count = len(sizes)
    available = data.draw(st.lists(st.sampled_from(range(count)), unique=True).map(sorted))
    excluded = data.draw(st.sets(st.sampled_from(range(count))))
    candidates = [p for p in available if p not in excluded]
    expected: dict[int, int]
    if not candidates:
        expected = dict.fromkeys(available or range(count), 1)
    elif len({sizes[p] for p in candidates}) == 1:
        expected = dict.fromkeys(candidates, 1)
    else:
        longest = max(sizes[p] for p in candidates)
        expected = {p: longest + 1 - sizes[p] for p in candidates}
    table = LoadTable.of(sizes, available, count, excluded)
    assert counts(table, sum(expected.values())) == expected


@given(st.integers(0, 2**32))
def test_choices_of_a_real_generator_are_partitions(seed: int) -> None:
    """`random.Random` serves as the source of chance."""
    assert LoadTable.of([2, 0, 1], [0, 2], 3, ()).choose(random.Random(seed)) in {0, 2}
