"""Losses: records fail, and in gapless mode the later records of their partition fail with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.effects import event
from aioproducer._state.queues.gapless import Gap, gap_of

if TYPE_CHECKING:
    from aioproducer._state.delivery.outcomes import Outcomes
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Flush
    from aioproducer.errors import KafkaError

# Fewer gaps are kept until a flush, read or not.
TIDY_FROM = 64


class Losses:
    """Ends records as lost. With `gapless`, a loss opens a gap in its partition."""

    def __init__(self, outcomes: Outcomes, *, gapless: bool) -> None:
        self.outcomes = outcomes
        self.accumulator = outcomes.accumulator
        self.effects = outcomes.effects
        self.tally = outcomes.tally
        self.gapless = gapless
        # The gaps that may be open; at most about twice those that are.
        self.gaps: list[Gap] = []
        self._tidy_at = TIDY_FROM

    @event
    def fail(self, batch: QueuedBatch, error: KafkaError, now: float) -> None:
        """The records of the batch that have no outcome yet are lost."""
        # First: without memory for what follows, the transaction is not committed without these records.
        if batch.pending:
            self.effects.losses.append(error)
        self.outcomes.conclude(batch, error, now)
        number = self.tally.failures
        if self.gapless:
            self._open_gap(batch, error, now, number)

    def fail_some(self, batch: QueuedBatch, indexes: list[int], error: KafkaError, now: float) -> None:
        """These records of the batch are lost; the others go on where nothing forbids it."""
        self.effects.losses.append(error)
        self.outcomes.end_some(batch, indexes, error, now)
        number = self.tally.failures
        # A batch that was written once goes on as a whole, including the records whose senders have given up.
        if self.gapless and not batch.attempts:
            self._open_gap(batch, error, now, number, after=indexes[0])

    def _open_gap(
        self, batch: QueuedBatch, error: KafkaError, now: float, number: int, after: int = -1
    ) -> None:
        """A record was lost: later unwritten batches end now; batches in flight end when their fate is known."""
        queue = batch.queue
        gap = gap_of(queue)
        if gap is None:
            gap = queue.gap = Gap(error, now, number)
            gap.is_shared = batch.record_count > 1
            self._keep(gap)
        else:
            gap.is_shared = True
        queue.lost_at = self.accumulator.lost_at = now
        batch.read_mark = gap
        if not batch.settled:
            rest = [index for index in batch.pending_indexes() if index > after]
            if rest:
                self.outcomes.end_some(batch, rest, gap.error(batch, now), now)
        if not batch.settled and queue.open is batch:
            # Records that are accepted from now on are behind the loss.
            self.accumulator.shut(batch, now)
        behind = {other for other in (*queue.sent, *queue.queue) if other.order > batch.order}
        for other in sorted(behind, key=lambda other: other.order):
            self._end_behind(other, gap, now)

    def _keep(self, gap: Gap) -> None:
        self.gaps.append(gap)
        if len(self.gaps) >= self._tidy_at:
            # Not at each loss: thousands of partitions that lose records at once would hold the loop for seconds.
            self._drop_closed()

    def _drop_closed(self) -> None:
        self.gaps = [gap for gap in self.gaps if gap.open]
        self._tidy_at = max(TIDY_FROM, 2 * len(self.gaps))

    def _end_behind(self, batch: QueuedBatch, gap: Gap, now: float) -> None:
        batch.gap = batch.read_mark = gap
        gap.is_shared = True
        if not batch.in_flight and not batch.dirty:
            self.outcomes.conclude(batch, gap.error(batch, now), now)

    @event
    def fail_late_comer(self, batch: QueuedBatch, index: int) -> None:
        """The call came before its partition lost a record, and its record was placed after the loss."""
        gap = batch.queue.gap
        if gap is not None and batch.gap is None:
            self.outcomes.end_some(batch, [index], gap.error(batch, batch.opened_at), batch.opened_at)

    def is_only_loss(self, topic: str, partition: int | None) -> bool:
        """True when nothing is missing in this partition, in gapless mode, but one record that was lost and set aside."""
        queues = self.accumulator.cluster.topics.get(topic)
        if queues is None or partition is None or not 0 <= partition < len(queues.partitions):
            return True
        queue = queues.partitions[partition]
        gap = None if queue is None else gap_of(queue)  # type: ignore[arg-type]  # a PartitionQueue
        if gap is None or queue is None:
            return True
        # A call that waits was made before the loss, perhaps, and fails then.
        return not (gap.is_shared or queues.waiting or queue.waiting or queue.share.waiting)

    def gaps_seen(self, flush: Flush | None = None) -> None:
        """All losses so far, or those that this flush covers, were reported."""
        if not self.gaps:
            return
        for gap in self.gaps:
            gap.seen = gap.seen or flush is None or flush.knows_of(gap.failure)
        self._drop_closed()
