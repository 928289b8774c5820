"""The transactions of a `MockProducer`: what becomes visible, and what every call does to that.

No coordinator has to be asked, so that only records are waited for: whatever ends a record looks whether the commit that
waits for it can end too.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Iterable
from typing import Any

from aioproducer._callers.consumed import group_of, partitions_of
from aioproducer._callers.transaction_retry import LastAbort
from aioproducer.config import (
    ProducerConfig,
    checked_prefix,
    checked_transactional_id,
    checked_transactional_ids,
)
from aioproducer.errors import (
    CommitOutcomeUnknownError,
    DeliveryError,
    KafkaError,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
)
from aioproducer.records import GroupMetadata, TransactionListing
from aioproducer.testing.mock.intake import MockIntake
from aioproducer.testing.mock.ledger import Ledger
from aioproducer.testing.mock.plan import Plan
from aioproducer.testing.mock.transactions.attempt import Attempt
from aioproducer.testing.mock.transactions.coordinators import MockCoordinators, Offsets
from aioproducer.testing.mock.transactions.table import Event, MockTable, State

LEVEL = 2
_producer_ids = itertools.count(1)
# Where a handle, which may have been pickled, finds the mock that gave it out.
_by_producer_id: weakref.WeakValueDictionary[int, MockTransactions] = weakref.WeakValueDictionary()


class MockTransactions:
    """Everything transactional of a mock. Without a `transactional_id` every call of a transaction is refused."""

    def __init__(
        self, config: ProducerConfig, plan: Plan, ledger: Ledger, coordinators: MockCoordinators
    ) -> None:
        self.config = config
        self.plan = plan
        self.ledger = ledger
        self.coordinators = coordinators
        self.transactional_id = config.transactional_id
        self.table = MockTable()
        # How many transactions were begun.
        self.number = 0
        self.last_abort = LastAbort()
        # The number of the transaction whose abort is about to return.
        self.aborting: int | None = None
        self.producer_id = next(_producer_ids)
        self.epoch = -1
        self.attempt: Attempt | None = None
        # What became of the transactions that were handed over, by epoch; None: still open.
        self.handed_over: dict[int, bool | None] = {}
        # Offsets that are kept for the commit, and those that are a part of the transaction already.
        self.recorded: dict[str, Offsets] = {}
        self.sent: dict[str, Offsets] = {}
        self._intake: MockIntake | None = None
        self._ended = asyncio.Event()
        _by_producer_id[self.producer_id] = self
        if self.is_transactional:
            ledger.seen_at_once = False
            ledger.on_lost = self.on_lost
            ledger.on_settled = self._look_soon

    @property
    def is_transactional(self) -> bool:
        """Whether there are transactions at all."""
        return self.transactional_id is not None

    @property
    def refusal(self) -> KafkaError | None:
        """What ended the mock, if anything did."""
        return self.table.cause if self.table.state is State.FATAL else None

    def bind(self, intake: MockIntake) -> None:
        """The mock was started."""
        self._intake = intake
        if self.is_transactional:
            intake.on_refused = self.on_lost
            intake.lines.on_left = self._look_soon

    @property
    def _started(self) -> MockIntake:
        assert self._intake is not None  # noqa: S101  # asked for before any call is let in
        return self._intake

    # -- facts about records

    def check_send(self) -> None:
        """Raise why no record is taken now."""
        if self.is_transactional:
            self.table.check(Event.SEND)

    def on_lost(self, error: KafkaError) -> None:
        """A record was refused, failed, or its fate is unknown: the transaction can only be aborted."""
        if not self.table.failed(error):
            return
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            attempt.end(self.table.aborted(f"{attempt.event.value} is not possible"))
        # Later: records whose answers come in the same turn were on their way, and have outcomes of their own.
        self._started.loop.call_soon(self._drop_after_failure, self.number)

    def _drop_after_failure(self, number: int) -> None:
        if self.table.state is State.ABORTABLE and self.number == number:
            text = "the record was not sent, as another part of its transaction failed"
            self._drop(text, self.table.cause, retriable=self.table.passes())

    def _drop(self, text: str, cause: KafkaError | None, *, retriable: bool = True) -> None:
        """Nothing more is sent: what has no outcome yet ends now."""
        aborted = TransactionAbortedError(text, cause=cause, retriable=retriable)
        if self._intake is not None:
            self._intake.lines.refuse_all(aborted)
        for held in self.ledger.waiting(None):
            where = held.record
            self.ledger.end(
                held,
                DeliveryError(
                    text, topic=where.topic, partition=where.partition, cause=aborted, retriable=retriable
                ),
            )

    # -- the calls

    def init(self, transactional_id: str | None) -> None:
        """Get a new epoch, and end what is open."""
        name = (
            self.transactional_id if transactional_id is None else checked_transactional_id(transactional_id)
        )
        self.table.check(Event.INIT)
        if name != self.transactional_id and self.table.state in (State.ABORTABLE, State.UNCERTAIN):
            raise StateError(
                f"init_transactions({name!r}) is not possible before the transaction of {self.transactional_id!r} has "
                "ended: await producer.init_transactions() first"
            )
        self.table.move(Event.INIT)
        # Nobody waits for it, or this would not be possible.
        self.attempt = None
        self._drop("init_transactions() was called before the record was sent", None)
        self.handed_over.clear()
        self._end(committed=False)
        self.transactional_id = name
        self.epoch += 1
        self._note("Empty")

    def begin(self) -> None:
        """Open a transaction."""
        self.table.move(Event.BEGIN)
        self.number += 1
        self.epoch += 1

    def record_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Keep offsets that become a part of the transaction with the commit."""
        self.table.move(Event.SEND_OFFSETS)
        if offsets:
            self.recorded.setdefault(group.group_id, {}).update(offsets)

    def send_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Make offsets of a group a part of the transaction, now."""
        self.record_offsets(offsets, group)
        if not self._deliver_offsets():
            raise self.table.aborted(f"{Event.SEND_OFFSETS.value} is not possible")

    def _deliver_offsets(self) -> bool:
        """False: they were refused, and the transaction with them."""
        while self.recorded:
            group, offsets = self.recorded.popitem()
            ordered = self.plan.offset_refusals.take(group)
            if ordered is not None:
                self.on_lost(ordered)
                return False
            self.sent.setdefault(group, {}).update(offsets)
        return True

    async def commit(self, patience: float) -> None:
        """Wait for all records, then make them visible; join that if it goes on already."""
        attempt, done = self._begin_or_join(Event.COMMIT), False
        try:
            done = await attempt.joined(patience)
        finally:
            if not done and not attempt.waiters and self.table.state is State.COMMITTING:
                self.table.move(Event.LEFT_ALONE)
        if not done:
            raise CommitOutcomeUnknownError(waited=patience)
        if attempt.refusal is not None:
            self.on_lost(attempt.refusal)
            raise self.table.aborted(f"{Event.COMMIT.value} is not possible")
        self._told(attempt, Event.ENDED)

    async def abort_or_join(self) -> None:
        """Abort the transaction; a second call at the same time joins the first, as it does where a coordinator is asked."""
        if self.aborting == self.number and self.table.state is State.READY:
            return
        self.abort()
        self.aborting = self.number
        try:
            await asyncio.sleep(0)
        finally:
            self.aborting = None

    def abort(self) -> None:
        """Drop what has no outcome, and make nothing of it visible."""
        self.table.move(Event.ABORT)
        self.last_abort.note(self.number)
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            text = f"{Event.ABORT.value} was called while {attempt.event.value} went on"
            attempt.end(StateError(text))
        self._drop("the transaction was aborted before the record was sent", None)
        self._end(committed=False)

    async def detach(self, patience: float) -> tuple[str, int, int, int, bool]:
        """Wait for all records, and leave the transaction open for a handle to end."""
        attempt = self._begin_or_join(Event.DETACH)
        if not await attempt.joined(patience):
            text = "the records had no outcome in time; the same call again joins the attempt"
            raise TransactionTimeoutError(text, waited=patience)
        self._told(attempt, Event.HANDED_OVER)
        name = str(self.transactional_id)
        self.handed_over.setdefault(self.epoch, None)
        return name, self.producer_id, self.epoch, LEVEL, self._is_empty()

    def end_handed_over(self, epoch: int, *, committed: bool) -> None:
        """End the transaction that a handle stands for, or say why that cannot be."""
        if epoch not in self.handed_over:
            raise ProducerFencedError
        before = self.handed_over[epoch]
        if before is None:
            self.handed_over[epoch] = committed
            self._end(committed=committed)
        elif before and not committed:
            raise TransactionError("the transaction was committed before this abort")
        elif committed and not before:
            raise TransactionAbortedError(
                "the transaction was aborted before this commit: its time (transaction_timeout_ms) was over, or its "
                "handle was aborted",
                retriable=False,
            )

    async def committed_offsets(self, group: str, partitions: Iterable[Any], patience: float) -> Offsets:
        """The offsets of a group, once no open transaction holds them back."""
        group, places = group_of(group).group_id, partitions_of(partitions)
        try:
            async with asyncio.timeout(patience):
                while not self.sent.get(group, {}).keys().isdisjoint(places):
                    await self._ended.wait()
        except TimeoutError:
            raise TransactionTimeoutError(
                "the group's offsets are not known in time; a transaction may be open that changes them",
                waited=patience,
            ) from None
        return self.coordinators.committed(group, places)

    def fence(self, names: Iterable[str]) -> None:
        """Fence others, or this mock itself."""
        for name in checked_transactional_ids(names):
            self.coordinators.fence(name)
            if name == self.transactional_id:
                self.end_for_good(ProducerFencedError())

    # -- the end of the mock

    def end_for_good(self, error: KafkaError) -> None:
        """Every call raises this from now on."""
        if self.table.state is State.FATAL:
            return
        self.table.refused(error)
        if self.attempt is not None:
            self.attempt.end(error)
        if self._intake is not None:
            self._intake.lines.refuse_all(error)
        for held in self.ledger.waiting(None):
            self.ledger.fail(held, error)
        self.handed_over.clear()
        self._end(committed=False)

    def wind_up(self) -> None:
        """The mock closes: an open transaction is aborted; what was begun goes on."""
        left_alone = self.attempt is None or not self.attempt.waiters
        if self.table.state in (State.IN_TRANSACTION, State.ABORTABLE) or (
            self.table.state is State.DETACHING and left_alone
        ):
            self.abort()

    def give_up(self) -> None:
        """The mock is closed: nobody waits any longer, and what was not committed is not going to be."""
        if self.attempt is not None and not self.attempt.is_over:
            self.attempt.end(StateError(f"the producer ended before {self.attempt.event.value} did"))
            self._end(committed=False)

    # -- attempts

    def _begin_or_join(self, event: Event) -> Attempt:
        self.table.move(event)
        if self.attempt is None or self.attempt.event is not event:
            self.attempt = Attempt(event, self._started.loop)
            self._look_soon()
        return self.attempt

    def _told(self, attempt: Attempt, event: Event) -> None:
        """Somebody has heard of its success, so that the next call may follow."""
        if self.attempt is attempt:
            self.attempt = None
            self.table.move(event)

    def _look_soon(self) -> None:
        # Not at once: callbacks of the record that was settled come first.
        if self.attempt is not None:
            self._started.loop.call_soon(self._look)

    def _look(self) -> None:
        """End the attempt, if there is nothing left to wait for."""
        attempt = self.attempt
        if attempt is None or attempt.is_over or self.ledger.pending or self._started.lines.at_work():
            return
        if not self._deliver_offsets():
            return
        if attempt.event is Event.COMMIT:
            self._finish_commit(attempt)
        else:
            attempt.end(None)

    def _finish_commit(self, attempt: Attempt) -> None:
        ordered = self.plan.commit_refusals.take()
        if ordered is not None:
            self.on_lost(ordered)
            return
        lost = self.plan.take_lost_answer()
        if lost is not None:
            attempt.unanswered = lost.times
            if not lost.committed:
                # Nobody has heard of it yet: who asks again is told, and has to abort.
                attempt.refusal = self._time_is_over()
        self._end(committed=attempt.refusal is None)
        attempt.end(None)

    def _time_is_over(self) -> TransactionError:
        seconds = self.config.transaction_timeout_ms / 1000
        text = f"the coordinator aborted the transaction after {seconds:g} s (transaction_timeout_ms)"
        return TransactionError(text, retriable=True)

    # -- what becomes of it

    def _note(self, state: str) -> None:
        self.coordinators.note(str(self.transactional_id), state, self.producer_id)

    def listed(self, prefix: str) -> list[TransactionListing]:
        """The transactional ids that begin so, this mock's among them once it has a producer id."""
        if self.transactional_id in self.coordinators.listings and not self._is_empty():
            self._note("Ongoing")
        return self.coordinators.listed(checked_prefix(prefix))

    def _is_empty(self) -> bool:
        return not (self.ledger.unseen or self.sent)

    def _end(self, *, committed: bool) -> None:
        """Everything of it becomes visible, or nothing does."""
        if not self._is_empty():
            self._note("CompleteCommit" if committed else "CompleteAbort")
        if committed:
            self.coordinators.commit(self.sent)
        self.ledger.reveal(committed=committed)
        self.recorded, self.sent = {}, {}
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()


def mock_of(producer_id: int) -> MockTransactions:
    """The transactions of the mock that has this producer id."""
    found = _by_producer_id.get(producer_id)
    if found is None:
        raise StateError("the MockProducer that gave out this handle is not in this process, or not any more")
    return found
