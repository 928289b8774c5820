"""The calls of a `MockProducer` that are about transactions: the same as those of a `Producer`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from aioproducer._callers.consumed import Offsets, group_of, offsets_of
from aioproducer.config import ProducerConfig
from aioproducer.errors import StateError
from aioproducer.testing.mock.checks import checked_timeout
from aioproducer.testing.mock.intake import MockIntake
from aioproducer.testing.mock.transactions.transaction import MockTransaction
from aioproducer.testing.mock.transactions.transactions import MockTransactions

if TYPE_CHECKING:
    from aioproducer.records import OffsetAndMetadata, TopicPartition, TransactionListing
    from aioproducer.testing.mock.base import TransactionBase as Transaction

T = TypeVar("T")


class MockTransactionCalls:
    """The part of a `MockProducer` that begins and ends transactions."""

    config: ProducerConfig
    _mock_transactions: MockTransactions
    _phase: str
    _intake_alive: Callable[[], MockIntake]

    def _transactional(self) -> MockTransactions:
        self._intake_alive()
        if not self._mock_transactions.is_transactional:
            raise StateError(
                "the producer was made without a transactional_id, so that it has no transactions"
            )
        if self._phase != "running":
            raise StateError("the producer is closing")
        return self._mock_transactions

    def _patience(self, timeout: float | None) -> float:
        seconds = checked_timeout("timeout", timeout)
        return self.config.max_block_ms / 1000 if seconds is None else seconds

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """A transaction: `async with producer.transaction() as tx:` begins, commits on success, else aborts."""
        return MockTransaction(self._transactional, self._patience(timeout))

    async def run_transaction(
        self, function: Callable[..., Awaitable[T]], *args: Any, timeout: float | None = None
    ) -> T:
        """Run the coroutine function in a transaction, and again after an error that only aborts it; without a pause."""
        patience = checked_timeout("timeout", timeout)
        loop = asyncio.get_running_loop()
        until = math.inf if patience is None else loop.time() + patience
        while True:
            left = None if patience is None else max(until - loop.time(), 0.0)
            transaction = MockTransaction(self._transactional, self._patience(left))
            try:
                async with transaction:
                    return await function(*args)
            except Exception as error:
                if not transaction.may_run_again(error) or loop.time() >= until:
                    raise
            # Whoever limits the time from outside gets a turn.
            await asyncio.sleep(0)

    async def init_transactions(
        self, transactional_id: str | None = None, *, timeout: float | None = None
    ) -> None:
        """End what is open, and be ready to begin; with another `transactional_id`, under that one from now on."""
        transactions = self._transactional()
        self._patience(timeout)
        transactions.init(transactional_id)

    async def begin_transaction(self, *, timeout: float | None = None) -> None:
        """Begin a transaction."""
        transactions = self._transactional()
        self._patience(timeout)
        transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group: object, *, timeout: float | None = None
    ) -> None:
        """Make consumed offsets a part of the transaction, at once; `tx.send_offsets()` does so with the commit."""
        transactions = self._transactional()
        self._patience(timeout)
        transactions.send_offsets(offsets_of(offsets), group_of(group))

    async def commit_transaction(self, *, timeout: float | None = None) -> None:
        """Wait for everything that was sent in the transaction, and commit it; see `Producer.commit_transaction`.

        With `auto_complete=False` it waits for the test to complete the records.
        """
        await self._transactional().commit(self._patience(timeout))

    async def abort_transaction(self, *, timeout: float | None = None) -> None:
        """Abort the transaction: what is pending fails, and what was written is never visible to committed reads."""
        transactions = self._transactional()
        self._patience(timeout)
        await transactions.abort_or_join()

    async def fence(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Fence these transactional ids; the mock tells its test which (`fenced`)."""
        self._intake_alive()
        self._patience(timeout)
        self._mock_transactions.fence(transactional_ids)

    async def list_transactions(
        self, prefix: str = "", *, timeout: float | None = None
    ) -> list[TransactionListing]:
        """The transactional ids that begin with `prefix`: the mock's own, and those that the test has set."""
        self._intake_alive()
        self._patience(timeout)
        return self._mock_transactions.listed(prefix)

    async def committed_offsets(
        self, group: str, partitions: Iterable[Any], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed through this mock, or that the test has set.

        Offsets that are a part of an open transaction are waited for, at most `timeout` seconds (default: `max_block_ms`).
        """
        self._intake_alive()
        patience = self._patience(timeout)
        return await self._mock_transactions.committed_offsets(group, partitions, patience)
