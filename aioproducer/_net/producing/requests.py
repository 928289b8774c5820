"""The Produce requests to one broker: each has one batch of each ready partition.

From the draining of its batches to the write of a request there is no await.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._codecs import CODECS
from aioproducer._core import await_answer, by_topic, names_by_id, size_of
from aioproducer._net.producing.exchange import ProduceExchange
from aioproducer._state.queues.batches import PartitionAnswer
from aioproducer._state.transactions.versions import version_for
from aioproducer._wire.apis import PRODUCE
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.frames import FRAME_LIMIT
from aioproducer._wire.produce import TOPIC_IDS_FROM, ProduceHead, TopicBatches, write_produce
from aioproducer.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.link import Link
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer._state.cluster.metadata import LeaderHint
    from aioproducer._state.machines import Machines
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.partition_queue import NodeQueue
    from aioproducer.config import ProducerConfig


BEFORE_TOPIC_IDS = TOPIC_IDS_FROM - 1
LEAST_ANSWER_LIMIT = 256 * 1024


def answer_limit(request_size: int) -> int:
    """The longest plausible answer to a request of this size: an error text for each record, and a margin."""
    return min(LEAST_ANSWER_LIMIT + 32 * request_size, FRAME_LIMIT)


class ProduceRequests:
    """Drains the queue of one broker into requests.

    `compress` compresses closed batches; `hint` takes the present leaders of partitions, where an answer names them; `crash`
    ends the producer because of a bug.
    """

    def __init__(
        self,
        queue: NodeQueue,
        machines: Machines,
        config: ProducerConfig,
        loop: asyncio.AbstractEventLoop,
        transactions: Transactions | None,
        *,
        compress: Callable[[], None],
        hint: Callable[[Iterable[LeaderHint]], None],
        crash: Callable[[BaseException], None],
    ) -> None:
        self.loop = loop
        self.transactions = transactions
        self.effects = machines.effects
        self.settlement = machines.settlement
        self.compress = compress
        self.hint = hint
        self.crash = crash
        self._config = config
        self._queue = queue
        self._drainer = machines.accumulator.drainer
        self._tally = machines.tally
        self._compresses = bool(machines.accumulator.limits.codec)

    def write_next(self, link: Link) -> bool:
        """Write the next request to this link, which has given a permit for it; False: no partition is ready."""
        if self._compresses:
            # Small batches are compressed at once, so that this request has them. Within an event, this effect comes before
            # its end.
            self._drainer.close_ready(self._queue, self.loop.time())
            self.compress()
        return self.effects.event(self._send, link)

    def _send(self, link: Link) -> bool:
        now = self.loop.time()
        batches = self._drainer.drain(self._queue, now)
        if not batches:
            return False
        self._tally.sent(batches)
        self._write(link, batches, now)
        return True

    def _write(self, link: Link, batches: list[QueuedBatch], now: float) -> None:
        connection = link.connection
        topics = by_topic(batches, now, TopicBatches)
        names = names_by_id(topics)
        try:
            version = self._version(connection, None if names is not None else BEFORE_TOPIC_IDS)
        except ProtocolError as error:
            # The broker requires topic ids, and the broker of the metadata has not reported them yet.
            self._unsent(link, batches, error)
            return
        if version < CODECS[self._config.compression_type].produce_version:
            self._refuse_codec(link, batches)
            return
        correlation_id = connection.next_correlation_id()
        timeout_ms = self._config.request_timeout_ms
        transactions = self.transactions
        head = ProduceHead(
            version,
            correlation_id,
            self._config.client_id,
            self._config.acks,
            timeout_ms,
            None if transactions is None else transactions.transactional_id,
        )
        parts = write_produce(head, topics)
        if not self._config.acks:
            self._write_unasked(link, correlation_id, parts, batches)
            return
        by_id = version >= TOPIC_IDS_FROM
        waiting = await_answer(batches, by_id)
        if transactions is not None:
            transactions.current.sent(now)
        exchange = ProduceExchange(self, link, version, waiting, names if names is not None and by_id else {})
        size = size_of(parts)
        limit = answer_limit(size)
        connection.write_request(correlation_id, parts, exchange, timeout_ms / 1000, limit, size)

    def _version(self, connection: Connection, newest: int | None) -> int:
        transactions = self.transactions
        if transactions is None:
            return connection.versions.choose(PRODUCE, newest)
        return version_for(connection.versions, PRODUCE, transactions.parts.level, newest)

    def _refuse_codec(self, link: Link, batches: list[QueuedBatch]) -> None:
        # KIP-110: in an older version, a broker answers with an error that proves nothing.
        now = self.loop.time()
        for batch in batches:
            answer = PartitionAnswer(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, broker=link.connection.broker)
            self.settlement.answered(batch, answer, now)
        link.permits.release()

    def _write_unasked(
        self, link: Link, correlation_id: int, parts: list[bytes | memoryview], batches: list[QueuedBatch]
    ) -> None:
        # acks=0: the broker does not answer; the write to the socket counts as success.
        now = self.loop.time()
        try:
            link.connection.write_request(correlation_id, parts, None, self._config.request_timeout_ms / 1000)
        except KafkaError as error:
            self._unsent(link, batches, error)
            return
        for batch in batches:
            self.settlement.answered(batch, PartitionAnswer(0), now)
        link.permits.release()

    def _unsent(self, link: Link, batches: list[QueuedBatch], error: KafkaError) -> None:
        now = self.loop.time()
        # Last to first: each goes to the head of its queue.
        for batch in reversed(batches):
            self.settlement.lost(batch, error, now, written=False)
        link.permits.release()
