"""Columns that look like a tuple of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._state.cluster.partitions import PartitionFacts, Partitions

SETS = st.lists(st.integers(0, 3), max_size=2).map(tuple)
ROWS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 9), SETS, SETS, SETS), max_size=6)


def of(rows: list[PartitionFacts]) -> Partitions:
    return Partitions(
        tuple(row.leader for row in rows),
        tuple(row.leader_epoch for row in rows),
        tuple(row.replicas for row in rows),
        tuple(row.in_sync for row in rows),
        tuple(row.offline for row in rows),
    )


@given(ROWS.map(lambda rows: [PartitionFacts(index, *row) for index, row in enumerate(rows)]))
def test_it_is_a_sequence_of_rows(rows: list[PartitionFacts]) -> None:
    """Length, iteration, indexes from both ends and slices are those of the list of rows."""
    partitions = of(rows)
    assert list(partitions) == rows
    assert len(partitions) == len(rows)
    assert [partitions[index] for index in range(-len(rows), len(rows))] == rows + rows
    assert list(partitions[1:4]) == rows[1:4]
    assert list(reversed(partitions)) == rows[::-1]
    assert partitions == of(rows)


def test_outside_there_is_nothing() -> None:
    """An index that no partition has is an IndexError."""
    with pytest.raises(IndexError):
        Partitions()[0]


def test_a_new_leader_leaves_the_rest_alone() -> None:
    """Only the leaders and their epochs are others."""
    rows = [PartitionFacts(index, 1, 5, (1, 2), (1,), ()) for index in range(3)]
    led = of(rows).led([1, 2, 1], [5, 6, 5])
    assert list(led) == [rows[0], rows[1]._replace(leader=2, leader_epoch=6), rows[2]]
    assert of(rows)[1] == rows[1]


def test_it_says_what_is_missing() -> None:
    """`repr` is short, however many partitions there are."""
    rows = [PartitionFacts(index, index - 1, 5, (), (), ()) for index in range(3)]
    assert repr(of(rows)) == "<Partitions 3, 1 of them without a leader>"
