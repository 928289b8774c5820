"""A heap of things that are due."""

from __future__ import annotations

from aioproducer._state.deadlines import Deadlines


def test_earliest_first() -> None:
    """Entries come in the order of their due times, and at equal times in the order of their adding."""
    deadlines: Deadlines[str] = Deadlines()
    for due, thing in ((3.0, "c"), (1.0, "a"), (1.0, "b"), (9.0, "z")):
        deadlines.add(due, thing)
    assert list(deadlines.pop_due(3.0)) == ["a", "b", "c"]
    assert deadlines.earliest() == 9.0


def test_nothing_is_due_before_its_time() -> None:
    """A moment earlier nothing happens."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.add(1.0, "a")
    assert list(deadlines.pop_due(0.999)) == []
    assert len(deadlines) == 1


def test_an_empty_heap_has_no_earliest() -> None:
    """There is nothing to wait for."""
    assert Deadlines().earliest() is None


def test_things_need_not_be_comparable() -> None:
    """Two things that are due at the same time are never compared with each other."""
    deadlines: Deadlines[object] = Deadlines()
    first, second = object(), object()
    deadlines.add(1.0, first)
    deadlines.add(1.0, second)
    assert list(deadlines.pop_due(1.0)) == [first, second]


def test_what_becomes_due_while_it_is_handled_is_handled_too() -> None:
    """Adding something that is due already, from within the loop, does not lose it."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.add(1.0, "a")
    seen = []
    for thing in deadlines.pop_due(1.0):
        seen.append(thing)
        if thing == "a":
            deadlines.add(0.5, "b")
    assert seen == ["a", "b"]
