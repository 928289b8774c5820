"""Effects: the work that an event of the state machines leaves for the network side.

The machines fill one `Effects` object while an event goes on. When the outermost event ends, `perform` is called once. An
event inside an event (a finalizer or a partitioner that sends) only adds effects.

A machine adds an effect before it changes the state that the effect announces. If the process has no memory for the
effect, the state is unchanged; an effect without a change of state is harmless. Effects that are set without memory
(flags, times) are slots.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from aioproducer._core import EventEffects

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

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


class Effects(EventEffects):
    """The effects of one event, or of several. `perform` empties the object for its next use."""

    __slots__ = ()

    perform: Callable[[], None]
    nodes: dict[NodeQueue, None]
    closed: deque[QueuedBatch]
    opened: deque[PartitionQueue]
    losses: deque[KafkaError]
    flushed: deque[Flush]
    reports: deque[Report]

    def __init__(self) -> None:
        super().__init__()
        # Assigned by the dispatcher.
        self.perform = _not_connected

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
