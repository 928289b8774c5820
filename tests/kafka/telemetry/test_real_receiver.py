"""A real Kafka with a receiver of client metrics: the pushes of this producer, and those of Java."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from aioproducer import Producer
from aioproducer._state.telemetry.readings import GAUGES, NODE_GAUGES, PREFIX, SUMS, TOPIC_SUMS
from aioproducer.testing import EmbeddedKafka
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import class_path, program
from tools.kafka_node import QUICK_START

pytestmark = pytest.mark.kafka
RECEIVER: Final = Path(__file__).parent / "Receiver.java"
INTERVAL_MS: Final = 1_000
COUNT: Final = 500
LIMIT: Final = 60.0


class Pushed(NamedTuple):
    """One push that the receiver got."""

    instance_id: str
    client_id: str
    is_last: bool
    metrics: MetricsData

    def kinds(self) -> dict[str, tuple[str, frozenset[str]]]:
        """Each metric with its kind and the names of its attributes."""
        found = {}
        for resource in self.metrics.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data") or ""
                    points = getattr(metric, kind).data_points
                    found[metric.name] = (
                        kind,
                        frozenset(each.key for point in points for each in point.attributes),
                    )
        return found

    def total(self, name: str) -> float:
        """The sum over all points of a sum."""
        found: list[float] = [
            point.as_int or point.as_double
            for resource in self.metrics.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == PREFIX + name
            for point in metric.sum.data_points
        ]
        return sum(found)


class Receiving(NamedTuple):
    """A running Kafka with its receiver."""

    kafka: KafkaCluster
    file: Path

    def pushed(self, client_id: str) -> list[Pushed]:
        """The pushes of a client so far."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        fields = [line.split("\t") for line in lines]
        return [
            Pushed(instance, client, last == "true", MetricsData.FromString(base64.b64decode(data)))
            for instance, client, last, data in fields
            if client == client_id
        ]


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    """One node whose receiver writes into a file; it asks for all metrics of producers, every second."""
    folder = tmp_path_factory.mktemp("receiver")
    subprocess.run([program("javac"), "-cp", class_path(), "-d", str(folder), str(RECEIVER)], check=True)
    settings = {"metric.reporters": "Receiver", "receiver.file": str(folder / "pushes")}
    with KafkaCluster(settings=settings, java_options=QUICK_START, classes=folder) as kafka:
        kafka.create_topic("orders", 2)
        command = [
            program("java"),
            *QUICK_START,
            "-cp",
            class_path(),
            "org.apache.kafka.tools.ClientMetricsCommand",
        ]
        command += ["--bootstrap-server", kafka.bootstrap_servers, "--alter", "--name", "all"]
        command += ["--metrics", f"{PREFIX},mine.", "--interval", str(INTERVAL_MS)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield Receiving(kafka, folder / "pushes")


async def perform_in_java(servers: str) -> None:
    """Java's producer sends for three seconds."""
    process = await asyncio.create_subprocess_exec(
        program("java"), *QUICK_START, "-cp", class_path(), "org.apache.kafka.tools.ProducerPerformance",
        "--topic", "orders", "--num-records", "1500", "--record-size", "20", "--throughput", str(COUNT),
        "--command-property", f"bootstrap.servers={servers}", "client.id=java",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def test_what_arrives_is_what_java_pushes(receiving: Receiving) -> None:
    """Metrics of the same names have the same kinds and attributes; the sums over all pushes are the statistics."""
    async with Producer(receiving.kafka.bootstrap_servers, client_id="ours") as producer:
        producer.register_metric("mine.orders", lambda: 3, attributes={"shop": "b"})
        instance = await producer.client_instance_id(LIMIT)
        for number in range(COUNT):
            await producer.send("orders", b"%d" % number)
        async with asyncio.timeout(LIMIT):
            while len(receiving.pushed("ours")) < 3:
                await producer.send_and_wait("orders", b"more")
    stats = producer.stats()
    ours = receiving.pushed("ours")
    assert [push.is_last for push in ours] == [False] * (len(ours) - 1) + [True]
    # Kafka writes a UUID in base64.
    assert isinstance(instance, uuid.UUID)
    assert {push.instance_id for push in ours} == {
        base64.urlsafe_b64encode(instance.bytes).decode().rstrip("=")
    }
    for name in ("record.send.total", "topic.record.send.total"):
        assert sum(push.total(name) for push in ours) == stats.records_acked
    assert sum(push.total("topic.byte.total") for push in ours) == stats.bytes_acked

    await perform_in_java(receiving.kafka.bootstrap_servers)
    told = {name: kind for push in ours for name, kind in push.kinds().items()}
    of_java = {name: kind for push in receiving.pushed("java") for name, kind in push.kinds().items()}
    everything = {*GAUGES, *NODE_GAUGES, *SUMS, *TOPIC_SUMS}
    assert told.keys() == everything | {"mine.orders"}
    assert told.pop("mine.orders") == ("gauge", frozenset({"shop"}))
    assert {name: of_java.get(name) for name in told} == told


async def test_java_pushes_to_the_embedded_kafka() -> None:
    """Java's producer takes it for a Kafka with a receiver, and none of its pushes is refused.

    Its last push is lost where the process ends sooner.
    """
    async with EmbeddedKafka(telemetry=True) as kafka:
        kafka.create_topic("orders", 2)
        kafka.subscribe_metrics([f"{PREFIX}record."], INTERVAL_MS)
        await perform_in_java(kafka.bootstrap_servers)
        assert len(kafka.records("orders")) == 1500
        pushes, requests = kafka.pushes, [request.api for request in kafka.requests]
    assert requests.count("PushTelemetry") == len(pushes) > 0
    assert not any(push.terminating for push in pushes[:-1])
    assert {push.client_id for push in pushes} == {"java"}
    sent = sum(sum(push.values(f"{PREFIX}record.send.total")) for push in pushes)
    assert 0 < sent <= 1500
    assert sent == 1500 or not pushes[-1].terminating
