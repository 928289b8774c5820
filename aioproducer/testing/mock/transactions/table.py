"""The transactions of a `MockProducer` as a table: which call is allowed in which state.

Names, texts and moves are the real producer's, without the states in which it waits for a coordinator: here nobody
has to be asked. `testing` does not import what decides there; that both agree is a test.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from aioproducer.errors import BrokerError, KafkaError, StateError, TransactionAbortedError


class State(enum.Enum):
    """Where the mock stands. The value goes on from "the producer ..." and says what to do."""

    UNINITIALIZED = "has no producer id yet: await producer.init_transactions()"
    READY = "has no open transaction: await producer.begin_transaction()"
    IN_TRANSACTION = "has an open transaction: commit or abort it first"
    COMMITTING = "is committing: await producer.commit_transaction() again to join that"
    UNCERTAIN = (
        "has not heard what became of its commit: await producer.commit_transaction() again, or settle it by "
        "producer.init_transactions()"
    )
    ABORTABLE = "has a transaction that can only be aborted: await producer.abort_transaction()"
    DETACHING = "is about to hand its transaction over: await tx.detach() again to join that"
    DETACHED = "gave its transaction to a handle: await producer.init_transactions() before the next"
    FATAL = "cannot go on: close it"


class Event(enum.Enum):
    """What is asked for, and what happened. The value of a call is what it is called in an error."""

    INIT = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    SEND_OFFSETS = "send_offsets_to_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    DETACH = "detach()"

    ENDED = "the transaction ended"
    FAILED = "a part of the transaction failed"
    LEFT_ALONE = "nobody waits for the commit any more"
    HANDED_OVER = "a handle was given out"
    REFUSED = "this producer may not go on"


# The producer, its sequence or its transaction were not what the broker expects: another transaction has an epoch of
# its own.
OVER_WITH_THE_EPOCH: Final = frozenset({45, 47, 48, 59, 120})
_S, _E = State, Event
# While a transaction is there or ends, nobody begins another: a task that tries has its own, and nothing to join.
UNDER_WAY = frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.DETACHING})
ONE_AT_A_TIME = (
    "has one transaction at a time, and another one is open or about to end: begin behind its end (an asyncio.Lock around "
    "transaction() does that), or give each task a producer with a transactional_id of its own"
)
MOVES: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        (_S.UNINITIALIZED, _E.INIT): _S.READY,
        (_S.READY, _E.INIT): _S.READY,
        (_S.DETACHED, _E.INIT): _S.READY,
        (_S.UNCERTAIN, _E.INIT): _S.READY,
        (_S.ABORTABLE, _E.INIT): _S.READY,
        (_S.READY, _E.BEGIN): _S.IN_TRANSACTION,
        (_S.IN_TRANSACTION, _E.SEND): _S.IN_TRANSACTION,
        (_S.IN_TRANSACTION, _E.SEND_OFFSETS): _S.IN_TRANSACTION,
        (_S.IN_TRANSACTION, _E.FAILED): _S.ABORTABLE,
        (_S.IN_TRANSACTION, _E.COMMIT): _S.COMMITTING,
        (_S.COMMITTING, _E.COMMIT): _S.COMMITTING,
        (_S.COMMITTING, _E.ENDED): _S.READY,
        (_S.COMMITTING, _E.LEFT_ALONE): _S.UNCERTAIN,
        (_S.COMMITTING, _E.FAILED): _S.ABORTABLE,
        (_S.UNCERTAIN, _E.COMMIT): _S.COMMITTING,
        (_S.UNCERTAIN, _E.FAILED): _S.ABORTABLE,
        (_S.IN_TRANSACTION, _E.ABORT): _S.READY,
        (_S.ABORTABLE, _E.ABORT): _S.READY,
        (_S.IN_TRANSACTION, _E.DETACH): _S.DETACHING,
        (_S.DETACHING, _E.DETACH): _S.DETACHING,
        (_S.DETACHING, _E.FAILED): _S.ABORTABLE,
        (_S.DETACHING, _E.ABORT): _S.READY,
        (_S.DETACHING, _E.HANDED_OVER): _S.DETACHED,
        **{(state, _E.REFUSED): _S.FATAL for state in _S},
    }
)


@attrs.define(eq=False)
class MockTable:
    """Where one mock stands, and why, when it cannot go on."""

    state: State = State.UNINITIALIZED
    cause: KafkaError | None = None
    """What failed first in the transaction that can only be aborted; what ended the mock."""

    def check(self, event: Event) -> None:
        """Raise the error of a call that is not possible now."""
        if (self.state, event) in MOVES:
            return
        if self.state is State.FATAL and self.cause is not None:
            raise copy.copy(self.cause)
        if self.state is State.ABORTABLE and event in (_E.SEND, _E.SEND_OFFSETS, _E.COMMIT, _E.DETACH):
            raise self.aborted(f"{event.value} is not possible")
        what = ONE_AT_A_TIME if event is _E.BEGIN and self.state in UNDER_WAY else self.state.value
        raise StateError(f"{event.value} is not possible now ({self.state.name}): the producer {what}")

    def move(self, event: Event) -> None:
        """Go where the event leads; a call that is not possible raises."""
        self.check(event)
        self.state = MOVES[self.state, event]
        if event is Event.BEGIN:
            self.cause = None

    def failed(self, error: KafkaError) -> bool:
        """A part of the transaction failed; True when that is news."""
        if (self.state, Event.FAILED) not in MOVES:
            return False
        self.cause = error
        self.move(Event.FAILED)
        return True

    def refused(self, error: KafkaError) -> None:
        """The mock may not go on."""
        self.cause = error
        self.move(Event.REFUSED)

    def failure(self) -> TransactionAbortedError | None:
        """Why the transaction can only be aborted, if that is so."""
        return self.aborted("it cannot be committed") if self.state is State.ABORTABLE else None

    def passes(self) -> bool:
        """Whether what failed may succeed in another transaction."""
        cause = self.cause
        late = isinstance(cause, BrokerError) and cause.code in OVER_WITH_THE_EPOCH
        return cause is None or cause.retriable or late

    def aborted(self, text: str) -> TransactionAbortedError:
        """The error of everything that the failed transaction makes impossible."""
        return TransactionAbortedError(
            f"{text}: a part of the transaction failed, so that it can only be aborted",
            cause=self.cause,
            retriable=self.passes(),
        )
