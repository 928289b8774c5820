"""Replacing open connections one by one, after a change of the credentials or certificates that they were opened with."""

from __future__ import annotations

import asyncio
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.refusals import Refusals
    from aioproducer._net.log import Log

__all__ = ["Replacement"]

# A connection that nothing uses has no successor until it is needed.
_SUCCESSOR_WITHIN: Final = 1.0
# The first one may be refused: its result is waited for, unless nothing uses it or its broker does not answer.
_PROOF_WITHIN: Final = 30.0


class Replacement:
    """Closes connections, each after its answers. Its user opens the next one, with the new settings.

    `open_connections` are those of the producer, by their addresses. Where a broker refuses the credentials, the remaining
    connections stay open until another one accepts them: they are of use until their sessions end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_connections: dict[Connection, tuple[str, int]],
        refusals: Refusals,
        log: Log,
    ) -> None:
        self._loop = loop
        self._open = open_connections
        self._refusals = refusals
        self._log = log
        self._former: list[Connection] = []
        # How often a replacement has begun, and the addresses that accepted nothing before the newest.
        self.changes = 0
        self._refused_before: frozenset[tuple[str, int]] = frozenset()
        # Their number when a connection was opened that began after the newest.
        self._proven = 0
        # The addresses at which the newest could not be used, refusals apart.
        self._not_accepted: set[tuple[str, int]] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, but_for: frozenset[tuple[str, int]] = frozenset()) -> None:
        """Replace all connections that are open now; returns at once. A second call replaces those of the first one as well.

        `but_for`: addresses that accept nothing already, for another reason than the change.
        """
        self.changes += 1
        self._refused_before = but_for | self._refusals.refusing
        self._not_accepted.clear()
        # The newest used one first: it is the first to have a successor, which shows whether brokers accept the new credentials.
        self._former = sorted(self._open, key=attrgetter("last_used"), reverse=True)
        self._go_on()

    def opened(self, connection: Connection, changes: int) -> None:
        """A connection was opened. `changes`: those at its start; it is replaced as well if one came since."""
        if changes == self.changes:
            self._proven = changes
            self._not_accepted.clear()
        else:
            self._former.append(connection)
        if self._former:
            self._go_on()
        self.note()

    def not_accepted(self, address: tuple[str, int], changes: int) -> None:
        """Credentials or certificates could not be used, without a refusal. `changes`: those at the start of the attempt."""
        if self.changes == changes and address not in self._refused_before:
            self._not_accepted.add(address)

    def _go_on(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="aioproducer replacement")

    def end(self) -> None:
        """Leave the remaining connections as they are."""
        # The loop may have been closed first, and its tasks with it.
        if self._task is not None and not self._loop.is_closed():
            self._task.cancel()

    async def _run(self) -> None:
        while self._former:
            if self._is_refused():
                count = sum(not connection.closed for connection in self._former)
                self._log.warning(
                    "the new credentials or certificates are not accepted: %d open connections stay as they are",
                    count,
                )
                return
            connection = self._former.pop(0)
            if connection.closed:
                continue
            address = self._open[connection]
            connection.departure.leave_when_answered()
            await self._until(partial(self._is_gone, connection))
            with anyio.move_on_after(_SUCCESSOR_WITHIN):
                await self._until(partial(self._has_successor, address))
            if self._former and not self._is_proven():
                with anyio.move_on_after(_PROOF_WITHIN):
                    await self._until(self._is_proven)

    def note(self) -> None:
        """A connection was opened, has ended, or could not be opened."""
        self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _is_gone(self, connection: Connection) -> bool:
        return connection not in self._open

    def _has_successor(self, address: tuple[str, int]) -> bool:
        return self._is_refused() or address in self._open.values()

    def _is_proven(self) -> bool:
        """Whether a broker has accepted, or refused, the new credentials or certificates."""
        return self._proven == self.changes or self._is_refused()

    def _is_refused(self) -> bool:
        """Whether brokers do not accept the new ones: one of them, or two where another one has accepted them.

        Refusals from before a change of certificates have nothing to do with it.
        """
        refusing = self._refusals.refusing - self._refused_before
        return len(refusing | self._not_accepted) > (self._proven == self.changes)
