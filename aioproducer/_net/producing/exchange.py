"""One Produce request and its answer: every batch in it is answered, or lost, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioproducer._state.cluster.metadata import LeaderHint, Node
from aioproducer._state.queues.batches import PartitionAnswer
from aioproducer._wire.codec import decode_response
from aioproducer._wire.messages.produce import ProduceResponse
from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aioproducer._net.connecting.link import Link
    from aioproducer._net.producing.requests import ProduceRequests
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._wire.messages.produce import PartitionProduceResponse, TopicProduceResponse
    from aioproducer.errors import KafkaError

# The first version of Produce whose answer comes before the pause (KIP-219).
_PAUSE_FOLLOWS: Final = 6


class ProduceExchange:
    """Waits for the answer to one request. Topics are matched by their state at the time of the request."""

    __slots__ = ("_by_id", "_link", "_requests", "_version", "_waiting")

    def __init__(
        self,
        requests: ProduceRequests,
        link: Link,
        version: int,
        waiting: dict[tuple[str, int], QueuedBatch],
        names_by_id: dict[bytes, str],
    ) -> None:
        self._requests = requests
        self._link = link
        self._version = version
        # The batches by topic and partition.
        self._waiting = waiting
        self._by_id = names_by_id

    def answered(self, frame: memoryview) -> None:
        """The answer has arrived. After an error `failed()` is called, and with it all requests in flight fail."""
        surplus = self._link.connection.remarks.surplus
        _, response = decode_response(ProduceResponse, self._version, frame, surplus)
        try:
            strange = self._requests.effects.event(self._take, response)
        except BaseException as error:
            # A batch is partly settled: later answers for its partition could not be trusted.
            self._requests.crash(error)
            raise
        if strange:
            raise ProtocolError(
                "the broker's Produce answer has a partition twice, or one that was not requested",
                broker=self._link.connection.broker,
            )
        self._link.permits.release()

    def _heed_throttling(self, seconds: float) -> None:
        """Pause for as long as the broker asks for. One before Kafka 2.0 has itself paused before its answer."""
        connection = self._link.connection
        if self._version >= _PAUSE_FOLLOWS:
            connection.mute(seconds)
        else:
            connection.traffic.throttled(seconds, seconds)

    def _take(self, response: ProduceResponse) -> bool:
        """Give every batch its answer; True: some answers matched no batch."""
        now = self._requests.loop.time()
        if response.throttle_time_ms > 0:
            self._heed_throttling(response.throttle_time_ms / 1000)
        if self._requests.transactions is not None:
            self._requests.transactions.marker_delay.answered(now)
        settlement = self._requests.settlement
        topics, names = response.responses, self._by_id
        strange = hinted = False
        topic_at, at = settlement.settle_topics(topics, names, 0, 0, self._waiting, now)
        while topic_at < len(topics):
            topic = topics[topic_at]
            partition = topic.partition_responses[at]
            if partition.current_leader[0] >= 0 and not hinted:
                # All at once, and before the first of these batches is sent again.
                hinted = True
                self._requests.hint(list(self._hints(response)))
            batch = self._waiting.pop((self._name_of(topic), partition.index), None)
            if batch is None:
                strange = True
            else:
                settlement.answered(batch, self._understood(partition), now)
            topic_at, at = settlement.settle_topics(topics, names, topic_at, at + 1, self._waiting, now)
        if self._waiting:
            self._omitted()
        return strange

    def _name_of(self, topic: TopicProduceResponse) -> str:
        return self._by_id.get(topic.topic_id, topic.name) if self._by_id else topic.name

    def _hints(self, response: ProduceResponse) -> Iterator[LeaderHint]:
        """The leaders that the answer names for batches of this request."""
        nodes = _nodes_of(response, self._link.connection.broker) if response.node_endpoints else {}
        for topic in response.responses:
            name = self._name_of(topic)
            for partition in topic.partition_responses:
                leader, epoch = partition.current_leader
                batch = self._waiting.get((name, partition.index))
                if leader >= 0 and batch is not None:
                    yield LeaderHint(name, partition.index, leader, epoch, nodes.get(leader), batch.sent_to)

    def _understood(self, partition: PartitionProduceResponse) -> PartitionAnswer:
        return PartitionAnswer(
            partition.error_code,
            partition.base_offset,
            partition.log_append_time_ms,
            partition.error_message,
            _errors_of(partition) if partition.record_errors else (),
            self._link.connection.broker,
        )

    def _omitted(self) -> None:
        error = ProtocolError(
            "the broker's Produce answer lacks a partition of the request",
            broker=self._link.connection.broker,
        )
        self._lose(error, written=True)

    def failed(self, error: KafkaError, *, written: bool) -> None:
        """No answer will come."""
        self._lose(error, written=written)
        self._link.permits.release()

    def _lose(self, error: KafkaError, *, written: bool) -> None:
        now = self._requests.loop.time()
        waiting, self._waiting = self._waiting, {}
        try:
            self._requests.effects.event(self._lose_all, list(waiting.values()), error, now, written=written)
        except BaseException as bug:
            self._requests.crash(bug)
            raise

    def _lose_all(self, batches: list[QueuedBatch], error: KafkaError, now: float, *, written: bool) -> None:
        # Last to first: each goes to the head of its queue.
        for batch in reversed(batches):
            self._requests.settlement.lost(batch, error, now, written=written)


def _nodes_of(response: ProduceResponse, by: str) -> dict[int, Node]:
    return {
        node.node_id: Node(node.node_id, node.host, node.port, node.rack, by)
        for node in response.node_endpoints
    }


def _errors_of(partition: PartitionProduceResponse) -> tuple[tuple[int, str | None], ...]:
    return tuple((error.batch_index, error.batch_index_error_message) for error in partition.record_errors)
