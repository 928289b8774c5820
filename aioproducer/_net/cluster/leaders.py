"""Questions to the leaders of partitions: one connection to each, beside that of its sender."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.cluster.partitions import NO_EPOCH
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._wire.apis import FETCH
from aioproducer._wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from aioproducer._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aioproducer.errors import BrokerUnavailableError, ProtocolError

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.cluster.metadata import Node

R = TypeVar("R", bound=tuple[Any, ...])

LATEST: Final = -1
EARLIEST: Final = -2
_MOST_BYTES: Final = 1 << 20
# The questions that are on their way to one leader: each answer may have that many bytes.
_AT_ONCE: Final = 8
# Fetch v13: topics by id.
FIRST_BY_ID: Final = 13


class Leaders:
    """Asks leaders about their partitions. The connections are closed when no caller is left."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connections: dict[tuple[str, int], Connection] = {}
        # A dial that hangs does not hold up those to other brokers.
        self._dialing: defaultdict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns: defaultdict[Connection, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_AT_ONCE)
        )
        self._users = 0

    def enter(self) -> None:
        """One more caller."""
        self._users += 1

    def leave(self) -> None:
        """One caller less; the last one closes the connections."""
        self._users -= 1
        if not self._users:
            connections, self._connections = self._connections, {}
            self._turns.clear()
            self._dialing.clear()
            for connection in connections.values():
                connection.close()

    async def connection(self, node: Node) -> Connection:
        """A connection to this broker, opened if there is none."""
        endpoint = BrokerEndpoint.advertised(node.host, node.port, node.id, node.advertised_by)
        async with self._dialing[endpoint.address]:
            known = self._connections.get(endpoint.address)
            if known is None or not known.gate.takes_requests:
                known = await self._session.addresses.dial(endpoint)
                self._connections[endpoint.address] = known
        return known

    async def offset(
        self, connection: Connection, topic: str, partition: int, moment: int
    ) -> ListOffsetsPartitionResponse:
        """The first offset that is not older than `moment` (milliseconds), or an end of the log."""
        question = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=moment)])],
            timeout_ms=self._session.config.request_timeout_ms,
        )
        answer = await self._ask(connection, question, ListOffsetsResponse)
        for each in answer.topics:
            for one in each.partitions:
                if each.name == topic and one.partition_index == partition:
                    return one
        raise ProtocolError("the answer to ListOffsets leaves out the partition", broker=connection.broker)

    async def batches(
        self,
        connection: Connection,
        topic: str,
        topic_id: bytes,
        partition: int,
        offset: int,
        leader_epoch: int = NO_EPOCH,
    ) -> PartitionData:
        """The batches from this offset on, for readers of uncommitted records; those that there are now.

        A broker that knows another leader epoch than this one refuses (KIP-320).
        """
        version = connection.versions.choose(FETCH)
        if topic_id == NO_TOPIC_ID:
            version = min(version, FIRST_BY_ID - 1)
        by_id = version >= FIRST_BY_ID
        question = FetchRequest(
            max_bytes=_MOST_BYTES,
            topics=[
                FetchTopic(
                    topic,
                    topic_id,
                    [
                        FetchPartition(
                            partition,
                            current_leader_epoch=leader_epoch,
                            fetch_offset=offset,
                            partition_max_bytes=_MOST_BYTES,
                        )
                    ],
                )
            ],
        )
        answer = await self._ask(connection, question, FetchResponse, version)
        if answer.error_code:
            return PartitionData(partition, answer.error_code)
        for each in answer.responses:
            for one in each.partitions:
                named = each.topic_id == topic_id if by_id else each.topic == topic
                if named and one.partition_index == partition:
                    return one
        raise ProtocolError("the answer to Fetch leaves out the partition", broker=connection.broker)

    async def _ask(
        self, connection: Connection, question: tuple[Any, ...], response: type[R], version: int | None = None
    ) -> R:
        timeout = self._session.config.request_timeout_ms / 1000
        try:
            async with self._turns[connection]:
                return await answer_to(connection, question, response, timeout=timeout, version=version)
        except (BrokerUnavailableError, ProtocolError):
            connection.close()
            raise
