"""An answer as something to wait for: the handler behind `Connection.request()`."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Generic, TypeVar

from aioproducer.errors import KafkaError, ProtocolError

__all__ = ["Reply", "at_broker"]

R = TypeVar("R")


class Reply(Generic[R]):
    """Reads the answer into a future; if that was cancelled, the answer is dropped unread.

    The future's errors are copies: raising adds a traceback, and an error that is shared would collect those of all
    who got it.
    """

    __slots__ = ("_broker", "_read", "future")

    def __init__(self, future: asyncio.Future[R], read: Callable[[memoryview], R], broker: str) -> None:
        self.future = future
        self._read = read
        self._broker = broker

    def answered(self, frame: memoryview) -> None:
        """Read it; what cannot be read also ends the connection, by being raised."""
        if self.future.done():
            return
        try:
            self.future.set_result(self._read(frame))
        except ProtocolError as error:
            self.future.set_exception(copy.copy(at_broker(error, self._broker)))
            raise
        except Exception as error:
            self.future.set_exception(copy.copy(error))
            raise

    def failed(self, error: KafkaError, *, written: bool) -> None:
        """Pass the error to the waiting task."""
        if not self.future.done():
            self.future.set_exception(copy.copy(error))


def at_broker(error: ProtocolError, broker: str) -> ProtocolError:
    """The same error, naming the broker, also where the codec found it."""
    return error if error.broker is not None else ProtocolError(str(error), broker=broker)
