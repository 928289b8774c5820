"""Permissions of users, and what a request may not do: the errors of Kafka's authorizer.

A denied topic has error 29 beside the results of the others; a denied group (30), cluster (31) or transactional id (53)
is the error of the whole request. They reach the handlers as the errors of faults do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from aioproducer._wire.apis import APIS
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.rules import Fault, GiveError, Subject, Target

OPERATIONS: Final = (
    "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "IDEMPOTENT_WRITE",
)  # fmt: skip
_IMPLY_DESCRIBE: Final = ("READ", "WRITE", "DELETE", "ALTER")
_OF_TOPICS: Final = {
    "Produce": "WRITE", "Fetch": "READ", "ListOffsets": "DESCRIBE", "Metadata": "DESCRIBE", "CreateTopics": "CREATE",
    "DeleteTopics": "DELETE", "CreatePartitions": "ALTER", "AddPartitionsToTxn": "WRITE", "TxnOffsetCommit": "READ",
}  # fmt: skip
_OF_GROUPS: Final = {
    "OffsetCommit": "READ",
    "AddOffsetsToTxn": "READ",
    "TxnOffsetCommit": "READ",
    "OffsetFetch": "DESCRIBE",
}
_GROUP, _TRANSACTION = 0, 1
"""The kinds of keys of FindCoordinator."""


@attrs.frozen(init=False)
class Allow:
    """A permission: operations by Kafka's names, and the topic, group or transactional id, or the cluster.

    `Allow("WRITE", topic="orders")`. A name that ends with "*" is a prefix, "*" alone is every name. As in Kafka, READ,
    WRITE, DELETE and ALTER include DESCRIBE, and ALL includes everything.
    """

    operations: tuple[str, ...]
    kind: str
    name: str

    def __init__(
        self,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
    ) -> None:
        named = {"topic": topic, "group": group, "transactional_id": transactional_id}
        given = [(kind, name) for kind, name in named.items() if name is not None]
        if cluster:
            given.append(("cluster", "*"))
        if len(given) != 1:
            raise ValueError("Allow: exactly one of topic, group, transactional_id and cluster is needed")
        unknown = [one for one in operations if one not in OPERATIONS]
        if unknown or not operations:
            raise ValueError(f"Allow: operations are some of {', '.join(OPERATIONS)}, not {unknown!r:.80}")
        kind, name = given[0]
        self.__attrs_init__(operations, kind, name)

    def covers(self, operation: str, kind: str, name: str | None) -> bool:
        """Whether it allows the operation; with a name of None, on anything of the kind."""
        if kind != self.kind or not self._includes(operation):
            return False
        if self.name.endswith("*"):
            return name is None or name.startswith(self.name[:-1])
        return name in (None, self.name)

    def _includes(self, operation: str) -> bool:
        described = operation == "DESCRIBE" and any(one in _IMPLY_DESCRIBE for one in self.operations)
        return described or operation in self.operations or "ALL" in self.operations


# The operations on topics, by Kafka's numbers for them; an answer has a bit for each.
_OPERATIONS_ON_TOPICS: Final = {"READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8}
_ON_SETTINGS_OF_TOPICS: Final = 1 << 10 | 1 << 11
"""DESCRIBE_CONFIGS and ALTER_CONFIGS, which all users may do here."""
ALL_ON_TOPICS: Final = sum(1 << number for number in _OPERATIONS_ON_TOPICS.values()) | _ON_SETTINGS_OF_TOPICS

Permissions = Mapping[str, Sequence[Allow]]
"""By user; a user without an entry may do nothing."""


@attrs.frozen(eq=False)
class Authorizer:
    """The permissions of one user, for one request."""

    allowed: Sequence[Allow]
    cluster: Cluster

    def may(self, operation: str, kind: str, name: str | None = None) -> bool:
        """Whether the operation is allowed; with a name of None, on anything of the kind."""
        return any(one.covers(operation, kind, name) for one in self.allowed)

    def topic_operations(self, topic: str) -> int:
        """The operations on a topic that are allowed, a bit for each."""
        own = (
            1 << number for name, number in _OPERATIONS_ON_TOPICS.items() if self.may(name, "topic", topic)
        )
        return sum(own) | _ON_SETTINGS_OF_TOPICS

    def denials(self, api_key: int, request: Any, subjects: Sequence[Subject] | None) -> Iterator[Fault]:
        """The errors of a request that is not allowed."""
        api = APIS[api_key].name
        code = self._of_the_request(api, request)
        if code != ErrorCode.NONE:
            yield error_of(code)
        operation = _OF_TOPICS.get(api)
        if operation is not None:
            names = list(self.cluster.topics) if subjects is None else [name for name, _ in subjects]
            for name in dict.fromkeys(names):
                if not self._may_topic(api, operation, request, name):
                    yield error_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)

    def _may_topic(self, api: str, operation: str, request: Any, name: str) -> bool:
        if api == "CreateTopics":
            return self._may_create(name)
        if not self.may(operation, "topic", name):
            return False
        creates = (
            api == "Metadata"
            and name not in self.cluster.topics
            and self.cluster.options.auto_create_topics
            and request.allow_auto_topic_creation
        )
        return not creates or self._may_create(name)

    def _may_create(self, name: str) -> bool:
        return self.may("CREATE", "cluster") or self.may("CREATE", "topic", name)

    def _of_the_request(self, api: str, request: Any) -> int:
        if api == "FindCoordinator":
            return self._of_a_search(request)
        identity = _transactional_id(api, request)
        if identity is not None and not self.may("WRITE", "transactional_id", identity):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if api == "InitProducerId" and identity is None:
            writes = self.may("IDEMPOTENT_WRITE", "cluster") or self.may("WRITE", "topic")
            return ErrorCode.NONE if writes else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        operation = _OF_GROUPS.get(api)
        if operation is not None and not all(self.may(operation, "group", one) for one in _groups(request)):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    def _of_a_search(self, request: Any) -> int:
        keys = request.coordinator_keys or [request.key]
        groups = request.key_type == _GROUP
        kind = "group" if groups else "transactional_id"
        if request.key_type in (_GROUP, _TRANSACTION) and not all(
            self.may("DESCRIBE", kind, key) for key in keys
        ):
            return (
                ErrorCode.GROUP_AUTHORIZATION_FAILED
                if groups
                else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            )
        return ErrorCode.NONE


def _transactional_id(api: str, request: Any) -> str | None:
    if api == "AddPartitionsToTxn":
        return request.v3_and_below_transactional_id or None
    if api in ("Produce", "InitProducerId", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"):
        named: str | None = request.transactional_id
        return named
    return None


def _groups(request: Any) -> list[str]:
    several = getattr(request, "groups", None)
    return [one.group_id for one in several] if several else [request.group_id]


def error_of(code: int, topic: str | None = None) -> Fault:
    """A fault that answers with this error, for the whole request or for one of its topics."""
    return Fault(Target(topic=topic), GiveError(code), times=None)
