"""A fault: its target requests, its count, and its action."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs

from aioproducer.testing.broker.effects import Changes

Subject = tuple[str, int | None]
"""A topic of a request, and the partition if the request names one."""


@attrs.frozen
class Asked:
    """The facts of a request that faults are matched with."""

    broker: int
    api_key: int
    client_id: str | None = None
    subjects: tuple[Subject, ...] | None = ()
    """None: all topics."""
    step: int | None = None
    """Of an authentication: 0 is SaslHandshake, 1 the first SaslAuthenticate."""


@attrs.frozen
class Target:
    """The requests that a fault applies to; None matches everything."""

    api_key: int | None = None
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    step: int | None = None

    def covers(self, asked: Asked) -> bool:
        """Whether the request matches."""
        return (
            self.api_key in (None, asked.api_key)
            and self.broker in (None, asked.broker)
            and self.client_id in (None, asked.client_id)
            and self.step in (None, asked.step)
            and (
                self.topic is None
                or asked.subjects is None
                or any(self.names(*one) for one in asked.subjects)
            )
        )

    def names(self, topic: str, partition: int | None) -> bool:
        """Whether the topic and partition match."""
        return self.topic in (None, topic) and (partition is None or self.partition in (None, partition))


@attrs.frozen
class GiveError:
    """Answer with an error; with `append` the records are written nevertheless."""

    code: int
    append: bool = False
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


@attrs.frozen
class Hold:
    """Wait until the fault is released, or for this number of seconds; `before` the request is handled or after."""

    seconds: float | None
    before: bool


@attrs.frozen
class HoldMarkers:
    """Delay the markers of the transaction that this request ends until the fault is released, at most `seconds`."""

    seconds: float | None


@attrs.frozen
class Throttle:
    """Return `throttle_time_ms`, and do not read from the connection for that time."""

    milliseconds: int
    mute: bool


@attrs.frozen
class DropAnswer:
    """Handle the request without an answer."""


@attrs.frozen
class Silence:
    """Read the request and drop it."""


@attrs.frozen
class Cut:
    """End the connection instead of the answer: before the request is handled, or after it."""

    before: bool
    reset: bool
    notify: bool = True
    """Over TLS: with its close_notify."""


@attrs.frozen
class CutAnswer:
    """Send this number of bytes of the answer, its length included, and end the connection."""

    at_byte: int
    reset: bool


@attrs.frozen
class CutRecord:
    """Send this number of bytes of the TLS records of the answer, and end the connection."""

    at_byte: int
    reset: bool


@attrs.frozen
class CutHandshake:
    """End the connection after this number of bytes of the broker's part of the TLS handshake."""

    at_byte: int
    reset: bool


@attrs.frozen
class Certificate:
    """Open a connection with another TLS context."""

    context: ssl.SSLContext


@attrs.frozen
class Trickle:
    """Send the answer in pieces of this number of bytes, with pauses of this number of seconds."""

    piece: int
    pause: float


@attrs.frozen
class CutRequest:
    """End the connection after this number of bytes of the request, which is not handled."""

    at_byte: int
    reset: bool


@attrs.frozen
class EndWriting:
    """Answer, then close the broker's own direction of the connection only."""


@attrs.frozen
class Alter:
    """Change the answer before it is encoded."""

    change: Callable[[Any], Any]


@attrs.frozen
class Rewrite:
    """Change the bytes of the answer, its length included."""

    change: Callable[[bytes], bytes]


@attrs.frozen
class StopReading:
    """Leave received bytes in the socket's buffers."""


@attrs.frozen
class HangUp:
    """Accept a connection and close it."""

    reset: bool


Action = (
    GiveError | Hold | Throttle | DropAnswer | Silence | Cut | CutAnswer | CutRequest | EndWriting | Alter | Rewrite
    | StopReading | HangUp | HoldMarkers | CutRecord | CutHandshake | Certificate | Trickle
)  # fmt: skip
A = TypeVar("A", bound=Action)


@attrs.define(eq=False)
class Fault:
    """One active fault. It ends by `heal()`, by its count, or at the end of a `with` block."""

    target: Target
    action: Action
    skip: int = 0
    times: int | None = 1
    hits: int = 0
    healed: bool = False
    released: bool = False
    _changes: Changes = attrs.field(factory=Changes, repr=False)
    _waiting: list[asyncio.Future[None]] = attrs.field(factory=list, init=False, repr=False)

    @property
    def active(self) -> bool:
        """Whether it can still happen."""
        return not self.healed and (self.times is None or self.hits < self.times)

    def heal(self) -> None:
        """Remove the fault; the requests that it delays continue."""
        self.healed = True
        self.release()

    def release(self) -> None:
        """Let delayed requests continue, now and later; this does not heal the fault."""
        self.released = True
        self._changes.notify()

    def is_released(self) -> bool:
        """Whether delayed requests may continue."""
        return self.released

    async def reached(self, hits: int = 1) -> None:
        """Wait until the fault has happened this number of times."""
        while self.hits < hits:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def strike(self) -> bool:
        """Count a matching request; True if the fault happens to it."""
        if self.skip:
            self.skip -= 1
            return False
        self.hits += 1
        self._wake_waiting()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


@attrs.frozen
class Plan:
    """The faults of one request."""

    faults: tuple[Fault, ...] = ()

    def all_of(self, kind: type[A]) -> Iterable[A]:
        """The actions of a kind, oldest first."""
        return (fault.action for fault in self.faults if isinstance(fault.action, kind))

    def first(self, kind: type[A]) -> A | None:
        """The oldest action of a kind, or None."""
        return next(iter(self.all_of(kind)), None)

    def error(self, topic: str | None = None, partition: int | None = None) -> GiveError | None:
        """The error of a fault for the whole request, or for one of its topics or partitions."""
        for fault in self.faults:
            if isinstance(fault.action, GiveError) and _is_for(fault.target, topic, partition):
                return fault.action
        return None

    def marker_hold(self) -> tuple[Fault, HoldMarkers] | None:
        """The fault that delays markers."""
        for fault in self.faults:
            if isinstance(fault.action, HoldMarkers):
                return fault, fault.action
        return None

    def holds(self, *, before: bool) -> Iterable[tuple[Fault, Hold]]:
        """The faults that delay the request."""
        for fault in self.faults:
            if isinstance(fault.action, Hold) and fault.action.before is before:
                yield fault, fault.action


def _is_for(target: Target, topic: str | None, partition: int | None) -> bool:
    if topic is None:
        return target.topic is None
    return target.topic in (None, topic) and target.partition in (None, partition)


NO_FAULTS = Plan()
