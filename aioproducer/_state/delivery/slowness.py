"""Why a delivery was slow: how long it was in which phase."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aioproducer._state.queues.batches import QueuedBatch

# Seconds from acceptance to acknowledgement after which the log gives the reason.
SLOW = 2.0
WORTH_MENTIONING = 0.01


class Stall(NamedTuple):
    """The event loop had no turn for so many seconds, until `ended_at`."""

    ended_at: float
    seconds: float


class Stalls:
    """The stalls of one event loop: the newest of them, and counters of all."""

    def __init__(self) -> None:
        self.recent: deque[Stall] = deque(maxlen=16)
        self.count = 0
        self.seconds = 0.0
        self.longest = 0.0

    def note(self, stall: Stall) -> None:
        """The loop had a turn again."""
        self.recent.append(stall)
        self.count += 1
        self.seconds += stall.seconds
        self.longest = max(self.longest, stall.seconds)


def phases(batch: QueuedBatch, stalls: Sequence[Stall], now: float) -> Iterator[str]:
    """The phases that took time, in their order, and what the loop had to do with it."""
    lingered_until = min(max(batch.linger_at, batch.opened_at), batch.drained_at)
    parts = (
        ("lingering", lingered_until - batch.opened_at),
        ("queued", batch.drained_at - lingered_until),
        (_attempts(batch), batch.written_at - batch.drained_at),
        ("network and broker", now - batch.written_at),
    )
    for name, seconds in parts:
        if seconds >= WORTH_MENTIONING:
            yield f"{name} {seconds:.2f} s"
    blocked = sum(stall.seconds for stall in stalls if stall.ended_at > batch.opened_at)
    if blocked >= WORTH_MENTIONING:
        yield f"your code blocked the event loop for {blocked * 1000:.0f} ms of it"


def _attempts(batch: QueuedBatch) -> str:
    return f"attempts that failed ({batch.attempts - 1}, the last with {batch.last_error})"
