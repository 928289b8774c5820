"""A driver of dialogues for tests: each step gets the next of these results, without a loop or a wire."""

from __future__ import annotations

from typing import Any, TypeVar

from aioproducer._state.connecting.dialogue import Dialogue, Step

T = TypeVar("T")


def play(dialogue: Dialogue[T], *results: object) -> tuple[list[Step[Any]], T]:
    """Give these results in turn, or raise those that are exceptions; the steps, and the result of the dialogue."""
    steps = [next(dialogue)]
    for result in results:
        try:
            if isinstance(result, BaseException):
                steps.append(dialogue.throw(result))
            else:
                steps.append(dialogue.send(result))
        except StopIteration as done:
            final: T = done.value
            return steps, final
    raise AssertionError(f"the dialogue goes on with {steps[-1]}")
