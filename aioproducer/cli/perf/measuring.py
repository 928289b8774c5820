"""Measuring every record: counts, latencies, failures."""

from __future__ import annotations

from collections import Counter as Tally
from math import inf

from aioproducer import Delivery, Outcome
from aioproducer.cli.perf.figures import SAMPLES, Counter, Latencies
from aioproducer.cli.watch import Watch

Sent = tuple[float, int]  # when, and how many bytes


class Measure:
    """Counts acknowledged records in three ways: all, since the last line, and after the warm-up."""

    def __init__(self, records: int, began: float) -> None:
        self.watch: Watch[Sent] = Watch(self._settled)
        self.failures: Tally[str] = Tally()
        # Reading the clock for each record would be a large part of the whole cost.
        self._every = max(1, records // SAMPLES)
        self._to_next = self._every
        self.all = self._counter(began)
        self.window = self._counter(began)
        self.steady = self._counter(inf)

    def _counter(self, began: float) -> Counter:
        return Counter(began, latencies=Latencies(self._every))

    def new_window(self, now: float) -> Counter:
        """Begin another interval, and return the one that ends."""
        self.watch.look()
        ended, self.window = self.window, self._counter(now)
        return ended

    def warmed_up(self, now: float) -> None:
        """Count records that are sent from now on in `steady` too."""
        self.steady = self._counter(now)

    def failed(self, reason: object) -> None:
        """Count a record that was not acknowledged."""
        self.failures[str(reason)] += 1

    def _settled(self, arrived: list[tuple[Sent, Delivery]]) -> None:
        acked, warm = Outcome.ACKED, self.steady.began
        records = size = steady_records = steady_size = 0
        for (began, length), delivery in arrived:
            if delivery.outcome is not acked:
                self.failed(delivery.exception())
                continue
            records += 1
            size += length
            if began >= warm:
                steady_records += 1
                steady_size += length
            self._to_next -= 1
            if not self._to_next:
                self._sample(began, delivery)
        self.all.count(records, size)
        self.window.count(records, size)
        self.steady.count(steady_records, steady_size)

    def _sample(self, began: float, delivery: Delivery) -> None:
        self._to_next = self._every
        answered = delivery.timings.answered or began
        for counter in (self.all, self.window, self.steady):
            if began >= counter.began or counter is not self.steady:
                counter.latencies.add(answered - began, answered)
