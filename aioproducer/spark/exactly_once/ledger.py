"""The ledger of the marks: a compacted topic, where brokers do not forget them.

A mark is an offset of a group, which brokers forget after `offsets.retention.minutes`, and a record of the ledger with
the same contents; the same transaction commits both. The offset is found with one request. The ledger is read where there
is no offset: in the first epoch of a task, and after a pause that was longer than the retention.

The partition of a mark depends on its key only. It must never change, also where the topic gets more partitions.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from aioproducer import OffsetAndMetadata, StateError
from aioproducer.ledgers import Ledger, LedgerTopic

if TYPE_CHECKING:
    from aioproducer.spark.exactly_once.markers import Place

__all__ = [
    "all_partitions",
    "is_of",
    "kept",
    "key_of",
    "ledger_topic",
    "note_of",
    "partition_of",
    "place_of",
    "value_of",
]

PARTITIONS: Final = 16
# Small segments: the newest one of a partition is not compacted, and is read as a whole.
CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": "4194304"}
VERSION: Final = b"\x01"
OFFSET, METADATA = "offset", "metadata"


def ledger_topic(name: str) -> LedgerTopic:
    """The topic of this name as it should be."""
    return LedgerTopic(name, PARTITIONS, CONFIGS)


def all_partitions() -> range:
    """Every partition that may hold marks."""
    return range(PARTITIONS)


def key_of(group: str, topic: str) -> bytes:
    """The key of the mark of this group for this topic of marks."""
    return json.dumps([group, topic]).encode()


def place_of(key: bytes) -> tuple[str, str] | None:
    """The reverse of `key_of`; None for another kind of key."""
    try:
        group, topic = json.loads(key)
    except ValueError:
        return None
    return str(group), str(topic)


def partition_of(key: bytes) -> int:
    """The partition of the mark with this key."""
    return zlib.crc32(key) % PARTITIONS


def value_of(note: OffsetAndMetadata) -> bytes:
    """The value of a record with this mark."""
    return VERSION + json.dumps({OFFSET: note.offset, METADATA: note.metadata}).encode()


def note_of(value: bytes) -> OffsetAndMetadata:
    """The reverse of `value_of`."""
    try:
        if value[:1] == VERSION:
            facts = json.loads(value[1:])
            return OffsetAndMetadata(int(facts[OFFSET]), str(facts[METADATA]))
    except (ValueError, KeyError, TypeError):
        pass
    raise StateError(
        f"a mark in the ledger begins with {value[:20]!r}: it was written by a newer version of aioproducer, or by another "
        "program"
    )


async def kept(ledger: Ledger, places: Iterable[Place]) -> dict[Place, OffsetAndMetadata]:
    """The marks of these places in the ledger, as far as there are any."""
    by_key = {place.key: place for place in places}
    found = await ledger.last_values(set(map(partition_of, by_key)), by_key.__contains__)
    return {by_key[key]: note_of(value) for key, value in found.items()}


def is_of(prefix: str, topic: str, is_wanted: Callable[[str], bool]) -> Callable[[bytes], bool]:
    """Whether a key is that of a wanted group, whose name begins so, for this topic of marks."""
    beginning = json.dumps([prefix]).encode()[:-2]

    def is_one(key: bytes) -> bool:
        if not key.startswith(beginning):
            return False
        place = place_of(key)
        return place is not None and place[1] == topic and is_wanted(place[0])

    return is_one
