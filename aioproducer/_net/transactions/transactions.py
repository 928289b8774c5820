"""The transactional calls of one producer.

`_state/transactions` decides: the table allows a call, and a dialogue has its steps. The long calls are operations in tasks of
the producer. The senders go on while a coordinator is asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from aioproducer._callers.transaction_retry import Aborters
from aioproducer._net.timers.fine_timer import FineTimer
from aioproducer._net.timers.wakeup import Wakeup
from aioproducer._net.transactions.conversation import converse
from aioproducer._net.transactions.coordinators_in_use import CoordinatorsInUse
from aioproducer._net.transactions.operations import Operations
from aioproducer._net.transactions.steps import Steps
from aioproducer._state.transactions.dialogues.adding import deliver_offsets
from aioproducer._state.transactions.dialogues.background import pending_work
from aioproducer._state.transactions.dialogues.ending import abort, commit, end_at_closing, gather
from aioproducer._state.transactions.dialogues.initializing import ENDING, change_id, initialization
from aioproducer._state.transactions.table import Event, State
from aioproducer._state.transactions.versions import level_of
from aioproducer.config import checked_transactional_id
from aioproducer.errors import (
    CommitOutcomeUnknownError,
    KafkaError,
    StateError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aioproducer._net.transactions.coordinator import Coordinator
    from aioproducer._net.transactions.host import Host
    from aioproducer._net.transactions.operation import Operation
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer._state.transactions.counts import TransactionCounts
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.parts import TransactionParts
    from aioproducer._state.transactions.table import TransactionTable

# Seconds between the requests for the end of a transaction that `close()` makes while the answers do not say whether it ended.
PAUSES_AT_CLOSING = (0.1, 0.2, 0.4, 0.8)


class Transactions:
    """The calls, and the task that does what a transaction needs besides them."""

    def __init__(self, host: Host, current: CurrentTransaction, counts: TransactionCounts) -> None:
        self.host = host
        self.loop = host.loop
        self.current = current
        # The state of the producer.
        self.table: TransactionTable = current.table
        self.marker_delay = current.marker_delay
        self.after_marker_delay = FineTimer(host.loop)
        # Of the present transaction, or of the last one.
        self.aborters = Aborters()
        self.coordinators = CoordinatorsInUse(host, current.ownership.transactional_id)
        self.operations = Operations(self, counts)
        self.steps = Steps(self)
        self.work_pending = Wakeup(host.loop)
        # Called when records may be sent from now on, or may not; set by the producer.
        self.accepting_changed: Callable[[], None] = _nothing
        # Records of `send_nowait` that are not accepted yet; set by the producer.
        self.queued: Callable[[], list[Any]] = list

    @property
    def transactional_id(self) -> str:
        """The transactional id in use."""
        return self.current.ownership.transactional_id

    @property
    def number(self) -> int:
        """The number of transactions that were begun."""
        return self.current.number

    @property
    def parts(self) -> TransactionParts:
        """The parts of the present transaction."""
        return self.current.parts

    @property
    def counts(self) -> TransactionCounts:
        """The ends of transactions."""
        return self.operations.counts

    @property
    def operation(self) -> Operation | None:
        """The call that changes the state now."""
        return self.operations.present

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator of the transactional id."""
        return self.coordinators.of_id

    def trouble(self) -> KafkaError | None:
        """The reason why coordinators do not answer."""
        return self.coordinators.trouble()

    # -- effects of the machines

    def on_opened(self, queue: PartitionQueue) -> None:
        """A batch was opened for this partition."""
        if self.current.opened(queue):
            self.work_pending.ring()

    def on_lost(self, error: KafkaError) -> None:
        """A record of the transaction is not written, or its outcome is unknown."""
        self.steps.follow(self.current.lost(error))

    def on_refused(self, error: BaseException) -> None:
        """A `send()` in the transaction failed, or was refused while it waited."""
        if isinstance(error, KafkaError):
            self.steps.follow(self.current.failed(error))

    def ask_for_the_reason(self) -> None:
        """Batches were refused, and only the coordinator knows the reason: the transactions task asks it."""
        self.current.must_ask_why = True
        self.work_pending.ring()

    async def run(self) -> None:
        """The transactions task."""
        while True:
            await self.work_pending.wait()
            await converse(pending_work(self.current), self.steps.perform)

    # -- the calls

    async def init(self, transactional_id: str | None, timeout: float) -> None:
        """Get a producer id, end the open transaction of this id, and fence its former producer."""
        ownership = self.current.ownership
        name = ownership.sought if transactional_id is None else checked_transactional_id(transactional_id)
        self.table.check(Event.INIT)
        if name != ownership.sought:
            error = change_id(self.current, name)
            if self.table.state is State.INITIALIZING:
                self.operations.replace_present(error)
                self.steps.drop_epoch()
        if self.table.state in ENDING:
            is_uncertain = self.table.state is State.UNCERTAIN
            self.aborters.note(Event.INIT.value, may_be_committed=is_uncertain)
        dialogue = initialization(self.current, transactional_id)
        operation = self.operations.begin_or_join(Event.INIT, lambda: dialogue)
        await self.operations.wait(operation, timeout, "the coordinator gave no producer id in time")

    async def begin(self, timeout: float) -> None:
        """Open a transaction. Only after an upgrade of the cluster the coordinator is asked for an epoch first."""
        self.table.check(Event.BEGIN)
        level = level_of(self.host.addresses.features)
        if self.current.needs_epoch(level):
            await self.init(None, timeout)
        self.table.check(Event.BEGIN)
        # Records that were lost in a former transaction were given up with it, and do not stop the records of this one.
        self.host.machines.losses.gaps_seen()
        aborters = Aborters()
        # Last: without memory for what comes before, the transaction has not begun.
        self.current.begin(level, self.loop.time())
        self.aborters = aborters
        self.accepting_changed()

    def record_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Keep offsets that are sent with the commit."""
        self.current.record_offsets(offsets, group)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, timeout: float
    ) -> None:
        """Make offsets of a group a part of the transaction, now."""
        self.record_offsets(offsets, group)
        operation = self.operations.start(Event.SEND_OFFSETS, deliver_offsets(self.current))
        if not await operation.joined(timeout):
            raise TransactionTimeoutError(
                "timed out waiting for the coordinators to accept the offsets",
                waited=timeout,
                cause=self.trouble(),
            )

    async def commit(self, timeout: float) -> None:
        """Wait for all records, and commit the transaction. The same call again joins the operation."""
        operation = self.operations.begin_or_join(Event.COMMIT, partial(commit, self.current))
        try:
            done = await operation.joined(timeout)
            if done:
                self.operations.notified(operation, Event.ENDED)
        finally:
            self.operations.left(operation)
        if not done:
            self.counts.in_doubt(self.number)
            raise CommitOutcomeUnknownError(waited=timeout, cause=self.trouble())

    async def abort(self, timeout: float) -> None:
        """Drop the records that are not in flight, and abort the transaction. The same call again joins the operation."""
        self.table.check(Event.ABORT)
        self.aborters.note(Event.ABORT.value)
        await self._abort(timeout)

    async def _abort(self, timeout: float) -> None:
        operation = self.operations.begin_or_join(Event.ABORT, partial(abort, self.current))
        text = "the coordinator did not abort the transaction in time"
        await self.operations.wait(operation, timeout, text, Event.ENDED)

    async def detach(self, timeout: float) -> tuple[str, int, int, int, bool]:
        """Wait for all records and offsets, and leave the transaction open; the result is for a handle."""
        operation = self.operations.begin_or_join(Event.DETACH, partial(gather, self.current))
        text = "the records had no outcome in time"
        await self.operations.wait(operation, timeout, text, Event.HANDED_OVER)
        if not self.table.is_handed_over:
            # In the turn between the end of the operation and this one. A handle might end the next transaction.
            raise StateError("another call ended the transaction before detach() gave its handle")
        return self.transactional_id, *self.current.identity, self.parts.level, self.parts.is_empty

    def is_left_detaching(self) -> bool:
        """Whether no caller waits for the handle of the transaction that is being detached."""
        operation = self.operations.present
        return self.table.state is State.DETACHING and (operation is None or not operation.is_watched)

    async def join_what_goes_on(self, timeout: float) -> None:
        """Before a transaction begins: get a producer id, or wait for the end of an abort that its caller left."""
        if self.table.state is State.ABORTING:
            await self._abort(timeout)
        if self.table.state in (State.UNINITIALIZED, State.INITIALIZING):
            await self.init(None, timeout)

    # -- the end of the producer

    async def wind_up(self, timeout: float) -> None:
        """The producer closes: wait for the present operation, and abort an open transaction."""
        if self.table.is_fatal:
            return
        for pause in (*PAUSES_AT_CLOSING, None):
            try:
                await self._present_ended(timeout)
                await self._end_at_closing(timeout)
                return
            except KafkaError as error:
                unanswered = self.operation is None and self.table.state in (State.ABORTING, State.UNCERTAIN)
                if pause is None or not unanswered:
                    self.host.log.warning(
                        "close() could not end the open transaction of %r: %s",
                        self.transactional_id,
                        error,
                    )
                    return
            await anyio.sleep(pause)

    async def _end_at_closing(self, timeout: float) -> None:
        call = end_at_closing(self.current, is_asked=self.operation is not None)
        if call is Event.COMMIT:
            await self.commit(timeout)
        elif call is Event.ABORT:
            await self.abort(timeout)

    async def _present_ended(self, timeout: float) -> None:
        """Wait for the present operation if it ends a transaction, or if a caller waits for a handle."""
        operation = self.operation
        if operation is None or (operation.event is Event.DETACH and not operation.is_watched):
            return
        if operation.event is Event.INIT and not self.current.has_more_to_end:
            return
        # It leaves a transaction that can only be aborted.
        with contextlib.suppress(TransactionAbortedError):
            await operation.joined(timeout)

    def give_up(self, error: KafkaError) -> None:
        """The producer ends: all callers get this error."""
        self.operations.end_with_producer(error)
        self.after_marker_delay.close()
        self.coordinators.close()


def _nothing() -> None:
    pass
