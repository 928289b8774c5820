"""`aioproducer perf`, run as a user runs it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

from aioproducer.testing import EmbeddedKafka
from tests.cli.program import ESCAPE, Ended, ended, run, run_in_terminal, start

RATE = r"\d+\.\d{%d} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d{%d} ms avg latency, \d+\.\d{%d} ms max latency"
PERCENTILES = r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
WINDOW = re.compile(rf"(\d+) records sent, {RATE % (1, 1, 1)}\.")
TOTAL = re.compile(rf"(\d+) records sent, {RATE % (6, 2, 2)}, {PERCENTILES}")
STEADY = re.compile(rf"(\d+) steady state records sent, {RATE % (6, 2, 2)}, {PERCENTILES}")
# What kafka-producer-perf-test of Kafka 4.3.1 prints.
KAFKAS_WINDOW = (
    "47299 records sent, 47251.7 records/sec (4.51 MB/sec), 38.4 ms avg latency, 177.0 ms max latency."
)
KAFKAS_TOTAL = (
    "200000 records sent, 49962.528104 records/sec (4.76 MB/sec), 90.47 ms avg latency, 892.00 ms max latency, "
    "16 ms 50th, 487 ms 95th, 602 ms 99th, 632 ms 99.9th."
)
KAFKAS_STEADY = (
    "150000 steady state records sent, 62421.972534 records/sec (5.95 MB/sec), 19.04 ms avg latency, "
    "177.00 ms max latency, 9 ms 50th, 88 ms 95th, 141 ms 99th, 173 ms 99.9th."
)


def flags(kafka: EmbeddedKafka, records: int, *more: str | Path, rate: str = "-1") -> list[str | Path]:
    """A measurement of so many records into the topic `orders`."""
    servers = ("--bootstrap-server", kafka.bootstrap_servers)
    return ["perf", *servers, "--topic", "orders", "--num-records", str(records), "--throughput", rate, *more]


async def perf(kafka: EmbeddedKafka, records: int, *more: str | Path, rate: str = "-1") -> Ended:
    """Measure it."""
    return await run(*flags(kafka, records, *more, rate=rate))


def test_lines_of_kafkas_own_tool_are_recognised() -> None:
    """The patterns of these tests match the lines that Kafka's tool prints."""
    assert WINDOW.fullmatch(KAFKAS_WINDOW)
    assert TOTAL.fullmatch(KAFKAS_TOTAL)
    assert STEADY.fullmatch(KAFKAS_STEADY)


async def test_final_line_is_that_of_kafkas_tool(kafka: EmbeddedKafka) -> None:
    """A pipe gets the final line alone, plain and in the form of Kafka's tool; every record is in the log."""
    done = await perf(kafka, 5000, "--record-size", "100", "--tasks", "3")
    assert (done.code, done.err) == (0, "")
    total = TOTAL.fullmatch(done.out.rstrip("\n"))
    assert total
    assert total[1] == "5000"
    assert ESCAPE not in done.out
    values = [record.value or b"" for record in kafka.records("orders")]
    assert {len(value) for value in values} == {100}
    assert len(set(values)) == 5000
    assert set(b"".join(values)) == set(range(ord("A"), ord("Z") + 1))


async def test_intervals_warm_up_and_pace(kafka: EmbeddedKafka) -> None:
    """A line for each interval, one when it is warm, a second summary, and no more records/s than allowed."""
    more = (
        "--payload-monotonic",
        "--reporting-interval",
        "200",
        "--warmup-records",
        "100",
        "--print-metrics",
    )
    done = await perf(kafka, 400, *more, rate="500")
    assert (done.code, done.err) == (0, "")
    results, metrics = done.out.split("\n\n")
    warning, *windows, total, steady = [line for line in results.splitlines() if line != "In steady state."]
    assert warning.startswith("Warmup first 100 records.")
    assert "\nIn steady state.\n" in done.out
    assert windows
    assert all(WINDOW.fullmatch(line) for line in windows)
    assert TOTAL.fullmatch(total)
    assert float(total.split("sent, ")[1].split()[0]) <= 510
    warm = STEADY.fullmatch(steady)
    assert warm
    assert warm[1] == "300"
    assert "records-acked                 : 400" in metrics
    sent = sorted(int(record.value or b"-1") for record in kafka.records("orders"))
    assert sent == list(range(400))


