"""What is known of brokers, topics and partitions, and how a newer answer changes it."""

from __future__ import annotations

from collections.abc import Container, Generator
from typing import NamedTuple, cast

import attrs

from aioproducer._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

NO_LEADER = -1
NO_TOPIC_ID = bytes(16)
# Partitions read between two pauses: about 2 ms, so that others on the loop have their turn.
SLICE = 2000


@attrs.frozen
class Node:
    """A broker, and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionFacts(NamedTuple):
    """One partition. A tuple, because one answer may bring 200,000 of them and attrs takes twice as long."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@attrs.frozen
class TopicFacts:
    """One topic: a partition stands at its own index; the id is all zeros where the broker gave none."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionFacts, ...]


@attrs.frozen
class Update:
    """What a fact changed in the view.

    `leaders_changed`: (topic, partition, new leader), of partitions that were known before. `partitions_added`:
    (topic, count before, count now). `topic_errors`: (topic, code), also if it is the same again. `rejected`: (topic,
    what is wrong with the answer about it). `unusable`: why the whole answer counts as a failure, if it does.
    """

    topics_learned: tuple[str, ...] = ()
    leaders_changed: tuple[tuple[str, int, int], ...] = ()
    partitions_added: tuple[tuple[str, int, int], ...] = ()
    topics_recreated: tuple[str, ...] = ()
    topic_errors: tuple[tuple[str, int], ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    nodes_changed: bool = False
    rebootstrap: bool = False
    unusable: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything is known now that was not known before."""
        topics = self.topics_learned or self.leaders_changed or self.partitions_added or self.topics_recreated
        return bool(topics) or self.nodes_changed


@attrs.define
class Changes:
    """An `Update` while it is being put together."""

    learned: list[str] = attrs.Factory(list)
    leaders: list[tuple[str, int, int]] = attrs.Factory(list)
    added: list[tuple[str, int, int]] = attrs.Factory(list)
    recreated: list[str] = attrs.Factory(list)
    errors: list[tuple[str, int]] = attrs.Factory(list)
    rejected: list[tuple[str, str]] = attrs.Factory(list)
    nodes: bool = False

    def update(self) -> Update:
        """What came together."""
        return Update(
            tuple(self.learned),
            tuple(self.leaders),
            tuple(self.added),
            tuple(self.recreated),
            tuple(self.errors),
            tuple(self.rejected),
            self.nodes,
        )


def newest(
    answer: MetadataResponsePartition, known: PartitionFacts | None, brokers: Container[int]
) -> PartitionFacts | None:
    """The newer of what a broker answers and what is known; None where it names a leader that nobody knows.

    A leader epoch never goes back: brokers learn of elections at different times (KIP-320). -1 is an answer without one.
    """
    _, index, leader, epoch, replicas, in_sync, offline = answer
    if known is not None:
        if 0 <= epoch < known.leader_epoch:
            return known
        epoch = max(epoch, known.leader_epoch)
    if leader < 0:
        leader = NO_LEADER
    elif leader not in brokers:
        return None
    facts = PartitionFacts(index, leader, epoch, tuple(replicas), tuple(in_sync), tuple(offline))
    # The same object for the same facts keeps one copy of them in memory.
    return known if facts == known else facts


def is_recreated(known: TopicFacts, topic_id: bytes) -> bool:
    """Whether this id says that the topic was deleted and created again."""
    return NO_TOPIC_ID not in (known.topic_id, topic_id) and topic_id != known.topic_id


@attrs.define
class TopicReading:
    """What an answer about one topic comes to, next to what is known of it.

    `contradiction`: why the answer cannot be used at all. `strange`: what is wrong with one partition of it, which
    keeps what was known. `unsettled`: some partition has no usable leader, so it is worth asking again soon.
    """

    name: str
    topic_id: bytes
    known: TopicFacts | None
    brokers: Container[int]
    old: tuple[PartitionFacts, ...]
    trust_epochs: bool
    placed: list[PartitionFacts | None]
    contradiction: str | None = None
    strange: str | None = None
    unsettled: bool = False
    leaders_changed: list[tuple[str, int, int]] = attrs.Factory(list)

    def take(self, answer: MetadataResponsePartition) -> None:
        """Put one partition at its place."""
        index = answer.partition_index
        if not 0 <= index < len(self.placed):
            self.contradiction = f"it lists {len(self.placed)} partitions, and one of them is number {index}"
        elif self.placed[index] is not None:
            self.contradiction = f"it lists partition {index} twice"
        else:
            self._place(index, answer)

    def _place(self, index: int, answer: MetadataResponsePartition) -> None:
        known = self.old[index] if index < len(self.old) else None
        if known is not None and not self.trust_epochs:
            known = known._replace(leader_epoch=-1)
        facts = newest(answer, known, self.brokers)
        if facts is None:
            self.strange = (
                f"broker {answer.leader_id} leads partition {index}, but is not in the list of brokers"
            )
            self.unsettled = True
            facts = known or PartitionFacts(index, NO_LEADER, -1, (), (), ())
        self.placed[index] = facts
        if facts.leader < 0:
            self.unsettled = True
        if known is not None and known.leader != facts.leader:
            self.leaders_changed.append((self.name, index, facts.leader))

    def facts(self) -> TopicFacts:
        """The topic as it is known now; the same object if nothing is new. Not for a contradiction."""
        # n different indexes below n: no place is empty.
        placed = cast("list[PartitionFacts]", self.placed)
        # Partitions are never taken away from a topic: a broker that lists fewer has not heard of the new ones yet.
        partitions = (*placed, *self.old[len(placed) :])
        topic_id = self.topic_id
        if topic_id == NO_TOPIC_ID and self.known is not None:
            topic_id = self.known.topic_id
        facts = TopicFacts(self.name, topic_id, partitions)
        return self.known if self.known is not None and facts == self.known else facts


def read_topic(
    answer: MetadataResponseTopic,
    known: TopicFacts | None,
    brokers: Container[int],
    *,
    trust_epochs: bool = True,
) -> Generator[None, None, TopicReading]:
    """Read what a broker answers about one topic, with a pause after each `SLICE` partitions.

    Without `trust_epochs` a lower leader epoch is believed too; under a new topic id nothing known holds any more.
    """
    old = () if known is None or is_recreated(known, answer.topic_id) else known.partitions
    count = len(answer.partitions)
    placed: list[PartitionFacts | None] = [None] * count
    reading = TopicReading(answer.name or "", answer.topic_id, known, brokers, old, trust_epochs, placed)
    if not count:
        reading.contradiction = "it has no partitions"
    for start in range(0, count, SLICE):
        if start:
            yield
        for partition in answer.partitions[start : start + SLICE]:
            reading.take(partition)
        if reading.contradiction:
            break
    return reading
