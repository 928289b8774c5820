"""What a broker wants done to a connection; whoever owns the transport does it."""

from __future__ import annotations

from collections.abc import Callable, Generator

import attrs


@attrs.frozen
class Write:
    """Send these bytes."""

    data: bytes


@attrs.frozen
class Close:
    """End the connection; with `reset` at once (RST), otherwise after what was written (FIN)."""

    reset: bool = False


@attrs.frozen
class HalfClose:
    """Send FIN, and go on reading."""


@attrs.frozen
class Wait:
    """Go on when `ready()` says so or the clock has passed `deadline`; the connection's next request waits too.

    Kafka handles one request of a connection at a time: it reads no further until the answer is written.
    """

    ready: Callable[[], bool]
    deadline: float | None = None


Effect = Write | Close | HalfClose | Wait
Dialogue = Generator[Effect, None, None]


def never() -> bool:
    """The condition of a wait that only time ends."""
    return False


@attrs.define(eq=False)
class Changes:
    """Who must look again when a log grew, a gate opened or a fault came or went."""

    # In the order in which they came: a set would be gone through by address, and a seed would not replay that.
    _listeners: dict[Callable[[], None], None] = attrs.field(factory=dict)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` on each change."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Call it no more."""
        self._listeners.pop(listener, None)

    def notify(self) -> None:
        """Something changed."""
        for listener in tuple(self._listeners):
            listener()
