"""The mark that a transaction leaves behind: which rows of a task were committed by it, as an offset of a group of its own.

It is committed with the rows, so that it is there if and only if they are. Whoever repeats the task fences whoever had its
transactional id before, and reads the mark then: in the other order, a zombie could commit in between.
"""

from __future__ import annotations

import json
from typing import Any, Final, Self

import attrs

from aioproducer import KafkaError, OffsetAndMetadata, Producer, TopicPartition
from aioproducer.spark.fingerprint import Fingerprint

__all__ = ["Mark", "OtherRowsError", "Place", "transactional_name"]

# What brokers take at most is 4,095 bytes.
ROWS: Final = "rows"
PRINT: Final = "fingerprint"


class OtherRowsError(KafkaError):
    """A task was repeated with other rows than it has committed: they would be lost or doubled, so that nothing is written."""

    summary = "the task was repeated with other rows than those it has committed"


def transactional_name(name: str) -> str:
    """What the transactional ids of all tasks begin with; ACLs can be granted for the prefix."""
    return f"aioproducer-spark-{name}"


@attrs.frozen
class Place:
    """Where the marks of one task are: a group, whose name is the task's transactional id as well if it is one of a stream."""

    name: str
    topic: str

    async def read(self, producer: Producer[Any, Any]) -> Mark | None:
        """The last mark; to be asked for when nobody is left who could make another one."""
        where = TopicPartition(self.topic, 0)
        found = (await producer.committed_offsets(self.name, [where])).get(where)
        return None if found is None else Mark.of(found)

    def offsets(self, mark: Mark) -> dict[TopicPartition, OffsetAndMetadata]:
        """For `send_offsets`."""
        return {TopicPartition(self.topic, 0): mark.as_offset()}


@attrs.frozen
class Mark:
    """What was committed last: which epoch it was, and the fingerprint of its rows."""

    epoch: int
    fingerprint: str

    @classmethod
    def of(cls, found: OffsetAndMetadata) -> Self:
        """As it was read."""
        try:
            facts = json.loads(found.metadata)
            return cls(found.offset - 1, str(facts[PRINT]))
        except (ValueError, KeyError, TypeError):
            return cls(found.offset - 1, f"unreadable: {found.metadata[:80]}")

    def as_offset(self) -> OffsetAndMetadata:
        """As it is written: the epoch that comes next, and the rest as JSON."""
        return OffsetAndMetadata(self.epoch + 1, json.dumps({PRINT: self.fingerprint}))

    def require_same(self, found: Fingerprint, place: Place) -> None:
        """Raise unless these are the rows that were committed."""
        if str(found) != self.fingerprint:
            raise OtherRowsError(
                f"epoch {self.epoch} of {place.name!r} has committed rows with the fingerprint {self.fingerprint}, "
                f"and was repeated with {found}: the source or the plan is not deterministic, or was changed (its partitions, a "
                "column like rand() or current_timestamp()). What is committed stays. See 'other rows' in docs/spark.md"
            )
