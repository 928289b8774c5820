"""The last committed values of keys, read from the leaders of the partitions of a ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import anyio

from aioproducer._net.cluster.leaders import EARLIEST, LATEST, Leaders
from aioproducer._net.ledgers.topics import metadata_of
from aioproducer._state.backoff import Backoff
from aioproducer._state.cluster.facts import Node
from aioproducer._state.ledgers.last_values import LastValues
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer.errors import (
    AuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    KafkaError,
    MetadataTimeoutError,
    ProtocolError,
    TransactionTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection

# Partitions that are read at once.
_AT_ONCE: Final = 4
# Brokers that answer know their topics, except for one that was created just now.
_MADE_JUST_NOW: Final = 3.0


async def last_values(
    session: Session, topic: str, partitions: Iterable[int], wanted: Callable[[bytes], bool], timeout: float
) -> dict[bytes, bytes]:
    """The values up to the present end of the log; waits for open transactions that have a wanted key."""
    reading = _Reading(session, topic, wanted)
    try:
        async with asyncio.timeout(timeout):
            return await reading.all(partitions)
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise TransactionTimeoutError(
            f"timed out reading the topic {topic!r}; an open transaction may hold values back",
            waited=timeout,
            cause=reading.trouble,
        ) from reading.trouble


class _Reading:
    """One reading of several partitions."""

    def __init__(self, session: Session, topic: str, wanted: Callable[[bytes], bool]) -> None:
        self._session = session
        self._topic = topic
        self._wanted = wanted
        self._leaders = Leaders(session)
        self._pause = Backoff(
            session.config.retry_backoff_ms / 1000, session.config.retry_backoff_max_ms / 1000
        )
        # The newest reason to try again.
        self.trouble: KafkaError | None = None

    async def all(self, partitions: Iterable[int]) -> dict[bytes, bytes]:
        """The values of all these partitions."""
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        found: dict[bytes, bytes] = {}

        async def one(partition: int) -> None:
            async with limiter:
                found.update(await self._one(partition))

        self._leaders.enter()
        tasks = [self._session.loop.create_task(one(partition)) for partition in sorted(set(partitions))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._leaders.leave()
        return found

    async def _one(self, partition: int) -> dict[bytes, bytes]:
        values = LastValues(self._wanted)
        failures = 0
        until = self._session.loop.time() + _MADE_JUST_NOW
        while True:
            try:
                await self._read_to_end(partition, values)
            except (BrokerUnavailableError, BrokerError) as error:
                self.trouble = error
            except MetadataTimeoutError as error:
                if self._session.loop.time() >= until:
                    raise
                self.trouble = error
            else:
                if not values.is_undecided:
                    return values.values
            await anyio.sleep(self._pause.after(failures, self._session.rng))
            failures += 1

    async def _read_to_end(self, partition: int, values: LastValues) -> None:
        """Up to the end at the time of the call: records behind it are younger than the question."""
        node, topic_id = await self._leader(partition)
        connection = await self._leaders.connection(node)
        end = await self._offset(connection, partition, LATEST)
        while values.position < end:
            before = values.position
            data = await self._leaders.batches(connection, self._topic, topic_id, partition, before)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                values.position = await self._offset(connection, partition, EARLIEST)
            else:
                self._judge(data.error_code)
                values.read(data.records)
            if values.position <= before:
                raise ProtocolError(f"the leader has no batch at offset {before}, before its end {end}")

    async def _leader(self, partition: int) -> tuple[Node, bytes]:
        answer = await metadata_of(self._session, self._topic)
        found = next((one for one in answer.topics if one.name == self._topic), None)
        if found is None:
            raise self._missing()
        self._judge(found.error_code)
        leaders = {one.partition_index: one.leader_id for one in found.partitions}
        if partition not in leaders:
            raise self._missing()
        for broker in answer.brokers:
            if broker.node_id == leaders[partition]:
                return Node(broker.node_id, broker.host, broker.port), found.topic_id
        raise BrokerUnavailableError("the partition has no leader", topic=self._topic)

    async def _offset(self, connection: Connection, partition: int, which: int) -> int:
        answer = await self._leaders.offset(connection, self._topic, partition, which)
        self._judge(answer.error_code)
        return answer.offset

    def _judge(self, code: int) -> None:
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise AuthorizationError(
                "the principal may not read this topic (READ, DESCRIBE)", topic=self._topic
            )
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise self._missing()
        if code:
            # An error about a question and not about records: it has no topic.
            raise BrokerError(f"topic {self._topic!r} cannot be read now", code=code, name=describe(code))

    def _missing(self) -> MetadataTimeoutError:
        return MetadataTimeoutError("the topic or partition does not exist", topic=self._topic)
