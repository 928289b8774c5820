"""Faults of rows that can be known before they are sent: their size, and their destination."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from aioproducer import (
    BrokerError,
    KafkaError,
    MetadataTimeoutError,
    Producer,
    RecordError,
    RecordTooLargeError,
    check_topics,
)
from aioproducer.spark.options import SinkOptions, settings_of
from aioproducer.spark.shipping.columns import Parcel

__all__ = ["NO_TOPIC", "Inspection"]

NO_TOPIC: Final = "the topic is null, and the option 'topic' is not set"
ANSWER_TIMEOUT: Final = 15.0
# Brokers with auto-creation have made a topic by then.
SECONDS_TO_MAKE_A_TOPIC: Final = 3.0


class Inspection:
    """Inspects the rows of one task for this producer."""

    def __init__(self, producer: Producer[Any, Any], options: SinkOptions) -> None:
        self._producer = producer
        self._options = options
        config = options.producer
        self._limit, self._setting = min(
            (config.max_request_size, "max_request_size"), (config.buffer_memory, "buffer_memory")
        )
        # The partition count of each topic, or the error of a topic that cannot be written.
        self._partitions: dict[str, int | KafkaError] = {}

    async def of(self, parcel: Parcel) -> dict[int, KafkaError]:
        """The rows that would be refused, each with its error; other rows may still be refused."""
        if not parcel.topic:
            return dict.fromkeys(range(len(parcel.rows)), RecordError(NO_TOPIC))
        wrong = self._too_large(parcel)
        if self._options.topic is None or parcel.partition is not None:
            wrong |= await self._misdirected(parcel)
        return wrong

    def _too_large(self, parcel: Parcel) -> dict[int, KafkaError]:
        # The least size of each record; a record slightly above the limit is found when it is sent.
        sizes = _sizes(parcel)
        if not len(sizes) or pc.max(sizes).as_py() <= self._limit:
            return {}
        return {
            at: RecordTooLargeError(size=size, limit=self._limit, setting=self._setting, topic=parcel.topic)
            for at, size in enumerate(sizes.to_pylist())
            if size > self._limit
        }

    async def _misdirected(self, parcel: Parcel) -> dict[int, KafkaError]:
        count = await self._partitions_of(parcel.topic, at_least=_highest(parcel.partition) + 1)
        if isinstance(count, KafkaError):
            return dict.fromkeys(range(len(parcel.rows)), count)
        return {
            at: RecordError(
                f"the partition does not exist: the topic has {count}",
                topic=parcel.topic,
                partition=partition,
            )
            for at, partition in enumerate(parcel.partition or ())
            if partition is not None and not 0 <= partition < count
        }

    async def _partitions_of(self, topic: str, at_least: int) -> int | KafkaError:
        known = self._partitions.get(topic)
        if known is None:
            known = await self._found_out(topic)
        if isinstance(known, int) and known < at_least:
            # The topic may have more partitions now.
            known = await self._asked(topic)
        self._partitions[topic] = known
        return known

    async def _found_out(self, topic: str) -> int | KafkaError:
        found = await self._asked(topic)
        if isinstance(found, MetadataTimeoutError):
            # The request has the producer's purpose: it may create the topic.
            with contextlib.suppress(TimeoutError, BrokerError):
                async with asyncio.timeout(SECONDS_TO_MAKE_A_TOPIC):
                    return len(await self._producer.partitions_for(topic))
        return found

    async def _asked(self, topic: str) -> int | KafkaError:
        config = self._options.producer
        asking = check_topics(
            [topic], config.bootstrap_servers, timeout=ANSWER_TIMEOUT, **settings_of(config)
        )
        try:
            return (await asking)[topic]
        except RecordError as error:
            return error
        except (MetadataTimeoutError, BrokerError) as error:
            if error.topic is None:
                raise
            return error


def _sizes(parcel: Parcel) -> Any:
    """The sizes of keys, values and headers, in bytes."""
    columns = [column for column in (parcel.values, parcel.keys) if column is not None]
    sizes = [pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0) for column in columns]
    if parcel.headers is not None:
        sizes.append(pa.array(map(_size_of_headers, parcel.headers), pa.int64()))
    total = sizes[0]
    for more in sizes[1:]:
        total = pc.add(total, more)
    return total


def _size_of_headers(headers: list[tuple[Any, Any]] | None) -> int:
    return sum(len(part) for pair in headers or () for part in pair if part is not None)


def _highest(partitions: list[int | None] | None) -> int:
    return max((partition for partition in partitions or () if partition is not None), default=-1)
