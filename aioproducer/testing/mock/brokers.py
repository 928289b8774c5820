"""The cluster of a mock: one embedded broker that has every topic and follows the orders of the test; the handles that find it."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import attrs

from aioproducer._wire.apis import COMMIT_OFFSETS, END_TXN
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.coordinators import Coordinators
from aioproducer.errors import ConfigurationError, KafkaError, StateError
from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.call import Call, Handler
from aioproducer.testing.broker.cluster.cluster import Cluster, ClusterRefusal, Node
from aioproducer.testing.broker.cluster.topics import Topic
from aioproducer.testing.broker.effects import Dialogue
from aioproducer.testing.broker.options import MOST_PARTITIONS, Options, check_whole
from aioproducer.testing.broker.pipes import Pipes
from aioproducer.testing.broker.rules import Fault, GiveError, Plan, Target
from aioproducer.testing.mock.orders import Orders
from aioproducer.transaction import Transaction, TransactionHandle

if TYPE_CHECKING:
    from aioproducer.config import ProducerConfig

NODE_ID: Final = 0
Partitions = Mapping[str, int] | int
"""The number of partitions by topic, or (an int) of every topic."""

# Unique in the process: a transaction handle finds the connections to its mock by it.
_producer_ids = itertools.count()
_networks: weakref.WeakValueDictionary[int, Pipes] = weakref.WeakValueDictionary()


class MockCluster(Cluster):
    """A cluster in which every topic exists."""

    network: Pipes

    @classmethod
    def at(cls, address: tuple[str, int], partitions: Partitions) -> MockCluster:
        """A cluster of one node, in which nothing expires."""
        named, others = (partitions, 1) if isinstance(partitions, Mapping) else ({}, partitions)
        options = Options(default_partitions=others, history=1)
        cluster = cls(options, {NODE_ID: Node(NODE_ID, *address)}, clock=lambda: 0.0)
        cluster.broker_up(NODE_ID)
        try:
            for count in (others, *named.values()):
                check_whole("partitions", count, 1, MOST_PARTITIONS)
            for name, count in named.items():
                cluster.create_topic(name, count)
        except ValueError as error:
            raise ConfigurationError(f"partitions: {error}") from error
        return cluster

    def find(self, name: str, topic_id: bytes, *, by_id: bool) -> Topic | None:
        """The topic of a request, created if the request names it."""
        if not by_id:
            self.have(name)
        return super().find(name, topic_id, by_id=by_id)

    def have(self, name: str, partitions: int = 1) -> None:
        """Create the topic if necessary, with at least this number of partitions."""
        with suppress(ClusterRefusal):
            if name not in self.topics:
                self.create_topic(name, max(partitions, self.options.default_partitions))
            elif len(self.topics[name].partitions) < partitions:
                self.add_partitions(name, partitions)

    def new_producer_id(self) -> int:
        """A producer id that no mock of this process has."""
        producer_id = next(_producer_ids)
        _networks[producer_id] = self.network
        return producer_id


@attrs.define(eq=False)
class MockBroker(Broker):
    """The broker of a mock. `on_refusal` is called with the error of an ordered failure before the broker answers."""

    orders: Orders
    on_refusal: Callable[[KafkaError], None]

    def _go_through(self, handler: Handler, call: Call) -> Dialogue:
        ordered = None
        if handler.key == END_TXN and call.request.committed:
            ordered = self._refused("commit") or self._lost_answer(call.request.transactional_id)
        elif handler.key == COMMIT_OFFSETS:
            self._admit(call.request)
            ordered = self._refused("offsets", call.request.group_id)
        if ordered is not None:
            call = attrs.evolve(call, plan=Plan((Fault(Target(), ordered),)))
        yield from super()._go_through(handler, call)

    def _refused(self, kind: Literal["commit", "offsets"], group: str | None = None) -> GiveError | None:
        error = self.orders.take(kind, group)
        if error is None:
            return None
        self.on_refusal(error)
        return GiveError(ErrorCode.TRANSACTION_ABORTABLE)

    def _lost_answer(self, transactional_id: str) -> GiveError | None:
        committed = self.orders.take("commit answer")
        known = self.cluster.transactions.get(transactional_id)
        if committed is False and known is not None and not self.orders.next("commit answer"):
            # The transaction has timed out: the coordinator aborts it before the next request.
            known.started_at = -math.inf
        return None if committed is None else GiveError(ErrorCode.UNKNOWN_SERVER_ERROR, append=committed)

    def _admit(self, request: Any) -> None:
        """The committing member belongs to the group, and the topics of its offsets exist."""
        if request.generation_id >= 0:
            members = {request.member_id: request.group_instance_id}
            self.cluster.groups.set(request.group_id, request.generation_id, members)
        for topic in request.topics:
            most = max(one.partition_index for one in topic.partitions) + 1
            cast("MockCluster", self.cluster).have(topic.name, most)


@attrs.frozen
class MockTransactionHandle(TransactionHandle):
    """The open transaction of a mock. It can be pickled."""

    def _coordinators(self, config: ProducerConfig) -> Coordinators:
        network = _networks.get(self.producer_id)
        if network is None:
            raise StateError("the MockProducer of this transaction handle does not exist in this process")
        coordinators = Coordinators.from_config(config)
        coordinators._network = network  # noqa: SLF001  # as of a mock
        return coordinators


class MockTransaction(Transaction):
    """A transaction of a mock. Its handle ends it in this process only, whatever address the handle is given."""

    _handle_type = MockTransactionHandle
