"""The numbers of a query's epochs in the program that runs it: the last ones, their sums, and a listener of Spark's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
from pyspark.sql.streaming.listener import StreamingQueryListener

from aioproducer.spark.shipping.shipment import Written

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["EpochProgress", "Progress", "SinkListener"]

KEPT: Final = 100


@attrs.frozen(kw_only=True)
class EpochProgress:
    """The numbers of one epoch. Times are in seconds, of the slowest task."""

    query: str | None
    """The id of the query; None where Spark does not pass it."""
    epoch: int
    tasks: int
    records_acked: int
    accepted_bytes: int
    """Of keys and values, before compression."""
    batches: int
    """Attempts to write a batch of Kafka."""
    records_retried: int
    dead_letters: int
    records_skipped: int
    """Rows that an earlier attempt has written."""
    aborted_attempts: int
    """Attempts of tasks that failed, and transactions that were repeated without rows that a broker refused."""
    fence_seconds: float
    send_seconds: float
    commit_seconds: float
    longest_delivery_seconds: float
    """From the opening of a batch to its outcome."""

    @classmethod
    def of(cls, written: Written, query: str | None, epoch: int) -> Self:
        """The numbers of what the tasks of an epoch have written."""
        return cls(
            query=query,
            epoch=epoch,
            tasks=written.tasks,
            records_acked=written.rows,
            accepted_bytes=written.bytes,
            batches=written.batches,
            records_retried=written.retried,
            dead_letters=written.dead_letters,
            records_skipped=written.skipped,
            aborted_attempts=written.aborted_attempts,
            fence_seconds=written.fence_seconds,
            send_seconds=written.seconds,
            commit_seconds=written.commit_seconds,
            longest_delivery_seconds=written.longest_delivery,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return attrs.asdict(self)


# Summed over epochs.
COUNTED: Final = (
    "records_acked", "accepted_bytes", "batches", "records_retried", "dead_letters", "records_skipped", "aborted_attempts",
    "fence_seconds", "send_seconds", "commit_seconds",
)  # fmt: skip


class Progress:
    """The epochs of one query. For any thread.

    With Spark Connect the epochs are written in another process, and nothing is here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[EpochProgress] = deque(maxlen=KEPT)
        self._totals: dict[str, float] = dict.fromkeys(COUNTED, 0)
        self._epochs = 0
        self._failed = 0

    def __reduce__(self) -> tuple[type[Progress], tuple[()]]:
        # Of another process.
        return type(self), ()

    @property
    def last(self) -> EpochProgress | None:
        """The last epoch."""
        with self._lock:
            return self._recent[-1] if self._recent else None

    @property
    def recent(self) -> tuple[EpochProgress, ...]:
        """The last 100 epochs, the newest one last."""
        with self._lock:
            return tuple(self._recent)

    @property
    def epochs(self) -> int:
        """The number of epochs that were written."""
        return self._epochs

    @property
    def failed_epochs(self) -> int:
        """The number of epochs that failed: Spark ends the query then."""
        return self._failed

    def totals(self) -> dict[str, float]:
        """The sums over all epochs, by the names of the fields."""
        with self._lock:
            return dict(self._totals)

    def of(self, query: str, epoch: int) -> EpochProgress | None:
        """The numbers of an epoch of this query, if they are still here."""
        wanted = query, epoch
        return next((each for each in reversed(self.recent) if (each.query, each.epoch) == wanted), None)

    def note(self, epoch: EpochProgress) -> None:
        """Called when an epoch is written."""
        with self._lock:
            self._recent.append(epoch)
            self._epochs += 1
            for name in COUNTED:
                self._totals[name] += getattr(epoch, name)

    def note_failure(self) -> None:
        """Called when an epoch has failed."""
        with self._lock:
            self._failed += 1


class SinkListener(StreamingQueryListener):
    """A listener for `spark.streams.addListener`: calls a function with each event of progress and the sink's numbers.

    The numbers are None for epochs of queries that are not among those of `progress`.
    """

    def __init__(
        self, call: Callable[[QueryProgressEvent, EpochProgress | None], object], *progress: Progress
    ) -> None:
        self._call = call
        self._progress = progress

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's
        """Nothing is to be done."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's
        query, epoch = str(event.progress.id), event.progress.batchId
        found = (each.of(query, epoch) for each in self._progress)
        self._call(event, next((each for each in found if each is not None), None))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's
        """Nothing is to be done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's
        """Nothing is to be done."""
