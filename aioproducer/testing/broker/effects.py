"""Effects of a broker on a connection. The owner of the transport performs them."""

from __future__ import annotations

from collections.abc import Callable, Generator

import attrs


@attrs.frozen
class Write:
    """Send these bytes."""

    data: bytes


@attrs.frozen
class WriteCut:
    """Send only this number of bytes of the TLS records that these bytes become."""

    data: bytes
    at_byte: int


@attrs.frozen
class Close:
    """End the connection: with `reset` at once (RST), otherwise after the written bytes (FIN)."""

    reset: bool = False
    notify: bool = True
    """Over TLS: with its close_notify."""


@attrs.frozen
class HalfClose:
    """Send FIN, and continue reading."""


@attrs.frozen
class Wait:
    """Continue when `ready()` is true or the clock has passed `deadline`; the connection's next request waits too.

    Kafka handles one request of a connection at a time: it reads no further until the answer is written.
    """

    ready: Callable[[], bool]
    deadline: float | None = None


Effect = Write | WriteCut | Close | HalfClose | Wait
Dialogue = Generator[Effect, None, None]


def never() -> bool:
    """The condition of a wait that ends by time only."""
    return False


@attrs.define(eq=False)
class Changes:
    """The listeners to changes: a log grew, a gate opened, a fault was added or removed."""

    # In the order of their calls: a set is iterated by address, which a seed does not replay.
    _listeners: dict[Callable[[], None], None] = attrs.field(factory=dict)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` on each change."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Stop calling `listener`."""
        self._listeners.pop(listener, None)

    def notify(self) -> None:
        """Call all listeners."""
        for listener in tuple(self._listeners):
            listener()
