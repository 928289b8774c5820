"""The operations of one producer: calls for transactions as tasks that callers join."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from aioproducer._net.transactions.conversation import converse
from aioproducer._net.transactions.operation import Operation
from aioproducer._state.transactions.table import Event, State
from aioproducer.errors import (
    CommitOutcomeUnknownError,
    KafkaError,
    ProtocolError,
    StateError,
    TransactionError,
    TransactionTimeoutError,
)
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._net.transactions.transactions import Transactions
    from aioproducer._state.transactions.counts import TransactionCounts
    from aioproducer._state.transactions.dialogues.steps import Dialogue


class Operations:
    """At most one operation changes the state of the transaction; deliveries of offsets may go on beside it."""

    def __init__(self, transactions: Transactions, counts: TransactionCounts) -> None:
        self._transactions = transactions
        self._current = transactions.current
        self.present: Operation | None = None
        self._going_on: set[Operation] = set()
        self.counts = counts

    def start(self, event: Event, dialogue: Dialogue[None]) -> Operation:
        """Begin an operation beside the present one."""
        host = self._transactions.host
        if host.tasks is None or host.tasks.are_cancelled:
            raise StateError("the producer's tasks have ended")
        operation = Operation(event, host.loop, self._ended)
        self._going_on.add(operation)
        host.tasks.start_soon(
            operation.run, partial(self._work, operation, dialogue), name=f"aioproducer {event.value}"
        )
        return operation

    async def _work(self, operation: Operation, dialogue: Dialogue[None]) -> None:
        steps = self._transactions.steps
        try:
            await converse(dialogue, steps.perform)
        except ProtocolError as error:
            text = "the brokers lack an API version that this transaction needs"
            is_about_it = operation.event in (Event.COMMIT, Event.INIT) and self._current.may_be_committed
            outcome = Outcome.UNKNOWN if is_about_it else Outcome.NOT_WRITTEN
            cause = TransactionError(text, cause=error, outcome=outcome)
            steps.follow(self._current.ends_with(cause))
            raise cause from error
        except KafkaError:
            raise
        except BaseException:
            text = f"the producer ended before {operation.event.value} did"
            self._end_with_producer(operation, StateError(text))
            raise

    def begin_or_join(self, event: Event, dialogue: Callable[[], Dialogue[None]]) -> Operation:
        """Join the present operation if it is the same call. Begin the operation otherwise."""
        self._current.table.move(event)
        if self.present is not None:
            if self.present.event is event:
                return self.present
            # The present operation may wait for an answer, which would delay this one.
            self._transactions.coordinators.of_id.give_up_answers()
        if event in (Event.ABORT, Event.INIT):
            self.replace_all(
                lambda operation: StateError(
                    f"{event.value} was called while {operation.event.value} went on"
                )
            )
        self._transactions.accepting_changed()
        self.present = self.start(event, dialogue())
        return self.present

    async def wait(
        self, operation: Operation, timeout: float, text: str, event: Event = Event.INITIALIZED
    ) -> None:
        """Wait for the success of an operation, which is the fact `event` in the table. `text`: for a timeout."""
        if not await operation.joined(timeout):
            text = f"{text}; the same call again joins the attempt"
            raise TransactionTimeoutError(text, waited=timeout, cause=self._transactions.trouble())
        self.notified(operation, event)

    def notified(self, operation: Operation, event: Event) -> None:
        """A caller learns of the success, so that the next call may follow."""
        if self.present is operation:
            self.present = None
            self._current.table.move(event)

    def left(self, operation: Operation) -> None:
        """A caller does not wait for a commit any more."""
        # The commit may have ended just now: a caller that was cancelled before it could learn of that does not know the outcome.
        left_alone = self.present is operation and not operation.is_watched
        if left_alone and self._current.table.state is State.COMMITTING:
            self._current.table.move(Event.LEFT_ALONE)

    def end_present(self, error: KafkaError | None) -> None:
        """The present operation has this result, although its task goes on."""
        operation, self.present = self.present, None
        if operation is not None:
            operation.end(error)

    def replace_present(self, error: KafkaError) -> None:
        """Stop the present operation. It is not joined any more, also if it has succeeded and no caller knows."""
        operation, self.present = self.present, None
        if operation is not None:
            operation.replace(error)

    def stop_all(self, error: KafkaError) -> None:
        """All callers get this error. Their operations stop: a commit that went on would be executed without the refused part."""
        self.replace_all(lambda _: error)

    def end_with_producer(self, error: KafkaError) -> None:
        """The producer ends: all callers get this error, or that of a commit of unknown outcome."""
        for operation in list(self._going_on):
            self._end_with_producer(operation, error)

    def _end_with_producer(self, operation: Operation, error: KafkaError) -> None:
        parts = self._current.parts
        if operation.event is Event.COMMIT and parts.may_be_committed:
            text = "the producer ended before an answer to the commit came"
            error = CommitOutcomeUnknownError(text, cause=error)
        elif operation.event is Event.INIT and self._current.may_be_committed:
            text = "the producer ended before init_transactions() had settled a commit without an answer"
            error = TransactionError(text, cause=error, outcome=Outcome.UNKNOWN)
        operation.end(error)

    def replace_all(self, error_of: Callable[[Operation], KafkaError]) -> None:
        """Stop all operations; their callers get these errors."""
        for operation in list(self._going_on):
            operation.replace(error_of(operation))

    def _ended(self, operation: Operation) -> None:
        self._going_on.discard(operation)
        if operation.error is not None and self.present is operation:
            # The same call again begins a new operation.
            self.present = None
        number = self._current.number
        if operation.event is Event.COMMIT:
            seconds = self._transactions.host.loop.time() - operation.began_at
            self.counts.commit_ended(number, operation.error, seconds)
        elif operation.event is Event.ABORT:
            self.counts.abort_ended(operation.error)
