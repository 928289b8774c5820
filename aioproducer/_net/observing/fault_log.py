"""Log lines about faults: one line for a whole fault when it is over, some while it lasts, none per record."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._state.delivery.slowness import SLOW, phases
from aioproducer.errors import error_name
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aioproducer._net.log import Log
    from aioproducer._state.delivery.slowness import Stall
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer.errors import KafkaError

# The interval of lines about a lasting fault, and about slow deliveries.
LOG_INTERVAL = 10.0
# A shorter fault is not noticeable.
SHORTEST_LOGGED = 1.0
NAMED = 3


@attrs.define(eq=False)
class Outage:
    """Partitions that a broker has not accepted since some moment."""

    since: float
    told_at: float
    partitions: set[str] = attrs.Factory(set)
    open: set[str] = attrs.Factory(set)
    repeats: int = 0
    written: int = 0
    lost: dict[Outcome, int] = attrs.Factory(dict)
    error: KafkaError | None = None


class FaultLog:
    """Follows the batches that had to be sent again, broker by broker, and logs their outcome."""

    def __init__(self, stalls: Callable[[], Sequence[Stall]], log: Log) -> None:
        self._log = log
        self._stalls = stalls
        self._outages: dict[int, Outage] = {}
        self._slow_told_at = -LOG_INTERVAL
        self._loss_told_at = -LOG_INTERVAL

    # -- faults

    @property
    def unfinished(self) -> list[int]:
        """The brokers with faults that are not over."""
        return list(self._outages)

    def retried(self, batch: QueuedBatch, error: KafkaError, now: float) -> None:
        """A batch will be sent again."""
        broker = batch.retry_leader
        trouble = self._outages.get(broker)
        if trouble is None:
            trouble = self._outages[broker] = Outage(now, now)
        name = _place(batch)
        trouble.partitions.add(name)
        trouble.open.add(name)
        trouble.repeats += 1
        trouble.error = error
        if now >= trouble.told_at + LOG_INTERVAL:
            trouble.told_at = now
            text = self._beginning(broker, trouble, now)
            self._log.warning("%s, and is tried again", text, extra=_fields(broker, batch, error))

    def ended(
        self, batch: QueuedBatch, count: int, error: KafkaError | None, now: float, others_wait: bool
    ) -> None:
        """A batch that took long, or more than one attempt, has its outcome."""
        if batch.last_error is not None or error is not None:
            self._leave_troubles(batch, count, error, now, others_wait)
        if error is None and now - batch.opened_at >= SLOW:
            self._tell_slow(batch, now)

    def _leave_troubles(
        self, batch: QueuedBatch, count: int, error: KafkaError | None, now: float, others_wait: bool
    ) -> None:
        name = _place(batch)
        for broker, trouble in list(self._outages.items()):
            if name not in trouble.open:
                continue
            if error is None:
                trouble.written += count
            elif count:
                trouble.lost[error.outcome] = trouble.lost.get(error.outcome, 0) + count
            if not others_wait:
                trouble.open.discard(name)
            if not trouble.open:
                del self._outages[broker]
                self._tell_the_end(broker, trouble, now)

    def _tell_the_end(self, broker: int, trouble: Outage, now: float) -> None:
        short = now - trouble.since < SHORTEST_LOGGED and not trouble.lost
        self._log.log(
            logging.INFO if short else logging.WARNING,
            "%s; sent again %s, then %s",
            self._beginning(broker, trouble, now),
            _times(trouble.repeats),
            _what_became_of_it(trouble),
            extra=_fields(broker, None, trouble.error),
        )

    def _beginning(self, broker: int, trouble: Outage, now: float) -> str:
        return f"broker {broker}: {_listed(trouble.partitions)} not written for {now - trouble.since:.2f} s ({trouble.error})"

    # -- losses of the cluster

    def offset_went_back(self, batch: QueuedBatch, offset: int, expected: int, now: float) -> None:
        """A broker assigned an offset that it had assigned before: acknowledged records may be gone from its log."""
        if now < self._loss_told_at + SHORTEST_LOGGED:
            return
        self._loss_told_at = now
        self._log.warning(
            "suspected data loss in %s: a record was written at offset %d, though records up to %d were acknowledged "
            "before; an unclean leader election does that (stats().suspected_data_losses counts)",
            _place(batch),
            offset,
            expected - 1,
            extra=_fields(batch.retry_leader, batch),
        )

    # -- slowness

    def _tell_slow(self, batch: QueuedBatch, now: float) -> None:
        if now < self._slow_told_at + LOG_INTERVAL:
            return
        self._slow_told_at = now
        self._log.warning(
            "a delivery took %.2f s (%s): %s",
            now - batch.opened_at,
            _place(batch),
            ", ".join(phases(batch, self._stalls(), now)),
            extra=_fields(batch.retry_leader, batch),
        )


def _fields(broker: int, batch: QueuedBatch | None, error: KafkaError | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {"broker": broker}
    if batch is not None:
        fields |= {"topic": batch.topic, "partition": batch.partition}
    return fields if error is None else {**fields, "error": error_name(error)}


def _place(batch: QueuedBatch) -> str:
    return f"{batch.topic}-{batch.partition}"


def _listed(names: set[str]) -> str:
    known = sorted(names)
    rest = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"{', '.join(known[:NAMED])}{rest}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _what_became_of_it(trouble: Outage) -> str:
    told = [f"written: {trouble.written}"] if trouble.written else []
    told += [f"{outcome.value}: {count}" for outcome, count in trouble.lost.items()]
    return f"records {', '.join(told)}" if told else "withdrawn"
