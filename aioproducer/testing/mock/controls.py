"""The controls of a mock: the records and transactions that a test inspects, completes and fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import attrs

from aioproducer._callers.consumed import group_of, offsets_of
from aioproducer._calls.lifecycle import K_contra, V_contra
from aioproducer._core import peek
from aioproducer._state.transactions.table import State as Standing
from aioproducer.config import checked_transactional_id
from aioproducer.errors import CommitOutcomeUnknownError, KafkaError, ProducerFencedError, StateError
from aioproducer.outcome import Outcome
from aioproducer.producer import Producer
from aioproducer.testing.broker.cluster.transaction_states import State
from aioproducer.testing.broker.cluster.transactions import TransactionRefusal
from aioproducer.testing.mock.orders import Orders, check_error, check_failure
from aioproducer.testing.mock.sending import is_held

if TYPE_CHECKING:
    from aioproducer._core import Delivery
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer.testing.mock.brokers import MockCluster
    from aioproducer.testing.mock.sending import SendingAtOnce


@attrs.frozen
class MockRecord:
    """A record as it is written: after interceptors and serializers, with its partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Entry(NamedTuple):
    """One accepted record, and its batch."""

    record: MockRecord
    delivery: Delivery
    batch: QueuedBatch

    @property
    def place(self) -> tuple[str, int, int]:
        """The place of an acknowledged record: topic, partition, offset."""
        return self.record.topic, self.record.partition, self.delivery.result().offset


