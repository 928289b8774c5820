"""A dialogue: a generator that yields steps to its driver, and returns its result.

    def greeting() -> Dialogue[int]:
        frame = yield from Ask(ApiVersionsRequest(), 0)
        return len(frame)

The driver (`_net/connecting/conversing.py`) performs the step; `yield from` gives its result, or raises its error. A dialogue
performs no I/O, reads no clock and starts no thread, so that a test can drive it. `yield from` also joins dialogues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from aioproducer._wire.apis import api_of

__all__ = ["Ask", "Await", "Compute", "Dialogue", "Now", "Step", "before_the_first_request"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Step(Generic[R_co]):
    """One operation that the driver performs for a dialogue."""

    __slots__ = ()

    def __iter__(self) -> Generator[Step[Any], Any, R_co]:
        result: R_co = yield self
        return result

    @property
    def unfinished(self) -> str:
        """The reason to report if the time limit is reached during this step."""
        raise NotImplementedError


Dialogue: TypeAlias = Generator[Step[Any], Any, R]


# Requests and functions may hold secrets, so the repr of a step does not show them.
def _type_of(message: object) -> str:
    return type(message).__name__


@attrs.frozen
class Ask(Step[bytes]):
    """Send a request in this version; gives the whole answer frame, correlation id first.

    The dialogue decodes the answer, because its layout may depend on its content.
    """

    message: tuple[Any, ...] = attrs.field(repr=_type_of)
    version: int

    @property
    def unfinished(self) -> str:
        """The reason to report."""
        return f"no answer to {api_of(type(self.message)).name}"


@attrs.frozen
class _Call(Step[R]):
    """A function that takes time, with its purpose."""

    purpose: str

    @property
    def unfinished(self) -> str:
        """The reason to report."""
        return f"{self.purpose} did not end"


@attrs.frozen
class Compute(_Call[R]):
    """Call a function in a thread: for computations that take longer than the event loop may be held."""

    function: Callable[[], R] = attrs.field(repr=False)


@attrs.frozen
class Await(_Call[R]):
    """Await the result of a function of the user, such as a token provider."""

    function: Callable[[], Awaitable[R]] = attrs.field(repr=False)


@attrs.frozen
class Now(Step[float]):
    """The time of the event loop, in seconds. An `Ask` that follows at once is written at that time."""

    @property
    def unfinished(self) -> str:
        """The reason to report; this step takes no time, so it is never used in practice."""
        return "no time was left"


def before_the_first_request(dialogue: Dialogue[R], check: Callable[[], None]) -> Dialogue[R]:
    """The same dialogue. `check` is called before its first request, and an error of it ends the dialogue."""
    has_asked = False
    with closing(dialogue):
        try:
            step = next(dialogue)
            while True:
                if isinstance(step, Ask) and not has_asked:
                    check()
                    has_asked = True
                try:
                    result = yield step
                except Exception as error:  # noqa: BLE001  # the dialogue decides on the error
                    step = dialogue.throw(error)
                else:
                    try:
                        step = dialogue.send(result)
                    finally:
                        del result  # It may be a secret, and an error that is raised keeps this frame.
        except StopIteration as done:
            final: R = done.value
            return final
