"""Our verifiable producer, judged by Kafka's VerifiableConsumer while the leader of a partition is killed."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.cli.program import start
from tests.cli.verifiable_producer.lines import ERROR, SUCCESS, Told
from tests.effort import PROOF
from tests.kafka.reading import read_all
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import class_path, program
from tools.kafka_node import QUICK_START

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
LIMIT = 90.0
PARTITIONS = 3
RATE = "1000"
PATIENT = "acks=all\nretries=2147483647\n"
"""With this file a producer retries, and is idempotent. Without it, it does as Kafka's tool does by itself."""


@attrs.define(eq=False)
class Lines:
    """A program, and the JSON lines that it has printed so far."""

    process: Process
    events: list[dict[str, Any]] = attrs.field(factory=list)
    text: list[str] = attrs.field(factory=list)
    _grown: asyncio.Condition = attrs.field(factory=asyncio.Condition)

    async def read(self) -> None:
        """Read until its end. Java's log is between its lines."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if not line.startswith(b"{"):
                continue
            async with self._grown:
                self.text.append(line.decode())
                self.events.append(json.loads(line))
                self._grown.notify_all()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the lines fulfil the condition."""
        async with asyncio.timeout(LIMIT), self._grown:
            await self._grown.wait_for(condition)

    def named(self, name: str) -> list[dict[str, Any]]:
        """The events of this name."""
        return [event for event in self.events if event["name"] == name]


@asynccontextmanager
async def reading(process: Process) -> AsyncIterator[Lines]:
    """A program whose lines are read; it is killed at the end if it still runs."""
    lines = Lines(process)
    reader = asyncio.create_task(lines.read())
    try:
        yield lines
    finally:
        if process.returncode is None:
            process.kill()
        await reader
        await process.wait()


async def consumer(kafka: KafkaCluster, topic: str) -> Process:
    """Kafka's consumer, which prints each record."""
    return await asyncio.create_subprocess_exec(
        program("java"), *QUICK_START, "-Xmx256m", "-cp", class_path(), "org.apache.kafka.tools.VerifiableConsumer",
        "--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--group-id", topic, "--verbose",
        stdout=PIPE, stderr=DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("round_", range(10 if PROOF else 1))
async def test_acked_is_a_part_of_consumed(faulty_nodes: KafkaCluster, tmp_path: Path, round_: int) -> None:
    """Each acked value was consumed at its place, and no value with the outcome not_written; with retries none failed."""
    topics = [f"verifiable-{kind}-{round_}" for kind in ("plain", "patient")]
    for topic in topics:
        await asyncio.to_thread(faulty_nodes.create_topic, topic, PARTITIONS)
    file = tmp_path / "producer.properties"
    file.write_text(PATIENT)
    plain, patient = topics
    async with (
        reading(await consumer(faulty_nodes, plain)) as consumed,
        reading(await producer(faulty_nodes, plain)) as plainly_sent,
        reading(await producer(faulty_nodes, patient, "--command-config", file)) as patiently_sent,
    ):
        sent = (plainly_sent, patiently_sent)
        for lines in sent:
            await acked_everywhere(lines)
        await kill_a_leader(faulty_nodes, plain)
        for lines in sent:
            await acked_everywhere(lines)
        for lines in sent:
            lines.process.send_signal(signal.SIGTERM)
        for lines in sent:
            assert await lines.process.wait() == 0
        total = sum(await asyncio.to_thread(faulty_nodes.end_offsets, plain))
        await consumed.until(lambda: len(consumed.named("record_data")) >= total)
    read_back = await asyncio.to_thread(read_all, faulty_nodes.bootstrap_servers, patient)
    judge(plain, plainly_sent, places(consumed.named("record_data")))
    in_log = {((each.value or b"").decode(), each.partition, each.offset) for each in read_back}
    judge(patient, patiently_sent, in_log)
    assert patiently_sent.named(ERROR) == []
    # The next test finds all nodes.
    await asyncio.to_thread(faulty_nodes.wait_ready)


async def producer(kafka: KafkaCluster, topic: str, *flags: str | Path) -> Process:
    """Our producer."""
    where = (
        "--bootstrap-server",
        kafka.bootstrap_servers,
        "--topic",
        topic,
        "--throughput",
        RATE,
        "--repeating-keys",
        "50",
    )
    return await start("verifiable-producer", *where, *flags)


async def acked_everywhere(lines: Lines) -> None:
    """Wait until each partition has a new acknowledgement."""
    before = len(lines.events)
    await lines.until(
        lambda: (
            len({each["partition"] for each in lines.events[before:] if each["name"] == SUCCESS})
            == PARTITIONS
        )
    )


async def kill_a_leader(kafka: KafkaCluster, topic: str) -> None:
    """SIGKILL for the leader of a partition, until another one leads. It starts again during the election."""
    (victim, *_) = await asyncio.to_thread(kafka.leaders, topic)
    kafka.node(victim).kill()
    kafka.node(victim).start()
    async with asyncio.timeout(LIMIT):
        while victim in await asyncio.to_thread(kafka.leaders, topic):  # noqa: ASYNC110  # a cluster has no event for it
            await asyncio.sleep(0.1)


def judge(topic: str, written: Lines, log: set[tuple[str, int, int]]) -> None:
    """Compare the lines with the log, read to its end."""
    told = Told.read("".join(written.text))
    told.check()
    acked, values = places(told.acked), {value for value, _, _ in log}
    outcomes = {
        kind: {each["value"] for each in told.failed if each["outcome"] == kind}
        for kind in ("not_written", "unknown")
    }
    figures = f"{len(told.sends)} sent, {len(acked)} acked, {len(log)} consumed, missing {len(acked - log)}"
    print(f"{topic}: {figures}, {len(outcomes['unknown'])} unknown")
    assert acked - log == set()
    assert len(acked) == len(told.acked) > 0
    assert outcomes["not_written"] & values == set()
    assert values <= {value for value, _, _ in acked} | outcomes["unknown"]


def places(events: list[dict[str, Any]]) -> set[tuple[str, int, int]]:
    """Each record as value, partition and offset."""
    return {(each["value"], each["partition"], each["offset"]) for each in events}
