"""Facts about records: their contents, their places, their outcomes."""

from __future__ import annotations

import enum
from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import attrs

from aioproducer.errors import DeliveryError, KafkaError
from aioproducer.outcome import Outcome
from aioproducer.stats import ConnectionStats, Health, Histogram, Stats

__all__ = [
    "BatchResult",
    "BytesLike",
    "CloseReport",
    "ConnectionStats",
    "FlushReport",
    "GroupMetadata",
    "Headers",
    "Health",
    "Histogram",
    "OffsetAndMetadata",
    "Outcome",
    "PartitionInfo",
    "Record",
    "RecordMetadata",
    "Stats",
    "Timestamp",
    "TimestampType",
    "Timings",
    "TopicPartition",
    "TransactionListing",
]

K = TypeVar("K")
V = TypeVar("V")

MOST_HEADERS: Final = 1_000_000
"""A record with more is above the limits of any broker."""

BytesLike: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, BytesLike | None]] | Mapping[str, BytesLike | None]
"""Pairs in their order, repeats allowed; or a mapping."""
Timestamp: TypeAlias = int | datetime
"""Milliseconds since the epoch, or an aware `datetime`."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """The offset of the record that a group reads next, with a note of at most 4096 bytes."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """The group that commits offsets, and its member and generation, so that a zombie is refused (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class TransactionListing(NamedTuple):
    """A transactional id that a coordinator knows, with the state of its transaction ("Ongoing", "CompleteCommit", …)."""

    transactional_id: str
    producer_id: int
    state: str


class TimestampType(enum.Enum):
    """Whose clock a record's timestamp is from."""

    CREATE_TIME = "create_time"
    LOG_APPEND_TIME = "log_append_time"


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is.

    `offset` is -1 with `acks=0`, and where the broker no longer knows it (it recognised a repeated batch but has
    forgotten its place). `timestamp` is in milliseconds since the epoch. A size is -1 for a missing key or value.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    serialized_key_size: int = -1
    serialized_value_size: int = -1

    @property
    def has_offset(self) -> bool:
        """Whether the broker returned the offset."""
        return self.offset >= 0


@attrs.frozen
class PartitionInfo:
    """A partition as the cluster last described it; `leader` is None while there is none."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


@attrs.frozen
class Record(Generic[K, V]):
    """One record to be sent, with the parameters of `send()`."""

    topic: str
    value: V | None = None
    key: K | None = attrs.field(default=None, kw_only=True)
    partition: int | None = attrs.field(default=None, kw_only=True)
    timestamp: Timestamp | None = attrs.field(default=None, kw_only=True)
    headers: Headers | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Timings:
    """When a record passed each stage, in seconds of the loop's clock; None for stages that it has not reached.

    Kept per batch: `accepted` is when its first record was accepted.
    """

    accepted: float | None = None
    drained: float | None = None
    written: float | None = None
    answered: float | None = None


@attrs.frozen
class Resolution:
    """The answer of `Delivery.resolve_unknown()`: the outcome of the record, as its partition shows it.

    `reason` tells why an outcome is still `UNKNOWN`; the offset is -1 for all others than `ACKED`, and where the broker
    never told it.
    """

    outcome: Outcome
    offset: int = -1
    reason: str = ""


@attrs.frozen
class FlushReport:
    """Every record resolved since the last report to the same owner: a task, or a scope.

    `first_errors` has the first few failures, one for many records that failed together; `first_errors_dropped` says that
    there were others before them, which are counted, and whose errors are not kept any more.

    With `flush(resolve=True)`, the counts and errors are those after the search for records of unknown outcome:
    `resolved_acked` and `resolved_not_written` of them are counted in `acked` and `not_written`, and `unknown_reasons` has
    the numbers of the others by the reasons for which they are not certain.
    """

    acked: int = 0
    not_written: int = 0
    unknown: int = 0
    first_errors: tuple[KafkaError, ...] = ()
    first_errors_dropped: bool = False
    resolved_acked: int = 0
    resolved_not_written: int = 0
    unknown_reasons: Mapping[str, int] = attrs.Factory(dict)

    def raise_for_errors(self) -> None:
        """Raise a `DeliveryError`, with the first failure as its cause, unless all records were acknowledged."""
        first = self.first_errors[0] if self.first_errors else None
        _raise_unless_acked(self.acked, self.not_written, self.unknown, first)


@attrs.frozen
class CloseReport:
    """The records that were unresolved when closing began, by their outcome.

    `waited_for`: where it ran out of time, the records and calls that had not ended, with their brokers, in one line for
    people; it is left out where two reports are compared.
    """

    delivered: int = 0
    not_written: int = 0
    unknown: int = 0
    waited_for: str | None = attrs.field(default=None, eq=False)


@attrs.frozen
class BatchResult:
    """The fates of many records; `offsets` and `partitions` are by index, -1 where there is none.

    `errors` has an entry for each index that failed, and only for these. `send_all` leaves `offsets` and
    `partitions` empty, because it may have sent more records than fit in memory. Records that it has set aside are counted
    as `dead_lettered` alone, and have no entry in `errors`.
    """

    # Arrays become lists on access: ten thousand unused integers would cost more than their sends.
    _offsets: Sequence[int] = attrs.field(default=(), alias="offsets", eq=list, repr=False)
    _partitions: Sequence[int] = attrs.field(default=(), alias="partitions", eq=list, repr=False)
    errors: Mapping[int, KafkaError] = attrs.Factory(dict)
    acked: int = 0
    not_written: int = 0
    unknown: int = 0
    dead_lettered: int = 0

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each record, by its index; -1 where there is none."""
        if isinstance(self._offsets, array):
            object.__setattr__(self, "_offsets", self._offsets.tolist())
        return self._offsets

    @property
    def partitions(self) -> Sequence[int]:
        """The partition of each record, by its index; -1 where there is none."""
        if isinstance(self._partitions, array):
            object.__setattr__(self, "_partitions", self._partitions.tolist())
        return self._partitions

    def raise_for_errors(self) -> None:
        """Raise a `DeliveryError`, with the failure of lowest index as its cause, unless all were acknowledged."""
        first = self.errors[min(self.errors)] if self.errors else None
        _raise_unless_acked(self.acked, self.not_written, self.unknown, first)


def _raise_unless_acked(acked: int, not_written: int, unknown: int, first: KafkaError | None) -> None:
    if not (not_written or unknown or first):
        return
    total = acked + not_written + unknown
    raise DeliveryError(
        f"{not_written + unknown} of {total} records were not acknowledged: "
        f"{not_written} not written, {unknown} unknown",
        topic=first.topic if first else None,
        partition=first.partition if first else None,
        outcome=Outcome.UNKNOWN if unknown else Outcome.NOT_WRITTEN,
        retriable=first.retriable if first else None,
        cause=first,
    )
