"""A transaction as a table: the calls that each state allows, and the next state after each event.

Calls and facts are events. A call that is not in the table is refused with an error that names the state and the event.
`dialogues/` has the steps of each call.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import BrokerError, KafkaError, StateError, TransactionAbortedError


class State(enum.Enum):
    """The state of a transactional producer. The value continues "the producer ...", and says what to do."""

    # `Enum` computes that of the name, in Python, at each look-up in a table.
    __hash__ = object.__hash__

    UNINITIALIZED = "has no producer id yet: await producer.init_transactions()"
    INITIALIZING = "is asking for its producer id: await producer.init_transactions() again to join that"
    READY = "has no open transaction: await producer.begin_transaction()"
    IN_TRANSACTION = "has an open transaction: commit or abort it first"
    COMMITTING = "is committing: await producer.commit_transaction() again to join that"
    UNCERTAIN = (
        "has a commit of unknown outcome: await producer.commit_transaction() again, or resolve it by "
        "producer.init_transactions()"
    )
    ABORTING = "is aborting: await producer.abort_transaction() again to join that"
    ABORTABLE = "has a transaction that can only be aborted: await producer.abort_transaction()"
    DETACHING = "is detaching its transaction: await tx.detach() again to join that"
    DETACHED = "gave its transaction to a handle: await producer.init_transactions() before the next"
    FATAL = "cannot continue: close it"


class Event(enum.Enum):
    """A call or a fact. The value is its name in an error."""

    __hash__ = object.__hash__

    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    SEND_OFFSETS = "send_offsets_to_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    DETACH = "detach()"

    INITIALIZED = "the coordinator gave a producer id"
    NOT_INITIALIZED = "no producer id was given"
    ENDED = "the coordinator ended the transaction"
    FAILED = "a part of the transaction failed"
    LEFT_ALONE = "no caller waits for the commit any more"
    HANDED_OVER = "a handle was given out"
    REFUSED = "this producer may not go on"


CALLS: Final = frozenset(
    {Event.INIT, Event.BEGIN, Event.SEND, Event.SEND_OFFSETS, Event.COMMIT, Event.ABORT, Event.DETACH}
)

# The events after which callers know more, or less, of the end of a transaction.
FACTS_OF_AN_END: Final = frozenset(
    {Event.BEGIN, Event.INITIALIZED, Event.ENDED, Event.FAILED, Event.LEFT_ALONE, Event.HANDED_OVER}
)

# The producer, its sequence or its transaction differ from what the broker expects.
_OVER_WITH_THE_EPOCH: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
_S, _E = State, Event
# No other transaction begins while one is open or ending: a task that tries has nothing to join.
UNDER_WAY = frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING, _S.DETACHING})
ONE_AT_A_TIME = (
    "has one transaction at a time, and another one is open or ending: begin after its end (an asyncio.Lock around "
    "transaction() ensures that), or create a producer with its own transactional_id for each task"
)
MOVES: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        (_S.UNINITIALIZED, _E.INIT): _S.INITIALIZING,
        (_S.READY, _E.INIT): _S.INITIALIZING,
        (_S.DETACHED, _E.INIT): _S.INITIALIZING,
        (_S.INITIALIZING, _E.INIT): _S.INITIALIZING,
        # The coordinator ends the open transaction before it gives the id again, which settles an unknown outcome.
        (_S.UNCERTAIN, _E.INIT): _S.INITIALIZING,
        (_S.ABORTABLE, _E.INIT): _S.INITIALIZING,
        (_S.ABORTING, _E.INIT): _S.INITIALIZING,
        (_S.INITIALIZING, _E.INITIALIZED): _S.READY,
        (_S.INITIALIZING, _E.NOT_INITIALIZED): _S.UNINITIALIZED,
        (_S.READY, _E.BEGIN): _S.IN_TRANSACTION,
        (_S.IN_TRANSACTION, _E.SEND): _S.IN_TRANSACTION,
        (_S.IN_TRANSACTION, _E.SEND_OFFSETS): _S.IN_TRANSACTION,
        (_S.IN_TRANSACTION, _E.FAILED): _S.ABORTABLE,
        (_S.IN_TRANSACTION, _E.COMMIT): _S.COMMITTING,
        (_S.COMMITTING, _E.COMMIT): _S.COMMITTING,
        (_S.COMMITTING, _E.ENDED): _S.READY,
        (_S.COMMITTING, _E.LEFT_ALONE): _S.UNCERTAIN,
        (_S.UNCERTAIN, _E.COMMIT): _S.COMMITTING,
        # A commit waits for records first, and the coordinator may refuse it.
        (_S.COMMITTING, _E.FAILED): _S.ABORTABLE,
        (_S.UNCERTAIN, _E.FAILED): _S.ABORTABLE,
        (_S.IN_TRANSACTION, _E.ABORT): _S.ABORTING,
        (_S.ABORTABLE, _E.ABORT): _S.ABORTING,
        (_S.ABORTING, _E.ABORT): _S.ABORTING,
        (_S.ABORTING, _E.ENDED): _S.READY,
        (_S.IN_TRANSACTION, _E.DETACH): _S.DETACHING,
        (_S.DETACHING, _E.DETACH): _S.DETACHING,
        (_S.DETACHING, _E.FAILED): _S.ABORTABLE,
        # The handle was not given out yet.
        (_S.DETACHING, _E.ABORT): _S.ABORTING,
        (_S.DETACHING, _E.HANDED_OVER): _S.DETACHED,
        **{(state, _E.REFUSED): _S.FATAL for state in _S},
    }
)


@attrs.define(eq=False)
class TransactionTable:
    """The state of one producer, and the reason if it cannot go on."""

    state: State = State.UNINITIALIZED
    cause: KafkaError | None = None
    """The first failure in a transaction that can only be aborted, or the error that ended the producer."""
    is_untold: bool = False
    """No caller has learned the outcome of the commit."""
    is_handed_over: bool = False
    """A handle ends the newest transaction."""

    @property
    def is_open(self) -> bool:
        """Whether records and offsets may be added."""
        return self.state is State.IN_TRANSACTION

    @property
    def waits_for_calls(self) -> bool:
        """Whether the calls that were made before its end began may still add records."""
        return self.state in (State.COMMITTING, State.UNCERTAIN, State.DETACHING)

    @property
    def is_fatal(self) -> bool:
        """Whether the producer cannot go on."""
        return self.state is State.FATAL

    def check(self, event: Event) -> None:
        """Raise the error of a call that is not possible now."""
        if (self.state, event) in MOVES:
            return
        if self.is_fatal and self.cause is not None:
            # A copy, because an error that is raised collects a traceback.
            raise copy.copy(self.cause)
        if self.state is State.ABORTABLE and event in (_E.SEND, _E.SEND_OFFSETS, _E.COMMIT, _E.DETACH):
            raise self.aborted(f"{event.value} is not possible")
        what = ONE_AT_A_TIME if event is _E.BEGIN and self.state in UNDER_WAY else self.state.value
        raise StateError(f"{event.value} is not possible now ({self.state.name}): the producer {what}")

    def move(self, event: Event) -> State:
        """Go to the next state. A call or a fact that the table does not have raises."""
        self.check(event)
        self.state = MOVES[self.state, event]
        if event in FACTS_OF_AN_END:
            self.is_untold, self.is_handed_over = event is Event.LEFT_ALONE, event is Event.HANDED_OVER
        if self.state is State.IN_TRANSACTION and event is Event.BEGIN:
            self.cause = None
        return self.state

    def failed(self, error: KafkaError) -> bool:
        """A part of the transaction failed; True when that is news, or is reported again because not all of it was carried out."""
        if self.state is State.ABORTABLE and self.cause is error:
            return True
        if (self.state, Event.FAILED) not in MOVES:
            return False
        self.cause = error
        self.move(Event.FAILED)
        return True

    def refused(self, error: KafkaError) -> None:
        """This producer may not go on."""
        if not self.is_fatal:
            self.cause = error
            self.move(Event.REFUSED)

    def failure(self) -> TransactionAbortedError | None:
        """The error of a transaction that can only be aborted; None otherwise."""
        return self.aborted("it cannot be committed") if self.state is State.ABORTABLE else None

    def passes(self) -> bool:
        """Whether the failed part may succeed in another transaction."""
        return self.cause is None or _may_pass(self.cause)

    def aborted(self, text: str) -> TransactionAbortedError:
        """The error of a call that the failed transaction makes impossible."""
        return TransactionAbortedError(
            f"{text}: a part of the transaction failed, so it can only be aborted",
            cause=self.cause,
            retriable=self.passes(),
        )


def _may_pass(error: KafkaError) -> bool:
    """Whether the failed part may succeed in another transaction, which has an epoch of its own."""
    return error.retriable or (isinstance(error, BrokerError) and error.code in _OVER_WITH_THE_EPOCH)
