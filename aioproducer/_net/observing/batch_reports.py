"""The report of a batch that has its outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aioproducer._state.connecting.endpoint import address_text
from aioproducer.listeners import BatchReport
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.cluster.metadata import MetadataView
    from aioproducer._state.effects import Settled


class BatchReporter:
    """Makes one report for each outcome of a batch, and passes it on."""

    def __init__(
        self, view: MetadataView, wall_ms: Callable[[], int], on_batch: Callable[[BatchReport], None]
    ) -> None:
        self._view = view
        self._wall_ms = wall_ms
        self._on_batch = on_batch

    def report(self, settled: Settled) -> None:
        """Records of a batch have this outcome."""
        batch, records, size, error, _, contexts = settled
        broker = batch.retry_leader if batch.attempts else None
        self._on_batch(
            BatchReport(
                batch.topic,
                batch.partition,
                records,
                batch.plain_size or size,
                size,
                Outcome.ACKED if error is None else error.outcome,
                error,
                batch.attempts,
                batch.base_offset if error is None else -1,
                None if broker is None else str(broker),
                None if broker is None else address_of(self._view, broker),
                batch.opened_at,
                _known(batch.drained_at),
                _known(batch.written_at),
                _known(batch.answered_at),
                self._now_ms(),
                contexts,
            )
        )

    def _now_ms(self) -> int:
        try:
            return self._wall_ms()
        except ReferenceError:
            # The clock belongs to the producer, which was dropped without close().
            return time.time_ns() // 1_000_000


def address_of(view: MetadataView, broker: int) -> str | None:
    """The address of a broker, None where it is not known any more."""
    node = view.brokers.node(broker)
    return None if node is None else address_text(node.host, node.port)


def _known(moment: float) -> float | None:
    # NaN: the batch did not reach that point.
    return moment if moment == moment else None  # noqa: PLR0124
