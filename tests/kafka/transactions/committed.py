"""The results of transactions as a foreign reader sees them: committed records and offsets, by confluent-kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from aioproducer import list_transactions
from tests.kafka.reading import by_partition, read_all

LIMIT: Final = 30.0
ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort")
Values = dict[int, list[bytes | None]]


async def state_of(servers: str, transactional_id: str) -> str:
    """The state of one transactional id at its coordinator; "" for an unknown id."""
    for one in await list_transactions(transactional_id, servers):
        if one.transactional_id == transactional_id:
            return one.state
    return ""


async def until_state(servers: str, transactional_id: str, *states: str) -> str:
    """Poll until the state is one of these."""
    deadline = time.monotonic() + LIMIT
    while (state := await state_of(servers, transactional_id)) not in states:
        assert time.monotonic() < deadline, f"{transactional_id} is {state!r}, and not {states}"
    return state


async def values(servers: str, topic: str, *transactional_ids: str) -> Values:
    """The committed records of each partition, as a foreign reader finds them once these ids have ended theirs.

    EndTxn is answered before the markers are written, and until then the end of a partition is before them.
    """
    for name in transactional_ids:
        await until_state(servers, name, *ENDED)
    return await _read(servers, topic, "read_committed")


async def all_values(servers: str, topic: str) -> Values:
    """All records in the log, committed or not."""
    return await _read(servers, topic, "read_uncommitted")


async def _read(servers: str, topic: str, isolation: str) -> Values:
    records = await asyncio.to_thread(read_all, servers, topic, isolation=isolation)
    found = by_partition(records)
    return {partition: [record.value for record in each] for partition, each in found.items()}


async def offsets(servers: str, group: str, topic: str, partitions: int) -> Mapping[int, int]:
    """The committed offsets of the group, for a foreign client that waits for open transactions."""
    return await asyncio.to_thread(_offsets, servers, group, topic, partitions)


def _offsets(servers: str, group: str, topic: str, partitions: int) -> Mapping[int, int]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "isolation.level": "read_committed"}
    )
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = _committed(consumer, asked)
        return {one.partition: one.offset for one in found if one.offset >= 0}
    finally:
        consumer.close()


def _committed(consumer: Consumer, asked: list[TopicPartition]) -> list[TopicPartition]:
    """The committed offsets; librdkafka gives up at the first NOT_COORDINATOR of a killed coordinator's successor."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            return consumer.committed(asked, timeout=LIMIT)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
