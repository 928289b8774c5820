"""The driver of dialogues: performs each step, and gives its result or its error to the generator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from aioproducer.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.transactions.coordinator import Coordinator
    from aioproducer._net.transactions.questions import Questions
    from aioproducer._state.transactions.dialogues.steps import Ask, AskForEpoch, AskGroup
    from aioproducer._state.transactions.replies import Reply

R = TypeVar("R")
S = TypeVar("S")


async def converse(dialogue: Generator[S, Any, R], perform: Callable[[S], Awaitable[Any] | None]) -> R:
    """Hold a dialogue to its end. `perform` returns None for a step that was performed at once, and has no result."""
    result: Any = None
    error: KafkaError | None = None
    try:
        while True:
            step = dialogue.send(result) if error is None else dialogue.throw(error)
            result = error = None
            try:
                performed = perform(step)
                if performed is not None:
                    result = await performed
            except KafkaError as failure:
                error = failure
    except StopIteration as end:
        returned: R = end.value
        return returned
    finally:
        # The traceback of an error would refer to this frame, and so to the error.
        del error


def ask(
    coordinator: Coordinator, questions: Questions, step: Ask | AskForEpoch | AskGroup
) -> Awaitable[Reply]:
    """Make the attempts of this step at the coordinator."""

    def attempt(connection: Connection) -> Awaitable[int]:
        return converse(step.attempt(), partial(questions.ask, connection))

    return coordinator.settle(step.request, attempt)
