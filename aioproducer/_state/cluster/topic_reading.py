"""How a broker's answer about one topic changes its known facts."""

from __future__ import annotations

import itertools
from collections.abc import Container, Generator, Iterable

from aioproducer._state.cluster.facts import NO_TOPIC_ID, TopicFacts, is_recreated
from aioproducer._state.cluster.partitions import NO_EPOCH, NO_LEADER, Partitions, Replicas
from aioproducer._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

# Partitions between two pauses: about 2 ms, so that other tasks of the loop can run.
SLICE = 1000


class TopicReading:
    """The facts about a topic while an answer changes them, one partition at a time.

    `contradiction`: the reason why the answer cannot be used at all. `strange`: the fault of one partition in it; that
    partition keeps its known facts. Without `trust_known` the answer may be about another topic of the same name: lower leader
    epochs and a smaller number of partitions are accepted too.
    """

    def __init__(
        self,
        answer: MetadataResponseTopic,
        known: TopicFacts | None,
        brokers: Container[int],
        *,
        trust_known: bool = True,
    ) -> None:
        self.name = answer.name or ""
        self.topic_id = answer.topic_id
        self.known = known
        self.contradiction: str | None = None
        self.strange: str | None = None
        self.leaders_changed: list[tuple[str, int, int]] = []
        # The answer names another leader of some partition under an older epoch, or lists fewer partitions, which is not
        # accepted. An answer with a topic id gives no reason for doubts: the id tells whether it is still the same topic.
        self.names_others = False
        self._brokers = brokers
        # A new id means a new topic, of which nothing is known.
        old = Partitions() if known is None or is_recreated(known, answer.topic_id) else known.partitions
        self._old_count = len(old)
        self._listed = bytearray(len(answer.partitions))
        # Topics never lose partitions: a broker that lists fewer has not learned of the new ones yet, or it is another topic.
        listed = len(self._listed)
        if listed < len(old) and self.topic_id == NO_TOPIC_ID:
            if trust_known:
                self.names_others = True
            else:
                old = old.first(listed)
        new = max(listed - len(old), 0)
        self._leaders = [*old.leaders, *[NO_LEADER] * new]
        self._epochs = (
            [*old.leader_epochs, *[NO_EPOCH] * new] if trust_known else [NO_EPOCH] * (len(old) + new)
        )
        self._replicas = [*old.replicas, *[()] * new]
        self._in_sync = [*old.in_sync, *[()] * new]
        self._offline = [*old.offline, *[()] * new]
        self._changed = new > 0 or not trust_known
        # Thousands of partitions have the same few sets of replicas: one copy of each.
        self._shared: dict[Replicas, Replicas] = {}

    @property
    def unsettled(self) -> bool:
        """Whether some partition has no usable leader, which is worth another question soon."""
        return self.strange is not None or NO_LEADER in self._leaders

    @property
    def confirms(self) -> bool:
        """Whether the answer has as many partitions as were known before."""
        return 0 < len(self._listed) == self._old_count

    def take(self, answer: MetadataResponsePartition) -> None:
        """Apply one partition."""
        index = answer.partition_index
        count = len(self._listed)
        if not 0 <= index < count:
            self.contradiction = f"it lists {count} partitions, and one of them is number {index}"
        elif self._listed[index]:
            self.contradiction = f"it lists partition {index} twice"
        else:
            self._listed[index] = 1
            self._place(answer)

    def _place(self, answer: MetadataResponsePartition) -> None:
        _, index, leader, epoch, replicas, in_sync, offline = answer
        # A leader epoch never goes back: brokers learn of elections at different times (KIP-320). -1 is an answer
        # without epochs.
        if 0 <= epoch < self._epochs[index]:
            if self.topic_id == NO_TOPIC_ID:
                self.names_others |= leader not in (NO_LEADER, self._leaders[index])
            return
        if leader >= 0 and leader not in self._brokers:
            self.strange = f"broker {leader} leads partition {index}, but is not in the list of brokers"
            return
        if epoch > self._epochs[index]:
            self._epochs[index] = epoch
            self._changed = True
        self._lead(index, max(leader, NO_LEADER))
        self._keep(self._replicas, index, replicas)
        self._keep(self._in_sync, index, in_sync)
        self._keep(self._offline, index, offline)

    def _lead(self, index: int, leader: int) -> None:
        if leader != self._leaders[index]:
            self._leaders[index] = leader
            self._changed = True
            if index < self._old_count:
                self.leaders_changed.append((self.name, index, leader))

    def _keep(self, column: list[Replicas], index: int, brokers: Iterable[int]) -> None:
        replicas = tuple(brokers)
        if replicas != column[index]:
            column[index] = self._shared.setdefault(replicas, replicas)
            self._changed = True

    def facts(self) -> TopicFacts:
        """The present facts about the topic; the same object if nothing is new. Not for a contradiction."""
        topic_id = self.topic_id
        if self.known is not None:
            if topic_id == NO_TOPIC_ID:
                topic_id = self.known.topic_id
            if not self._changed and topic_id == self.known.topic_id:
                return self.known
        partitions = Partitions(
            tuple(self._leaders),
            tuple(self._epochs),
            tuple(self._replicas),
            tuple(self._in_sync),
            tuple(self._offline),
        )
        return TopicFacts(self.name, topic_id, partitions)


def read_topic(answer: MetadataResponseTopic, reading: TopicReading) -> Generator[None, None, None]:
    """Read the partitions of a topic until there is a contradiction, with pauses if there are many."""
    count = len(answer.partitions)
    if not count:
        reading.contradiction = "it has no partitions"
    # One at a time: a large array makes its elements on access, and each is freed at once.
    partitions = iter(answer.partitions)
    for _ in range(0, count, SLICE):
        # Also before the first: the allocation for a large topic takes about as long as a slice.
        if count > SLICE:
            yield
        for partition in itertools.islice(partitions, SLICE):
            reading.take(partition)
        if reading.contradiction:
            return
