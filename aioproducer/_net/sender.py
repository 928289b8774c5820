"""The sender of one broker: connects, waits for a permit, drains one batch per ready partition, writes the request."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import anyio

from aioproducer._net.dialing import dial
from aioproducer._net.exchange import ProduceExchange
from aioproducer._net.link import Link
from aioproducer._state.settlement import PartitionAnswer
from aioproducer._wire.produce import TOPIC_IDS_FROM, ProduceHead, TopicBatches, write_produce
from aioproducer.errors import BrokerUnavailableError, KafkaError
from aioproducer.records import ConnectionStats

if TYPE_CHECKING:
    from aioproducer._net.connection import Connection
    from aioproducer._net.engine import Engine
    from aioproducer._state.batches import QueuedBatch
    from aioproducer._state.queues import NodeQueue

log = logging.getLogger("aioproducer")

PRODUCE = 0
BEFORE_TOPIC_IDS = TOPIC_IDS_FROM - 1
NO_ID = bytes(16)


class Sender:
    """One per broker; its task lives as long as the producer."""

    def __init__(self, engine: Engine, queue: NodeQueue) -> None:
        self.engine = engine
        self.config = engine.config
        self.loop = engine.loop
        self.queue = queue
        self.node_id = queue.node_id
        self.work = asyncio.Event()
        self.link: Link | None = None
        self.state = "idle"
        self.connects = 0
        self.failures = 0
        self.failures_in_a_row = 0
        self.try_again_at = 0.0

    # -- the task

    async def run(self) -> None:
        """Send whatever becomes ready for this broker, for ever."""
        while True:
            await self.work.wait()
            self.work.clear()
            while self.engine.accumulator.has_ready(self.queue, self.loop.time()):
                await self._send_next()

    async def _send_next(self) -> None:
        link = self.link
        if link is None or link.connection.closed:
            if not await self._connect():
                return
            link = self.link
        if link is None:
            return
        await self._unmuted(link.connection)
        await link.permit()
        try:
            await link.connection.drained()
        except KafkaError:
            link.permits.release()
            return
        if link.connection.closed or not self._send(link):
            link.permits.release()

    async def _unmuted(self, connection: Connection) -> None:
        # KIP-219: the broker asked for a pause; other brokers go on.
        pause = connection.muted_until - self.loop.time()
        if pause > 0:
            await anyio.sleep(pause)

    # -- connecting

    async def _connect(self) -> bool:
        pause = self.try_again_at - self.loop.time()
        if pause > 0:
            self.state = "backing off"
            await anyio.sleep(pause)
        node = self.engine.view.node(self.node_id)
        if node is None:
            self._could_not(
                BrokerUnavailableError("the broker is not in the metadata any more", broker=self.node_id)
            )
            return False
        self.state = "connecting"
        try:
            connection = await dial(
                node.host,
                node.port,
                self.config,
                node_id=self.node_id,
                setup_timeout=self.engine.setup_timeout.after(self.failures_in_a_row, self.engine.rng),
            )
        except KafkaError as error:
            self._could_not(error)
            return False
        self._connected(connection)
        return True

    def _could_not(self, error: KafkaError) -> None:
        self.state = "unreachable"
        self.failures += 1
        pause = self.engine.reconnect_backoff.after(self.failures_in_a_row, self.engine.rng)
        self.failures_in_a_row += 1
        self.try_again_at = self.loop.time() + pause
        self.engine.troubled(self.node_id, error)

    def _connected(self, connection: Connection) -> None:
        self.state = "connected"
        self.connects += 1
        self.failures_in_a_row = 0
        self.link = Link.over(connection, self.config.max_in_flight_requests_per_connection)
        connection.add_close_callback(self._closed)
        self.engine.alive(self.node_id)

    def _closed(self, connection: Connection) -> None:
        if self.link is not None and self.link.connection is connection:
            self.link = None
            self.state = "disconnected"
            # A broker that hangs up at once must not be called again at once.
            pause = self.engine.reconnect_backoff.after(self.failures_in_a_row, self.engine.rng)
            self.failures_in_a_row += 1
            self.try_again_at = self.loop.time() + pause
            self.engine.troubled(self.node_id, connection.close_reason or BrokerUnavailableError(broker=self.node_id))

    def close(self, reason: KafkaError | None = None) -> None:
        """Close the connection, if there is one, without taking it for a fault of the broker."""
        link, self.link = self.link, None
        if link is not None:
            link.connection.close(reason)

    def close_if_idle(self, now: float) -> None:
        """Close a connection that nothing was sent over for `connections_max_idle_ms`."""
        link = self.link
        limit = self.config.connections_max_idle_ms / 1000
        if (
            link is not None
            and limit >= 0
            and not link.connection.in_flight
            and now - link.connection.last_used >= limit
        ):
            self.close()
            self.state = "idle"

    # -- one request: from here to the write there is no await

    def _send(self, link: Link) -> bool:
        now = self.loop.time()
        batches = self.engine.accumulator.drain(self.queue, now)
        if not batches:
            return False
        tally = self.engine.tally
        tally.requests += 1
        tally.batches += len(batches)
        for batch in batches:
            batch.written_at = now
            tally.batch_size.add(batch.size)
        self._write(link, batches)
        return True

    def _write(self, link: Link, batches: list[QueuedBatch]) -> None:
        connection = link.connection
        topics = self._by_topic(batches)
        version = connection.versions.choose(
            PRODUCE, BEFORE_TOPIC_IDS if any(topic.topic_id == NO_ID for topic in topics) else None
        )
        correlation_id = connection.next_correlation_id()
        timeout_ms = self.config.request_timeout_ms
        head = ProduceHead(version, correlation_id, self.config.client_id, self.engine.acks, timeout_ms)
        parts = write_produce(head, topics)
        if not self.engine.acks:
            self._write_unasked(link, correlation_id, parts, batches)
            return
        names = {topic.topic_id: topic.name for topic in topics} if version >= TOPIC_IDS_FROM else {}
        exchange = ProduceExchange(
            link, version, batches, names, self.engine.settlement, self.engine.hint, self.loop.time
        )
        connection.write_request(correlation_id, parts, exchange, timeout_ms / 1000)

    def _by_topic(self, batches: list[QueuedBatch]) -> list[TopicBatches]:
        topics: dict[str, TopicBatches] = {}
        for batch in batches:
            entry = topics.get(batch.topic)
            if entry is None:
                topic_id = self.engine.accumulator.topics[batch.topic].topic_id
                entry = topics[batch.topic] = TopicBatches(batch.topic, topic_id, [])
            entry.batches.append((batch.partition, batch.view()))  # type: ignore[attr-defined]  # made above
        return list(topics.values())

    def _write_unasked(
        self, link: Link, correlation_id: int, parts: list[bytes | memoryview], batches: list[QueuedBatch]
    ) -> None:
        # acks=0: the broker does not answer; handing the bytes to the socket is all there is.
        now = self.loop.time()
        try:
            link.connection.write_request(correlation_id, parts, None, self.config.request_timeout_ms / 1000)
        except KafkaError as error:
            for batch in reversed(batches):
                self.engine.settlement.lost(batch, error, now, written=False)
        else:
            for batch in batches:
                self.engine.settlement.answered(batch, PartitionAnswer(0), now)
        link.permits.release()

    def stats(self) -> ConnectionStats:
        """A snapshot of the connection."""
        link = self.link
        return ConnectionStats(
            broker=str(self.node_id),
            state=self.state,
            requests_in_flight=0 if link is None else link.connection.in_flight,
            connects=self.connects,
            failures=self.failures,
        )

    def __repr__(self) -> str:
        return f"<Sender {self.node_id} {self.state}>"
