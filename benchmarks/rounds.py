"""Interleaved rounds: every client in a process of its own, each time on a new topic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from benchmarks.measure import MARK, Round, Task
from tools.kafka_cluster import KafkaCluster

PARTITIONS: Final = 4
_LIMIT: Final = 300.0


@attrs.frozen
class Client:
    """A client that is measured: how it is called, the module that runs it, and records enough for 2-5 s."""

    name: str
    module: str
    records: int
    warm_up: int


OURS: Final = Client("aioproducer", "aioproducer_client", 2_000_000, 100_000)
CONFLUENT: Final = Client("confluent-kafka", "confluent_client", 1_000_000, 100_000)
AIOKAFKA: Final = Client("aiokafka", "aiokafka_client", 150_000, 10_000)
JAVA: Final = Client("Java client", "java_client", 1_000_000, 0)
LIMIT: Final = Client("the limit", "limit_client", 4_000_000, 0)
CLIENTS: Final = (OURS, CONFLUENT, AIOKAFKA, JAVA, LIMIT)


class RoundFailedError(RuntimeError):
    """A client's process did not finish its round; the text is what it said."""


@attrs.define
class Rounds:
    """Runs the rounds on one Kafka and keeps what came out, by client."""

    kafka: KafkaCluster
    scale: float
    say: Callable[[str], None]
    results: dict[Client, list[Round]] = attrs.field(factory=dict, init=False)
    _topics: int = attrs.field(default=0, init=False)

    def warm_up(self) -> None:
        """Let the broker's JVM compile what all the clients need it to do."""
        for client in (LIMIT, CONFLUENT):
            self._one(client)

    def run(self, clients: Sequence[Client], rounds: int) -> None:
        """Each client once a round, so that whatever the machine does meanwhile hits all of them."""
        for number in range(1, rounds + 1):
            for client in clients:
                done = self._one(client)
                self.results.setdefault(client, []).append(done)
                self.say(
                    f"round {number}: {client.name:16} {done.rate:>11,.0f} records/s in {done.seconds:.1f} s"
                )

    def _one(self, client: Client) -> Round:
        self._topics += 1
        topic = self.kafka.create_topic(f"bench-{self._topics}", PARTITIONS)
        try:
            records = max(1000, int(client.records * self.scale))
            return _run_process(client, Task(self.kafka.bootstrap_servers, topic, records, client.warm_up))
        finally:
            self.kafka.delete_topic(topic)


def _run_process(client: Client, one: Task) -> Round:
    command = [sys.executable, "-m", f"benchmarks.clients.{client.module}", json.dumps(attrs.asdict(one))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT)
    for line in done.stdout.splitlines():
        if done.returncode == 0 and line.startswith(MARK):
            return Round(**json.loads(line.removeprefix(MARK)))
    raise RoundFailedError(f"{client.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
