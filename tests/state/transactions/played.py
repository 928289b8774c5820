"""Dialogues played by hand: each step is written down, and its result comes from a script."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, TypeVar

import attrs

from aioproducer._state.identity.coordinated import CoordinatedIdentity
from aioproducer._state.transactions.coordinator_verdicts import Request, judge, may_be_done
from aioproducer._state.transactions.current import CurrentTransaction
from aioproducer._state.transactions.dialogues.steps import (
    Adding,
    Ask,
    AskForEpoch,
    AskGroup,
    Attempt,
    Dialogue,
    InTurn,
    Question,
    Step,
)
from aioproducer._state.transactions.ownership import Ownership
from aioproducer._state.transactions.replies import Reply
from aioproducer._state.transactions.table import State
from aioproducer.errors import KafkaError

NAME: Final = "orders"
IDENTITY: Final = (7000, 3)
TIME_LIMIT: Final = 60.0
BEGAN_AT: Final = 1000.0

R = TypeVar("R")


def transaction(level: int = 2, state: State = State.IN_TRANSACTION) -> CurrentTransaction:
    """A transaction that was begun, and has come to this state."""
    current = CurrentTransaction(Ownership(CoordinatedIdentity(), NAME), TIME_LIMIT)
    current.ownership.obtained(IDENTITY)
    current.table.state = State.READY
    current.begin(level, BEGAN_AT)
    current.table.state = state
    return current


def reply(request: Request, code: int = 0, *, lost: int = 0, doubts: int = 0, at: float = BEGAN_AT) -> Reply:
    """The final answer with this code. `doubts`: attempts before it that may have been executed."""
    undecided = doubts + lost + may_be_done(request, code)
    return Reply(NAME, judge(request, code), request, code, lost, undecided, at)


@attrs.define
class Played:
    """The steps of a dialogue, and its result or its error."""

    steps: list[Step]
    result: Any = None
    error: KafkaError | None = None

    @property
    def requests(self) -> list[Request]:
        """The requests that were made."""
        return [step.request for step in self.steps if isinstance(step, Ask | AskForEpoch | AskGroup)]

    def of(self, kind: type[R]) -> list[R]:
        """The steps of this kind."""
        return [step for step in self.steps if isinstance(step, kind)]


def play(dialogue: Dialogue[Any], *script: Reply | Iterable[Any]) -> Played:
    """Hold a dialogue. The script has an entry for each request: its reply, or the answers of one attempt and then its reply."""
    played = Played([])
    left = list(script)
    try:
        played.result = _hold(dialogue, played.steps, left)
    except KafkaError as error:
        played.error = error
    assert left == []
    return played


def _hold(dialogue: Dialogue[Any], steps: list[Step], left: list[Any]) -> Any:
    result: Any = None
    try:
        while True:
            step = dialogue.send(result)
            steps.append(step)
            result = None
            if isinstance(step, InTurn | Adding):
                result = _hold(step.dialogue, steps, left)
            elif isinstance(step, Ask | AskForEpoch | AskGroup):
                entry = left.pop(0)
                result = entry if isinstance(entry, Reply) else _attempted(step, list(entry))
    except StopIteration as end:
        return end.value


def _attempted(step: Ask | AskForEpoch | AskGroup, answers: list[Any]) -> Reply:
    code = attempt(step.attempt(), *answers)[1]
    return reply(step.request, code)


def attempt(one: Attempt, *answers: Any) -> tuple[list[Question], int]:
    """Make one attempt with these answers. Returns its questions, and its code."""
    return _questions(one, list(answers))


def _questions(one: Generator[Question, Any, int], answers: list[Any]) -> tuple[list[Question], int]:
    questions = []
    answer: Any = None
    try:
        while True:
            questions.append(one.send(answer))
            answer = answers.pop(0)
    except StopIteration as end:
        assert answers == []
        code: int = end.value
        return questions, code
