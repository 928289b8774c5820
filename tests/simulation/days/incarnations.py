"""Topics that are deleted and created again: each incarnation has a log of its own, and all of them are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.cluster.topics import Topic
from aioproducer.testing.broker.logs.batches import CONTROL, read_header
from aioproducer.testing.broker.logs.log import StoredBatch
from aioproducer.testing.broker.logs.records import StoredRecord, parse_batch
from tests.judge.history import Found, Sent, found, number_of


@attrs.define(eq=False)
class Incarnations:
    """The topics of a world under all ids that they ever had, oldest first."""

    kafka: EmbeddedKafka
    _all: list[Topic] = attrs.Factory(list)

    def make(self, name: str, partitions: int) -> None:
        """Create a topic, or another under the name of a deleted one."""
        self.kafka.create_topic(name, partitions, min_insync_replicas=2)
        self._all.append(self.kafka._cluster.topics[name])

    def delete(self, name: str) -> None:
        """Delete a topic; its log is still judged, as its records were written."""
        self.kafka.delete_topic(name)

    def of(self, name: str) -> list[Topic]:
        """All topics that ever had this name."""
        return [topic for topic in self._all if topic.name == name]

    def all(self) -> list[Topic]:
        """All incarnations of all topics."""
        return list(self._all)

    def is_there(self, topic: Topic) -> bool:
        """Does the topic exist?"""
        return self.kafka._cluster.topics_by_id.get(topic.id) is topic

    def records(self, topic: Topic, partition: int) -> list[StoredRecord]:
        """The records of a partition of one incarnation, committed or not."""
        return _records(topic, partition, topic.partitions[partition].log.batches)

    def committed(self, topic: Topic, partition: int) -> list[StoredRecord]:
        """The committed records of a partition, now or at the deletion of its topic."""
        return _records(topic, partition, topic.partitions[partition].log.committed())

    # -- for the judge

    def found(self) -> Iterator[Found]:
        """All logs, each under a name that says its incarnation."""
        for topic in self._all:
            for partition in range(len(topic.partitions)):
                for one in self.records(topic, partition):
                    yield found(
                        full_name(topic), partition, one.offset, one.key, one.value, one.headers, None
                    )

    def sent(self, history: Sequence[Sent]) -> Iterator[Sent]:
        """The sent records, by incarnation; records that are in none keep the bare name."""
        places: dict[int, list[Topic]] = {}
        for topic in self._all:
            for partition in range(len(topic.partitions)):
                for one in self.records(topic, partition):
                    places.setdefault(number_of(one.value), []).append(topic)
        for record in history:
            copies = [topic for topic in places.get(record.number, []) if topic.name == record.topic]
            yield attrs.evolve(record, topic=full_name(copies[-1])) if copies else record


def full_name(topic: Topic) -> str:
    """A name with the number of the incarnation."""
    return f"{topic.name}/{topic.id.hex()[:6]}"


def _records(topic: Topic, partition: int, batches: Iterable[StoredBatch]) -> list[StoredRecord]:
    return [
        record
        for batch in batches
        if not read_header(batch.data).attributes & CONTROL
        for record in parse_batch(topic.name, partition, batch.data)
    ]
