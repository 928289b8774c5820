"""The gate of a connection: whether a request may leave, and the wait until it may."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio

from aioproducer.errors import BrokerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.connecting.sessions import AuthenticatedSession
    from aioproducer.errors import KafkaError

__all__ = ["WriteGate"]


class WriteGate:
    """Open while the transport has room, no dialogue holds the connection, and its session lasts.

    Requests of the producer wait for it; the dialogue that holds the connection does not. `gone` gives the error of a request
    on a connection that has ended.
    """

    __slots__ = (
        "_broker",
        "_gone",
        "_has_room",
        "_loop",
        "_opened",
        "has_ended",
        "is_held",
        "is_open",
        "is_retired",
        "session",
    )

    def __init__(self, broker: str, loop: asyncio.AbstractEventLoop, gone: Callable[[], KafkaError]) -> None:
        # None: the connection is not authenticated.
        self.session: AuthenticatedSession | None = None
        self.is_held = False
        # The transport has room, and no dialogue holds the connection.
        self.is_open = False
        # It takes no further request, and is closed when its requests have their answers.
        self.is_retired = False
        self.has_ended = False
        self._broker = broker
        self._loop = loop
        self._gone = gone
        self._has_room = False
        self._opened = asyncio.Event()

    # -- for requests

    def writable(self) -> bool:
        """Whether the transport takes more without piling it up, and no dialogue holds the connection."""
        return self.is_open and not self.has_ended and (self.session is None or not self.session_is_over())

    async def drained(self) -> None:
        """Wait until `writable()`; BrokerUnavailableError when the connection has ended."""
        while not self.writable():
            if self.has_ended:
                raise self._gone()
            await self._opened.wait()

    async def free(self, timeout: float) -> None:
        """Wait until a request may be written, for at most so many seconds; BrokerUnavailableError otherwise.

        Other than in `drained()`, the bytes that wait in the transport do not count.
        """
        if not (self.has_ended or self.is_held or self.session_is_over()):
            # A time limit costs a request of a transaction 4 %, and there is nothing to wait for.
            return
        with anyio.move_on_after(timeout):
            while not self.has_ended and (self.is_held or self.session_is_over()):
                await self._opened.wait()
            if self.has_ended:
                raise self._gone()
            return
        raise BrokerUnavailableError(
            "the request was not written",
            broker=self._broker,
            cause=TimeoutError(f"the connection was not free within {timeout:g} s"),
        )

    @property
    def takes_requests(self) -> bool:
        """Whether a request may be written now, or when the dialogue is over that holds the connection."""
        return not (self.has_ended or self.is_retired) and (self.is_held or not self.session_is_over())

    def session_is_over(self) -> bool:
        """Whether the broker may have ended the session: a request that is written now would get no answer."""
        session = self.session
        if session is None or self._loop.time() < session.last_write_at:
            return False
        # The loop may have been blocked, so that nothing has noticed the end yet.
        self.retire()
        return True

    # -- what shuts and opens it

    def room(self, has_room: bool) -> None:
        """Note whether the transport accepts more bytes."""
        self._has_room = has_room
        self._update()

    def hold(self) -> None:
        """Shut it for everything but one dialogue; KafkaError if the connection takes no further request."""
        if self.has_ended or self.is_retired or self.session_is_over():
            raise self._gone()
        self._hold()

    def release(self) -> None:
        """End the hold of that dialogue."""
        self.is_held = False
        self._update()

    def retire(self) -> None:
        """Take no further request: the connection is closed when its requests have their answers."""
        # A connection that has ended keeps its gate open: requests that wait for the gate fail at their next check.
        if not self.has_ended and not self.is_held:
            self.is_retired = True
            self._hold()

    def open_for_good(self) -> None:
        """Open it because the connection has ended: waiting requests fail at their next check."""
        self.is_held = False
        self.room(has_room=True)

    def _hold(self) -> None:
        if self.is_held:
            raise RuntimeError("two dialogues cannot hold the same connection")
        self.is_held = True
        self._update()

    def _update(self) -> None:
        self.is_open = self._has_room and not self.is_held
        if self.is_open:
            self._opened.set()
        else:
            self._opened.clear()
