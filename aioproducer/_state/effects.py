"""Effects: the work that an event of the state machines leaves for the network side.

The machines fill one `Effects` object while an event goes on. When the outermost event ends, `perform` is called once. An
event inside an event (a finalizer or a partitioner that sends) only adds effects.

A machine adds an effect before it changes the state that the effect announces. If the process has no memory for the
effect, the state is unchanged; an effect without a change of state is harmless. Effects that are set without memory
(flags, times) are slots.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._core import MemoryShare
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Flush
    from aioproducer._state.queues.partition_queue import NodeQueue, PartitionQueue
    from aioproducer.errors import KafkaError

P = ParamSpec("P")
R = TypeVar("R")


class Retried(NamedTuple):
    """A batch is sent again."""

    batch: QueuedBatch
    error: KafkaError
    at: float


class Ended(NamedTuple):
    """A batch that took long, or more than one attempt, has its outcome."""

    batch: QueuedBatch
    records: int
    error: KafkaError | None
    at: float
    others_wait: bool
    """Another batch of its partition waits for its next attempt."""


class OffsetWentBack(NamedTuple):
    """A broker assigned an offset that it had assigned before."""

    batch: QueuedBatch
    offset: int
    expected: int
    at: float


class Settled(NamedTuple):
    """All records of a batch have their outcome, or so many where they end one by one. Only listeners need it."""

    batch: QueuedBatch
    records: int
    size: int
    error: KafkaError | None
    at: float
    contexts: tuple[object, ...] = ()
    """The tokens of the contexts that these records were sent in."""


Report = Retried | Ended | OffsetWentBack | Settled


def _not_connected() -> None:
    """Stands in for `perform` until the machines have a dispatcher."""


class Effects:
    """The effects of one event, or of several. `perform` empties the object for its next use."""

    __slots__ = (
        "call_ended_last",
        "closed",
        "flush_without_memory",
        "flushed",
        "has_room",
        "identity_exhausted",
        "in_doubt",
        "losses",
        "nodes",
        "opened",
        "perform",
        "refused_ids",
        "reports",
        "reports_outcomes",
        "room_of",
        "stale",
        "under_way",
        "wake_at",
        "wanted",
    )

    def __init__(self) -> None:
        # Assigned by the dispatcher. Events that begin in the compiled core have no other caller that could perform
        # them.
        self.perform: Callable[[], None] = _not_connected
        # True from the begin of the outermost event until its effects are performed.
        self.under_way = False
        # Memory was freed, last in this share: waiting calls may have room.
        self.has_room = False
        self.room_of: MemoryShare | None = None
        # Brokers whose queue has a batch to send.
        self.nodes: dict[NodeQueue, None] = {}
        # The earliest time at which something becomes due.
        self.wake_at = math.inf
        # Batches to compress.
        self.closed: deque[QueuedBatch] = deque()
        # In transactions: partitions for which a batch was opened.
        self.opened: deque[PartitionQueue] = deque()
        # Errors of accepted records that are lost, or whose fate is unknown.
        self.losses: deque[KafkaError] = deque()
        # A batch was refused for a reason that only the coordinator knows.
        self.in_doubt = False
        # Completed flushes.
        self.flushed: deque[Flush] = deque()
        # A flush has an error, as there was no memory to track a record.
        self.flush_without_memory = False
        # Topics: the metadata is out of date; calls wait for the metadata; the leader does not know the topic's id.
        self.stale: dict[str, None] = {}
        self.wanted: dict[str, None] = {}
        self.refused_ids: deque[tuple[str, bytes]] = deque()
        # The last epoch of the producer id is in use.
        self.identity_exhausted = False
        # The last waiting call has ended.
        self.call_ended_last = False
        self.reports: deque[Report] = deque()
        # Set once: listeners want a report of each outcome of a batch.
        self.reports_outcomes = False

    def wake_by(self, due: float) -> None:
        """This time is a deadline."""
        if due < self.wake_at:  # noqa: PLR1730  # cheaper than a call of min()
            self.wake_at = due

    def room(self, share: MemoryShare | None = None) -> None:
        """Memory was freed (in this share)."""
        self.has_room, self.room_of = True, share

    def event(self, happen: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make these calls one event: the effects of all of them are performed together, also if they raise."""
        if self.under_way:
            return happen(*args, **kwargs)
        self.under_way = True
        try:
            return happen(*args, **kwargs)
        finally:
            # An error here must not suggest that the event did not happen: effects without memory are performed later.
            try:
                self.perform()
            finally:
                self.under_way = False


class HasEffects(Protocol):
    """A machine."""

    effects: Effects


M = TypeVar("M", bound=HasEffects)


def event(happen: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
    """Make a method of a machine an event: its effects are performed when it ends, unless it is part of another event."""

    @functools.wraps(happen)
    def entered(machine: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # Repeats `Effects.event` to save the call: some of these methods are events of each batch.
        effects = machine.effects
        if effects.under_way:
            return happen(machine, *args, **kwargs)
        effects.under_way = True
        try:
            return happen(machine, *args, **kwargs)
        finally:
            try:
                effects.perform()
            finally:
                effects.under_way = False

    return entered
