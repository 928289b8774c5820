"""The verdict of an audit, from the findings of both methods."""

from __future__ import annotations

import attrs
import pytest

from aioproducer.spark.auditing.bruteforce import Counted
from aioproducer.spark.auditing.onepass import Piece
from aioproducer.spark.auditing.seen import Seen
from aioproducer.spark.auditing.verdict import Verdict, judge


def verdict_of(sequences: list[int], expected: int, altered: tuple[int, int] = (0, 0)) -> Verdict:
    """The verdict on these sequences of one source, each once, in order; `altered`: the counts of either method."""
    seen = Seen(
        count=len(sequences),
        first=sequences[0],
        last=sequences[-1],
        most=max(sequences),
        total=sum(sequences),
        squares=sum(sequence * sequence for sequence in sequences),
    )
    piece = Piece("t", 0, 0, 0, records=len(sequences), sources={"shop": seen})
    piece.altered_count, piece.altered = altered[0], list(range(altered[0]))
    counted = Counted(len(sequences), len(sequences), max(sequences), altered[1])
    return judge([piece], {"shop": counted}, {"shop": expected}, ["t"], "read_committed")


def test_what_was_expected() -> None:
    """Each sequence once is clean."""
    assert verdict_of([0, 1, 2], 3).is_clean


@pytest.mark.parametrize("sequences", [[0, 1, 2], [0, 2, 3]], ids=["more", "one lost, two more"])
def test_more_than_was_expected(sequences: list[int]) -> None:
    """Sequences that were never sent are not clean: they may also stand in for lost ones."""
    verdict = verdict_of(sequences, 2)
    assert not verdict.is_clean
    assert f"sequences up to {sequences[-1]} exist, and 2 records were expected" in verdict.as_table()


def test_altered_values() -> None:
    """Altered values that both methods have found are named, and not clean."""
    verdict = verdict_of([0, 1, 2], 3, altered=(1, 1))
    assert not verdict.is_clean
    assert (verdict.altered, verdict.agree, len(verdict.problems)) == (1, True, 1)


@pytest.mark.parametrize("altered", [(0, 1), (1, 0), (2, 1)])
def test_altered_values_that_one_method_has_not_found(altered: tuple[int, int]) -> None:
    """An altered value that only one method has found is not clean: one of the methods is wrong."""
    verdict = verdict_of([0, 1, 2], 3, altered=altered)
    assert not verdict.is_clean
    assert not verdict.agree
    assert "the two methods disagree" in verdict.as_table()


def test_doubled_records_lead_to_their_causes() -> None:
    """For readers of committed records; others also see the copies of aborted attempts."""
    verdict = verdict_of([0, 1, 2], 3)
    causes = "docs/spark.md#failures"
    assert causes not in verdict.as_table()
    assert causes in attrs.evolve(verdict, doubled=1).as_table()
    assert causes not in attrs.evolve(verdict, doubled=1, isolation="read_uncommitted").as_table()
