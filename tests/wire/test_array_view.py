"""An array that is too large for a list behaves like one that cannot be changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from aioproducer._core import ArrayView
from tests.wire.shapes import FLEXIBLE, OLD, Numbers, Point, Points, Texts, ThreeArrays, program

COUNT = 9000
NUMBERS = [n * 1_000_003 % 2**31 for n in range(COUNT)]
CASES: dict[str, tuple[Any, int, list[Any]]] = {
    "numbers": (Numbers, OLD, NUMBERS),
    "texts": (Texts, FLEXIBLE, [str(number) for number in NUMBERS]),
    "points": (Points, OLD, [Point(number, -number) for number in NUMBERS]),
    "flexible points": (Points, FLEXIBLE, [Point(number, -number) for number in NUMBERS]),
}


@pytest.fixture(params=CASES)
def pair(request: pytest.FixtureRequest) -> tuple[ArrayView, list[Any]]:
    """A view and the list that it stands for."""
    kind, version, values = CASES[request.param]
    written = program(kind, version).encode(kind(values))
    view = program(kind, version).decode(written).values
    assert isinstance(view, ArrayView)
    return view, values


Pair = tuple[ArrayView, list[Any]]


def test_it_is_a_sequence(pair: Pair) -> None:
    """It has the length, the elements and the order of the list, forwards and backwards."""
    view, values = pair
    assert isinstance(view, Sequence)
    assert len(view) == COUNT
    assert list(view) == values
    assert list(reversed(view)) == values[::-1]


def test_any_index(pair: Pair, rng: random.Random) -> None:
    """Any order of access gives the elements of the list; outside of it is an IndexError."""
    view, values = pair
    for i in (0, 1, 2, COUNT - 1, -1, -COUNT, 5, *(rng.randrange(-COUNT, COUNT) for _ in range(50))):
        assert view[i] == values[i]
    for i in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            view[i]


def test_slices(pair: Pair) -> None:
    """Slices are lists."""
    view, values = pair
    for part in (slice(3), slice(10, 20, 3), slice(-3, None), slice(9, 3, -2), slice(5, 5)):
        assert view[part] == values[part]


def test_equality(pair: Pair) -> None:
    """It equals any list or tuple with equal elements, and nothing else."""
    view, values = pair
    assert view == values
    assert values == view
    assert view == tuple(values)
    assert view != values[:-1]
    assert view != [*values[:-1], None]
    assert view != "text"


def test_searching(pair: Pair) -> None:
    """`in`, index() and count() find what a list finds."""
    view, values = pair
    assert values[700] in view
    assert object() not in view
    assert view.index(values[700]) == 700
    assert view.count(values[700]) == 1
    with pytest.raises(ValueError, match="not in the array"):
        view.index(values[700], 701)


def test_it_can_be_written_again(pair: Pair) -> None:
    """A decoded message can be encoded as it is."""
    view, values = pair
    kind = Texts if isinstance(values[0], str) else Points if isinstance(values[0], Point) else Numbers
    assert program(kind).encode(kind(view)) == program(kind).encode(kind(values))


def test_it_cannot_be_changed_or_hashed(pair: Pair) -> None:
    """It is read-only, and unhashable as a list is."""
    view, _ = pair
    with pytest.raises(TypeError):
        view[0] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        hash(view)


def test_repr_is_short(pair: Pair) -> None:
    """Its text tells how many elements there are and shows the first three."""
    view, values = pair
    assert repr(view) == f"<{COUNT} elements: {', '.join(map(repr, values[:3]))}, ...>"


def test_null_is_no_view_however_little_of_the_budget_is_left() -> None:
    """A null array is None, also after a view that took more than the rest of the budget."""
    three = program(ThreeArrays)
    viewed = [1] * 6000
    for count in range(1750, 2100):
        decoded = three.decode(three.encode(ThreeArrays([1] * count, viewed, None)))
        assert isinstance(decoded.viewed, ArrayView)
        assert decoded.null is None
