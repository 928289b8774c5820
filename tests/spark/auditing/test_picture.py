"""The picture of an audit: its words and its drawing, for small, partly empty and damaged topics."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import attrs

from aioproducer.spark.auditing.bruteforce import Counted
from aioproducer.spark.auditing.onepass import Piece
from aioproducer.spark.auditing.picture import draw, drawn
from aioproducer.spark.auditing.seen import Seen
from aioproducer.spark.auditing.verdict import Verdict, judge


def a_piece(partition: int = 0, records: int = 100, seconds: float = 10.0, **more: Any) -> Piece:
    """A split with so many records, written within so much time."""
    made = Piece("orders", partition, partition, 0, records, records * 50, 1_000, 1_000 + int(seconds * 1000))
    return attrs.evolve(made, **more)


def verdict_of(
    *pieces: Piece, partitions: int = 1, counted: dict[str, Counted] | None = None, **expected: int
) -> Verdict:
    """The verdict on these splits."""
    verdict = judge(pieces, counted or {}, expected, ["orders"], "read_committed")
    return attrs.evolve(verdict, partitions={"orders": partitions})


def words(verdict: Verdict) -> str:
    """All text in the picture."""
    figure = drawn(verdict, verdict.pieces)
    axes: Any
    found = [figure.get_suptitle()]
    for axes in figure.axes:
        found += [axes.get_title(loc="left"), *(text.get_text() for text in axes.texts)]
        found += [label.get_text() for label in axes.get_yticklabels()]
    return "\n".join(found)


def test_a_sound_topic(tmp_path: Path) -> None:
    """The words say that nothing is wrong: at the top, and in each part."""
    verdict = verdict_of(a_piece(0), a_piece(1), partitions=2)
    assert verdict.is_clean
    text = words(verdict)
    assert text.count("nothing wrong") == 3
    assert "NOT CLEAN" not in text
    assert "too few" not in text
    rates: Any = drawn(verdict, verdict.pieces).axes[0]
    assert [list(line.get_ydata()) for line in rates.lines] == [[10.0, 10.0], [10.0, 10.0]]
    draw(tmp_path / "a.svg", verdict, verdict.pieces)
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_a_small_topic() -> None:
    """A rate within a moment means nothing; the number of records is drawn instead."""
    text = words(verdict_of(a_piece(records=12, seconds=0.004)))
    assert "12 records within 0.004 s: too few for a rate" in text
    assert "no records" in words(verdict_of())


def test_partitions_without_records() -> None:
    """Partitions without records have their place like others."""
    verdict = verdict_of(a_piece(1), partitions=4)
    text = words(verdict)
    assert "3 of 4 have none" in text
    assert text.count("none") == 4
    assert "orders-3" in text
    # More than the labels have room for.
    assert "11 of 12 have none" in words(verdict_of(a_piece(1), partitions=12))


def test_the_names_of_many_partitions_do_not_overlap() -> None:
    """They get smaller."""
    verdict = verdict_of(*(a_piece(partition) for partition in range(15)), partitions=15)
    figure: Any = drawn(verdict, verdict.pieces)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[-1].get_yticklabels()]
    assert len(boxes) == 15
    assert all(upper.y0 >= lower.y1 - 1 for lower, upper in itertools.pairwise(boxes))


def test_what_is_lost_and_doubled_is_drawn() -> None:
    """Damage is drawn by source and sequence, as lost records have no offset."""
    seen = Seen(count=9, first=0, last=9, most=9, backwards=1, examples=[7])
    counted = {"shop": Counted(9, 8, 9, 0, lost=[3, 5], doubled={7: 2})}
    verdict = verdict_of(a_piece(sources={"shop": seen}), counted=counted, shop=10)
    text = words(verdict)
    assert "NOT CLEAN" in text
    assert "Lost 2 and doubled 1, by source and sequence" in text
    assert "shop: 2 lost, 1 doubled" in text
    assert "nothing wrong" not in text
    damages: Any = drawn(verdict, verdict.pieces).axes[2]
    points = [[tuple(point) for point in dots.get_offsets()] for dots in damages.collections[1:]]
    assert points == [[(3, 0), (5, 0)], [(7, 0)]]
    assert "1 of 2 more" not in text


def test_many_damaged_sources() -> None:
    """The first twenty are drawn, and the number of the others is written."""
    counted = {f"shop {number:02}": Counted(1, 1, 1, 0, lost=[0]) for number in range(25)}
    text = words(verdict_of(a_piece(), counted=counted))
    assert "(5 more sources are not shown)" in text