class Controls(Producer[K_contra, V_contra], Generic[K_contra, V_contra]):
    """The part of a `MockProducer` that a `Producer` does not have."""

    if TYPE_CHECKING:
        _cluster: MockCluster
        _orders: Orders
        _sending: SendingAtOnce

    def _forget(self) -> None:
        self._accepted: list[MockRecord] = []
        self._pending: list[Entry] = []
        self._written: list[MockRecord] = []
        # Acknowledged entries that `committed` searches the log for.
        self._acknowledged: list[Entry] = []
        self._changed = asyncio.Event()
        self._fenced: list[str] = []

    def _add(self, entry: Entry) -> None:
        self._accepted.append(entry.record)
        self._pending.append(entry)
        self._changed.set()

    def _update(self) -> list[Entry]:
        """Note the outcomes since the last update; returns the entries without one."""
        pending, self._pending = self._pending, []
        for entry in pending:
            outcome = peek(entry.delivery)[0]
            if outcome is Outcome.PENDING:
                self._pending.append(entry)
            elif outcome is Outcome.ACKED:
                self._written.append(entry.record)
                self._acknowledged.append(entry)
        return self._pending

    # -- records

    @property
    def history(self) -> tuple[MockRecord, ...]:
        """Every accepted record, in order, whatever its outcome."""
        return tuple(self._accepted)

    @property
    def written(self) -> tuple[MockRecord, ...]:
        """Every acknowledged record, in the order of the acknowledgements."""
        self._update()
        return tuple(self._written)

    @property
    def committed(self) -> tuple[MockRecord, ...]:
        """Every record that a reader of committed records finds; without a `transactional_id` the same as `written`."""
        written = self.written
        if self.config.transactional_id is None:
            return written
        found = {
            (*log, offset)
            for log in {entry.place[:2] for entry in self._acknowledged}
            for batch in self._cluster.partition(*log).log.committed()
            for offset in range(batch.base_offset, batch.last_offset + 1)
        }
        return tuple(entry.record for entry in self._acknowledged if entry.place in found)

    @property
    def pending(self) -> tuple[MockRecord, ...]:
        """Every accepted record without an outcome, oldest first."""
        return tuple(entry.record for entry in self._update())

    def clear(self) -> None:
        """Forget the history and the ordered failures.

        Offsets continue; pending records stay pending, and the records of an open transaction may still be committed.
        """
        self._update()
        self._orders.clear()
        self._accepted.clear()
        self._written.clear()
        self._acknowledged = [
            entry
            for entry in self._acknowledged
            if entry.place[2] >= self._cluster.partition(*entry.place[:2]).log.stable_offset
        ]

    async def wait_pending(self, count: int = 1) -> None:
        """Wait until at least `count` records are pending."""
        while len(self._update()) < count:
            self._changed.clear()
            await self._changed.wait()

    def complete_next(self, topic: str | None = None) -> MockRecord:
        """Acknowledge the oldest pending record (of one topic); `StateError` if there is none."""
        return self._end(self._oldest(topic), None)

    def complete_all(self, topic: str | None = None) -> int:
        """Acknowledge every pending record (of one topic), oldest first; returns their number."""
        return len([self._end(entry, None) for entry in self._held(topic)])

    def fail_next(self, error: Exception, topic: str | None = None) -> MockRecord:
        """Fail the oldest pending record (of one topic); `StateError` if there is none.

        Its delivery ends with `error`, or with a `DeliveryError` of which `error` is the cause. `error.outcome` says
        whether the record may be in the log: `DeliveryTimeoutError(outcome=Outcome.UNKNOWN)`.
        """
        check_failure(error)
        return self._end(self._oldest(topic), error)

    def fail_all(self, error: Exception, topic: str | None = None) -> int:
        """Fail every pending record (of one topic) as `fail_next` does; returns their number."""
        check_failure(error)
        return len([self._end(entry, error) for entry in self._held(topic)])

    def fail_send(self, error: KafkaError, topic: str | None = None, *, times: int | None = 1) -> None:
        """Refuse the next `times` records (of one topic; None: all that follow) with this error: not accepted."""
        check_error(error, "send() fails")
        if error.outcome is not Outcome.NOT_WRITTEN:
            raise ValueError(f"a record that is refused is NOT_WRITTEN, not {error.outcome}")
        self._orders.add("send", error, topic, times)

    def fail_delivery(self, error: Exception, topic: str | None = None, *, times: int | None = 1) -> None:
        """Accept the next `times` records (of one topic; None: all that follow), then fail them as `fail_next` does."""
        check_failure(error)
        self._orders.add("delivery", error, topic, times)

    def _held(self, topic: str | None) -> list[Entry]:
        return [one for one in self._update() if is_held(one.batch) and topic in (None, one.record.topic)]

    def _oldest(self, topic: str | None) -> Entry:
        for entry in self._held(topic):
            return entry
        advice = "`await wait_pending()` waits for one with auto_complete=False, and fail_delivery() fails records to come"
        raise StateError(f"no record is pending; {advice}", topic=topic)

    def _end(self, entry: Entry, error: Exception | None) -> MockRecord:
        self._sending.end(entry.batch, error)
        self._update()
        return entry.record

    # -- transactions

    @property
    def fenced(self) -> tuple[str, ...]:
        """Every transactional id that `fence()` was called with, in order."""
        return tuple(self._fenced)

    def fence_me(self) -> None:
        """Have another producer take over the transactional id: every later call raises `ProducerFencedError`.

        Pending records fail, and the open transaction is aborted. The outcome of the error is UNKNOWN if the coordinator has
        committed the transaction before, and the commit has not returned.
        """
        engine = self._engine
        if engine is None or engine.transactions is None:
            raise StateError("fence_me() requires a started producer with a transactional_id")
        current, longest = engine.transactions.current, self._cluster.options.transaction_max_timeout_ms
        outcome = Outcome.UNKNOWN if self._may_be_committed(current) else Outcome.NOT_WRITTEN
        with suppress(TransactionRefusal):
            self._cluster.transactions.init(current.ownership.transactional_id, longest)
        engine.transactions.steps.follow(current.ends_with(ProducerFencedError(outcome=outcome)))

    def _may_be_committed(self, current: CurrentTransaction) -> bool:
        """Whether the coordinator may have committed the present transaction, and no call has returned that."""
        known = self._cluster.transactions.get(current.ownership.transactional_id)
        if known is None or current.table.state is Standing.READY:
            return False
        # EMPTY: init_transactions() has ended it meanwhile, in one way or the other.
        return current.parts.asked_to_commit and (known.commits or known.state is State.EMPTY)

    def fail_commit(self, error: KafkaError, *, times: int | None = 1) -> None:
        """Have the coordinator refuse the next `times` commits (None: all that follow).

        They raise `TransactionAbortedError` with this cause, and only an abort is possible. It is retriable if `error` is.
        """
        if isinstance(error, CommitOutcomeUnknownError | ProducerFencedError):
            raise ValueError("lose_commit_answer() is for commits of unknown outcome, fence_me() for fencing")
        check_error(error, "a commit fails")
        self._orders.add("commit", error, None, times)

    def lose_commit_answer(self, *, committed: bool = True, times: int = 1) -> None:
        """Have the next commit raise `CommitOutcomeUnknownError`, `times` times if it is repeated.

        The call after that reports that it was committed, or else that it timed out (`TransactionAbortedError`).
        """
        self._orders.add("commit answer", committed, None, times)

    def fail_offsets(self, error: KafkaError, group: str | None = None, *, times: int | None = 1) -> None:
        """Refuse the next `times` offsets (of one group; None: all that follow), as after a rebalance.

        The transaction can only be aborted then.
        """
        check_error(error, "a transaction fails")
        self._orders.add("offsets", error, group, times)

    def set_committed_offsets(self, group: str, offsets: Mapping[Any, Any]) -> None:
        """Set what `committed_offsets` returns for the group: for each partition, the offset to continue from."""
        groups = self._cluster.groups
        committed = groups.make(group_of(group).group_id).committed
        for place, (offset, metadata, leader_epoch) in offsets_of(offsets).items():
            committed[place.topic, place.partition] = groups.noted(offset, leader_epoch, metadata)

    def set_transaction(self, transactional_id: str, state: str = "Ongoing") -> None:
        """Add another producer's transaction to the result of `list_transactions`; fencing it makes it "Empty"."""
        name, transactions = checked_transactional_id(transactional_id), self._cluster.transactions
        identity = transactions.init(name, self._cluster.options.transaction_max_timeout_ms)
        transactions.add_partitions(name, identity, ())
        known = transactions.get(name)
        assert known is not None  # noqa: S101  # made above
        known.state = State(state)
