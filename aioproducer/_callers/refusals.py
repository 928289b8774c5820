"""The refusal of a record when an object or function of the user raises."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aioproducer.errors import KafkaError, RecordError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from types import TracebackType

# These end more than a record. Raised in a call of the user's, they go on to the caller.
THROUGH = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)


def refusal_of(error: BaseException, topic: object) -> KafkaError:
    """The error itself where it says that a record is not written, else a `RecordError` that has it as its cause."""
    if isinstance(error, KafkaError) and error.outcome is Outcome.NOT_WRITTEN:
        return error
    name = topic if type(topic) is str else None
    return RecordError("an argument raised an exception while it was read", topic=name, cause=error)


class Reading:
    """A block that reads the user's objects: any exception of theirs refuses the record."""

    __slots__ = ("_topic",)

    def __init__(self, topic: object) -> None:
        self._topic = topic

    def __enter__(self) -> None:
        """Begin to read."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, THROUGH):
            return
        refusal = refusal_of(error, self._topic)
        if refusal is not error:
            raise refusal from error
