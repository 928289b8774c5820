"""The report of a batch that has its outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aioproducer._state.connecting.endpoint import address_text
from aioproducer.listeners import BatchReport
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._state.cluster.metadata import MetadataView, Node
    from aioproducer._state.effects import Settled


class BatchReporter:
    """Makes one report for each outcome of a batch, and passes it on."""

    def __init__(
        self, view: MetadataView, wall_ms: Callable[[], int], on_batch: Callable[[BatchReport], None]
    ) -> None:
        self._view = view
        self._wall_ms = wall_ms
        self._on_batch = on_batch
        self._texts: dict[int, tuple[Node | None, tuple[str, str | None]]] = {}

    def report(self, settled: Settled) -> None:
        """Records of a batch have this outcome."""
        batch, records, size, error, _, contexts = settled
        name, address = self._broker_of(batch.retry_leader) if batch.attempts else (None, None)
        drained_at, written_at, answered_at = batch.drained_at, batch.written_at, batch.answered_at
        # The constructor without the frame of a named tuple. NaN: the batch did not reach that point.
        self._on_batch(
            tuple.__new__(
                BatchReport,
                (
                    batch.topic,
                    batch.partition,
                    records,
                    batch.plain_size or size,
                    size,
                    Outcome.ACKED if error is None else error.outcome,
                    error,
                    batch.attempts,
                    batch.base_offset if error is None else -1,
                    name,
                    address,
                    batch.opened_at,
                    drained_at if drained_at == drained_at else None,  # noqa: PLR0124
                    written_at if written_at == written_at else None,  # noqa: PLR0124
                    answered_at if answered_at == answered_at else None,  # noqa: PLR0124
                    self._now_ms(),
                    contexts,
                ),
            )
        )

    def _broker_of(self, broker: int) -> tuple[str, str | None]:
        """The id of a broker as text, and its address."""
        node = self._view.brokers.node(broker)
        known = self._texts.get(broker)
        if known is None or known[0] is not node:
            # The texts are made once for each answer with metadata.
            known = self._texts[broker] = node, (str(broker), _address(node))
        return known[1]

    def _now_ms(self) -> int:
        try:
            return self._wall_ms()
        except ReferenceError:
            # The clock belongs to the producer, which was dropped without close().
            return time.time_ns() // 1_000_000


def address_of(view: MetadataView, broker: int) -> str | None:
    """The address of a broker, None where it is not known any more."""
    return _address(view.brokers.node(broker))


def _address(node: Node | None) -> str | None:
    return None if node is None else address_text(node.host, node.port)