async def test_payloads_and_properties_come_from_files(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Payloads are those of the file, at random; properties on the command line replace those of their file."""
    (tmp_path / "payloads").write_bytes(b"one|two|three|")
    (tmp_path / "client.properties").write_text("client.id=file\nlinger.ms=0\n")
    payloads = ("--payload-file", tmp_path / "payloads", "--payload-delimiter", "|")
    config = ("--producer.config", tmp_path / "client.properties")
    done = await perf(kafka, 200, *payloads, *config, "--producer-props", "acks=all", "client.id=flag")
    assert (done.code, done.err) == (0, "")
    assert {record.value for record in kafka.records("orders")} == {b"one", b"two", b"three"}
    assert {request.client_id for request in kafka.requests} == {"flag"}


async def test_plot_and_embedded_kafka(tmp_path: Path) -> None:
    """--embedded needs no Kafka, and --plot writes a picture without a display."""
    what = (
        "--embedded",
        "--topic",
        "t",
        "--num-records",
        "2000",
        "--record-size",
        "10",
        "--throughput",
        "-1",
    )
    done = await run("perf", *what, "--plot", tmp_path / "perf.png")
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "perf.png").read_bytes().startswith(b"\x89PNG")


async def test_refused_records_are_a_failure(kafka: EmbeddedKafka) -> None:
    """Records that are not acknowledged are counted on stderr with their reason, and the exit code is 1."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", times=None)
    done = await perf(kafka, 50, "--record-size", "10", "--command-property", "linger.ms=0")
    assert done.code == 1
    assert TOTAL.fullmatch(done.out.rstrip("\n"))
    told = [int(line.split()[1]) for line in done.err.splitlines() if "records failed: " in line]
    assert sum(told) == 50


async def test_records_beyond_any_limit_are_refused() -> None:
    """A --record-size that no memory holds is a wrong use, in one line."""
    what = ("--embedded", "--topic", "t", "--num-records", "1", "--throughput", "-1")
    done = await run("perf", *what, "--record-size", "200000000")
    assert (done.code, done.out) == (2, "")
    (complaint,) = done.err.splitlines()
    assert complaint.startswith(
        "aioproducer: Invalid value for '--record-size': 200000000 is not in the range"
    )


async def test_missing_broker_is_told_in_time(unused_port: int) -> None:
    """Without a listener at the address it ends within --wait, with exit code 1 and one line that names the address."""
    where = ("--bootstrap-server", f"127.0.0.1:{unused_port}", "--topic", "t", "--wait", "0.3")
    done = await run("perf", *where, "--num-records", "1", "--record-size", "1", "--throughput", "-1")
    assert (done.code, done.out) == (1, "")
    (complaint,) = done.err.splitlines()
    assert complaint.startswith(f"aioproducer: no broker answered (127.0.0.1:{unused_port})")


async def test_interrupt_ends_with_the_figures_so_far(kafka: EmbeddedKafka) -> None:
    """Ctrl-C ends the measurement: the final line counts the sent records, and stderr has their number."""
    more = ("--record-size", "10", "--reporting-interval", "100")
    process = await start(*flags(kafka, 1_000_000, *more, rate="500"))
    assert process.stdout is not None
    assert WINDOW.fullmatch((await process.stdout.readline()).decode().rstrip("\n"))
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    total = TOTAL.fullmatch(done.out.splitlines()[-1])
    assert done.code == 1
    assert total
    stopping, told = done.err.splitlines()
    assert stopping == "aioproducer: stopping"
    assert told == f"aioproducer: interrupted after {int(total[1]):,} of 1,000,000 records"


async def test_reader_that_goes_away_ends_nothing(kafka: EmbeddedKafka) -> None:
    """When the reader of stdout has gone, as with `head`, everything is still sent, without a message."""
    ours, its = os.pipe()
    more = ("--record-size", "10", "--reporting-interval", "50")
    process = await start(*flags(kafka, 300, *more, rate="1000"), stdout=its)
    os.close(its)
    assert await asyncio.to_thread(os.read, ours, 1)
    os.close(ours)
    _, complaints = await process.communicate()
    assert (process.returncode, complaints) == (0, b"")
    assert len(kafka.records("orders")) == 300


async def test_terminal_shows_bar_and_histogram(kafka: EmbeddedKafka) -> None:
    """In a terminal there is a bar as wide as it, then the histogram, and the final line comes last."""
    code, drawn = await run_in_terminal(*flags(kafka, 5000, "--record-size", "10"), columns=120)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    lines = [line for line in re.split(r"[\r\n]+", plain) if line]
    assert code == 0
    assert {len(line) for line in lines if line.startswith("sending")} == {120}
    assert any(line.lstrip().startswith("up to ") for line in lines)
    assert TOTAL.fullmatch(lines[-1])
