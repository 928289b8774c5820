"""A real Kafka with an authorizer: a missing permission is reported before records are sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from aioproducer import AuthorizationError, Producer, TransactionAbortedError, check_topics, fence
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START

pytestmark = pytest.mark.kafka

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
LIMIT = 30.0


def denied(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """A rule that denies this to all users."""
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.DENY
    )


def allowed(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """A rule that allows this to all users; every other operation is then denied."""
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.ALLOW
    )


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A topic to write, one only to describe, one without any permission, a transactional id and a group that are denied."""
    with KafkaCluster(1, settings=AUTHORIZER, java_options=QUICK_START) as kafka:
        for topic in ("open", "seen", "hidden"):
            kafka.create_topic(topic, 2)
        rules = [
            allowed(ResourceType.TOPIC, "seen", AclOperation.DESCRIBE),
            denied(ResourceType.TOPIC, "hidden", AclOperation.DESCRIBE),
            denied(ResourceType.TRANSACTIONAL_ID, "theirs", AclOperation.WRITE),
            denied(ResourceType.GROUP, "readers", AclOperation.READ),
        ]
        for done in kafka.admin.create_acls(rules).values():
            done.result(LIMIT)
        yield kafka


async def test_topics(guarded: KafkaCluster) -> None:
    """The error has the topic, and the missing permission."""
    servers = guarded.bootstrap_servers
    assert await check_topics(["open"], servers) == {"open": 2}
    with pytest.raises(AuthorizationError, match="may describe the topic, but not write it") as caught:
        await check_topics(["open", "seen"], servers)
    assert caught.value.topic == "seen"
    with pytest.raises(AuthorizationError) as caught:
        await check_topics(["open", "hidden"], servers)
    assert caught.value.topic == "hidden"


async def test_transactional_ids(guarded: KafkaCluster) -> None:
    """A denied transactional id is reported by every call that uses it."""
    with pytest.raises(AuthorizationError):
        await fence(["theirs"], guarded.bootstrap_servers)


async def test_groups(guarded: KafkaCluster) -> None:
    """A denied group ends the transaction with the missing permission, and the next transaction succeeds."""
    async with Producer(guarded.bootstrap_servers, transactional_id="ours") as producer:
        with pytest.raises(TransactionAbortedError) as caught:
            async with producer.transaction():
                await producer.send_and_wait("open", b"aborted")
                await producer.send_offsets_to_transaction({("open", 0): 1}, "readers")
        assert isinstance(caught.value.__cause__, AuthorizationError)
        assert "grant the principal READ" in str(caught.value.__cause__)
        async with producer.transaction():
            await producer.send_and_wait("open", b"committed")
            await producer.send_offsets_to_transaction({("open", 0): 1}, "writers")
