"""The delay of the first records of a transaction, which keeps a broker from delaying them for longer.

Kafka answers EndTxn before it has written the markers of the transaction. On level 2 a leader that gets the next
transaction's records before that is done keeps them for 20 ms and looks again
(`add.partitions.to.txn.retry.backoff.ms`). No answer says when the markers are written: the delay is learned from latencies.
"""

from __future__ import annotations

from math import inf

# An answer that took this much longer than usual was delayed by the broker; an even longer time has another reason.
KEPT, SOMETHING_ELSE = 0.018, 0.030
# Somewhat longer after each time that it did, and slowly shorter while it does not: as being kept costs 20 ms, it may come
# to that once in many hundred transactions. Measured: larger steps cost more than they find.
LONGER, STEP, SHORTER = 1.1, 0.00003, 0.0004
# SHORTER is the part that a step takes off at first: twice that after so many in a row that were not kept, and so on, up to
# the largest.
SURE, LARGEST = 500, 0.01
# A delay of this length that does not help is given up.
MOST = 0.008
# The first records of a transaction that came no later than this after the marker delay show that it is long enough.
NEAR = 0.001


class MarkerDelay:
    """The time after the end of a transaction in which nothing of the next one is sent."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._usual = inf
        self._ended_at = -inf
        self._is_first = True
        self._sent_at: float | None = None
        # Transactions in a row whose records were not kept.
        self._long_enough = 0

    @property
    def until(self) -> float:
        """When the first records may leave; those behind them always may."""
        return self._ended_at + self.seconds if self._is_first else -inf

    def ended(self, now: float) -> None:
        """The coordinator has answered EndTxn."""
        self._ended_at = now
        self._is_first, self._sent_at = True, None

    def sent(self, now: float) -> None:
        """Records leave."""
        if self._is_first:
            self._is_first, self._sent_at = False, now

    def answered(self, now: float) -> None:
        """A broker has answered for records."""
        if self._sent_at is not None:
            sent_at, self._sent_at = self._sent_at, None
            self._learn(sent_at - self._ended_at, now - sent_at)

    def _learn(self, lull: float, took: float) -> None:
        longer = took - self._usual
        if longer >= SOMETHING_ELSE:
            # Usual from now on, or the next one takes this back.
            self._usual = took
        elif longer >= KEPT:
            self.seconds = 0.0 if self.seconds >= MOST else min(self.seconds * LONGER + STEP, MOST)
            self._long_enough = 0
            # Should brokers be as slow as this from now on, that is usual in the end.
            self._usual += longer / 512
        else:
            self._usual = took if took < self._usual else self._usual + longer / 16
            if lull <= self.seconds + NEAR:
                self._long_enough += 1
                self.seconds *= 1 - min(SHORTER * (1 + self._long_enough / SURE), LARGEST)
