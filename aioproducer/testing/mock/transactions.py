"""Transactions of a mock: handles that find it in this process, and what a test orders of coordinators."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._callers.consumed import group_of, offsets_of
from aioproducer.config import checked_transactional_id
from aioproducer.coordinators import Coordinators
from aioproducer.errors import CommitOutcomeUnknownError, KafkaError, ProducerFencedError, StateError
from aioproducer.testing.broker.cluster.transaction_states import State
from aioproducer.transaction import Transaction, TransactionHandle

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine
    from aioproducer.config import ProducerConfig
    from aioproducer.testing.broker.pipes import Pipes
    from aioproducer.testing.mock.brokers import MockCluster
    from aioproducer.testing.mock.orders import Orders

# The mocks of this process, by the producer ids of the transactions that they handed over.
_networks: weakref.WeakValueDictionary[int, Pipes] = weakref.WeakValueDictionary()


class MockCoordinators(Coordinators):
    """The coordinators of the mock that has handed over a transaction."""

    producer_id: int

    def _network(self) -> Pipes:
        network = _networks.get(self.producer_id)
        if network is None:
            raise StateError(
                "the MockProducer that gave out this handle is not in this process, or not any more"
            )
        return network


class MockTransaction(Transaction):
    """A transaction whose handle finds the mock again."""

    def __init__(self, transactions: Any, timeout: float, network: Pipes) -> None:
        super().__init__(transactions, timeout)
        self._network = network

    async def detach(self, timeout: float | None = None) -> TransactionHandle:
        """As of a `Transaction`; the handle ends it in this process only, and opens no connection to an address."""
        handle = await super().detach(timeout)
        _networks[handle.producer_id] = self._network
        return MockTransactionHandle(*attrs.astuple(handle))


@attrs.frozen
class MockTransactionHandle(TransactionHandle):
    """The open transaction of a mock. It can be pickled."""

    def _coordinators(self, config: ProducerConfig) -> MockCoordinators:
        coordinators = MockCoordinators.from_config(config)
        coordinators.producer_id = self.producer_id
        return coordinators


class MockTransactionControls:
    """The part of a `MockProducer` about transactions that a `Producer` does not have."""

    _engine: Engine | None
    _orders: Orders
    _cluster: MockCluster
    _fenced: list[str]

    @property
    def fenced(self) -> tuple[str, ...]:
        """Every transactional id that `fence()` was called with, in order."""
        return tuple(self._fenced)

    def fence_me(self) -> None:
        """Have another producer take over the transactional id: every call raises `ProducerFencedError` from now on.

        What is pending fails, and nothing of the open transaction becomes visible.
        """
        engine = self._engine
        if engine is None or engine.transactions is None:
            raise StateError(
                "no transactional_id can be taken over: the producer has none, or was not started"
            )
        self._cluster.overtake(engine.transactions.transactional_id)
        engine.transactions.overtaken()

    def fail_commit(self, error: KafkaError, *, times: int | None = 1) -> None:
        """Have the coordinator refuse the next `times` commits (None: all that follow).

        They raise `TransactionAbortedError` with this cause, and only an abort is possible. It is retriable if `error` is.
        """
        if isinstance(error, CommitOutcomeUnknownError | ProducerFencedError):
            raise ValueError("lose_commit_answer() is for commits of unknown outcome, fence_me() for fencing")
        if not isinstance(error, KafkaError):
            raise TypeError(f"a commit raises only KafkaError, never {type(error).__name__}")
        self._orders.commits.order(error, None, times)

    def lose_commit_answer(self, *, committed: bool = True, times: int = 1) -> None:
        """Have the next commit raise `CommitOutcomeUnknownError`, `times` times if it is repeated.

        The call after that is told: it was committed, or else its time was over (`TransactionAbortedError`).
        """
        self._orders.lost_answers.order(committed, None, times)

    def fail_offsets(self, error: KafkaError, group: str | None = None, *, times: int | None = 1) -> None:
        """Refuse the next `times` offsets (of one group; None: all that follow), as after a rebalance.

        The transaction can only be aborted then.
        """
        if not isinstance(error, KafkaError):
            raise TypeError(f"a transaction fails only with KafkaError, never {type(error).__name__}")
        self._orders.offsets.order(error, group, times)

    def set_committed_offsets(self, group: str, offsets: Mapping[Any, Any]) -> None:
        """Have `committed_offsets` tell that the group committed these before: partitions, and where it goes on."""
        groups = self._cluster.groups
        committed = groups.make(group_of(group).group_id).committed
        for place, (offset, metadata, leader_epoch) in offsets_of(offsets).items():
            committed[place.topic, place.partition] = groups.noted(offset, leader_epoch, metadata)

    def set_transaction(self, transactional_id: str, state: str = "Ongoing") -> None:
        """Have `list_transactions` tell of another producer's transaction; fencing it makes it "Empty"."""
        name = checked_transactional_id(transactional_id)
        transactions = self._cluster.transactions
        identity = transactions.init(name, self._cluster.options.transaction_max_timeout_ms)
        transactions.add_partitions(name, identity, ())
        known = transactions.get(name)
        assert known is not None  # noqa: S101  # made above
        known.state = State(state)

    def _note_fenced(self, transactional_ids: Iterable[str]) -> None:
        self._fenced += transactional_ids
