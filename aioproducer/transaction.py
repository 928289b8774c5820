"""Transactions as users hold them: a context manager, or a handle for another process."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import attrs

from aioproducer._callers.consumed import Offsets, Recorded, next_offsets, offsets_of, owner_of
from aioproducer._callers.loading import load
from aioproducer._callers.transaction_retry import Aborters, may_run_again
from aioproducer._deferred import deferred
from aioproducer._net.log import Log, log
from aioproducer.config import BootstrapServers, ConnectionSettings, config_of_call
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import KafkaError, StateError, TransactionAbortedError

if TYPE_CHECKING:
    from aioproducer import coordinators
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer._state.backoff import Backoff
    from aioproducer._state.transactions import table
    from aioproducer.config import ProducerConfig
    from aioproducer.coordinators import Coordinators
else:
    coordinators = deferred("aioproducer.coordinators")
    table = deferred("aioproducer._state.transactions.table")

__all__ = ["Transaction", "TransactionHandle"]

T = TypeVar("T")


@attrs.frozen
class TransactionHandle:
    """An open transaction that can be ended from another process; it can be pickled.

    Repeating the same call is safe, also after an error; the other call after it is refused.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    """The protocol in which it was written (1, or 2 with KIP-890): it has to be ended in the same one."""
    is_empty: bool = False
    """Nothing was written: there is nothing to end."""

    async def commit(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        timeout: float | None = None,
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        """Commit it, within `timeout` seconds (default: `max_block_ms`).

        Raises `CommitOutcomeUnknownError` without an answer in time, `ProducerFencedError` when another producer has
        taken over, or `TransactionAbortedError` when its time was over.
        """
        config = config_of_call(bootstrap_servers, settings)
        await load("aioproducer.coordinators")
        async with self._coordinators(config) as found:
            await found.commit(self, timeout=timeout)

    async def abort(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        timeout: float | None = None,
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        """Abort it, within `timeout` seconds (default: `max_block_ms`). Done as well if its time was over."""
        config = config_of_call(bootstrap_servers, settings)
        await load("aioproducer.coordinators")
        async with self._coordinators(config) as found:
            await found.abort(self, timeout=timeout)

    def _coordinators(self, config: ProducerConfig) -> Coordinators:
        """Those that know of the transaction."""
        return coordinators.Coordinators.from_config(config)


class Transaction:
    """`async with producer.transaction() as tx:` begins, commits on success, and aborts on an error or cancellation."""

    _handle_type: type[TransactionHandle] = TransactionHandle

    def __init__(self, transactions: Callable[[], Transactions], timeout: float) -> None:
        self._transactions = transactions
        self._timeout = timeout
        self._number = -1
        self._aborters = Aborters()
        self._failure: TransactionAbortedError | None = None
        self._log: Log = log

    async def __aenter__(self) -> Self:
        transactions = self._transactions()
        # Kept, as the producer may be closing when the block ends.
        self._log = transactions.host.log
        await transactions.join_what_goes_on(self._timeout)
        await transactions.begin(self._timeout)
        self._number, self._aborters = transactions.number, transactions.aborters
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            transactions = self._transactions()
            if not self._is_open(transactions):
                if error is None:
                    self._aborters.require_own()
                return
            self._failure = transactions.table.failure()
            if error is None and transactions.is_left_detaching():
                await transactions.abort(self._timeout)
                raise TransactionAbortedError("detach() had given no handle when the block ended")
            if error is None:
                await self._commit(transactions)
            else:
                await transactions.abort(self._timeout)
        except KafkaError as failure:
            if error is None:
                raise
            if isinstance(error, KafkaError) and not isinstance(failure, StateError):
                raise failure from error
            # The user must see the error of the block, and also an error after which no abort is possible.
            self._log.warning("a transaction was not aborted: %s", failure)

    def _mine(self) -> Transactions:
        transactions = self._transactions()
        if self._number < 0:
            raise StateError("this transaction has not begun: use `async with producer.transaction() as tx:`")
        if transactions.number != self._number:
            raise StateError("this transaction has ended, and another one has begun")
        return transactions

    def _is_open(self, transactions: Transactions) -> bool:
        """False after the user has ended it by hand, or detached it."""
        ended = transactions.table.state in (table.State.READY, table.State.DETACHED)
        return transactions.number == self._number and not ended

    async def _commit(self, transactions: Transactions) -> None:
        try:
            await transactions.commit(self._timeout)
        except TransactionAbortedError:
            await transactions.abort(self._timeout)
            raise

    def _may_run_again(self, error: Exception) -> bool:
        """Whether the same may succeed in another transaction, after this error has ended this one."""
        return may_run_again(error, self._failure)

    def send_offsets(self, offsets: Offsets, group: object) -> None:
        """Make consumed offsets a part of the transaction: recorded now, sent with the commit.

        `group` is a group id, a `GroupMetadata`, or a consumer of aiokafka or confluent-kafka.
        """
        self._record(offsets_of, offsets, group)

    def consumed(self, records: Iterable[Any], group: object) -> None:
        """Make the offsets after these consumed records a part of the transaction."""
        self._record(next_offsets, records, group)

    def _record(self, read: Callable[[Any], Recorded], given: Any, group: object) -> None:
        transactions = self._mine()
        offsets = read(given)
        transactions.record_offsets(offsets, owner_of(offsets, group))

    async def detach(self, timeout: float | None = None) -> TransactionHandle:
        """Wait for everything that was sent, leave the transaction open, and give a handle that ends it from anywhere.

        The producer takes no more transactions until `init_transactions()`. Waits at most `timeout` seconds.
        """
        timeout = checked_timeout("timeout", timeout)
        facts = await self._mine().detach(self._timeout if timeout is None else timeout)
        return self._handle_type(*facts)


async def run_again(
    transaction: Callable[[float | None], Transaction],
    work: Callable[[], Awaitable[T]],
    timeout: float | None,
    pause: Backoff,
) -> T:
    """Do the work in a transaction, and again in another one after an error that only aborts it."""
    loop = asyncio.get_running_loop()
    until = math.inf if timeout is None else loop.time() + timeout
    for attempt in itertools.count():
        left = until - loop.time()
        current = transaction(None if timeout is None else max(left, 0.0))
        try:
            async with current:
                return await work()
        except Exception as error:
            wait = pause.plain(attempt)
            if not current._may_run_again(error) or loop.time() + wait >= until:  # noqa: SLF001  # of this file
                raise
        await asyncio.sleep(wait)
    raise AssertionError("counting has no end")  # for type checkers
