"""The counters of one producer: those that a failed start or a failed producer leaves go on when it is started again."""

from __future__ import annotations

import attrs

from aioproducer._net.connecting.connection.traffic import Traffic
from aioproducer._state.admission.waits import Waits
from aioproducer._state.delivery.slowness import Stalls
from aioproducer._state.delivery.tally import Tally
from aioproducer._state.transactions.counts import TransactionCounts

__all__ = ["Counters"]


@attrs.define(eq=False)
class Counters:
    """Everything that a producer counts, but for the records that it has accepted: the core counts these."""

    tally: Tally = attrs.Factory(Tally)
    waits: Waits = attrs.Factory(Waits)
    stalls: Stalls = attrs.Factory(Stalls)
    transactions: TransactionCounts = attrs.Factory(TransactionCounts)
    metadata: Traffic = attrs.Factory(Traffic)
    """Of the connection that metadata is asked on."""
    brokers: dict[int, Traffic] = attrs.Factory(dict)
    had_a_start: bool = False

    def begin_again(self) -> None:
        """The producer is started again: errors and times of its former life, and of its event loop, mean nothing now."""
        self.had_a_start = True
        self.tally.begin_again()
        self.stalls.recent.clear()
        self.transactions.begin_again()
