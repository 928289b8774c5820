"""The calls of a producer that concern transactions: its own, and those of other producers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aioproducer._callers.consumed import Offsets, offsets_of, owner_of
from aioproducer._callers.loading import load
from aioproducer._deferred import deferred
from aioproducer._state.backoff import Backoff
from aioproducer.config import ProducerConfig
from aioproducer.config.seconds import checked_timeout
from aioproducer.records import OffsetAndMetadata, TopicPartition, TransactionListing
from aioproducer.transaction import Transaction, run_again

_FOREIGN: Final = "aioproducer._net.transactions.foreign_transactions"
_IDLE: Final = "aioproducer._net.connecting.idle_connections"
_OFFSETS: Final = "aioproducer._net.transactions.stable_offsets"

if TYPE_CHECKING:
    from aioproducer._net.connecting import idle_connections
    from aioproducer._net.connecting.idle_connections import IdleConnections
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._net.transactions import foreign_transactions, stable_offsets
    from aioproducer._net.transactions.transactions import Transactions
else:
    foreign_transactions = deferred(_FOREIGN)
    idle_connections = deferred(_IDLE)
    stable_offsets = deferred(_OFFSETS)

T = TypeVar("T")


class TransactionCalls:
    """The calls of `Producer` for transactions. The producer decides whether they are allowed, and for which task."""

    config: ProducerConfig
    _transaction_type: type[Transaction] = Transaction

    def _running(self) -> Engine:
        """The engine, or the reason why there is none to be used from here."""
        raise NotImplementedError

    def _transactions(self) -> Transactions:
        """The producer's transactions, or the reason why there are none."""
        raise NotImplementedError

    def _timeout(self, timeout: float | None) -> float:
        seconds = checked_timeout("timeout", timeout)
        return self.config.max_block_ms / 1000 if seconds is None else seconds

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """A transaction: `async with producer.transaction() as tx:` begins, commits on success, else aborts.

        A cancellation aborts as well. Beginning, committing and aborting take at most `timeout` seconds each (default:
        `max_block_ms`). Raises `TransactionAbortedError` at the end if anything that was sent failed.
        """
        return self._transaction_type(self._transactions, self._timeout(timeout))

    async def run_transaction(
        self, function: Callable[..., Awaitable[T]], *args: Any, timeout: float | None = None
    ) -> T:
        """Run the coroutine function in a transaction, and again after an error that only aborts it.

        Consumed records must be passed in `args`: an abort does not rewind a consumer. `timeout`: the seconds in which
        attempts may begin (default: no limit); the last error is raised then. Beginning, committing and aborting each
        wait for at most the seconds that were left when the attempt began; the function is not interrupted.
        """
        pause = Backoff(self.config.retry_backoff_ms / 1000, self.config.retry_backoff_max_ms / 1000)
        limit = checked_timeout("timeout", timeout)
        return await run_again(
            lambda left: self.transaction(timeout=left), lambda: function(*args), limit, pause
        )

    async def init_transactions(
        self, transactional_id: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Get a producer id for the transactional id, abort its open transaction, and fence its previous producer.

        With a `transactional_id` the producer switches to it, and fences the producer that has it; without, it requests
        the next epoch of its own id, and raises if another producer has taken over meanwhile. Waits at most `timeout`
        seconds (default: `max_block_ms`).
        """
        await self._transactions().init(transactional_id, self._timeout(timeout))

    async def begin_transaction(self, *, timeout: float | None = None) -> None:
        """Begin a transaction. Waits only after an upgrade of the cluster, at most `timeout` seconds."""
        await self._transactions().begin(self._timeout(timeout))

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group: object, *, timeout: float | None = None
    ) -> None:
        """Make consumed offsets a part of the transaction, at once; `tx.send_offsets()` does so with the commit.

        `group` is a group id, a `GroupMetadata`, or a consumer of aiokafka or confluent-kafka. Waits at most `timeout`
        seconds (default: `max_block_ms`).
        """
        transactions = self._transactions()
        found = offsets_of(offsets)
        await transactions.send_offsets(found, owner_of(found, group), self._timeout(timeout))

    async def commit_transaction(self, *, timeout: float | None = None) -> None:
        """Wait for everything that was sent in the transaction, and commit it.

        Raises `TransactionAbortedError` if any of it failed: then only `abort_transaction()` is possible. Without an
        answer within `timeout` seconds (default: `max_block_ms`) it raises `CommitOutcomeUnknownError`: the same call again
        joins the same attempt, or `init_transactions()` settles it.
        """
        await self._transactions().commit(self._timeout(timeout))

    async def abort_transaction(self, *, timeout: float | None = None) -> None:
        """Abort the transaction: unsent records are dropped, sent ones are never visible to committed reads.

        Waits at most `timeout` seconds (default: `max_block_ms`); the same call again joins the same attempt.
        """
        await self._transactions().abort(self._timeout(timeout))

    async def fence(self, transactional_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Abort the open transactions of these transactional ids, whose owners are gone, and refuse them from now on."""
        await load(_FOREIGN, _IDLE)
        session, seconds = self._running(), self._timeout(timeout)
        with closing(_idle_connections(session)) as idle:
            await foreign_transactions.fence_all(session, transactional_ids, seconds, idle)

    async def list_transactions(
        self, prefix: str = "", *, timeout: float | None = None
    ) -> list[TransactionListing]:
        """The transactional ids that begin with `prefix`, as all brokers know them, with the state of each."""
        await load(_FOREIGN, _IDLE)
        session, seconds = self._running(), self._timeout(timeout)
        with closing(_idle_connections(session)) as idle:
            return await foreign_transactions.list_all(session, prefix, seconds, idle)

    async def committed_offsets(
        self, group: str, partitions: Iterable[Any], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed; partitions without one are left out.

        Offsets that are a part of an open transaction are waited for, at most `timeout` seconds (default: `max_block_ms`).
        """
        await load(_OFFSETS, _IDLE)
        session, seconds = self._running(), self._timeout(timeout)
        if session.transactions is not None:
            # A task of work that is repeated reads the offsets of the same group again and again.
            idle = session.transactions.coordinators.idle
            return await stable_offsets.fetch_committed(session, group, partitions, seconds, idle)
        with closing(_idle_connections(session)) as idle:
            return await stable_offsets.fetch_committed(session, group, partitions, seconds, idle)


def _idle_connections(session: Engine) -> IdleConnections:
    """The connections that a call about other producers leaves; none outlives the call."""
    limit = session.config.connections_max_idle_ms
    return idle_connections.IdleConnections(limit, session.addresses.successor_of)
