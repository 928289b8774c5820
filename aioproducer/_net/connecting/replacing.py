"""Replacing open connections one by one: after a change of credentials or certificates, and of the address of a broker."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from aioproducer._state.backoff import Backoff
from aioproducer.errors import KafkaError, StateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.log import Log
    from aioproducer._state.connecting.endpoint import BrokerEndpoint

__all__ = ["Replacement"]

# The user of a connection takes its successor at once, unless it has nothing to send.
_TAKEN_WITHIN: Final = 1.0
_PAUSE: Final = Backoff(1.0, 30.0)
# Seconds behind an attempt at a new place, also where the settings ask for none.
_LEAST_PAUSE: Final = 0.05
# A broker that does not answer holds up the others for so long.
_UNANSWERED: Final = 10.0
# No event says that an attempt of another caller was cancelled.
_LOOK_AGAIN: Final = 1.0


@attrs.define(eq=False)
class _Successor:
    """A connection that nothing uses yet. `timer` closes it in the end, where the user of the former one has not taken it."""

    endpoint: BrokerEndpoint
    connection: Connection
    timer: asyncio.TimerHandle | None = None


class Replacement:
    """Opens a successor of each connection that is to be left, and closes the connection then, behind its answers.

    `open_connections` are those of the producer, with their endpoints. The user of a connection gets its successor by
    `take_for()`, at the latest when the connection has ended; if it does not, anyone gets it by `take()`. A connection whose
    successor cannot be opened stays, and the attempt is repeated: it is of use until its session ends. `dial` opens a
    connection to an endpoint that may be dialed at `free_at`, when the pause of its address is over. A successor that nothing
    takes is closed after `max_idle_ms`, as any idle connection is. -1: there is no limit.

    New settings may be wrong, so they are tried at one connection after the other, with growing pauses. A broker that does
    not answer holds up the others for some seconds, and one that has moved concerns no other.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        open_connections: dict[Connection, BrokerEndpoint],
        dial: Callable[[BrokerEndpoint], Awaitable[Connection]],
        free_at: Callable[[tuple[str, int]], float],
        max_idle_ms: int,
        log: Log,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._open = open_connections
        self._dial = dial
        self._free_at = free_at
        self._max_idle = max_idle_ms / 1000
        self._log = log
        # The connections that were opened with former settings, the next one first.
        self._former: list[Connection] = []
        # The tasks for those whose successors are being opened. Some wait for brokers that do not answer.
        self._trying: dict[Connection, asyncio.Task[None]] = {}
        self._dialing: set[Connection] = set()
        # The tasks for connections whose brokers have moved, and their present endpoints.
        self._moving: dict[Connection, asyncio.Task[None]] = {}
        self._targets: dict[Connection, BrokerEndpoint] = {}
        # The connections that nothing uses yet, by those that they replace. A broker may have several: of a sender, of a
        # coordinator, and for metadata.
        self._successors: dict[Connection, _Successor] = {}
        # How often the settings have changed.
        self.changes = 0
        # The attempts in a row that opened no successor, since the newest change.
        self._failures = 0
        self._not_before = -math.inf
        # No warning says yet that connections stay as they are.
        self._is_to_tell = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The settings have changed: replace all connections that are open now. Returns at once, and may be called again."""
        self._is_to_tell = True
        self._failures, self._not_before = 0, -math.inf
        self.renew(None)

    def renew(self, but_for: Connection | None) -> None:
        """Replace each other connection that is open now. Returns at once."""
        self.changes += 1
        others = (each for each in self._open if each is not but_for)
        # The newest used one first: it shows soonest whether brokers accept the new settings where they are needed.
        self._former = sorted(others, key=attrgetter("last_used"), reverse=True)
        self._go_on()

    def lead_to(self, connection: Connection, endpoint: BrokerEndpoint) -> None:
        """The broker of a connection has this endpoint now: replace the connection if it leads elsewhere. Returns at once."""
        # An attempt that goes on is not given up: it may have presented the credentials.
        self._targets[connection] = endpoint
        if connection not in self._moving and not self._has_arrived(connection):
            moving = self._loop.create_task(self._move(connection), name="aioproducer moved broker")
            self._moving[connection] = moving
        elif connection not in self._moving:
            del self._targets[connection]

    def _has_arrived(self, connection: Connection) -> bool:
        is_in_use = connection in self._open and not connection.gate.is_retired
        return not is_in_use or self._open[connection].address == self._targets[connection].address

    def opened(self, connection: Connection, changes: int) -> None:
        """A connection was opened. `changes`: those at its start; it is replaced as well if one came since."""
        if changes != self.changes:
            self._former.append(connection)
            self._go_on()
        self.note()

    def take(self, endpoint: BrokerEndpoint) -> Connection | None:
        """A connection to this endpoint whose user has not taken it, if there is one: it belongs to the caller."""
        for former, successor in list(self._successors.items()):
            # As long as the former one is open, its user takes it.
            if successor.endpoint == endpoint and former.closed:
                taken = self.take_for(former)
                if taken is not None:
                    return taken[1]
        return None

    def take_for(self, former: Connection) -> tuple[BrokerEndpoint, Connection] | None:
        """The successor of this connection with its endpoint: it belongs to the caller. The broker may have moved meanwhile."""
        if former not in self._successors:
            return None
        successor = self._forget(former)
        self.note()
        is_of_use = successor.connection.gate.takes_requests
        return (successor.endpoint, successor.connection) if is_of_use else None

    def ended(self, connection: Connection) -> None:
        """A connection has ended. Its user takes the successor in this turn of the loop."""
        for former, successor in list(self._successors.items()):
            if successor.connection is connection:
                self._forget(former)
        if connection in self._successors:
            self._limit(connection)
        self.note()

    def note(self) -> None:
        """A connection was opened or taken, or could not be opened."""
        self._changed.set()

    def end(self) -> None:
        """Leave the remaining connections as they are."""
        # The loop may have been closed first, and its tasks with it.
        if self._loop.is_closed():
            self._successors.clear()
            return
        if self._task is not None:
            self._task.cancel()
        for task in (*self._trying.values(), *self._moving.values()):
            task.cancel()
        for former in list(self._successors):
            self._forget(former)

    # -- new settings

    def _go_on(self) -> None:
        self.note()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run(), name="aioproducer replacement")

    async def _run(self) -> None:
        while (former := self._next()) or self._trying:
            if former is None:
                await self._change_within(math.inf)
                continue
            pause = self._may_be_replaced_at(former) - self._loop.time()
            if pause > 0:
                await self._change_within(min(pause, _LOOK_AGAIN))
            else:
                await self._try(former)
        # Each has its successor: the new settings are not wrong.
        self._is_to_tell = False

    def _next(self) -> Connection | None:
        self._former = [each for each in self._former if not (each.closed or each.gate.is_retired)]
        waiting = (each for each in self._former if each not in self._trying)
        return min(waiting, key=self._may_be_replaced_at, default=None)

    def _may_be_replaced_at(self, connection: Connection) -> float:
        return max(self._free_at(self._open[connection].address), self._not_before)

    async def _try(self, former: Connection) -> None:
        trying = self._loop.create_task(self._replace(former), name="aioproducer replaced connection")
        self._trying[former] = trying
        trying.add_done_callback(partial(self._tried, former))
        await asyncio.wait((trying,), timeout=_UNANSWERED)
        if former not in self._dialing:
            await asyncio.wait((trying,))

    def _tried(self, former: Connection, _task: asyncio.Task[None]) -> None:
        del self._trying[former]
        self.note()

    async def _replace(self, former: Connection) -> None:
        if former not in self._open:
            return  # it ended in the turn in which this task was started
        endpoint, changes = self._open[former], self.changes
        self._dialing.add(former)
        try:
            successor = await self._dial(endpoint)
        except KafkaError:
            if changes == self.changes:
                self._failed(former)
            return
        finally:
            self._dialing.discard(former)
        if former.gate.is_retired and former in self._successors:
            # Its broker has moved meanwhile, and it is replaced by a connection to the new place.
            successor.departure.leave()
            return
        self._keep(former, endpoint, successor)
        former.departure.leave_when_answered()
        if changes != self.changes:
            return
        self._failures = 0
        # One after the other, but a broker that holds an answer holds up no further change.
        await self._until(lambda: former not in self._open or changes != self.changes)
        with anyio.move_on_after(_TAKEN_WITHIN):
            await self._until(lambda: former not in self._successors or changes != self.changes)

    def _failed(self, former: Connection) -> None:
        # The others first: they may be accepted.
        self._former.sort(key=lambda connection: connection is former)
        self._not_before = self._loop.time() + _PAUSE.after(self._failures, self._rng)
        self._failures += 1
        # A broker that has ended its connection as well is down.
        if self._is_to_tell and not former.closed:
            self._is_to_tell = False
            self._log.warning(
                "no connection could be opened with the new credentials or certificates: %d open connections stay as they are",
                sum(not connection.closed for connection in self._former),
            )

    # -- brokers that have moved

    async def _move(self, former: Connection) -> None:
        while not self._has_arrived(former):
            endpoint = self._targets[former]
            try:
                successor = await self._dial(endpoint)
            except StateError:
                break  # the producer was closed
            except KafkaError:
                # The next attempt waits for the pause of its address, too.
                await anyio.sleep(_LEAST_PAUSE)
                continue
            if endpoint.address != self._targets[former].address:
                successor.departure.leave()
                continue
            self._keep(former, endpoint, successor)
            former.departure.leave_when_answered()
            break
        self._moving.pop(former, None)
        self._targets.pop(former, None)

    # -- successors

    def _keep(self, former: Connection, endpoint: BrokerEndpoint, successor: Connection) -> None:
        first = self._first(former)
        if first is not former:
            # It has no user yet. That of the first connection takes the newest one, within the same time.
            kept = self._successors[first]
            kept.endpoint, kept.connection = endpoint, successor
            return
        if former in self._successors:
            # Its broker has moved while the settings changed.
            self._close_unused(former)
        self._successors[former] = _Successor(endpoint, successor)
        if former.closed:
            self._limit(former)

    def _first(self, former: Connection) -> Connection:
        """The connection whose user takes the successor of this one."""
        kept = self._successors.items()
        return next((first for first, successor in kept if successor.connection is former), former)

    def _limit(self, former: Connection) -> None:
        if self._max_idle > 0:
            timer = self._loop.call_later(self._max_idle, self._close_unused, former)
            self._successors[former].timer = timer

    def _close_unused(self, former: Connection) -> None:
        self._forget(former).connection.departure.leave()

    def _forget(self, former: Connection) -> _Successor:
        successor = self._successors.pop(former)
        if successor.timer is not None:
            successor.timer.cancel()
        return successor

    async def _change_within(self, seconds: float) -> None:
        self._changed.clear()
        with anyio.move_on_after(seconds):
            await self._changed.wait()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._change_within(math.inf)
