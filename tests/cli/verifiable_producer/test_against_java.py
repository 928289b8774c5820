"""The lines of `aioproducer verifiable-producer` beside those of Kafka's own tool, of the same runs on a real Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cli.program import run
from tests.cli.verifiable_producer.lines import Told
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import class_path, program
from tools.kafka_node import QUICK_START

pytestmark = pytest.mark.kafka

JAVA = [*QUICK_START, "-Xmx128m", "-cp", class_path(), "org.apache.kafka.tools.VerifiableProducer"]
RUNS = {
    "keys-and-prefix": (
        "--max-messages",
        "5",
        "--repeating-keys",
        "2",
        "--value-prefix",
        "7",
        "--throughput",
        "100",
    ),
    "no-acks": ("--max-messages", "3", "--acks", "0"),
    # One at a time: Java splits a refused batch of several records, and tries again.
    "refused": ("--max-messages", "1", "--acks", "1"),
}


async def java(*flags: str) -> Told:
    """A run of Kafka's tool."""
    process = await asyncio.create_subprocess_exec(
        program("java"), *JAVA, *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    out = (await process.stdout.read()).decode()
    assert await process.wait() == 0
    # Its log is on stdout as well, between the events.
    return Told.read("".join(line for line in out.splitlines(keepends=True) if line.startswith("{")))


async def ours(*flags: str) -> Told:
    """A run of ours."""
    done = await run("verifiable-producer", *flags)
    assert done.code == 0, done
    return Told.read(done.out)


def shapes(told: Told) -> list[tuple[str, dict[str, type]]]:
    """The name of each event with the types of its fields; the order of fields does not matter in JSON."""
    return [(event["name"], {name: type(value) for name, value in event.items()}) for event in told.events]


def facts(told: Told) -> list[dict[str, Any]]:
    """The events without times, rates, names of errors and their texts, which belong to each client."""
    own = {"timestamp", "avg_throughput", "exception", "message"}
    return [{name: value for name, value in event.items() if name not in own} for event in told.events]


@pytest.mark.parametrize("name", RUNS)
async def test_the_lines_are_those_of_kafkas_tool(real_kafka: KafkaCluster, name: str) -> None:
    """The same events in the same order with the same names, fields, types and facts; a failure has its outcome more."""
    found = []
    for client in (java, ours):
        topic = f"verifiable-{name}-{client.__name__}"
        configs = {"max_message_bytes": 10} if name == "refused" else {}
        real_kafka.create_topic(topic, **configs)
        told = await client("--bootstrap-server", real_kafka.bootstrap_servers, "--topic", topic, *RUNS[name])
        told.check()
        for event in told.sends:
            assert event.pop("topic") == topic
        found.append(told)
    golden, own = found
    outcomes = [event.pop("outcome") for event in own.failed]
    assert shapes(own) == shapes(golden)
    assert facts(own) == facts(golden)
    assert len(own.acked) == (0 if name == "refused" else len(own.sends))
    assert outcomes == ["not_written"] * len(golden.failed)
