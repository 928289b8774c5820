"""The present transaction: its state, its parts, and what a refused record says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import FENCING
from aioproducer._state.transactions.parts import TransactionParts
from aioproducer._state.transactions.table import State, TransactionTable
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import BrokerError

if TYPE_CHECKING:
    from aioproducer.errors import KafkaError

WITH_RECORDS = frozenset(
    {State.IN_TRANSACTION, State.COMMITTING, State.UNCERTAIN, State.DETACHING, State.ABORTABLE}
)
# A broker that answers a batch so may have ended the transaction, or given its id to another producer.
SUSPICIOUS = FENCING | {ErrorCode.INVALID_TXN_STATE}
# This producer may not write under its id any more.
FINAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class CurrentTransaction:
    """The transaction that is open, or was the last."""

    def __init__(self) -> None:
        self.table = TransactionTable()
        # Of none that was begun: the level is not known before.
        self.parts = TransactionParts(level=1)
        # What the coordinator said when it was asked why leaders refuse records.
        self.explanation: KafkaError | None = None

    def begin(self, level: int) -> None:
        """A transaction begins."""
        self.parts = TransactionParts(level)
        self.explanation = None

    def is_suspicious(self, code: int) -> bool:
        """Whether only the coordinator knows why a batch was refused so."""
        return code in SUSPICIOUS and (code != ErrorCode.INVALID_TXN_STATE or self.parts.was_opened)

    def is_in_doubt(self, code: int) -> bool:
        """Whether the records of a batch that was refused so get their outcome after the coordinator was asked."""
        return self.is_suspicious(code) and self.explanation is None and self.table.state in WITH_RECORDS

    def explanation_of(self, code: int) -> KafkaError | None:
        """The reason behind such a refusal, once the coordinator has answered."""
        return self.explanation if self.is_suspicious(code) else None


def is_final(error: KafkaError) -> bool:
    """Whether a record that was lost so is the last: the producer may not write under its id any more."""
    return isinstance(error, BrokerError) and error.code in FINAL
