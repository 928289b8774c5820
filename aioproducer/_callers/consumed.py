"""Consumed offsets, partitions and group members of other clients, as types of this library.

Nothing of aiokafka or confluent-kafka is imported: their objects are known by their shape.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from aioproducer._callers.refusals import Reading
from aioproducer.config import topic_problem
from aioproducer.config.kinds import INT_MAX, LONG_MAX
from aioproducer.config.names import MAX_STRING_BYTES
from aioproducer.errors import RecordError
from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["Offsets", "Recorded", "group_of", "next_offsets", "offsets_of", "owner_of", "partitions_of"]

Offsets: TypeAlias = Mapping[Any, Any] | Iterable[Any]
"""Partitions (of this library, aiokafka, confluent-kafka, or pairs) and the offsets to go on from."""

Recorded: TypeAlias = dict[TopicPartition, OffsetAndMetadata]

MOST_METADATA = 4096
# librdkafka's group member, as bytes that only librdkafka reads.
_CONFLUENT = b"CGMDv2:"


def group_of(group: object) -> GroupMetadata:
    """A group id, a `GroupMetadata`, or a consumer that belongs to a group."""
    with Reading(None):
        return _group_of(group)


def owner_of(offsets: Recorded, group: object) -> GroupMetadata:
    """The group that commits these offsets, with the facts that distinguish its member from a zombie."""
    with Reading(None):
        found = _group_of(group)
        if offsets and found.generation < 0 and _takes_part(group):
            raise RecordError(
                f"the consumer is no member of group {found.group_id!r} at the moment, and its partitions may belong to another "
                "member: do not commit what it has read, seek to the committed offsets of the partitions that it gets next"
            )
        return found


def _takes_part(consumer: object) -> bool:
    """Whether a group assigns partitions to this consumer of aiokafka: without a generation it has lost them."""
    subscription = getattr(getattr(consumer, "_coordinator", None), "_subscription", None)
    return subscription is not None and bool(subscription.partitions_auto_assigned())


def _group_of(group: object) -> GroupMetadata:
    found: GroupMetadata | None = None
    if isinstance(group, GroupMetadata):
        found = group
    elif isinstance(group, str):
        found = GroupMetadata(group)
    elif isinstance(group, bytes):
        found = _of_confluent(group)
    elif hasattr(group, "consumer_group_metadata"):
        found = _of_confluent(group.consumer_group_metadata())
    elif hasattr(group, "_coordinator"):
        found = _of_aiokafka(group._coordinator)  # noqa: SLF001  # it tells its generation nowhere else
    if found is None or not found.group_id:
        raise RecordError(
            "the group must be a group id, a GroupMetadata, or a consumer of aiokafka or confluent-kafka with a group "
            f"(not {type(group).__name__})"
        )
    return _checked_group(found)


def _checked_group(group: GroupMetadata) -> GroupMetadata:
    group_id, generation, member_id, instance_id = group
    names = tuple(map(_name, (group_id, member_id, "" if instance_id is None else instance_id)))
    if None in names:
        raise RecordError(
            f"group, member and instance id must be str of at most {MAX_STRING_BYTES} bytes: {group!r:.80}"
        )
    if not _is_number(generation, -1, INT_MAX):
        raise RecordError(f"the generation of a group must be a whole number, not {generation!r:.60}")
    plain_id, plain_member, plain_instance = map(str, names)
    return GroupMetadata(plain_id, generation, plain_member, None if instance_id is None else plain_instance)


def _name(name: object) -> str | None:
    """An exact `str`, whose methods cannot return something else later; None for no name."""
    if not isinstance(name, str):
        return None
    plain = str.__str__(name)
    try:
        return plain if len(plain.encode()) <= MAX_STRING_BYTES else None
    except UnicodeEncodeError:
        return None


def _is_number(number: object, least: int, most: int) -> bool:
    return type(number) is int and least <= number <= most


def _of_aiokafka(coordinator: Any) -> GroupMetadata | None:
    if getattr(coordinator, "group_id", None) is None:
        return None
    instance = getattr(coordinator, "_group_instance_id", None)
    return GroupMetadata(coordinator.group_id, coordinator.generation, coordinator.member_id, instance)


def _of_confluent(data: object) -> GroupMetadata | None:
    if not isinstance(data, bytes) or not data.startswith(_CONFLUENT):
        return None
    at = len(_CONFLUENT)
    generation = int.from_bytes(data[at : at + 4], sys.byteorder, signed=True)
    group_id, _, rest = data[at + 4 :].partition(b"\x00")
    member_id, _, rest = rest.partition(b"\x00")
    instance = rest[1:].partition(b"\x00")[0].decode() if rest[:1] == b"\x00" else None
    return GroupMetadata(group_id.decode(), generation, member_id.decode(), instance)


def partition_of(place: Any) -> TopicPartition:
    """A `TopicPartition` of any of the libraries, or a pair."""
    if isinstance(place, tuple) and len(place) == len(TopicPartition._fields):
        topic, partition = place
    else:
        topic, partition = getattr(place, "topic", None), getattr(place, "partition", None)
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise RecordError(
            f"a partition must be a TopicPartition or (topic, number), not {type(place).__name__}"
        )
    name = str.__str__(topic)
    problem = topic_problem(name)
    if problem is not None:
        raise RecordError(problem, topic=name)
    if not _is_number(partition, 0, INT_MAX):
        raise RecordError(f"invalid partition {partition}: must be 0 or more", topic=name)
    return TopicPartition(name, partition)


def partitions_of(places: Iterable[Any]) -> list[TopicPartition]:
    """Partitions of any of the libraries."""
    with Reading(None):
        return [partition_of(place) for place in _each(places, "partitions")]


def offsets_of(offsets: Offsets) -> Recorded:
    """Offsets by partition; confluent-kafka keeps the offset in its partition, so that a list of those will do."""
    with Reading(None):
        if isinstance(offsets, Mapping):
            return {partition_of(place): _offset(offset) for place, offset in offsets.items()}
        return {partition_of(place): _offset(place) for place in _each(offsets, "offsets")}


def _each(things: Iterable[Any], what: str) -> Iterable[Any]:
    if isinstance(things, Iterable):
        return things
    raise RecordError(f"{what} must be an iterable, not {type(things).__name__}")


def _offset(given: Any) -> OffsetAndMetadata:
    if isinstance(given, OffsetAndMetadata):
        found = given
    elif isinstance(given, int):
        found = OffsetAndMetadata(given)
    else:
        epoch = getattr(given, "leader_epoch", None)
        found = OffsetAndMetadata(
            getattr(given, "offset", -1),
            getattr(given, "metadata", None) or "",
            -1 if epoch is None else epoch,
        )
    offset, metadata, leader_epoch = found
    note = _name(metadata)
    if note is None or len(note.encode()) > MOST_METADATA:
        raise RecordError(f"the metadata of an offset must be a str of at most {MOST_METADATA} bytes")
    if not _is_number(leader_epoch, -1, INT_MAX):
        raise RecordError(f"a leader epoch must be a whole number or -1, not {leader_epoch!r:.60}")
    if not _is_number(offset, 0, LONG_MAX):
        raise RecordError(
            f"an offset must be an integer of 0 or more, or have one as `offset`, not {given!r:.60}"
        )
    return OffsetAndMetadata(offset, note, leader_epoch)


def next_offsets(records: Iterable[Any]) -> Recorded:
    """The offset after the last of these consumed records, for each partition among them."""
    newest: dict[TopicPartition, int] = {}
    with Reading(None):
        _take_newest(records, newest)
    return {place: OffsetAndMetadata(offset + 1) for place, offset in newest.items()}


def _take_newest(records: Iterable[Any], newest: dict[TopicPartition, int]) -> None:
    for record in _each(records, "consumed records"):
        topic, partition, offset = (_told(record, name) for name in ("topic", "partition", "offset"))
        place = partition_of((topic, partition))
        if not _is_number(offset, 0, LONG_MAX - 1):
            raise RecordError(f"the offset of a consumed record must be a whole number, not {offset!r:.60}")
        newest[place] = max(newest.get(place, -1), offset)


def _told(record: Any, name: str) -> Any:
    """An attribute with aiokafka, a method with confluent-kafka."""
    found = getattr(record, name, None)
    found = found() if callable(found) else found
    if found is None:
        raise RecordError(f"a consumed record must have `{name}`, and {type(record).__name__} has none")
    return found
