"""A tiny model of brokers that handle Produce requests: logs, and the state of idempotent producers."""

from __future__ import annotations

from collections import deque

import attrs

from tests.state.machines import WrittenBatch, read_batch

SEQUENCES = 1 << 31
REMEMBERED = 5

OK, NOT_LEADER, TIMED_OUT, OUT_OF_ORDER, STALE_EPOCH = 0, 6, 7, 45, 47


@attrs.define
class ProducerState:
    """The state that a partition keeps of one producer: its epoch and its newest batches (ProducerStateEntry)."""

    epoch: int
    batches: deque[tuple[int, int, int]] = attrs.Factory(lambda: deque(maxlen=REMEMBERED))


@attrs.define
class PartitionLog:
    """The log of one partition; it moves with the leadership, as a replicated log does."""

    values: list[bytes | None] = attrs.Factory(list)
    producers: dict[int, ProducerState] = attrs.Factory(dict)

    def append(self, data: bytes) -> tuple[int, int]:
        """Append a batch by the rules of ProducerAppendInfo: (error code, base offset)."""
        batch = read_batch(data)
        last = (batch.sequence + batch.count - 1) % SEQUENCES
        state = self.producers.get(batch.producer_id)
        if state is not None:
            for first, end, offset in state.batches:
                if state.epoch == batch.epoch and (first, end) == (batch.sequence, last):
                    return OK, offset
            refused = self._refused(state, batch)
            if refused:
                return refused, -1
        if state is None or state.epoch != batch.epoch:
            state = self.producers[batch.producer_id] = ProducerState(batch.epoch)
        offset = len(self.values)
        state.batches.append((batch.sequence, last, offset))
        self.values.extend(batch.values)
        return OK, offset

    def restart(self) -> None:
        """The leader was restarted, and has read its snapshot: that has the newest batch of each producer only."""
        for state in self.producers.values():
            while len(state.batches) > 1:
                state.batches.popleft()

    def _refused(self, state: ProducerState, batch: WrittenBatch) -> int:
        if batch.epoch < state.epoch:
            return STALE_EPOCH
        if batch.epoch > state.epoch:
            return OUT_OF_ORDER if batch.sequence else OK
        expected = (state.batches[-1][1] + 1) % SEQUENCES
        return OK if batch.sequence == expected else OUT_OF_ORDER
