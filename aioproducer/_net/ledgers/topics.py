"""The topic of a ledger: found, created where it is missing, and refused where it would forget values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.connecting.topic_question import question_about
from aioproducer._wire.apis import api_of
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer._wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aioproducer._wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from aioproducer._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseTopic,
)
from aioproducer.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ConfigurationError,
    KafkaError,
    MetadataTimeoutError,
    ProtocolError,
)

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection

_TOPIC: Final = 2
_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
# The bits of Kafka's operations; before 2.3 brokers do not tell them.
_NEEDED: Final = {"READ": 1 << 3, "WRITE": 1 << 4}
_NOT_TOLD: Final = -(1 << 31)
# Errors of CreateTopics behind which the next look at the metadata decides.
_LOOK_AGAIN: Final = frozenset(
    {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
)
# The first version of CreateTopics that takes the cluster's own replication factor.
_WITH_DEFAULTS: Final = 4


@attrs.frozen
class LedgerTopic:
    """A compacted topic: its name, the number of partitions that it needs, and its settings at creation."""

    name: str
    partitions: int
    configs: Mapping[str, str]

    def creation(self) -> str:
        """The command that creates it."""
        configs = " ".join(f"--config {name}={value}" for name, value in self.configs.items())
        return (
            f"kafka-topics.sh --bootstrap-server <broker> --create --topic {self.name} "
            f"--partitions {self.partitions} {configs}"
        )


async def require_ledger(session: Session, topic: LedgerTopic, timeout: float) -> None:
    """Returns when the topic can be used; ConfigurationError names the command that mends it."""
    trouble: KafkaError | None = None

    async def settled() -> None:
        nonlocal trouble
        while True:
            try:
                if await _is_usable(session, topic):
                    return
            except BrokerUnavailableError as error:
                trouble = error
            await anyio.sleep(session.config.retry_backoff_ms / 1000)

    try:
        async with asyncio.timeout(timeout):
            await settled()
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise MetadataTimeoutError(topic=topic.name, waited=timeout, cause=trouble) from trouble


async def _is_usable(session: Session, topic: LedgerTopic) -> bool:
    """Whether it is there; False where it may have been created by this attempt."""
    answer = await metadata_of(session, topic.name)
    found = next((one for one in answer.topics if one.name == topic.name), None)
    if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        await _create(session, topic, answer)
        return False
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise _not_allowed(topic, ["DESCRIBE", *_NEEDED])
    if found.error_code or not found.partitions:
        return False
    _require_rights(topic, found)
    if len(found.partitions) < topic.partitions:
        raise ConfigurationError(
            f"topic {topic.name!r} has {len(found.partitions)} partitions, and needs at least {topic.partitions}: "
            f"kafka-topics.sh --bootstrap-server <broker> --alter --topic {topic.name} --partitions {topic.partitions}"
        )
    await _require_compaction(session, topic)
    return all(one.leader_id >= 0 for one in found.partitions[: topic.partitions])


async def metadata_of(session: Session, topic: str) -> MetadataResponse:
    """The brokers, and this topic, which is not created."""
    return await session.control.ask(question_about([topic]), MetadataResponse)


async def id_of(session: Session, topic: str) -> bytes:
    """The id of a topic; all zeros where brokers do not say it."""
    answer = await metadata_of(session, topic)
    return next((one.topic_id for one in answer.topics if one.name == topic), NO_TOPIC_ID)


def _require_rights(topic: LedgerTopic, found: MetadataResponseTopic) -> None:
    told = found.topic_authorized_operations
    if told != _NOT_TOLD and (missing := [name for name, bit in _NEEDED.items() if not told & bit]):
        raise _not_allowed(topic, missing)


def _not_allowed(topic: LedgerTopic, operations: Iterable[str]) -> AuthorizationError:
    names = list(operations)
    granted = " ".join(f"--operation {name.capitalize()}" for name in names)
    return AuthorizationError(
        f"the principal lacks {' and '.join(names)} on the topic: kafka-acls.sh --bootstrap-server <broker> --add "
        f"--allow-principal User:<principal> {granted} --topic {topic.name}; if the topic does not exist: {topic.creation()}",
        topic=topic.name,
    )


async def _require_compaction(session: Session, topic: LedgerTopic) -> None:
    question = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, topic.name, [_POLICY])])
    answer = await session.control.ask(question, DescribeConfigsResponse)
    for result in answer.results:
        # Without the permission DESCRIBE_CONFIGS it cannot be checked.
        for one in () if result.error_code else result.configs:
            if one.name == _POLICY and (one.value or "").replace(" ", "") != _COMPACT:
                raise ConfigurationError(
                    f"topic {topic.name!r} has {_POLICY}={one.value}, and would forget values: kafka-configs.sh "
                    f"--bootstrap-server <broker> --alter --entity-type topics --entity-name {topic.name} "
                    f"--add-config {_POLICY}={_COMPACT}"
                )


async def _create(session: Session, topic: LedgerTopic, metadata: MetadataResponse) -> None:
    """Ask the controller: before KRaft, no other broker creates topics."""
    controller = next((one for one in metadata.brokers if one.node_id == metadata.controller_id), None)
    if controller is None:
        raise BrokerUnavailableError("the cluster has no controller")
    connection = await session.addresses.dial(
        BrokerEndpoint.advertised(controller.host, controller.port, controller.node_id)
    )
    wanted = CreatableTopic(
        topic.name,
        topic.partitions,
        -1,
        configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )
    try:
        version = _version_of(connection, topic)
        timeout = session.config.request_timeout_ms
        answer = await answer_to(
            connection,
            CreateTopicsRequest([wanted], timeout_ms=timeout),
            CreateTopicsResponse,
            timeout=timeout / 1000,
            version=version,
        )
    finally:
        connection.close()
    for result in answer.topics:
        if result.error_code and result.error_code not in _LOOK_AGAIN:
            reason = describe(result.error_code) + (
                f": {result.error_message}" if result.error_message else ""
            )
            raise ConfigurationError(
                f"topic {topic.name!r} does not exist, and cannot be created ({reason}): {topic.creation()}"
            )


def _version_of(connection: Connection, topic: LedgerTopic) -> int:
    try:
        return connection.versions.choose(api_of(CreateTopicsResponse).key, at_least=_WITH_DEFAULTS)
    except ProtocolError as error:
        # The command asks for a replication factor where the brokers have no default.
        raise ConfigurationError(
            f"topic {topic.name!r} does not exist, and brokers before Kafka 2.4 need its replication factor: {topic.creation()} "
            "--replication-factor <number>"
        ) from error
