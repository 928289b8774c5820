"""One batch, with the facts about its attempts that decide its next step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from aioproducer._core import Batch
from aioproducer._state.cluster.facts import NO_TOPIC_ID

if TYPE_CHECKING:
    from aioproducer._state.queues.flush import Covered
    from aioproducer._state.queues.gapless import Gap
    from aioproducer._state.queues.partition_queue import Anchor, PartitionQueue
    from aioproducer.errors import KafkaError

SEQUENCE_MODULUS = 1 << 31


class BatchFacts(TypedDict):
    """The facts of a batch in the error of its record."""

    topic: str
    partition: int
    attempts: int
    elapsed: float


class PartitionAnswer(NamedTuple):
    """A broker's answer for one batch."""

    code: int
    base_offset: int = -1
    log_append_time: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    broker: str | int | None = None


class QueuedBatch(Batch):
    """A batch in the care of its partition's queue, from the first record to the last outcome.

    *Clean*: every attempt so far was answered by an error that proves that nothing was appended. *Dirty*: an attempt
    went unanswered, or was answered ambiguously. A dirty batch keeps its identity and its bytes to the end, and its
    sequence numbers are never given to other records.
    """

    # The queue of the batch: the `owner` of the core under another name, without a call.
    queue: PartitionQueue = Batch.owner

    __slots__ = (
        "alarms",
        "anchor",
        "attempts",
        "dirty",
        "flushes",
        "gap",
        "identity",
        "in_flight",
        "judged",
        "last_error",
        "linger_at",
        "nth",
        "order",
        "plain_size",
        "retry_at",
        "retry_leader",
        "sealed",
        "sealing",
        "sent_to",
        "sequence",
        "urgent",
        "watched_until",
    )

    def begin(self, order: tuple[int, ...], linger_at: float, gap: Gap | None) -> None:
        """Set all facts. A constructor of this class in Python would be half of the cost of a new batch."""
        self.order = order
        self.linger_at = linger_at
        # In gapless mode: a record before these was lost, so that they end as soon as they are proven not written.
        self.gap = gap
        if gap is not None:
            self.read_mark = gap
        self.urgent = False
        # The earliest entry of this batch in the heap of deadlines.
        self.watched_until = math.inf
        # How many entries it has there.
        self.alarms = 0
        self.sealing = False
        self.sealed = False
        self.plain_size = 0
        self.attempts = 0
        self.dirty = False
        self.in_flight = False
        # False while the result of an attempt is processed: an exception there leaves the outcome unknown.
        self.judged = True
        self.retry_at = 0.0
        self.retry_leader = -1
        self.last_error: KafkaError | None = None
        self.identity: tuple[int, int] | None = None
        self.sequence = -1
        # The record that was acknowledged last when the first attempt was made.
        self.anchor: Anchor | None = None
        # It was the nth batch of its partition that was given numbers.
        self.nth = 0
        # The id of the topic that the newest attempt was for; none where requests name topics.
        self.sent_to = NO_TOPIC_ID
        self.flushes: list[Covered] = []

    def facts(self, now: float) -> BatchFacts:
        """The facts for the error of one of its records, now."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "attempts": self.attempts,
            "elapsed": now - self.opened_at,
        }

    @property
    def next_sequence(self) -> int:
        """The sequence number after this batch's last record; they wrap from 2**31 - 1 to 0."""
        return (self.sequence + self.record_count) % SEQUENCE_MODULUS
