"""The Java client's transactions on the embedded Kafka, also with failing brokers."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aioproducer.testing import EmbeddedKafka
from tools.kafka_jars import class_path, program

pytestmark = pytest.mark.kafka
COUNT = 3000


async def _perform(kafka: EmbeddedKafka) -> None:
    """Send so many records in transactions of 50 ms each."""
    process = await asyncio.create_subprocess_exec(
        program("java"), "-Xmx256m", "-cp", class_path(), "org.apache.kafka.tools.ProducerPerformance",
        "--topic", "t", "--num-records", str(COUNT), "--record-size", "20", "--throughput", "3000",
        "--transactional-id", "x", "--transaction-duration-ms", "50",
        "--command-property", f"bootstrap.servers={kafka.bootstrap_servers}",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert f"{COUNT} records sent" in output.decode()


@pytest.mark.parametrize(
    ("level", "versions"),
    [
        (1, {("Produce", 11), ("AddPartitionsToTxn", 3), ("EndTxn", 4)}),
        (2, {("Produce", 13), ("EndTxn", 5)}),
    ],
)
async def test_java_commits(level: int, versions: set[tuple[str, int]]) -> None:
    """The client commits under the finalized version, and every record is there once."""
    async with EmbeddedKafka(brokers=3, transaction_version=level) as kafka:
        kafka.create_topic("t", 3)
        await _perform(kafka)
        assert len(kafka.records("t")) == COUNT
        asked = Counter((one.api, one.version) for one in kafka.requests)
    once = {"ApiVersions", "Metadata", "FindCoordinator", "InitProducerId"}
    assert {one for one in asked if one[0] not in once} == versions


@pytest.mark.parametrize("level", [1, 2])
async def test_java_gets_over_faults(level: int) -> None:
    """Lost answers, late markers and a moving coordinator cost no record and make no copy."""
    async with EmbeddedKafka(brokers=3, transaction_version=level) as kafka:
        kafka.create_topic("t", 3)
        kafka.faults.delay_markers(0.03, times=None)
        kafka.faults.cut(api="EndTxn", times=1, skip=1)
        kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="EndTxn", times=2, skip=3)
        kafka.faults.cut(times=2, skip=20)
        reached = kafka.faults.delay(api="EndTxn", skip=5)
        performing = asyncio.create_task(_perform(kafka))
        await reached.reached()
        kafka.faults.move_coordinator("x", kafka.coordinator_of("x") % 3 + 1, loading=0.1)
        reached.release()
        await performing
        kafka.faults.heal()
        assert len(kafka.records("t")) == COUNT
        assert len(kafka.records("t", isolation="read_uncommitted")) == COUNT
