"""Dialogues and their steps, driven by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer._state.connecting.dialogue import (
    Ask,
    Await,
    Compute,
    Dialogue,
    Now,
    Step,
    before_the_first_request,
)
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aioproducer.errors import BrokerUnavailableError
from tests.state.connecting.driver import play

SECRET = "canary"


async def token() -> str:
    """A token provider."""
    return SECRET


def salted() -> bytes:
    """A computation."""
    return SECRET.encode()


QUESTION = Ask(SaslAuthenticateRequest(SECRET.encode()), 2)


def everything() -> Dialogue[tuple[str, bytes, float, bytes]]:
    """A dialogue of all kinds of steps."""
    return (
        (yield from Await("the token provider", token)),
        (yield from Compute("key derivation", salted)),
        (yield from Now()),
        (yield from QUESTION),
    )


def test_each_step_gives_its_result() -> None:
    """`yield from` a step is the step for the driver, and what the driver made of it for the dialogue."""
    steps, result = play(everything(), "t", b"k", 7.5, b"frame")
    assert steps == [Await("the token provider", token), Compute("key derivation", salted), Now(), QUESTION]
    assert result == ("t", b"k", 7.5, b"frame")


@pytest.mark.parametrize("failing", range(4))
def test_an_error_is_raised_where_its_step_stands(failing: int) -> None:
    """The dialogue decides what the failure of each step means."""
    error = BrokerUnavailableError("gone")
    results = [*("t", b"k", 7.5, b"frame")[:failing], error]

    def careful() -> Dialogue[BrokerUnavailableError | None]:
        try:
            yield from everything()
        except BrokerUnavailableError as caught:
            yield from Now()
            return caught
        return None

    assert play(careful(), *results, 8.0)[1] is error
    with pytest.raises(BrokerUnavailableError):
        play(everything(), *results)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (QUESTION, "no answer to SaslAuthenticate"),
        (Compute("key derivation", salted), "key derivation did not end"),
        (Await("the token provider", token), "the token provider did not end"),
        (Now(), "no time was left"),
    ],
)
def test_steps_say_what_did_not_end_and_show_no_secret(step: Step[object], text: str) -> None:
    """The text is that of a time limit; the repr has neither the fields of a request nor a function (S17, S18)."""
    assert step.unfinished == text
    shown = repr(step)
    assert SECRET not in shown
    assert "function" not in shown


def test_a_step_of_its_own_kind_is_no_step() -> None:
    """The base class says nothing about itself."""
    with pytest.raises(NotImplementedError):
        _ = Step[int]().unfinished


def test_dialogues_are_joined() -> None:
    """The steps of a part are those of the whole, and its result is a value in the whole."""

    def doubled(part: Callable[[], Dialogue[float]]) -> Dialogue[float]:
        return 2 * (yield from part())

    def moment() -> Dialogue[float]:
        return (yield from Now())

    assert play(doubled(moment), 4.0) == ([Now()], 8.0)


def test_a_check_before_the_first_request_of_a_dialogue() -> None:
    """The steps before it are performed, and an error of the check closes the dialogue."""
    checks: list[str] = []
    closed: list[bool] = []

    def dialogue() -> Dialogue[int]:
        try:
            first = yield from Compute("a computation", int)
            second = yield from QUESTION
            third = yield from QUESTION
            return first + len(second) + len(third)
        finally:
            closed.append(True)

    checked = before_the_first_request(dialogue(), lambda: checks.append("checked"))
    assert isinstance(next(checked), Compute)
    assert checks == []
    assert isinstance(checked.send(1), Ask)
    assert isinstance(checked.send(b"ab"), Ask)
    assert checks == ["checked"]
    with pytest.raises(StopIteration) as done:
        checked.send(b"cde")
    assert done.value.value == 6

    def refuse() -> None:
        raise ValueError("no")

    closed.clear()
    checked = before_the_first_request(dialogue(), refuse)
    next(checked)
    with pytest.raises(ValueError, match="no"):
        checked.send(1)
    assert closed == [True]


def test_the_dialogue_decides_on_an_error_of_its_step() -> None:
    """Also behind a check."""

    def dialogue() -> Dialogue[str]:
        try:
            yield from QUESTION
        except OSError as error:
            return str(error)
        return ""

    checked = before_the_first_request(dialogue(), lambda: None)
    next(checked)
    with pytest.raises(StopIteration) as done:
        checked.throw(OSError("down"))
    assert done.value.value == "down"
