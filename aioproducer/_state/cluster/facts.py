"""Facts about brokers and topics, and the changes that an answer makes."""

from __future__ import annotations

import attrs

from aioproducer._state.cluster.partitions import Partitions

NO_TOPIC_ID = bytes(16)
# CPython raises SystemError where it has no memory for the traceback of an exception, and on 3.14 from calls with more
# than ten arguments.
OUT_OF_MEMORY = (MemoryError, SystemError)


@attrs.frozen
class Node:
    """A broker and its address, and the broker whose answer has the address."""

    id: int
    host: str
    port: int
    rack: str | None = None
    advertised_by: str | None = attrs.field(default=None, eq=False)


@attrs.frozen
class TopicFacts:
    """One topic: a partition stands at its own index; the id is all zeros where the broker gave none."""

    name: str
    topic_id: bytes
    partitions: Partitions


def is_recreated(known: TopicFacts, topic_id: bytes) -> bool:
    """Whether this id says that the topic was deleted and created again."""
    return NO_TOPIC_ID not in (known.topic_id, topic_id) and topic_id != known.topic_id


@attrs.frozen
class Update:
    """The changes of the view by one event.

    `leaders_changed`: (topic, partition, new leader), of partitions that were known before. `counts_changed`: (topic,
    count of partitions before, count now). `topic_errors`: (topic, code), also if it is the same again. `topics_failing`: those of
    them that did not pass, once, for the log. `rejected`: (topic, the fault of the answer about it). `unusable`: the
    reason why the whole answer counts as a failure, if it does.
    """

    topics_learned: tuple[str, ...] = ()
    leaders_changed: tuple[tuple[str, int, int], ...] = ()
    counts_changed: tuple[tuple[str, int, int], ...] = ()
    topics_recreated: tuple[str, ...] = ()
    topic_errors: tuple[tuple[str, int], ...] = ()
    topics_failing: tuple[tuple[str, int], ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    nodes_changed: bool = False
    rebootstrap: bool = False
    unusable: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything new is known."""
        topics = self.topics_learned or self.leaders_changed or self.counts_changed or self.topics_recreated
        return bool(topics) or self.nodes_changed


@attrs.define
class Changes:
    """An `Update` under construction."""

    learned: list[str] = attrs.Factory(list)
    leaders: list[tuple[str, int, int]] = attrs.Factory(list)
    counts: list[tuple[str, int, int]] = attrs.Factory(list)
    recreated: list[str] = attrs.Factory(list)
    errors: list[tuple[str, int]] = attrs.Factory(list)
    failing: list[tuple[str, int]] = attrs.Factory(list)
    rejected: list[tuple[str, str]] = attrs.Factory(list)
    nodes: bool = False

    def update(self) -> Update:
        """The finished update."""
        return Update(
            tuple(self.learned),
            tuple(self.leaders),
            tuple(self.counts),
            tuple(self.recreated),
            tuple(self.errors),
            tuple(self.failing),
            tuple(self.rejected),
            self.nodes,
        )
