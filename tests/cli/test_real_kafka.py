"""The commands with a real Kafka, read back by a client that shares no code with ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.orders import SUMMARY
from tests.cli.perf.test_perf import TOTAL
from tests.cli.perf.test_perf_transactions import committed
from tests.cli.program import run
from tests.kafka.reading import read_all
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka


async def test_real_kafka_has_what_was_sent(real_kafka: KafkaCluster, tmp_path: Path) -> None:
    """`produce` writes every line with its key and headers, `perf` writes what it counts."""
    topic = real_kafka.create_topic("cli", 2)
    file = tmp_path / "users.txt"
    file.write_text("".join(f"user-{number}:{number}\n" for number in range(5000)))
    where = ("--bootstrap-server", real_kafka.bootstrap_servers, "--topic", topic)
    sent = await run("produce", *where, "-K", ":", "-H", "app=shop", "-z", "zstd", file)
    assert (sent.code, sent.err) == (0, "")
    assert SUMMARY.fullmatch(sent.out)
    measured = await run(
        "perf", *where, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"
    )
    assert (measured.code, measured.err) == (0, "")
    assert TOTAL.fullmatch(measured.out.rstrip("\n"))

    records = await asyncio.to_thread(read_all, real_kafka.bootstrap_servers, topic)
    users = [record for record in records if record.headers == (("app", b"shop"),)]
    others = [record for record in records if not record.headers]
    assert {record.key: record.value for record in users} == {
        b"user-%d" % number: b"%d" % number for number in range(5000)
    }
    assert [len(record.value or b"") for record in others] == [100] * 5000
    assert len(records) == 10_000


async def test_real_kafka_has_what_was_committed(real_kafka: KafkaCluster) -> None:
    """`perf` in transactions: a reader of committed records gets all of it, once."""
    topic = real_kafka.create_topic("cli-transactions", 2)
    where = ("--bootstrap-server", real_kafka.bootstrap_servers, "--topic", topic, "--num-records", "5000")
    done = await run(
        "perf", *where, "--payload-monotonic", "--throughput", "5000", "--transaction-duration-ms", "100"
    )
    assert (done.code, done.err) == (0, "")
    # In the second that it takes, a commit may need half of it on a busy machine.
    assert committed(done) >= 2
    records = await asyncio.to_thread(
        read_all, real_kafka.bootstrap_servers, topic, isolation="read_committed"
    )
    assert sorted(int(record.value or b"-1") for record in records) == list(range(5000))
