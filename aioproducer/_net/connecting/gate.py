"""The gate of a connection: open while the transport has room and no dialogue holds the connection."""

from __future__ import annotations

import asyncio

__all__ = ["WriteGate"]


class WriteGate:
    """Requests of the producer wait for it; the dialogue that holds the connection does not."""

    __slots__ = ("_has_room", "_opened", "is_held", "is_open")

    def __init__(self) -> None:
        self.is_held = False
        # Whether a request may be written now.
        self.is_open = False
        self._has_room = False
        self._opened = asyncio.Event()

    async def wait(self) -> None:
        """Wait until it is open. It may be shut again when this returns."""
        await self._opened.wait()

    def room(self, has_room: bool) -> None:
        """Note whether the transport accepts more bytes."""
        self._has_room = has_room
        self._update()

    def hold(self) -> None:
        """Shut it for everything but one dialogue."""
        if self.is_held:
            raise RuntimeError("two dialogues cannot hold the same connection")
        self.is_held = True
        self._update()

    def release(self) -> None:
        """End the hold of that dialogue."""
        self.is_held = False
        self._update()

    def open_for_good(self) -> None:
        """Open it because the connection has ended: waiting requests fail at their next check."""
        self.is_held = False
        self.room(has_room=True)

    def _update(self) -> None:
        self.is_open = self._has_room and not self.is_held
        if self.is_open:
            self._opened.set()
        else:
            self._opened.clear()
