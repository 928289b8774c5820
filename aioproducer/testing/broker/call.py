"""One request in a handler, and the possible answers of a handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from aioproducer._wire.apis import APIS
from aioproducer._wire.codec import RequestHeader
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.authentication.session import Session
from aioproducer.testing.broker.cluster.cluster import Cluster, Node
from aioproducer.testing.broker.cluster.transactions import MarkerWait
from aioproducer.testing.broker.history import SeenRequest
from aioproducer.testing.broker.rules import Plan, Subject

Message: TypeAlias = tuple[Any, ...]


@attrs.frozen(eq=False)
class Call:
    """A request, its broker, its connection's session, and its faults."""

    cluster: Cluster
    node: Node
    session: Session
    header: RequestHeader
    request: Any
    plan: Plan
    seen: SeenRequest
    topic_operations: Callable[[str], int]
    """The operations on a topic that this user may do, a bit for each."""

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.header.api_version

    def coordinator_error(self, key: str) -> int:
        """The error of a fault, or that of a broker which is not the coordinator of the key; 0 for neither."""
        injected = self.plan.error()
        return self.cluster.coordinator_error(key, self.node.id) if injected is None else injected.code

    def partition_error(self, topic: str, partition: int) -> int:
        """The error of a fault for one partition, or that of a missing partition; 0 for neither."""
        injected = self.plan.error(topic, partition)
        if injected is not None:
            return injected.code
        known = self.cluster.topics.get(topic)
        exists = known is not None and known.partition(partition) is not None
        return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def marker_wait(self) -> MarkerWait | None:
        """The delay of a fault for the markers of the transaction that this request ends."""
        found = self.plan.marker_hold()
        if found is None:
            return None
        fault, hold = found
        deadline = None if hold.seconds is None else self.cluster.clock() + hold.seconds
        return MarkerWait(fault.is_released, deadline)


@attrs.frozen
class Later:
    """The answer is not ready: call `finish()` when `ready()`, at the latest at `deadline`."""

    ready: Callable[[], bool]
    deadline: float
    finish: Callable[[], Message]


@attrs.frozen
class NoAnswer:
    """The client expects none (acks=0); `hang_up` then closes the connection to report an error."""

    hang_up: bool = False


Answer: TypeAlias = Message | Later | NoAnswer


def _no_subjects(_request: Any, _cluster: Cluster) -> tuple[Subject, ...] | None:
    return ()


@attrs.frozen
class Handler:
    """The handling of one API."""

    key: int
    min_version: int
    max_version: int
    answer: Callable[[Call], Answer]
    subjects: Callable[[Any, Cluster], tuple[Subject, ...] | None] = _no_subjects
    """The topics of a request, as targets of faults; None: all topics."""

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return APIS[self.key].name
