"""The figures of a measurement, in exactly the words of Kafka's own tool."""

from __future__ import annotations

from array import array

import attrs

from aioproducer.cli.latencies import quantile

MEBI = 1024.0 * 1024.0  # named MB in that tool
SAMPLES = 100_000


@attrs.define
class Latencies:
    """Latencies in seconds, and the times of the acknowledgements; of many records every n-th."""

    every: int = 1
    seconds: array[float] = attrs.Factory(lambda: array("d"))
    at: array[float] = attrs.Factory(lambda: array("d"))

    def add(self, seconds: float, at: float) -> None:
        """Add a sample."""
        self.seconds.append(seconds)
        self.at.append(at)


@attrs.define
class Counter:
    """The records acknowledged since its beginning."""

    began: float
    records: int = 0
    size: int = 0
    latencies: Latencies = attrs.Factory(Latencies)

    def count(self, records: int, size: int) -> None:
        """Add this number of records and of bytes."""
        self.records += records
        self.size += size

    def window(self, now: float) -> str:
        """The line about a reporting interval."""
        elapsed = max(now - self.began, 1e-9)
        seconds = self.latencies.seconds
        mean = sum(seconds) / len(seconds) * 1000 if seconds else 0.0
        most = max(seconds, default=0.0) * 1000
        return (
            f"{self.records} records sent, {self.records / elapsed:.1f} records/sec "
            f"({self.size / MEBI / elapsed:.2f} MB/sec), {mean:.1f} ms avg latency, {most:.1f} ms max latency."
        )

    def total(self, now: float, kind: str = "") -> str:
        """The line about the whole run; `kind` is "steady state " without the warm-up."""
        elapsed = max(now - self.began, 1e-9)
        ordered = sorted(self.latencies.seconds)
        mean = sum(ordered) / len(ordered) * 1000 if ordered else 0.0
        most = ordered[-1] * 1000 if ordered else 0.0
        middle, slow, slower, slowest = (
            int(quantile(ordered, fraction) * 1000) for fraction in (0.5, 0.95, 0.99, 0.999)
        )
        return (
            f"{self.records} {kind}records sent, {self.records / elapsed:f} records/sec "
            f"({self.size / MEBI / elapsed:.2f} MB/sec), {mean:.2f} ms avg latency, {most:.2f} ms max latency, "
            f"{middle} ms 50th, {slow} ms 95th, {slower} ms 99th, {slowest} ms 99.9th."
        )
