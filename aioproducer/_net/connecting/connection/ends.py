"""The ends of a connection: their kinds, and the words for their reasons."""

from __future__ import annotations

import enum

from aioproducer.errors import ProtocolError

__all__ = ["Ending", "at_broker", "how_the_peer_left"]


class Ending(enum.Enum):
    """How a connection ended."""

    LEFT = "this producer needed it no longer"
    IDLE = "the peer closed it, over which nothing had been said for a while"
    CUT = "the peer closed it, or it was lost"
    GIVEN_UP = "the peer did not answer in time, or with nonsense"


def at_broker(error: ProtocolError, broker: str) -> ProtocolError:
    """The same error, naming the broker, also where the codec found it."""
    return error if error.broker is not None else ProtocolError(str(error), broker=broker)


def how_the_peer_left(exc: Exception | None, missing: tuple[int, int] | None, hint: str) -> str:
    """The end that the peer made; `missing`: the bytes received and expected of an answer that was not complete."""
    what = "the broker closed the connection" if exc is None else "the connection was lost"
    if missing is not None:
        received, expected = missing
        cut = f"after {received} of its {expected} bytes" if expected else "within its length"
        return f"{what} in the middle of an answer, {cut}"
    return f"{what}{hint}"
