"""The findings of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from aioproducer._state.diagnosing.finding import Finding, Status
from aioproducer._state.diagnosing.topics import Wanted, is_compacted, topic_findings
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

ALL_OPERATIONS, DESCRIBE_ONLY = 0b1101_1111_1000, 1 << 8
CONFIGS: Mapping[str, str | None] = {
    "min.insync.replicas": "2",
    "max.message.bytes": "1048588",
    "cleanup.policy": "delete",
}
WANTED = Wanted(True, 1_048_576)


def partition(
    index: int, isr: Sequence[int] = (1, 2, 3), leader: int = 1, replicas: Sequence[int] = (1, 2, 3)
) -> MetadataResponsePartition:
    """A partition on three brokers."""
    return MetadataResponsePartition(0, index, leader, 0, replicas, isr)


def topic(*partitions: MetadataResponsePartition, operations: int = ALL_OPERATIONS) -> MetadataResponseTopic:
    """A topic with these partitions."""
    return MetadataResponseTopic(
        0, "orders", partitions=partitions or (partition(0),), topic_authorized_operations=operations
    )


def worst(
    told: MetadataResponseTopic, configs: Mapping[str, str | None] | None = CONFIGS, wanted: Wanted = WANTED
) -> Finding:
    """The first finding, which is the worst."""
    return topic_findings(told, configs, wanted)[0]


def test_a_topic_without_a_problem() -> None:
    """One finding, with the partitions, the replicas and the settings."""
    [found] = topic_findings(topic(*map(partition, range(6))), CONFIGS, WANTED)
    assert (found.status, found.summary) == (Status.OK, "6 partitions × 3 replicas, writable")  # noqa: RUF001
    assert found.detail == {"partitions": 6, "replicas": [3], "writable": True, "configs": CONFIGS}


@pytest.mark.parametrize(
    ("creates", "told"),
    [(True, "the first record would create it"), (False, "create no topics"), (None, "is not known")],
)
def test_a_missing_topic(creates: bool | None, told: str) -> None:
    """It fails, and tells whether it would be created."""
    missing = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders")
    found = worst(missing, None, Wanted(True, 1, creates=creates))
    assert (found.status, told in found.summary) == (Status.FAIL, True)
    assert found.detail["would_be_created"] is creates


def test_a_hidden_topic() -> None:
    """The ACLs are named."""
    found = worst(MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders"), None)
    assert (found.status, "DESCRIBE" in (found.advice or "")) == (Status.FAIL, True)


def test_a_topic_that_cannot_be_written() -> None:
    """It is visible; the ACL is named, and the whole is not called writable."""
    found, whole = topic_findings(topic(operations=DESCRIBE_ONLY), CONFIGS, WANTED)
    assert (found.status, "ACL WRITE" in (found.advice or "")) == (Status.FAIL, True)
    assert (whole.detail["writable"], "writable" in whole.summary) == (False, False)


def test_brokers_that_do_not_tell_permissions() -> None:
    """Before Kafka 2.3 nothing is known, and nothing claimed against it."""
    assert worst(topic(operations=-(1 << 31))).status is Status.OK


def test_partitions_without_a_leader() -> None:
    """They fail, whatever their replicas."""
    found = worst(topic(partition(0), partition(1, isr=(), leader=-1), partition(2, isr=(2,), leader=-1)))
    assert (found.status, found.summary) == (Status.FAIL, "partitions 1 and 2 have no leader")


def test_leaders_that_cannot_be_reached() -> None:
    """The partitions are named with their leader."""
    told = topic(partition(0), partition(2, leader=3), partition(5, leader=3))
    found = worst(told, wanted=Wanted(True, 1, unreachable=[3]))
    assert found.status is Status.FAIL
    assert found.summary == "partitions 2 and 5 are led by broker 3, which cannot be reached"


@pytest.mark.parametrize(
    ("isr", "all_replicas", "status", "told"),
    [
        ((1, 2, 3), True, Status.OK, ""),
        ((1, 2), True, Status.WARN, "min.insync.replicas is 2: one more failure stops writes"),
        ((1,), True, Status.FAIL, "writes with acks=all are refused"),
        ((1,), False, Status.WARN, "1 of 3 replicas in sync"),
    ],
)
def test_replicas_in_sync(isr: tuple[int, ...], all_replicas: bool, status: Status, told: str) -> None:
    """Below the minimum, acks=all is refused; at the minimum the next failure does that."""
    found = worst(topic(partition(0, isr)), wanted=Wanted(all_replicas, 1))
    assert (found.status, told in found.summary) == (status, True)


def test_fewer_replicas_than_there_are() -> None:
    """Above the minimum it is a warning as well."""
    found = worst(topic(partition(0, (1, 2))), {"min.insync.replicas": "1"})
    assert (found.status, found.summary) == (Status.WARN, "partition 0: 2 of 3 replicas in sync")
    assert found.detail["missing"] == [3]
    assert found.advice == "Bring the missing replicas back: look at broker 3."


def test_the_brokers_of_missing_replicas_are_named() -> None:
    """Those of all partitions of one finding, each once."""
    found = worst(topic(partition(0, (1,)), partition(1, (2,)), partition(2, (1,))))
    assert found.advice == "Bring the missing replicas back: look at brokers 1, 2 and 3."


def test_the_only_replica() -> None:
    """It is the minimum from the beginning: no warning of each development cluster."""
    alone = topic(partition(0, (1,), replicas=(1,)))
    assert worst(alone, {"min.insync.replicas": "1"}).status is Status.OK
    both = topic(partition(0, (1, 2), replicas=(1, 2)))
    assert worst(both, {"min.insync.replicas": "2"}).status is Status.WARN


def test_a_minimum_above_the_replicas() -> None:
    """New brokers count it as the number of replicas, old ones refuse: the finding says both."""
    found = worst(topic(partition(0, (1,), replicas=(1,))))
    assert (found.status, "before Kafka 3.7 refuse writes" in found.summary) == (Status.FAIL, True)
    lost = worst(topic(partition(0, (1,), replicas=(1, 2))), {"min.insync.replicas": "3"})
    assert "writes with acks=all are refused (NOT_ENOUGH_REPLICAS)" in lost.summary


def test_settings_that_cannot_be_read() -> None:
    """No claim is made about the minimum; the finding names the missing ACL."""
    findings = topic_findings(topic(partition(0, (1,))), None, WANTED)
    assert [each.status for each in findings] == [Status.WARN, Status.OK]
    assert "DESCRIBE_CONFIGS" in findings[-1].summary


def test_large_records() -> None:
    """A topic that takes less than max.request.size."""
    found = worst(topic(), {"max.message.bytes": "1000"}, Wanted(True, 1_048_576))
    assert found.status is Status.WARN
    assert (
        found.summary
        == "max.message.bytes is 1,000, and max.request.size 1,048,576: larger records are refused"
    )


@pytest.mark.parametrize(
    ("policy", "compacted"), [("delete", False), ("compact", True), ("compact,delete", True)]
)
def test_compacted_topics(policy: str, compacted: bool) -> None:
    """Their records need keys."""
    configs = {"cleanup.policy": policy}
    assert is_compacted(configs) is compacted
    assert ("records need keys" in worst(topic(), configs).summary) is compacted


def test_the_worst_comes_first() -> None:
    """And the topic as a whole last."""
    told = topic(partition(0, (1, 2)), partition(1, (1,)), operations=DESCRIBE_ONLY)
    found = topic_findings(told, CONFIGS, WANTED)
    assert [each.status for each in found] == [Status.FAIL, Status.FAIL, Status.WARN, Status.OK]


def test_long_lists_are_cut() -> None:
    """A topic of a thousand partitions has a line, and no page."""
    found = worst(topic(*(partition(number, leader=-1) for number in range(1000))))
    assert found.summary == "partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more have no leader"
