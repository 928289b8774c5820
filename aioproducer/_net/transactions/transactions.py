"""The transactions of one producer: what the table allows is asked of the coordinators here.

Each of the long calls is an operation in a task of the producer. One request to a coordinator is on its way at a time,
while the senders go on. Nothing of a transaction is sent any more once a part of it has failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import anyio

from aioproducer._callers.transaction_retry import LastAbort
from aioproducer._net.connecting.contact import Contact
from aioproducer._net.connecting.link import is_idle
from aioproducer._net.timers.fine_timer import FineTimer
from aioproducer._net.transactions.coordinator import Coordinator, Key, Reply, error_of, fatal_error
from aioproducer._net.transactions.operation import Operation
from aioproducer._net.transactions.renewal import Renewal
from aioproducer._net.transactions.standing import look, standing_of, tells_later
from aioproducer._net.transactions.transaction_requests import TransactionRequests
from aioproducer._state.identity.standing import ABORTED, Identity
from aioproducer._state.transactions.coordinator_verdicts import FENCING, Answer, Request
from aioproducer._state.transactions.counts import TransactionCounts
from aioproducer._state.transactions.current import is_final
from aioproducer._state.transactions.marker_delay import MarkerDelay
from aioproducer._state.transactions.table import Event, State
from aioproducer._state.transactions.versions import level_of
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.config import checked_transactional_id
from aioproducer.errors import (
    CommitOutcomeUnknownError,
    DeliveryError,
    KafkaError,
    ProducerFencedError,
    ProtocolError,
    StateError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
)
from aioproducer.outcome import Outcome
from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection import Connection
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.admission.lines import Waiting
    from aioproducer._state.batching.batches import QueuedBatch
    from aioproducer._state.batching.queues import PartitionQueue
    from aioproducer._state.identity.coordinated import CoordinatedIdentity
    from aioproducer._state.transactions.current import CurrentTransaction
    from aioproducer._state.transactions.parts import TransactionParts

R = TypeVar("R", bound="tuple[Any, ...]")

# To the coordinators of so many groups a connection is kept.
MOST_GROUPS = 8
# Here a transaction is not over, and init_transactions() is possible all the same.
ENDING = frozenset({State.ABORTABLE, State.ABORTING, State.UNCERTAIN})
FAILED_ELSEWHERE = "the record was not sent, as another part of its transaction failed"
# EndTxn is answered so to whoever has not the identity that the coordinator has now.
REFUSES_TO_END = FENCING | {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
# Seconds between the questions for the end of a transaction that `close()` asks while they are answered without a meaning.
PAUSES_AT_CLOSING = (0.1, 0.2, 0.4, 0.8)
# The coordinator knows nothing of the producer: INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID.
FORGOTTEN = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})


class Transactions:
    """Everything transactional of a running producer."""

    def __init__(
        self,
        engine: Engine,
        current: CurrentTransaction,
        sequences: CoordinatedIdentity,
        transactional_id: str,
    ) -> None:
        self.engine = engine
        self.loop = engine.loop
        self.sequences = sequences
        self.current = current
        self.table = current.table
        self.renewal = Renewal(self)
        self.marker_delay = MarkerDelay()
        self.after_marker_delay = FineTimer(engine.loop)
        # How many transactions were begun.
        self.number = 0
        self.counts = TransactionCounts()
        self.last_abort = LastAbort()
        self.coordinator = Coordinator(engine, Key.TRANSACTION, transactional_id, Contact(engine.log))
        # The id that was asked for last, and the one that the present producer id belongs to.
        self.sought = transactional_id
        self.identified_as: str | None = None
        self.groups: dict[str, Coordinator] = {}
        self.operation: Operation | None = None
        # Those and the deliveries of offsets, of which there may be several.
        self.going_on: set[Operation] = set()
        # The identity was used in transactions of level 1, which have no epoch of their own.
        self.used = False
        # One request to a coordinator at a time: the next may depend on its answer.
        self.coordinator_lock = anyio.Lock(fast_acquire=True)
        # Adding partitions to the present transaction, given up with it.
        self.add_partitions_scope = anyio.CancelScope()
        self.work_pending = asyncio.Event()
        # A leader has refused something for a reason that only the coordinator knows: it is about to be asked.
        self.looks = False
        self.began_at = self.loop.time()
        # Whether records may be sent; set by the producer.
        self.accepting_changed: Callable[[], None] = _nothing
        # Calls for records that were not accepted yet, and records of `send_nowait` without a place; set by the producer.
        self.queued: Callable[[], list[Any]] = list

    @property
    def transactional_id(self) -> str:
        """Whose transactions these are."""
        return self.coordinator.name

    @property
    def parts(self) -> TransactionParts:
        """The parts of the present transaction."""
        return self.current.parts

    # -- effects of the machines

    def on_opened(self, queue: PartitionQueue) -> None:
        """A batch was opened: on level 1 its partition has to be added first."""
        place = (queue.topic.name, queue.index)
        if self.parts.level == 1 and place not in self.parts.partitions:
            self.parts.wanted[place] = queue
            self.work_pending.set()

    def on_sent(self, now: float) -> None:
        """Records are about to leave."""
        self.parts.records_sent = True
        self.marker_delay.sent(now)

    def on_lost(self, error: KafkaError) -> None:
        """A record of the transaction will not be written, or nobody knows."""
        self.parts.failed = True
        if is_final(error):
            self._end_the_producer(TransactionError("a broker refuses records of this producer", cause=error))
        self._failed(error)

    def ask_for_the_reason(self) -> None:
        """Batches were refused, and only the coordinator knows why: the transactions task asks it."""
        self.looks = True
        self.work_pending.set()

    def _failed(self, error: KafkaError) -> None:
        if not self.table.failed(error):
            return
        self.accepting_changed()
        self.operation = None
        # What waits for a partition that is no more would be asked for ever.
        self.add_partitions_scope.cancel()
        for operation in list(self.going_on):
            operation.replace(self.table.aborted(f"{operation.event.value} is not possible"))
        self.work_pending.set()

    # -- the task

    async def run(self) -> None:
        """What has to be done for a transaction besides the calls, for ever."""
        while True:
            await self.work_pending.wait()
            self.work_pending.clear()
            if self.looks:
                await self._look_into_the_suspicion()
            if self.table.state is State.ABORTABLE:
                self._drop(FAILED_ELSEWHERE, self.table.cause)
            elif self.parts.wanted:
                with anyio.CancelScope() as self.add_partitions_scope:
                    await self._enrol()

    async def _enrol(self) -> None:
        async with self.coordinator_lock:
            wanted, self.parts.wanted = self.parts.wanted, {}
            if not wanted or self.table.state in (State.ABORTABLE, State.ABORTING):
                return
            try:
                await self._add(
                    self.coordinator,
                    Request.ADD_PARTITIONS,
                    lambda connection: self._requests(self._identity()).add_partitions(connection, wanted),
                )
            except KafkaError as error:
                self.engine.log.debug("partitions were not added to the transaction: %s", error)
                return
        self.parts.partitions.update(wanted)
        self.engine.accumulator.update_readiness_of(wanted.values(), self.loop.time())

    async def _add(
        self, coordinator: Coordinator, request: Request, attempt: Callable[[Connection], Awaitable[int]]
    ) -> None:
        """Until there is an answer, nobody knows whether there is more to end, or will be, than was known before."""
        before, self.parts.in_doubt = self.parts.in_doubt, True
        reply = await coordinator.settle(request, attempt)
        self.parts.in_doubt = before or (reply.undecided > 0 and reply.answer is not Answer.DONE)
        self.parts.forgotten = self.parts.forgotten or reply.code in FORGOTTEN
        if reply.answer is Answer.ABORTABLE and self.table.state is State.ABORTING:
            # It is aborted already, and this answer came with the call.
            raise error_of(reply)
        await self._require(reply)
        self.parts.opened = True

    async def _look_into_the_suspicion(self) -> None:
        """Leaders have refused records: was its time over, or has another producer taken over? Until then nobody is told."""
        self.looks = False
        settlement = self.engine.settlement
        async with self.coordinator_lock:
            # A transaction that was aborted meanwhile has told its records.
            if not settlement.unexplained:
                return
            refusal = settlement.unexplained[0][0].last_error
            explanation = self.current.explanation = await self._explained(refusal)
        if isinstance(explanation, ProducerFencedError):
            self.table.refused(explanation)
            self.accepting_changed()
            self._tell_all(explanation)
        else:
            self._failed(explanation)
        settlement.explain(explanation, self.loop.time())
        await self._follow_up(explanation)

    async def _explained(self, refusal: KafkaError | None) -> KafkaError:
        if self.parts.ended and self.table.cause is not None:
            # The coordinator has said so to another question.
            return self.table.cause
        standing = await standing_of(self.coordinator) if self.parts.was_opened else None
        if standing is not None and standing.follows(self._identity(), ABORTED):
            return self._aborted_by_others()
        return ProducerFencedError(cause=refusal)

    async def _follow_up(self, explanation: KafkaError) -> None:
        """End the producer, or get the next epoch, when all that is on its way has landed."""
        if isinstance(explanation, ProducerFencedError):
            self._drop("another producer has taken over", explanation)
            await self._landed()
            self._end_the_producer(explanation)
        elif self.table.state is State.ABORTABLE:
            self._drop(FAILED_ELSEWHERE, explanation)
            await self._landed()
            async with self.coordinator_lock:
                if self.parts.ended or self.table.failure() is None:
                    return
                renewed = await self._renewed_after_its_time()
                if renewed is None or renewed.answer is not Answer.DONE:
                    self._end_the_producer(ProducerFencedError(cause=explanation))

    # -- the calls

    async def init(self, transactional_id: str | None, timeout: float) -> None:
        """Get a producer id, end what is open under it, and fence whoever used it before."""
        name = self.sought if transactional_id is None else checked_transactional_id(transactional_id)
        self.table.check(Event.INIT)
        if name != self.sought:
            self._go_over_to(name)
        # Whoever names the id wants to have it, from whomever; without a name the question is whether it is still ours.
        goes_on = transactional_id is None and self._knows_itself(name)
        work = partial(self._initialize, name, goes_on=goes_on)
        operation = self._begin_or_join(Event.INIT, work)
        await self._wait(operation, timeout, "the coordinator gave no producer id in time")

    def _go_over_to(self, name: str) -> None:
        """What is open under the present id has to be ended under it first; nobody else would."""
        initializing = self.table.state is State.INITIALIZING
        if self.table.state in ENDING or (initializing and self._has_more_to_end()):
            raise StateError(
                f"init_transactions({name!r}) is not possible before the transaction of {self.sought!r} has ended: "
                "await producer.init_transactions() first"
            )
        if initializing and self.operation is not None:
            text = f"init_transactions({name!r}) was called while init_transactions() for {self.sought!r} went on"
            self.operation.replace(StateError(text))
            self.operation = None
        self.sought = name

    async def begin(self, timeout: float) -> None:
        """Open a transaction; nothing is asked of anybody, but after an upgrade of the cluster."""
        self.table.check(Event.BEGIN)
        level = level_of(self.engine.addresses.features)
        if level == 2 and self.used:
            await self.init(None, timeout)
        self.table.move(Event.BEGIN)
        self.number += 1
        self.current.begin(level)
        self.looks = False
        self.began_at = self.loop.time()
        self.used = level == 1
        self.sequences.begin(self.parts.partitions if level == 1 else None)
        self.engine.settlement.ending = None
        # What was lost in a transaction before was given up with it, and keeps nothing of this one from being written.
        self.engine.settlement.gaps_seen()
        self.accepting_changed()

    def on_refused(self, error: BaseException) -> None:
        """A `send()` in the transaction failed, or was refused while it waited."""
        if isinstance(error, KafkaError):
            self._failed(error)

    def record_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Keep offsets that are sent with the commit."""
        self.table.move(Event.SEND_OFFSETS)
        self.parts.record(group, offsets)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, timeout: float
    ) -> None:
        """Make offsets of a group a part of the transaction, now."""
        self.record_offsets(offsets, group)
        operation = self._start(Event.SEND_OFFSETS, self._deliver_offsets)
        if not await operation.joined(timeout):
            raise TransactionTimeoutError(
                "timed out waiting for the coordinators to accept the offsets",
                waited=timeout,
                cause=self.trouble(),
            )

    async def commit(self, timeout: float) -> None:
        """Wait for all records, then have the transaction committed; join that if it goes on already."""
        operation = self._begin_or_join(Event.COMMIT, self._commit)
        try:
            done = await operation.joined(timeout)
            if done:
                self._caller_notified(operation, Event.ENDED)
        finally:
            self._left(operation)
        if not done:
            self.counts.in_doubt(self.number)
            raise CommitOutcomeUnknownError(waited=timeout, cause=self.trouble())

    async def abort(self, timeout: float) -> None:
        """Drop what was not sent, wait for what was, then have the transaction aborted; join that if it goes on already."""
        operation = self._begin_or_join(Event.ABORT, self._abort)
        self.last_abort.note(self.number)
        await self._wait(
            operation, timeout, "the coordinator did not abort the transaction in time", Event.ENDED
        )

    async def detach(self, timeout: float) -> tuple[str, int, int, int, bool]:
        """Wait for all records and offsets, and leave the transaction open for somebody else to end."""
        operation = self._begin_or_join(Event.DETACH, self._gather)
        await self._wait(operation, timeout, "the records had no outcome in time", Event.HANDED_OVER)
        return self.transactional_id, *self._identity(), self.parts.level, self.parts.is_empty

    async def join_what_goes_on(self, timeout: float) -> None:
        """Before a transaction begins: get a producer id, or wait for the end of an abort that somebody left."""
        if self.table.state is State.ABORTING:
            await self.abort(timeout)
        if self.table.state in (State.UNINITIALIZED, State.INITIALIZING):
            await self.init(None, timeout)

    async def wind_up(self, timeout: float) -> None:
        """The producer closes: an open transaction is aborted, what was begun is waited for."""
        if self.table.state is State.FATAL:
            return
        for pause in (*PAUSES_AT_CLOSING, None):
            try:
                await self._finished(timeout)
                await self._end_at_closing(timeout)
                return
            except KafkaError as error:
                if pause is None or not self._end_has_no_answer():
                    self.engine.log.warning(
                        "close() could not end the open transaction of %r: %s",
                        self.transactional_id,
                        error,
                    )
                    return
            await anyio.sleep(pause)

    async def _end_at_closing(self, timeout: float) -> None:
        """Have what is open ended; after an answer without a meaning nobody else asks again, and readers would wait."""
        again = self._end_has_no_answer()
        if again and self.table.state is State.UNCERTAIN:
            await self.commit(timeout)
        elif again or self.table.state in (State.IN_TRANSACTION, State.ABORTABLE, State.DETACHING):
            await self.abort(timeout)

    def _end_has_no_answer(self) -> bool:
        """Whether the end was asked for and answered without a meaning, and is not being asked for."""
        return self.operation is None and self.table.state in (State.ABORTING, State.UNCERTAIN)

    async def _finished(self, timeout: float) -> None:
        """Wait for what goes on, if anything is to be ended by it, or somebody waits for a handle."""
        operation = self.operation
        if operation is None or (operation.event is Event.DETACH and not operation.is_watched):
            return
        if operation.event is Event.INIT and not self._has_more_to_end():
            return
        # It leaves a transaction that can only be aborted.
        with contextlib.suppress(TransactionAbortedError):
            await operation.joined(timeout)

    def _has_more_to_end(self) -> bool:
        return not (self.parts.is_empty or self.parts.ended)

    def close_idle(self, now: float, limit: float) -> None:
        """Close connections over which nothing was asked for so many seconds."""
        for coordinator in (self.coordinator, *self.groups.values()):
            if coordinator.connection is not None and is_idle(coordinator.connection, now, limit):
                coordinator.forget()

    def give_up(self, error: KafkaError) -> None:
        """The producer ends: nobody waits any longer."""
        operation = self.operation
        if operation is not None and operation.event is Event.COMMIT and self.parts.asked_to_commit:
            text = "the producer ended before an answer to the commit came"
            operation.end(CommitOutcomeUnknownError(text, cause=error))
        self._tell_all(error)
        self.after_marker_delay.close()
        for coordinator in (self.coordinator, *self.groups.values()):
            coordinator.forget()

    # -- operations

    def _start(self, event: Event, work: Callable[[], Awaitable[None]]) -> Operation:
        operation = Operation(event, self.loop, self._operation_ended)
        tasks = self.engine.tasks
        if tasks is None:
            raise StateError("the producer's tasks have ended")
        self.going_on.add(operation)
        tasks.start_soon(operation.run, partial(self._work, work), name=f"aioproducer {event.value}")
        return operation

    def _operation_ended(self, operation: Operation) -> None:
        self.going_on.discard(operation)
        if operation.event is Event.COMMIT:
            seconds = self.loop.time() - operation.began_at
            self.counts.commit_ended(self.number, operation.error, seconds)
        elif operation.event is Event.ABORT:
            self.counts.abort_ended(operation.error)

    def _tell_all(self, error: KafkaError) -> None:
        for operation in list(self.going_on):
            operation.end(error)

    async def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ProtocolError as error:
            cause = TransactionError(
                "the brokers lack an API version that this transaction needs", cause=error
            )
            self._end_the_producer(cause)
            raise cause from error

    def _begin_or_join(self, event: Event, work: Callable[[], Awaitable[None]]) -> Operation:
        self.table.move(event)
        if self.operation is not None:
            if self.operation.event is event:
                return self.operation
            # Whoever answers in turn would answer what is given up first.
            self.coordinator.forget()
        if event in (Event.ABORT, Event.INIT):
            for operation in list(self.going_on):
                text = f"{event.value} was called while {operation.event.value} went on"
                operation.replace(StateError(text))
        self.accepting_changed()
        self.operation = self._start(event, work)
        return self.operation

    async def _wait(
        self, operation: Operation, timeout: float, text: str, event: Event = Event.INITIALIZED
    ) -> None:
        if not await operation.joined(timeout):
            text = f"{text}; the same call again joins the attempt"
            raise TransactionTimeoutError(text, waited=timeout, cause=self.trouble())
        self._caller_notified(operation, event)

    def trouble(self) -> KafkaError | None:
        """What keeps coordinators from answering."""
        asked = (self.coordinator, *self.groups.values())
        return next((one.trouble for one in asked if one.trouble is not None), None)

    def _caller_notified(self, operation: Operation, event: Event) -> None:
        """Somebody has heard of its success, so that the next call may follow."""
        if self.operation is operation:
            self.operation = None
            self.table.move(event)

    def _left(self, operation: Operation) -> None:
        # It may have ended in this very moment: who was cancelled before hearing of that is told nothing.
        left_alone = self.operation is operation and not operation.is_watched
        if left_alone and self.table.state is State.COMMITTING:
            self.table.move(Event.LEFT_ALONE)

    # -- what they do

    async def _initialize(self, name: str, *, goes_on: bool) -> None:
        self.add_partitions_scope.cancel()
        self._drop("init_transactions() was called before the record was sent", None)
        await self._landed()
        async with self.coordinator_lock:
            if name != self.transactional_id:
                self.coordinator.forget()
                self.coordinator = Coordinator(self.engine, Key.TRANSACTION, name, self.coordinator.contact)
            # Known in turn only: whoever had it before may just have got another.
            reply = await (self.renewal.renew(self._identity()) if goes_on else self.renewal.take_over())
        if reply.answer is Answer.DONE:
            self.parts.ended = True
            return
        if self.parts.asked_to_commit and not self.parts.ended:
            # The commit in whose place this came has no answer, and never will: it may have been done.
            reply = reply._replace(undecided=reply.undecided + 1)
        error = fatal_error(reply)
        if reply.answer in (Answer.REFUSED, Answer.ABORTABLE):
            self.operation = None
            self.table.move(Event.NOT_INITIALIZED)
        else:
            self._end_the_producer(error)
        raise error

    def _knows_itself(self, name: str) -> bool:
        """Whether to be told of another producer that took over meanwhile, in place of taking over from it."""
        known = self.sequences.identity is not None and name == self.identified_as
        return known and self.table.state is not State.DETACHED

    def obtained(self, producer_id: int, epoch: int) -> None:
        """This is the identity from now on."""
        self.sequences.obtained(producer_id, epoch)
        self.identified_as = self.transactional_id
        self.used = False

    async def _commit(self) -> None:
        await self._gather()
        if not self.parts.is_empty:
            async with self.coordinator_lock:
                await self._end(committed=True)

    async def _gather(self) -> None:
        """All records have their outcome, and all offsets are sent."""
        self.engine.accumulator.send_all_now(self.loop.time())
        await self._deliver_offsets()
        await self._landed()
        if self.coordinator_lock.locked():
            # What another call is just sending is not a part of it yet, and a handle may be used as soon as it is given.
            async with self.coordinator_lock:
                pass

    async def _landed(self) -> None:
        """Everything that was accepted, or waits to be, has its outcome."""
        while True:
            for delivery in self.queued():
                await delivery.wait(None)
            await self.engine.flush()
            if self.engine.admission.waiting:
                await self.engine.nobody_waits()
            elif not self.engine.unresolved():
                return

    async def _abort(self) -> None:
        self.add_partitions_scope.cancel()
        self._drop("the transaction was aborted before the record was sent", None)
        await self._landed()
        async with self.coordinator_lock:
            if not self._has_more_to_end():
                # Nothing was asked of anybody, or whoever had its turn before has found that its time was over.
                return
            if self.parts.level == 1 and not self.parts.is_clean:
                # What is on its way may come later than any EndTxn; only a new epoch keeps it out of the next transaction.
                await self._require(await self.renewal.renew(self._identity()))
                self.parts.ended = True
            else:
                await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        async def attempt(connection: Connection) -> int:
            self.parts.asked_to_commit = committed
            return await self.ask_to_end(connection, self._identity(), committed=committed)

        reply = await self.coordinator.settle(Request.COMMIT if committed else Request.ABORT, attempt)
        if self.parts.doubtful_ends:
            reply = reply._replace(undecided=reply.undecided + self.parts.doubtful_ends)
        if reply.answer is Answer.ABORTABLE and not committed:
            # The broker has forgotten this producer: a new epoch ends the transaction as well.
            reply = await self.renewal.renew(self._identity())
        if reply.answer is Answer.UNDECIDED:
            self._end_is_in_doubt(reply, committed=committed)
        await self._require(reply)
        self.parts.ended = True
        if reply.lost and self.parts.level == 1:
            # An EndTxn without an answer may come late, and would end the next transaction of the same epoch.
            bumped = await self.renewal.renew(self._identity())
            if committed and bumped.answer is not Answer.DONE:
                self._end_behind_the_commit(fatal_error(bumped))
            await self._require(bumped)

    def _end_is_in_doubt(self, reply: Reply, *, committed: bool) -> NoReturn:
        """The coordinator has answered without a meaning. The producer goes on; whoever called may ask again."""
        self.operation = None
        self.parts.doubtful_ends += 1
        if not committed:
            text = "the coordinator did not report whether it aborted the transaction: await abort_transaction() again"
            raise TransactionError(text, cause=error_of(reply), outcome=Outcome.UNKNOWN)
        if self.table.state is State.COMMITTING:
            self.table.move(Event.LEFT_ALONE)
        text = "the coordinator did not report whether it committed the transaction"
        raise CommitOutcomeUnknownError(text, cause=error_of(reply))

    async def ask_to_end(self, connection: Connection, identity: Identity, *, committed: bool) -> int:
        """Ask once for the end of what is open; on level 2 the answer has the identity from then on."""
        answer = await self._requests(identity).end(connection, committed=committed)
        if not answer.error_code and self.parts.level > 1:
            self.obtained(answer.producer_id, answer.producer_epoch)
            self.marker_delay.ended(self.loop.time())
        if answer.error_code in REFUSES_TO_END and self.parts.level > 1:
            return await self._why_not_ended(connection, identity, answer.error_code)
        return answer.error_code

    async def _why_not_ended(self, connection: Connection, identity: Identity, code: int) -> int:
        """An end is refused also while the markers of the transaction before are written: then it is asked again."""
        looked, standing = await look(connection, self.coordinator)
        # A coordinator that has moved, or is loading, cannot tell: that says nothing against this identity.
        passes = tells_later(looked) if looked else standing.passes(code, identity)
        return ErrorCode.CONCURRENT_TRANSACTIONS if passes else code

    def _end_behind_the_commit(self, error: KafkaError) -> None:
        """This producer may not go on, but what it has committed is committed, and who waits for that is told so."""
        operation, self.operation = self.operation, None
        if operation is not None:
            operation.end(None)
        self._end_the_producer(error)
        raise error

    async def _deliver_offsets(self) -> None:
        while self.parts.recorded:
            async with self.coordinator_lock:
                if not self.parts.recorded:
                    return
                name = next(iter(self.parts.recorded))
                group, offsets = self.parts.recorded.pop(name)
                await self._add_group(name)
                await self._commit_offsets(group, offsets)

    async def _add_group(self, name: str) -> None:
        if self.parts.level > 1 or name in self.parts.groups:
            self.parts.groups.add(name)
            return

        await self._add(
            self.coordinator,
            Request.ADD_OFFSETS,
            lambda connection: self._requests(self._identity()).add_group(connection, name),
        )
        self.parts.groups.add(name)

    async def _commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        left = dict(offsets)

        coordinator = self.groups.get(group.group_id)
        if coordinator is None:
            if len(self.groups) >= MOST_GROUPS:
                self.groups.pop(next(iter(self.groups))).forget()
            coordinator = Coordinator(self.engine, Key.GROUP, group.group_id, Contact(self.engine.log))
            self.groups[group.group_id] = coordinator
        await self._add(
            coordinator,
            Request.COMMIT_OFFSETS,
            lambda connection: self._requests(self._identity()).commit_offsets(connection, group, left),
        )

    def _requests(self, identity: Identity) -> TransactionRequests:
        """Made for each question: an answer may have changed the identity."""
        return TransactionRequests(
            self.transactional_id, *identity, self.parts.level, self.coordinator.timeout
        )

    def _identity(self) -> Identity:
        assert self.sequences.identity is not None  # noqa: S101  # the table allows nothing without
        return self.sequences.identity

    # -- what fails

    def _drop(self, text: str, cause: KafkaError | None) -> None:
        """Nothing more is sent: what is not on its way ends now, and the rest when it comes back."""
        aborted: KafkaError = TransactionAbortedError(
            text, cause=cause, retriable=cause is None or self.table.passes()
        )
        if isinstance(cause, ProducerFencedError):
            aborted = cause

        def refusal(call: Waiting) -> KafkaError:
            if isinstance(cause, ProducerFencedError):
                return copy.copy(cause)
            return TransactionAbortedError(text, topic=call.topic, cause=cause, retriable=aborted.retriable)

        def ended(batch: QueuedBatch) -> KafkaError:
            if batch.attempts:
                self.parts.failed = True
            return DeliveryError(
                text,
                topic=batch.topic,
                partition=batch.partition,
                outcome=Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN,
                attempts=batch.attempts,
                cause=aborted,
                retriable=aborted.retriable,
            )

        self.parts.wanted.clear()
        self.engine.admission.refuse_all(refusal)
        self.engine.settlement.end_all(ended, self.loop.time())

    async def _require(self, reply: Reply) -> None:
        """Raise what an answer means, if it is not that all went well."""
        if reply.answer is Answer.DONE:
            return
        # A commit that may have been done is not told as aborted, whatever a later attempt was answered.
        may_be_committed = reply.request is Request.COMMIT and reply.undecided > 0
        if (
            reply.answer is Answer.ABORTABLE
            and self.table.state is not State.ABORTING
            and not may_be_committed
        ):
            self._failed(error_of(reply))
        else:
            last = reply
            if reply.answer is Answer.SUPERSEDED:
                last = await self._renewed_after_its_time(may_be_over=_may_be_over(reply)) or reply
            if last.answer is not Answer.DONE:
                error = fatal_error(last)
                self._end_the_producer(error)
                raise error
        if self.table.state is not State.ABORTING:
            raise self.table.aborted(f"{reply.request.value} is not possible")

    async def _renewed_after_its_time(self, *, may_be_over: bool = False) -> Reply | None:
        """What asking for the next epoch came to; None if it was not the coordinator that aborted the transaction by itself."""
        if may_be_over and self.parts.level == 1:
            # It may have ended without a trace, so that another producer could begin, and be aborted.
            return None
        identity = self._identity()
        standing = await standing_of(self.coordinator) if self.parts.was_opened else None
        if standing is None or not standing.follows(identity, ABORTED):
            return None
        reply = await self.renewal.renew(identity)
        if reply.answer is Answer.DONE:
            self.parts.ended = True
            self._failed(self._aborted_by_others())
        return reply

    def _aborted_by_others(self) -> TransactionError:
        limit = self.engine.config.transaction_timeout_ms / 1000
        why = (
            f"it exceeded its time limit of {limit:g} s (transaction_timeout_ms)"
            if self.loop.time() - self.began_at >= limit
            else "somebody asked it to"
        )
        return TransactionError(f"the coordinator aborted the transaction: {why}", retriable=True)

    def overtaken(self) -> None:
        """Another producer has taken over the transactional id."""
        self._end_the_producer(ProducerFencedError())

    def _end_the_producer(self, error: KafkaError) -> None:
        self.table.refused(error)
        self.accepting_changed()
        self._tell_all(error)
        self.engine.crash(error)


def _nothing() -> None:
    pass


def _may_be_over(reply: Reply) -> bool:
    """Whether an attempt may have ended the transaction that is refused now."""
    ends = reply.request in (Request.COMMIT, Request.ABORT)
    return (reply.undecided if ends else reply.lost) > 0
