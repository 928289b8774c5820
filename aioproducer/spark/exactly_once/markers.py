"""The mark of a transaction: the rows of a task that it committed, as an offset of a group of its own.

The mark is committed with the rows, so it exists if and only if they do. A repeated task first fences the previous owner of its
transactional id, then reads the mark: in the other order, a zombie could commit in between.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final, Self

import anyio
import attrs

from aioproducer import (
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerConfig,
    TopicPartition,
    committed_offsets,
)
from aioproducer.documentation import page
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.options import settings_of

__all__ = ["Mark", "OtherRowsError", "Place", "marks_at", "transactional_name"]

# Brokers accept at most 4,095 bytes.
PRINT: Final = "fingerprint"
TOPIC: Final = "topic"
# No topic has this name: the mark is of a version that did not store the topic.
NOT_SAID: Final = ""
AT_ONCE: Final = 20


class OtherRowsError(KafkaError):
    """A repeated task has rows that differ from its committed rows. Rows would be lost or duplicated, so none is written."""

    summary = "the task was repeated with rows that differ from its committed rows"


def transactional_name(name: str) -> str:
    """The prefix of the transactional ids of all tasks; ACLs can be granted for it."""
    return f"aioproducer-spark-{name}"


@attrs.frozen
class Place:
    """The place of the marks of one task: a group, whose name is also the transactional id of a task of a stream."""

    name: str
    topic: str

    async def read(self, producer: Producer[Any, Any]) -> Mark | None:
        """The last mark; valid if no other producer can commit another one."""
        where = TopicPartition(self.topic, 0)
        found = (await producer.committed_offsets(self.name, [where])).get(where)
        return None if found is None else Mark.of(found)

    async def look_up(self, config: ProducerConfig) -> OffsetAndMetadata | None:
        """The committed offset, read without a producer."""
        where = TopicPartition(self.topic, 0)
        asking = committed_offsets(self.name, [where], config.bootstrap_servers, **settings_of(config))
        return (await asking).get(where)

    def offsets(self, mark: Mark) -> dict[TopicPartition, OffsetAndMetadata]:
        """The argument of `send_offsets`."""
        return {TopicPartition(self.topic, 0): mark.as_offset()}


@attrs.frozen
class Mark:
    """The last commit: its epoch, the fingerprint of its rows, and the option `topic`."""

    epoch: int
    fingerprint: str
    # None: each row names its topic, and the fingerprint includes it.
    topic: str | None

    @classmethod
    def of(cls, found: OffsetAndMetadata) -> Self:
        """The mark of a committed offset."""
        try:
            facts = json.loads(found.metadata)
            return cls(found.offset - 1, str(facts[PRINT]), facts.get(TOPIC, NOT_SAID))
        except (ValueError, KeyError, TypeError):
            return cls(found.offset - 1, f"unreadable: {found.metadata[:80]}", NOT_SAID)

    def as_offset(self) -> OffsetAndMetadata:
        """The mark as an offset: the next epoch, and the rest as JSON."""
        return OffsetAndMetadata(self.epoch + 1, json.dumps({PRINT: self.fingerprint, TOPIC: self.topic}))

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
                f"column like rand() or current_timestamp()). Committed rows stay. See {page('spark.md#other-rows')}"
            )


async def marks_at(places: Iterable[Place], config: ProducerConfig) -> list[tuple[Place, Mark]]:
    """The places that have a mark, each with its mark."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one(place: Place) -> tuple[Place, OffsetAndMetadata | None]:
        async with limiter:
            return place, await place.look_up(config)

    found = await asyncio.gather(*map(one, places))
    return [(place, Mark.of(offset)) for place, offset in found if offset is not None]


def _named(topic: str | None) -> str:
    return "the topics that the rows name" if topic is None else f"topic {topic!r}"
