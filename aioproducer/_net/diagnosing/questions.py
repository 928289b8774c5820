"""The questions of an examination: each of them changes nothing but the producer id that InitProducerId allocates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._state.connecting.topic_question import question_about
from aioproducer._state.diagnosing.advertised import Identity
from aioproducer._state.diagnosing.cluster import ClockReading
from aioproducer._state.diagnosing.identity import TransactionFacts
from aioproducer._wire.apis import DESCRIBE_TRANSACTIONS, FIND_COORDINATOR, INIT_PRODUCER_ID
from aioproducer._wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from aioproducer._wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from aioproducer._wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from aioproducer._wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer._wire.messages.metadata import MetadataResponse
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, KafkaError, ProtocolError

if TYPE_CHECKING:
    from aioproducer._net.diagnosing.servers import Server
    from aioproducer._state.connecting.opening import BrokerVersions

__all__ = ["Questions"]

R = TypeVar("R", bound=tuple[Any, ...])

_TOPIC, _BROKER = 2, 4
_TRANSACTION: Final = 1
_QUORUM_TOPIC: Final = "__cluster_metadata"
_SETTINGS: Final = ("min.insync.replicas", "max.message.bytes", "cleanup.policy")
_DESCRIBE_QUORUM: Final = 55
_FIRST_WITH_TIMES: Final = 1
_FIRST_WITH_SEVERAL_KEYS: Final = 4


class Questions:
    """Questions to these servers: to the next one where one does not answer, which is then asked last."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._servers = list(servers)

    async def ask(
        self,
        message: tuple[Any, ...] | Callable[[BrokerVersions], tuple[Any, ...]],
        response: type[R],
        limit: float,
    ) -> R:
        """The answer of the first server that gives one; raises the error of the last one.

        The message may depend on the versions of the broker.
        """
        until = asyncio.get_running_loop().time() + limit
        failure: KafkaError = BrokerUnavailableError("no time is left for this question")
        for server in list(self._servers):
            if _left_until(until) <= 0:
                break
            try:
                async with server.connection(_left_until(until)) as connection:
                    asked = message(connection.versions) if callable(message) else message
                    return await answer_to(connection, asked, response, timeout=_left_until(until))
            except ProtocolError as error:
                failure = error
            except (BrokerUnavailableError, AuthenticationError) as error:
                failure = error
                self._servers.remove(server)
                self._servers.append(server)
        raise failure

    def _understand(self, api: int) -> bool:
        """Whether one of the servers has a version of this API in common with this client."""
        return any(api in server.versions.chosen for server in self._servers)

    async def metadata(self, topics: Sequence[str], limit: float) -> MetadataResponse:
        """The brokers, and these topics, which are not created."""
        return await self.ask(question_about(topics), MetadataResponse, limit)

    async def topic_settings(
        self, topics: Sequence[str], limit: float
    ) -> dict[str, Mapping[str, str | None] | None]:
        """The settings of each topic; None where this client may not read them."""
        answer = await self.ask(
            DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, name, _SETTINGS) for name in topics]),
            DescribeConfigsResponse,
            limit,
        )
        return {result.resource_name: _values(result) for result in answer.results}

    async def creates_topics(self, broker: int, limit: float) -> bool | None:
        """Whether this broker creates missing topics; None where this client may not know."""
        result = await self._broker_settings(broker, ("auto.create.topics.enable",), limit)
        told = (_values(result) or {}).get("auto.create.topics.enable")
        return None if told is None else told == "true"

    async def identity(self, broker: int, limit: float) -> Identity:
        """The broker at the other end, which refuses a question for the settings of another broker."""
        until = asyncio.get_running_loop().time() + limit
        answer = await self.metadata((), limit)
        try:
            # It may be the end of the examination: without an answer, the broker was reached all the same.
            result = await self._broker_settings(broker, ("node.id",), _left_until(until) / 2)
        except KafkaError:
            return Identity(answer.cluster_id)
        return Identity(answer.cluster_id, result.error_code, result.error_message)

    async def _broker_settings(
        self, broker: int, names: tuple[str, ...], limit: float
    ) -> DescribeConfigsResult:
        answer = await self.ask(
            DescribeConfigsRequest([DescribeConfigsResource(_BROKER, str(broker), names)]),
            DescribeConfigsResponse,
            limit,
        )
        if not answer.results:
            raise ProtocolError("the answer to DescribeConfigs has no result")
        return answer.results[0]

    def give_producer_ids(self) -> bool:
        """Whether one of the servers knows InitProducerId."""
        return self._understand(INIT_PRODUCER_ID)

    async def producer_id(self, limit: float) -> int:
        """The code of an answer to InitProducerId without a transactional id."""
        answer = await self.ask(InitProducerIdRequest(None, 60_000), InitProducerIdResponse, limit)
        return answer.error_code

    async def controller(self, limit: float) -> tuple[int, ClockReading | None, str | None]:
        """The controller, its clock, and the reason where there is none (-1)."""
        if not any(map(_has_times, self._servers)):
            return -1, None, "the brokers do not tell it (DescribeQuorum v1, Kafka 3.3)"
        began = asyncio.get_running_loop().time()
        answer = await self.ask(
            DescribeQuorumRequest([TopicData(_QUORUM_TOPIC, [PartitionData(0)])]),
            DescribeQuorumResponse,
            limit,
        )
        answered = time.time()
        # The clock may be set between: the length of the question is that of the loop's clock.
        written = answered - (asyncio.get_running_loop().time() - began)
        partitions = [each for topic in answer.topics for each in topic.partitions]
        code = answer.error_code or (partitions[0].error_code if partitions else 0)
        if code or not partitions:
            return -1, None, f"the brokers do not tell it (error {code})"
        leader = partitions[0].leader_id
        for replica in partitions[0].current_voters:
            # The documentation of Kafka has the present time of the leader in the second one only.
            now = max(replica.last_fetch_timestamp, replica.last_caught_up_timestamp)
            if replica.replica_id == leader and now > 0:
                return leader, ClockReading(now / 1000, written, answered), None
        return leader, None, "the controller does not tell its time"

    async def coordinator(self, transactional_id: str, limit: float) -> Coordinator:
        """The coordinator of a transactional id, with an error code."""

        def question(versions: BrokerVersions) -> FindCoordinatorRequest:
            if versions.chosen.get(FIND_COORDINATOR, 0) >= _FIRST_WITH_SEVERAL_KEYS:
                return FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
            return FindCoordinatorRequest(transactional_id, _TRANSACTION)

        answer = await self.ask(question, FindCoordinatorResponse, limit)
        if answer.coordinators:
            return answer.coordinators[0]
        return Coordinator(
            transactional_id,
            answer.node_id,
            answer.host,
            answer.port,
            answer.error_code,
            answer.error_message,
        )

    async def transaction(
        self, transactional_id: str, coordinator: str, limit: float
    ) -> TransactionFacts | None:
        """The state of a transactional id, as its coordinator tells it; None from a broker that is too old."""
        if not self._understand(DESCRIBE_TRANSACTIONS):
            return None
        answer = await self.ask(
            DescribeTransactionsRequest([transactional_id]), DescribeTransactionsResponse, limit
        )
        if not answer.transaction_states:
            raise ProtocolError("the answer to DescribeTransactions has no state")
        state = answer.transaction_states[0]
        return TransactionFacts(
            state.error_code,
            coordinator,
            state.transaction_state,
            state.transaction_start_time_ms / 1000,
            state.transaction_timeout_ms / 1000,
            sum(len(topic.partitions) for topic in state.topics),
        )


def _left_until(deadline: float) -> float:
    """The seconds until this time of the loop."""
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _has_times(server: Server) -> bool:
    return server.versions.chosen.get(_DESCRIBE_QUORUM, 0) >= _FIRST_WITH_TIMES


def _values(result: DescribeConfigsResult) -> Mapping[str, str | None] | None:
    return None if result.error_code else {each.name: each.value for each in result.configs}
