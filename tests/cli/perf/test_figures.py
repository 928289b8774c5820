"""Latencies as figures, bars and pictures; and the samples that are kept while records are in flight."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

import pytest
from rich.console import Console

from aioproducer import Delivery, Outcome, Producer
from aioproducer.cli.latencies import histogram, quantile
from aioproducer.cli.pace import Pace
from aioproducer.cli.perf.figures import Counter, Latencies
from aioproducer.cli.perf.payloads import random_payloads
from aioproducer.cli.perf.plot import slices, write_plot
from aioproducer.cli.watch import LEAST, Watch
from aioproducer.testing import EmbeddedKafka


def drawn(seconds: list[float], *, blocks: bool = True) -> list[str]:
    """The lines of a histogram."""
    console = Console(width=80)
    with console.capture() as captured:
        console.print(histogram(seconds, 8, blocks=blocks))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_histogram_shows_shares_and_gaps() -> None:
    """Each range of latencies has its share and a bar in proportion; an empty one between others has none."""
    assert drawn([0.0010] * 4 + [0.0016] * 2 + [0.002]) == [
        "   up to 1 ms  57.1%  ████████",
        "up to 1.25 ms   0.0%",
        " up to 1.6 ms  28.6%  ████",
        "   up to 2 ms  14.3%  ██",
    ]


def test_histogram_of_far_apart_latencies_stays_short() -> None:
    """Ranges are coarser where there would be too many."""
    lines = drawn([0.0001, 0.9])
    assert len(lines) == 13
    assert lines[0].split()[2:4] == ["0.1", "ms"]


def test_histogram_without_block_characters() -> None:
    """Where the encoding has no blocks, bars are drawn in ASCII; without latencies there are none."""
    assert drawn([0.001, 0.001, 0.01], blocks=False)[0].strip() == "up to 1 ms  66.7%  ########"
    assert drawn([]) == []


def test_quantiles_are_picked_as_kafkas_tool_does() -> None:
    """The value at the truncated index; nothing of nothing is 0."""
    assert [quantile(range(1, 101), share) for share in (0, 0.5, 0.99, 1)] == [1, 51, 100, 100]
    assert quantile([], 0.5) == 0


def test_totals_are_told_in_mebibytes_and_milliseconds() -> None:
    """Rates are over the time since the counter began; MB are 1024 * 1024 bytes, as in Kafka's tool."""
    latencies = Latencies(1, array("d", [0.001, 0.002, 0.0305]), array("d", [1, 1, 1]))
    counter = Counter(10.0, 4, 4 * 1024 * 1024, latencies)
    assert counter.total(12.0) == (
        "4 records sent, 2.000000 records/sec (2.00 MB/sec), 11.17 ms avg latency, 30.50 ms max latency, "
        "2 ms 50th, 30 ms 95th, 30 ms 99th, 30 ms 99.9th."
    )
    assert counter.window(12.0) == (
        "4 records sent, 2.0 records/sec (2.00 MB/sec), 11.2 ms avg latency, 30.5 ms max latency."
    )


def test_samples_stand_for_the_records_between_them() -> None:
    """A slice's rate counts each sample as many times as there are records to it; a slice may be empty."""
    latencies = Latencies(10, array("d", [0.001, 0.003, 0.002]), array("d", [5.0, 5.1, 6.9]))
    first, second, third, last = slices(latencies, 5.0, 7.0, points=4)
    assert (first.middle, first.rate, first.p50_ms, first.p99_ms) == (0.25, 40.0, 3.0, 3.0)
    assert (second.rate, second.p50_ms, third.rate) == (0.0, None, 0.0)
    assert (last.rate, last.p99_ms) == (20.0, 2.0)


def test_plot_can_be_an_svg(tmp_path: Path) -> None:
    """A name that ends in .svg gets an SVG."""
    latencies = Latencies(1, array("d", [0.001]), array("d", [0.5]))
    write_plot(tmp_path / "perf.svg", "1 records sent", slices(latencies, 0.0, 1.0))
    assert "<svg" in (tmp_path / "perf.svg").read_text()


def test_random_payloads_of_any_size() -> None:
    """Payloads have the size that is asked for, also one that is larger than the supply of letters."""
    for size in (1, 1000, 10_000_000):
        payloads = random_payloads(size)
        assert [len(next(payloads)) for _ in range(2)] == [size, size]


async def test_pace_sleeps_off_what_was_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100/s the first record is worth 10 ms, and two at once 20; less than a millisecond is not slept."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    times = iter([0.0, 0.0, 0.0, 0.0295])
    pace = Pace(100, lambda: next(times))
    for sent in range(1, 4):
        await pace.keep(sent)
    assert slept == [0.01, 0.02]


async def test_late_delivery_holds_up_no_other() -> None:
    """While one delivery stays open, thousands of others come and are forgotten."""
    arrived: list[Outcome] = []

    def settled(deliveries: list[tuple[int, Delivery]]) -> None:
        arrived.extend(delivery.outcome for _, delivery in deliveries)

    watch: Watch[int] = Watch(settled)
    async with EmbeddedKafka(brokers=2) as kafka, Producer(kafka.bootstrap_servers) as producer:
        kafka.create_topic("orders", 2)
        kafka.faults.delay(broker=kafka.leader_of("orders", 0), times=None)
        watch.add(0, late := await producer.send("orders", b"late", partition=0))
        for number in range(3):
            for _ in range(LEAST):
                watch.add(number, await producer.send("orders", b"soon", partition=1))
            await (await producer.send("orders", b"last", partition=1))
            watch.look()
            assert len(arrived) == LEAST * (number + 1)
            assert [delivery for _, delivery in watch._open] == [late]
        kafka.faults.heal()
        await producer.flush()
        watch.look()
    assert arrived == [Outcome.ACKED] * (3 * LEAST + 1)
