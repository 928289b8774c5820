"""The rows of a task up to their real end: Arrow takes a connection that is closed between two batches for the end of its stream.

An executor that dies, or that ends the task (the query is stopped, another task has failed for good, another attempt was
first), closes the connection to the Python worker. The worker lives on for some seconds: without this check it would
commit the rows that it has as if they were all, and the repeated task would find other rows than were committed.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from aioproducer import StateError

__all__ = ["whole"]


def whole(batches: Iterable[Any]) -> Iterator[Any]:
    """The same batches. Raises at their end if the executor has closed the connection: then there are more of them."""
    yield from batches
    number = _number_of_input()
    if number is not None and _is_closed(number):
        raise StateError(
            "the executor closed the connection before all rows of the task had come: it has ended this attempt, or has died. "
            "The attempt commits nothing"
        )


def _number_of_input() -> int | None:
    """The descriptor of the input of Spark's worker, which only its main function knows; None outside of a worker."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  # the only way to it
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            number: int = frame.f_locals["infile"].fileno()
            return number
        frame = frame.f_back
    return None


def _is_closed(number: int) -> bool:
    """Whether the other side has closed the connection, and all that it had sent was read."""
    copy = os.dup(number)
    try:
        connection = socket.socket(fileno=copy)
    except OSError:  # no socket
        os.close(copy)
        return False
    with connection:
        try:
            return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
