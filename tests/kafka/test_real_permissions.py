"""A real Kafka that has an authorizer: what may not be done is told before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from aioproducer import AuthorizationError, check_topics, fence
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
LIMIT = 30.0


def denied(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """Nobody may do this."""
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.DENY
    )


def allowed(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """Everybody may do this; with it, what is not allowed is denied."""
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, AclPermissionType.ALLOW
    )


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """Topics that may be written, only seen, and not even that, and a transactional id that nobody may use."""
    with KafkaCluster(1, settings=AUTHORIZER) as kafka:
        for topic in ("open", "seen", "hidden"):
            kafka.create_topic(topic, 2)
        rules = [
            allowed(ResourceType.TOPIC, "seen", AclOperation.DESCRIBE),
            denied(ResourceType.TOPIC, "hidden", AclOperation.DESCRIBE),
            denied(ResourceType.TRANSACTIONAL_ID, "theirs", AclOperation.WRITE),
        ]
        for done in kafka.admin.create_acls(rules).values():
            done.result(LIMIT)
        yield kafka


async def test_topics(guarded: KafkaCluster) -> None:
    """Each by its name, with what is missing."""
    servers = guarded.bootstrap_servers
    assert await check_topics(["open"], servers) == {"open": 2}
    with pytest.raises(AuthorizationError, match="may describe the topic, but not write it") as caught:
        await check_topics(["open", "seen"], servers)
    assert caught.value.topic == "seen"
    with pytest.raises(AuthorizationError) as caught:
        await check_topics(["open", "hidden"], servers)
    assert caught.value.topic == "hidden"


async def test_transactional_ids(guarded: KafkaCluster) -> None:
    """One that may not be used is told by whatever asks for it."""
    with pytest.raises(AuthorizationError):
        await fence(["theirs"], guarded.bootstrap_servers)
