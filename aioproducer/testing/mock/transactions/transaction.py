"""A transaction of a `MockProducer` as the code under test holds it: the context manager, and the handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._callers.consumed import Offsets, group_of, next_offsets, offsets_of
from aioproducer._callers.transaction_retry import may_run_again
from aioproducer.config import ProducerConfig
from aioproducer.errors import KafkaError, StateError, TransactionAbortedError
from aioproducer.testing.mock.base import HandleBase, TransactionBase
from aioproducer.testing.mock.checks import checked_timeout
from aioproducer.testing.mock.transactions.table import State
from aioproducer.testing.mock.transactions.transactions import MockTransactions, mock_of

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from aioproducer.config import BootstrapServers, Settings
    from aioproducer.testing.mock.base import HandleBase as TransactionHandle

log = logging.getLogger("aioproducer")


class MockTransaction(TransactionBase):
    """`async with producer.transaction() as tx:` begins, commits on success, and aborts on an error or cancellation."""

    def __init__(self, transactions: Callable[[], MockTransactions], patience: float) -> None:
        self._mock_transactions = transactions
        self._patience = patience
        self._number = -1
        self._failure: TransactionAbortedError | None = None

    async def __aenter__(self) -> Self:
        transactions = self._mock_transactions()
        if transactions.table.state is State.UNINITIALIZED:
            transactions.init(None)
        transactions.begin()
        self._number = transactions.number
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            transactions = self._mock_transactions()
            if not self._is_open_in_mock(transactions):
                if error is None:
                    transactions.last_abort.require_own(self._number)
                return
            self._failure = transactions.table.failure()
            if error is None:
                await self._commit_mock(transactions)
            else:
                transactions.abort()
        except KafkaError as failure:
            if error is None:
                raise
            if isinstance(error, KafkaError) and not isinstance(failure, StateError):
                raise failure from error
            # The user's own error is what the user has to see, and so is one after which no abort is possible.
            log.warning("a transaction was not aborted: %s", failure)

    def _mine_of_mock(self) -> MockTransactions:
        transactions = self._mock_transactions()
        if self._number < 0:
            raise StateError("this transaction has not begun: use `async with producer.transaction() as tx:`")
        if transactions.number != self._number:
            raise StateError("this transaction has ended, and another has begun")
        return transactions

    def _is_open_in_mock(self, transactions: MockTransactions) -> bool:
        """False after the user has ended it by hand, or detached it."""
        ended = transactions.table.state in (State.READY, State.DETACHED)
        return transactions.number == self._number and not ended

    async def _commit_mock(self, transactions: MockTransactions) -> None:
        try:
            await transactions.commit(self._patience)
        except TransactionAbortedError:
            transactions.abort()
            raise

    def may_run_again(self, error: Exception) -> bool:
        """Whether the same may succeed in another transaction, after this error has ended this one."""
        return may_run_again(error, self._failure)

    def send_offsets(self, offsets: Offsets, group: object) -> None:
        """Make consumed offsets a part of the transaction: recorded now, sent with the commit.

        `group` is a group id, a `GroupMetadata`, or a consumer of aiokafka or confluent-kafka.
        """
        self._mine_of_mock().record_offsets(offsets_of(offsets), group_of(group))

    def consumed(self, records: Iterable[Any], group: object) -> None:
        """Make the offsets after these consumed records a part of the transaction."""
        self._mine_of_mock().record_offsets(next_offsets(records), group_of(group))

    async def detach(self, timeout: float | None = None) -> TransactionHandle:
        """Wait for everything that was sent, leave the transaction open, and give a handle that ends it in this process.

        The mock takes no more transactions until `init_transactions()`. Waits at most `timeout` seconds.
        """
        patience = checked_timeout("timeout", timeout)
        facts = await self._mine_of_mock().detach(self._patience if patience is None else patience)
        return MockTransactionHandle(*facts)


@attrs.frozen
class MockTransactionHandle(HandleBase):
    """The open transaction of a mock. It can be pickled, and finds its mock in this process, without a network."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    is_empty: bool = False

    async def commit(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        timeout: float | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Commit it in the mock. Address and settings are checked, and nobody is called there."""
        self._end_in_mock(bootstrap_servers, timeout, settings, committed=True)

    async def abort(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        timeout: float | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Abort it in the mock. Address and settings are checked, and nobody is called there."""
        self._end_in_mock(bootstrap_servers, timeout, settings, committed=False)

    def _end_in_mock(
        self, servers: BootstrapServers, timeout: float | None, settings: Settings, *, committed: bool
    ) -> None:
        ProducerConfig(servers, **settings)
        checked_timeout("timeout", timeout)
        if not self.is_empty:
            mock_of(self.producer_id).end_handed_over(self.epoch, committed=committed)
