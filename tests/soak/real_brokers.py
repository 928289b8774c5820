"""Three nodes of a real Kafka, which are killed, paused and stopped and lose their leaders on command.

    python -m tests.soak.real_brokers TOPICS

It takes the same commands as `tests.soak.brokers`.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import KafkaException

from tests.simulation.fault_schedule import TOPIC
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START

SETTINGS: Final = {
    # Otherwise the cluster takes nine seconds to detect a dead node, and thirty to drop a slow one.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    # Deleted records must leave the disk as well.
    "log.segment.bytes": "16777216",
    "log.retention.check.interval.ms": "10000",
}
_LIMIT: Final = 60.0

K = TypeVar("K", bound=KafkaCluster)
Fault = Callable[[K, random.Random, float], None]


def kill(kafka: KafkaCluster, rng: random.Random, longest: float) -> None:
    """SIGKILL, and a restart."""
    node = rng.choice(kafka.nodes)
    node.kill()
    time.sleep(rng.uniform(0.1, 1.0) * longest)
    node.start()


def kill_two(kafka: KafkaCluster, rng: random.Random, longest: float) -> None:
    """No record can be written until one of them is back."""
    victims = rng.sample(kafka.nodes, 2)
    for node in victims:
        node.kill()
    for node in victims:
        time.sleep(rng.uniform(0.1, 0.5) * longest)
        node.start()


def pause(kafka: KafkaCluster, rng: random.Random, longest: float) -> None:
    """SIGSTOP: connections stay, and no request is answered."""
    victims = rng.sample(kafka.nodes, rng.randrange(1, 4))
    for node in victims:
        node.pause()
    time.sleep(rng.uniform(0.1, 1.0) * longest)
    for node in victims:
        node.resume()


def stop(kafka: KafkaCluster, rng: random.Random, longest: float) -> None:
    """A clean stop, as by an operator."""
    node = rng.choice(kafka.nodes)
    node.stop(_LIMIT)
    time.sleep(rng.uniform(0.1, 1.0) * longest)
    node.start()


def move_leaders(kafka: KafkaCluster, rng: random.Random, longest: float) -> None:
    """Every partition gets another leader."""
    partitions = len(kafka.leaders(TOPIC))
    kafka.move_leaders(TOPIC, {index: rng.choice(kafka.nodes).node_id for index in range(partitions)})


FAULTS: Final[tuple[Fault[KafkaCluster], ...]] = (
    move_leaders,
    pause,
    kill,
    stop,
    kill_two,
)


def whole(kafka: KafkaCluster) -> bool:
    """Has every partition a leader, and are all its copies in sync?"""
    topics = kafka.admin.list_topics(timeout=5.0).topics.values()
    return all(
        partition.leader > 0 and len(partition.isrs) == len(partition.replicas)
        for topic in topics
        for partition in topic.partitions.values()
    )


def trim(kafka: KafkaCluster, offsets: dict[str, dict[str, int]]) -> None:
    """Delete judged records; where a leader has just changed, the next command deletes them."""
    places = [
        TopicPartition(topic, int(partition), offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    ]
    for deleted in kafka.admin.delete_records(places).values() if places else ():
        with contextlib.suppress(KafkaException):
            deleted.result(_LIMIT)


def make_fault(kafka: K, command: dict[str, Any], faults: Sequence[Fault[K]]) -> str:
    """Make the fault of a command; returns its name when the cluster is whole again."""
    fault = faults[command["number"] % len(faults)]
    fault(kafka, random.Random(command["seed"]), command["longest"])
    kafka.wait_ready(_LIMIT)
    kafka._wait(lambda: whole(kafka), _LIMIT, "not every copy was in sync again")
    return str(fault.__name__)


def serve(kafka: K, faults: Sequence[Fault[K]], servers: str, **facts: str) -> None:
    """Say where the cluster is, and execute the commands of the input's lines until its end."""
    print(json.dumps({"servers": servers, "faults": len(faults), **facts}), flush=True)
    # This thread stays until the end: the nodes die with the thread that has started them.
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "trim":
            trim(kafka, command["offsets"])
            answer = {}
        else:
            answer = {"fault": make_fault(kafka, command, faults), "servers": servers}
        print(json.dumps(answer), flush=True)


def main(topics: dict[str, int]) -> None:
    """Serve until the other end of the input is closed."""
    with KafkaCluster(3, settings=SETTINGS, java_options=QUICK_START) as kafka:
        for name, partitions in topics.items():
            kafka.create_topic(name, partitions)
        serve(kafka, FAULTS, kafka.bootstrap_servers)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
