"""A client of few lines that says to a broker exactly what a test wants said."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from aioproducer._wire.apis import api_of
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aioproducer._wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest
from aioproducer._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from aioproducer._wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

LIMIT = 20.0
LOADING = 14
T = TypeVar("T")


class WireClient:
    """One connection. Requests may be pipelined with `send` and `receive`."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._tls = tls
        self._host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._port = int(port)
        self._correlation_id = 0

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def send(self, request: tuple[Any, ...], version: int, *, correlation_id: int | None = None) -> int:
        """Write a request; its correlation id."""
        self._correlation_id += 1
        chosen = self._correlation_id if correlation_id is None else correlation_id
        self.send_bytes(self.frame(request, version, chosen))
        return chosen

    @staticmethod
    def frame(request: tuple[Any, ...], version: int, correlation_id: int = 1) -> bytes:
        """A request as it is on the wire."""
        frame = encode_request(request, version, correlation_id, "contract")
        return len(frame).to_bytes(4, "big") + frame

    @property
    def unsent(self) -> int:
        """Bytes that the broker has not taken."""
        return self._writer.transport.get_write_buffer_size()

    def send_frame(self, frame: bytes) -> None:
        """Write any frame."""
        self._writer.write(len(frame).to_bytes(4, "big") + frame)

    def send_bytes(self, data: bytes) -> None:
        """Write any bytes."""
        self._writer.write(data)

    async def receive_frame(self) -> bytes:
        """The next frame, without its length."""
        async with asyncio.timeout(LIMIT):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            return await self._reader.readexactly(size)

    async def receive(self, request: tuple[Any, ...], version: int) -> tuple[int, Any]:
        """The next answer, taken for one to `request`."""
        return decode_response(api_of(type(request)).response, version, await self.receive_frame())

    async def ask(self, request: tuple[Any, ...], version: int) -> Any:
        """The answer to a request."""
        sent = self.send(request, version)
        got, response = await self.receive(request, version)
        assert got == sent
        return response

    async def rest(self) -> bytes:
        """The bytes that arrive until the broker closes the connection."""
        async with asyncio.timeout(LIMIT):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    # ----- what many tests need

    async def create_topic(self, name: str, partitions: int = 1, **configs: object) -> MetadataResponseTopic:
        """Make a topic and wait until its partitions have leaders."""
        settings = [CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, -1, configs=settings)
        made = (await self.ask(CreateTopicsRequest([topic]), 7)).topics[0]
        assert made.error_code == 0, made
        await until(
            lambda: self._ends(name, partitions), lambda ends: all(end.error_code == 0 for end in ends)
        )
        return await self.describe(name)

    async def _ends(self, name: str, partitions: int) -> Sequence[ListOffsetsPartitionResponse]:
        # A new topic is in the metadata a little before its leaders know that they lead.
        asked = [ListOffsetsPartition(index, timestamp=-1) for index in range(partitions)]
        answer = await self.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, asked)]), 9)
        ends: Sequence[ListOffsetsPartitionResponse] = answer.topics[0].partitions
        return ends

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=10_000)
        answer = (await self.ask(request, 6)).responses[0]
        assert answer.error_code == 0, answer
        await until(lambda: self.describe(name), lambda topic: topic.error_code != 0)

    async def describe(self, name: str, version: int = 13) -> MetadataResponseTopic:
        """The metadata of one topic."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        topic: MetadataResponseTopic = (await self.ask(request, version)).topics[0]
        return topic

    async def new_producer(self) -> int:
        """A producer id."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        # A broker that has no block of ids yet says COORDINATOR_LOAD_IN_PROGRESS while it fetches one.
        response = await until(lambda: self.ask(request, 5), lambda answer: answer.error_code != LOADING)
        assert response.error_code == 0, response
        producer_id: int = response.producer_id
        return producer_id

    async def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 12
    ) -> PartitionProduceResponse:
        """The answer for one batch of one partition."""
        request = produce_request(topic, records, partition=partition, acks=acks)
        return await self.only_answer(request, version)

    async def only_answer(self, request: ProduceRequest, version: int) -> PartitionProduceResponse:
        """The answer for the only batch of a request."""
        response = await self.ask(request, version)
        result: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return result._replace(record_errors=tuple(result.record_errors))


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    """One batch for one partition."""
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])
    return ProduceRequest(None, acks, 10_000, [data])


async def until(ask: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> T:
    """The first answer that is good: the brokers of a real cluster need a moment to agree."""
    async with asyncio.timeout(LIMIT):
        answer = await ask()
        while not good(answer):
            await asyncio.sleep(0.02)
            answer = await ask()
        return answer
