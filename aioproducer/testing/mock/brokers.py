"""The cluster of a mock: one embedded broker that has every topic, and carries out orders for coordinators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

import attrs

from aioproducer._wire.apis import COMMIT_OFFSETS, END_TXN
from aioproducer._wire.codec import decode_response, encode_request
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.config import topic_problem
from aioproducer.errors import ConfigurationError, KafkaError
from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.call import Call, Handler
from aioproducer.testing.broker.cluster.cluster import Cluster, ClusterRefusal, Node
from aioproducer.testing.broker.cluster.topics import Topic
from aioproducer.testing.broker.cluster.transactions import TransactionRefusal
from aioproducer.testing.broker.effects import Dialogue, Write
from aioproducer.testing.broker.options import Options
from aioproducer.testing.broker.rules import Fault, GiveError, Plan, Target
from aioproducer.testing.mock.orders import Orders

NODE_ID: Final = 0
METADATA_VERSION: Final = 12

# A handle of a transaction finds its mock by the producer id: no two mocks of a process give out the same.
_producer_ids = itertools.count()


def _no_time() -> float:
    """Nothing expires by itself in the cluster of a mock."""
    return 0.0


class MockCluster(Cluster):
    """A cluster in which every topic exists."""

    partitions: Mapping[str, int]

    @classmethod
    def at(cls, address: tuple[str, int], partitions: Mapping[str, int] | int) -> MockCluster:
        """A cluster of one node. `partitions`: how many topics have, by name or (an int) all of them; otherwise 1."""
        named = dict(partitions) if isinstance(partitions, Mapping) else {}
        others = 1 if isinstance(partitions, Mapping) else partitions
        check_partitions(named, others)
        cluster = cls(
            Options(default_partitions=others, history=1), {NODE_ID: Node(NODE_ID, *address)}, _no_time
        )
        cluster.partitions = named
        cluster.broker_up(NODE_ID)
        return cluster

    def find(self, name: str, topic_id: bytes, *, by_id: bool) -> Topic | None:
        """The topic that a request means; one that is named is made."""
        if not by_id:
            self.have(name)
        return super().find(name, topic_id, by_id=by_id)

    def have(self, name: str, partitions: int = 1) -> None:
        """Make the topic, unless it is there, with at least so many partitions."""
        with suppress(ClusterRefusal):
            if name not in self.topics:
                wanted = self.partitions.get(name, self.options.default_partitions)
                self.create_topic(name, max(wanted, partitions))
            elif len(self.topics[name].partitions) < partitions:
                self.add_partitions(name, partitions)

    def new_producer_id(self) -> int:
        """A producer id that no mock of this process has given out."""
        return next(_producer_ids)

    def overtake(self, transactional_id: str) -> None:
        """Another producer takes this id over: what is open under it is aborted."""
        with suppress(TransactionRefusal):
            self.transactions.init(transactional_id, self.options.transaction_max_timeout_ms)


@attrs.define(eq=False)
class MockBroker(Broker):
    """The broker of a mock. `on_refusal` is told the error of an ordered failure before the broker answers."""

    orders: Orders
    on_refusal: Callable[[KafkaError], None]

    def answer_at_once(self, request: MetadataRequest) -> MetadataResponse:
        """The answer to a question for metadata, without a connection."""
        answers = self.handle(encode_request(request, METADATA_VERSION, 0, None))
        (frame,) = (effect.data for effect in answers if isinstance(effect, Write))
        return decode_response(MetadataResponse, METADATA_VERSION, memoryview(frame)[4:])[1]

    def _go_through(self, handler: Handler, call: Call) -> Dialogue:
        ordered = None
        if handler.key == END_TXN and call.request.committed:
            ordered = self._end_as_ordered(call.request)
        elif handler.key == COMMIT_OFFSETS:
            ordered = self._take_offsets_as_ordered(call.request)
        if ordered is not None:
            call = attrs.evolve(call, plan=Plan((Fault(Target(), ordered),)))
        yield from super()._go_through(handler, call)

    def _end_as_ordered(self, request: Any) -> GiveError | None:
        error = self.orders.commits.take()
        if error is not None:
            self.on_refusal(error)
            return GiveError(ErrorCode.TRANSACTION_ABORTABLE)
        order = self.orders.lost_answers.next_for()
        if order is None:
            return None
        self.orders.lost_answers.take()
        if not order.what and not order.left:
            # Its time is over: whoever asks again finds that the coordinator has aborted it.
            known = self.cluster.transactions.get(request.transactional_id)
            if known is not None:
                known.started_at = -math.inf
        return GiveError(ErrorCode.UNKNOWN_SERVER_ERROR, append=order.what)

    def _take_offsets_as_ordered(self, request: Any) -> GiveError | None:
        if request.generation_id >= 0:
            # Whoever commits is a member: no test has to say who is.
            members = {request.member_id: request.group_instance_id}
            self.cluster.groups.set(request.group_id, request.generation_id, members)
        cluster = cast("MockCluster", self.cluster)
        for topic in request.topics:
            cluster.have(topic.name, max(one.partition_index for one in topic.partitions) + 1)
        error = self.orders.offsets.take(request.group_id)
        if error is None:
            return None
        self.on_refusal(error)
        return GiveError(ErrorCode.TRANSACTION_ABORTABLE)


def check_partitions(named: Mapping[str, int], others: Any) -> None:
    """Refuse numbers of partitions, and names of topics, that cannot be."""
    problems = [f"partitions: {problem}" for problem in map(topic_problem, named) if problem is not None]
    problems += [
        f"partitions={count!r:.60}: a topic has at least one partition, and a whole number of them"
        for count in (*named.values(), others)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1
    ]
    if problems:
        raise ConfigurationError(problems)
