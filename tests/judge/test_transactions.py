"""The judge of transactions finds each anomaly, and nothing where all is well."""

from __future__ import annotations

import pytest

from tests.judge.transactions import Anomaly, Fate, Seen, Told, judge_transactions

A, B = ("t", 0), ("t", 1)
COMMITTED, ABORTED, UNKNOWN = Fate.COMMITTED, Fate.ABORTED, Fate.UNKNOWN


def three(*fates: Fate) -> list[Told]:
    """Transactions of two records on each of two partitions, each with an offset of its own number."""
    return [
        Told(
            number,
            [(place, 10 * number + index) for index, place in enumerate((A, B, A, B))],
            offset=number,
            fate=fate,
        )
        for number, fate in enumerate(fates)
    ]


def seen(a: list[int], b: list[int], offset: int | None) -> Seen:
    """The records that a reader finds."""
    return Seen({A: a, B: b}, offset)


@pytest.mark.parametrize(
    ("fates", "there"),
    [
        ((COMMITTED, COMMITTED, COMMITTED), seen([0, 2, 10, 12, 20, 22], [1, 3, 11, 13, 21, 23], 2)),
        ((COMMITTED, ABORTED, COMMITTED), seen([0, 2, 20, 22], [1, 3, 21, 23], 2)),
        ((COMMITTED, COMMITTED, ABORTED), seen([0, 2, 10, 12], [1, 3, 11, 13], 1)),
        ((COMMITTED, UNKNOWN, UNKNOWN), seen([0, 2, 20, 22], [1, 3, 21, 23], 2)),
        ((UNKNOWN, UNKNOWN, UNKNOWN), seen([], [], None)),
    ],
)
def test_all_is_well(fates: tuple[Fate, ...], there: Seen) -> None:
    """Committed ones are there, aborted ones are not, and uncertain ones are either."""
    assert judge_transactions(three(*fates), there) == []


@pytest.mark.parametrize(
    ("fates", "there", "found"),
    [
        ((COMMITTED, COMMITTED), seen([0, 2], [1, 3], 1), {Anomaly.LOST}),
        ((COMMITTED, COMMITTED), seen([0, 2, 10, 12], [1, 3, 11], 1), {Anomaly.LOST, Anomaly.TORN}),
        ((COMMITTED, UNKNOWN), seen([0, 2, 10], [1, 3, 11, 13], 1), {Anomaly.TORN}),
        ((COMMITTED, ABORTED), seen([0, 2, 10, 12], [1, 3, 11, 13], 1), {Anomaly.VISIBLE}),
        (
            (COMMITTED, COMMITTED),
            seen([0, 2, 10, 12, 10, 12], [1, 3, 11, 13], 1),
            {Anomaly.DOUBLED, Anomaly.REORDERED},
        ),
        ((COMMITTED, COMMITTED), seen([10, 12, 0, 2], [1, 3, 11, 13], 1), {Anomaly.REORDERED}),
        ((COMMITTED,), seen([0, 2, 99], [1, 3], 0), {Anomaly.STRANGER}),
        ((COMMITTED, ABORTED), seen([0, 2], [1, 3], 1), {Anomaly.OFFSETS}),
        ((COMMITTED, COMMITTED), seen([0, 2, 10, 12], [1, 3, 11, 13], 0), {Anomaly.OFFSETS}),
        ((COMMITTED,), seen([0, 2], [1, 3], None), {Anomaly.OFFSETS}),
    ],
)
def test_each_anomaly_is_found(fates: tuple[Fate, ...], there: Seen, found: set[Anomaly]) -> None:
    """By its name."""
    assert {finding.anomaly for finding in judge_transactions(three(*fates), there)} == found


def test_what_is_left_open_is_found() -> None:
    """It would hide everything behind it."""
    assert [one.anomaly for one in judge_transactions([], Seen({}, hidden=[A]))] == [Anomaly.LEFT_OPEN]


def test_an_offset_alone_may_be_there_when_nobody_knows() -> None:
    """A transaction of offsets only, whose commit got no answer."""
    told = [*three(COMMITTED), Told(1, offset=1)]
    for offset in (0, 1):
        assert judge_transactions(told, seen([0, 2], [1, 3], offset)) == []
    assert judge_transactions(told, seen([0, 2], [1, 3], None)) != []
