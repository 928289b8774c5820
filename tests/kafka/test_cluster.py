"""The real Kafka of the test suite: its own tests, on which the others rely."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka.admin import AdminClient

from tests.kafka.reading import ReadRecord, by_partition, read_all
from tools.kafka_cluster import KafkaCluster
from tools.kafka_jars import KafkaUnavailableError, class_archive

pytestmark = pytest.mark.kafka


def test_what_was_written_is_read_back_whole(real_kafka: KafkaCluster) -> None:
    """The reader gives every field of a record as a foreign producer wrote it."""
    topic = real_kafka.create_topic("foreign", 2)
    producer = ForeignProducer({"bootstrap.servers": real_kafka.bootstrap_servers})
    producer.produce(topic, b"v", key=b"k", partition=1, timestamp=1234, headers=[("h", b"1"), ("h", None)])
    producer.produce(topic, None, partition=1, timestamp=1235)
    producer.flush()
    assert by_partition(read_all(real_kafka.bootstrap_servers, topic)) == {
        1: [
            ReadRecord(1, 0, b"k", b"v", 1234, "CreateTime", (("h", b"1"), ("h", None))),
            ReadRecord(1, 1, None, None, 1235, "CreateTime", ()),
        ]
    }


def test_settings_of_a_topic_reach_the_broker(real_kafka: KafkaCluster) -> None:
    """A topic created with log-append time stamps its records itself."""
    topic = real_kafka.create_topic("foreign-append-time", 1, message_timestamp_type="LogAppendTime")
    producer = ForeignProducer({"bootstrap.servers": real_kafka.bootstrap_servers})
    producer.produce(topic, b"v", timestamp=1234)
    producer.flush()
    (record,) = read_all(real_kafka.bootstrap_servers, topic)
    assert (record.timestamp_type, record.timestamp > 1_600_000_000_000) == ("LogAppendTime", True)


def test_three_nodes_share_the_leaderships(real_kafka_cluster: KafkaCluster) -> None:
    """Six partitions of a new topic on three nodes have leaders on all of them."""
    topic = real_kafka_cluster.create_topic("spread", 6)
    assert set(real_kafka_cluster.leaders(topic)) == {1, 2, 3}


def test_leaders_go_where_they_are_sent(real_kafka_cluster: KafkaCluster) -> None:
    """Each partition gets the requested leader, and only changed leaders count as moved."""
    topic = real_kafka_cluster.create_topic("moved", 6)
    before = real_kafka_cluster.leaders(topic)
    wanted = {partition: node % 3 + 1 for partition, node in enumerate(before[:5])}
    assert real_kafka_cluster.move_leaders(topic, wanted) == 5
    assert real_kafka_cluster.move_leaders(topic, wanted) == 0
    deadline = time.monotonic() + 10.0
    while (now := real_kafka_cluster.leaders(topic)) == before and time.monotonic() < deadline:
        pass
    assert now == [*wanted.values(), before[5]]


def test_a_paused_node_answers_nothing_until_it_is_resumed(real_kafka_cluster: KafkaCluster) -> None:
    """SIGSTOP leaves the port open and every request without an answer; SIGCONT ends that."""
    node = real_kafka_cluster.node(2)
    node.pause()
    # Created earlier, it might know the other nodes by now, and ask those.
    asked = AdminClient({"bootstrap.servers": node.address})
    try:
        assert (node.paused, node.running, node.accepts_connections()) == (True, True, True)
        with pytest.raises(KafkaException):
            asked.list_topics(timeout=0.5)
    finally:
        node.resume()
    assert not node.paused
    assert asked.list_topics(timeout=30.0).brokers


def test_a_node_that_cannot_start_shows_its_log() -> None:
    """A broker that refuses its configuration fails the start, and the error has its log."""
    kafka = KafkaCluster(settings={"num.io.threads": "none"})
    with pytest.raises(
        KafkaUnavailableError, match=r"(?s)(exit code|ended while starting).*num\.io\.threads"
    ):
        kafka.start()


def test_classes_come_from_the_archive(real_kafka: KafkaCluster) -> None:
    """Java maps the archive that `tools.fetch_kafka` has made: a broker of other classes would start without it."""
    mapped = Path(f"/proc/{real_kafka.nodes[0].pid}/maps").read_text(encoding="utf-8")
    assert str(class_archive()) in mapped
