"""The mark of a transaction: the rows of a task that it committed, as an offset of a group of its own and in the ledger.

The mark is committed with the rows, so it exists if and only if they do. A repeated task first fences the previous owner of its
transactional id, then reads the mark: in the other order, a zombie could commit in between.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

import anyio
import attrs

from aioproducer import (
    Coordinators,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerConfig,
    StateError,
    TopicPartition,
)
from aioproducer.documentation import page
from aioproducer.ledgers import Ledger, known_id, present_id
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.ledger import (
    all_partitions,
    is_of,
    kept,
    key_of,
    ledger_topic,
    note_of,
    partition_of,
    place_of,
    value_of,
)

__all__ = [
    "Mark",
    "OtherRowsError",
    "Place",
    "marks_at",
    "marks_kept",
    "notes_at",
    "take_id",
    "transactional_name",
]

# Brokers accept at most 4,095 bytes.
PRINT: Final = "fingerprint"
TOPIC: Final = "topic"
LEDGER: Final = "ledger"
TOPIC_ID: Final = "topic.id"
# No topic has this name: the mark is of a version that did not store the topic.
NOT_SAID: Final = ""
AT_ONCE: Final = 20


class OtherRowsError(KafkaError):
    """A repeated task has rows that differ from its committed rows. Rows would be lost or duplicated, so none is written."""

    summary = "the task was repeated with rows that differ from its committed rows"


def transactional_name(name: str) -> str:
    """The prefix of the transactional ids of all tasks; ACLs can be granted for it."""
    return f"aioproducer-spark-{name}"


async def take_id(name: str, config: ProducerConfig) -> None:
    """Fence the other producers of a transactional id.

    Raises if brokers do not allow the id, or transactions as long as `config` says.
    """
    async with Producer.from_config(config.evolve(transactional_id=name)) as producer:
        await producer.init_transactions()


@attrs.frozen
class Place:
    """The place of the marks of one task: a group, whose name is also the transactional id of a task of a stream."""

    name: str
    topic: str
    # The topic of the ledger; None: marks are offsets only.
    ledger: str | None = None

    @property
    def key(self) -> bytes:
        """The key of the mark in the ledger."""
        return key_of(self.name, self.topic)

    @property
    def where(self) -> TopicPartition:
        """The partition that the offset is committed for."""
        return TopicPartition(self.topic, 0)

    async def read(self, producer: Producer[Any, Any]) -> Mark | None:
        """The last mark; valid if no other producer can commit another one."""
        found = await self.note(producer)
        return None if found is None else Mark.of(found)

    async def note(self, producer: Producer[Any, Any]) -> OffsetAndMetadata | None:
        """The mark as it was written."""
        found = (await producer.committed_offsets(self.name, [self.where])).get(self.where)
        if found is None and self.ledger is not None:
            ledger = Ledger.of(producer, ledger_topic(self.ledger))
            return (await kept(ledger, [self])).get(self)
        return found

    async def require_same_topic(self, producer: Producer[Any, Any], mark: Mark, option: str) -> None:
        """Raise if the topic was deleted and created again since the mark was written: it has none of the rows."""
        if mark.topic_id in (None, await present_id(producer, self.topic)):
            return
        raise StateError(
            f"epoch {mark.epoch} of {self.name!r} was committed to a topic {self.topic!r}, which was deleted and created again: "
            f"the present one has none of its rows, and they are not written again. To write them, set another {option}"
        )

    async def look_up(self, config: ProducerConfig) -> OffsetAndMetadata | None:
        """The mark as it was written, read without a producer."""
        found = await notes_at([self], config)
        return found.get(self)

    async def write(self, producer: Producer[Any, Any], note: OffsetAndMetadata) -> None:
        """Make the mark a part of the open transaction."""
        offsets = producer.send_offsets_to_transaction({self.where: note}, self.name)
        await asyncio.gather(offsets, self.keep(producer, note))

    async def keep(self, producer: Producer[Any, Any], note: OffsetAndMetadata) -> None:
        """Make the record of the ledger a part of the open transaction, without the offset."""
        if self.ledger is not None:
            await producer.send_and_wait(
                self.ledger, value_of(note), key=self.key, partition=partition_of(self.key)
            )


@attrs.frozen
class Mark:
    """The last commit: its epoch, the fingerprint of its rows, and the option `topic`."""

    epoch: int
    fingerprint: str
    # None: each row names its topic, and the fingerprint includes it.
    topic: str | None
    # The topic of the ledger that has the mark as well; None for marks of older versions.
    ledger: str | None = None
    # The id of the topic of marks; None where brokers have no such ids, and for marks of older versions.
    topic_id: str | None = None

    @classmethod
    def new(
        cls, producer: Producer[Any, Any], place: Place, epoch: int, seen: Fingerprint, topic: str | None
    ) -> Self:
        """The mark of rows that this producer has written."""
        return cls(epoch, str(seen), topic, place.ledger, known_id(producer, place.topic))

    @classmethod
    def of(cls, found: OffsetAndMetadata) -> Self:
        """The mark of a committed offset."""
        try:
            facts = json.loads(found.metadata)
            topic = facts.get(TOPIC, NOT_SAID)
            return cls(found.offset - 1, str(facts[PRINT]), topic, facts.get(LEDGER), facts.get(TOPIC_ID))
        except (ValueError, KeyError, TypeError):
            return cls(found.offset - 1, f"unreadable: {found.metadata[:80]}", NOT_SAID)

    def as_offset(self) -> OffsetAndMetadata:
        """The mark as an offset: the next epoch, and the rest as JSON."""
        facts = {PRINT: self.fingerprint, TOPIC: self.topic}
        if self.ledger is not None:
            facts[LEDGER] = self.ledger
        if self.topic_id is not None:
            facts[TOPIC_ID] = self.topic_id
        if self.topic == NOT_SAID:
            del facts[TOPIC]
        return OffsetAndMetadata(self.epoch + 1, json.dumps(facts))

    def require_same(self, found: Fingerprint, topic: str | None, place: Place) -> None:
        """Raise unless these are the committed rows, for the same topic."""
        if self.topic not in (topic, NOT_SAID):
            raise OtherRowsError(
                f"epoch {self.epoch} of {place.name!r} was committed to {_named(self.topic)}, and was repeated for "
                f"{_named(topic)}: writes of one epoch that share marker.topic need different names (sink.id, write.id or epoch). "
                "Committed rows stay"
            )
        if str(found) != self.fingerprint:
            raise OtherRowsError(
                f"epoch {self.epoch} of {place.name!r} has committed rows with the fingerprint {self.fingerprint}, "
                f"and was repeated with {found}: the source or the plan is not deterministic, or has changed (its partitions, a "
                "column like rand() or current_timestamp()), or another write has the same name (sink.id, write.id or epoch): "
                f"then give it one of its own. Committed rows stay. See {page('spark.md#other-rows')}"
            )


async def marks_at(places: Iterable[Place], config: ProducerConfig) -> list[tuple[Place, Mark]]:
    """The places that have a mark, each with its mark."""
    return [(place, Mark.of(note)) for place, note in (await notes_at(places, config)).items()]


async def notes_at(places: Iterable[Place], config: ProducerConfig) -> dict[Place, OffsetAndMetadata]:
    """The marks as they were written: the offsets, and of the ledger those that have no offset."""
    limiter = anyio.CapacityLimiter(AT_ONCE)
    found: dict[Place, OffsetAndMetadata] = {}
    forgotten: dict[str, list[Place]] = {}

    async def one(place: Place) -> None:
        async with limiter:
            note = (await coordinators.committed_offsets(place.name, [place.where])).get(place.where)
        if note is not None:
            found[place] = note
        elif place.ledger is not None:
            forgotten.setdefault(place.ledger, []).append(place)

    async with Coordinators.from_config(config) as coordinators:
        await asyncio.gather(*map(one, places))
    for name, of_ledger in forgotten.items():
        async with Ledger(config, ledger_topic(name)) as ledger:
            found |= await kept(ledger, of_ledger)
    return found


async def marks_kept(
    name: str, prefix: str, topic: str, is_wanted: Callable[[str], bool], config: ProducerConfig
) -> list[tuple[Place, Mark]]:
    """The marks in a ledger of all wanted groups, whose names begin so, for this topic of marks.

    Open transactions of other groups are not waited for: names of other work may begin in the same way.
    """
    async with Ledger(config, ledger_topic(name)) as ledger:
        found = await ledger.last_values(all_partitions(), is_of(prefix, topic, is_wanted))
    places = ((place_of(key), value) for key, value in found.items())
    return [(Place(*at, name), Mark.of(note_of(value))) for at, value in places if at is not None]


def _named(topic: str | None) -> str:
    return "the topics that the rows name" if topic is None else f"topic {topic!r}"
