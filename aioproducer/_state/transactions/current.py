"""The present transaction: its state, its parts, its failures, and the meaning of refused records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.transactions.coordinator_verdicts import ENDS_THE_PRODUCER, SUSPICIOUS
from aioproducer._state.transactions.dialogues.steps import EndCalls, EndProducer, RefuseCalls
from aioproducer._state.transactions.giving_up import GivenUp
from aioproducer._state.transactions.marker_delay import MarkerDelay
from aioproducer._state.transactions.parts import TransactionParts
from aioproducer._state.transactions.replies import fatal_error
from aioproducer._state.transactions.table import Event, State, TransactionTable
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import BrokerError, ProducerFencedError, TransactionError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aioproducer._state.identity.standing import Identity
    from aioproducer._state.queues.batches import PartitionAnswer, QueuedBatch
    from aioproducer._state.queues.partition_queue import PartitionQueue
    from aioproducer._state.transactions.dialogues.steps import Step
    from aioproducer._state.transactions.ownership import Ownership
    from aioproducer._state.transactions.replies import Reply
    from aioproducer.errors import KafkaError
    from aioproducer.records import GroupMetadata, OffsetAndMetadata, TopicPartition

WITH_RECORDS = frozenset(
    {State.IN_TRANSACTION, State.COMMITTING, State.UNCERTAIN, State.DETACHING, State.ABORTABLE}
)


class CurrentTransaction:
    """The transaction that is open, or was the last. `time_limit` is the longest time of a transaction, in seconds."""

    def __init__(self, ownership: Ownership, time_limit: float) -> None:
        self.ownership = ownership
        self.time_limit = time_limit
        self.table = TransactionTable()
        # Before the first transaction the level is not known.
        self.parts = TransactionParts(level=1)
        self.marker_delay = MarkerDelay()
        # The number of transactions that were begun.
        self.number = 0
        self.began_at = 0.0
        # Batches that were refused for a reason that only the coordinator knows. They have no outcome before it has answered.
        self.unexplained: list[tuple[QueuedBatch, PartitionAnswer]] = []
        # There are such batches, and the coordinator was not asked yet.
        self.must_ask_why = False
        # The reason that the coordinator gave.
        self.explanation: KafkaError | None = None
        # Set while the transaction is given up.
        self.given_up: GivenUp | None = None

    @property
    def identity(self) -> Identity:
        """The present producer id and epoch."""
        return self.ownership.identity

    @property
    def has_more_to_end(self) -> bool:
        """Whether the coordinator has, or may have, something open that this producer has to end."""
        return not (self.parts.is_empty or self.parts.ended or self.table.is_handed_over)

    @property
    def may_be_committed(self) -> bool:
        """Whether it is committed, or may be, and no caller knows."""
        return self.parts.may_be_committed and (not self.parts.ended or self.table.is_untold)

    # -- the calls of users

    def begin(self, level: int, now: float) -> None:
        """A transaction begins."""
        # Made before the state changes: without memory for them the transaction has not begun.
        parts, number = TransactionParts(level), self.number + 1
        self.table.move(Event.BEGIN)
        self.parts, self.number = parts, number
        self.began_at = now
        self.explanation = self.given_up = None
        self.must_ask_why = False
        self.ownership.is_used = level == 1
        self.ownership.sequences.begin(self.parts.partitions if level == 1 else None)

    def needs_epoch(self, level: int) -> bool:
        """Whether the next transaction needs an epoch of its own first: the cluster has changed to level 2."""
        return level == 2 and self.ownership.is_used

    def record_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Keep offsets until they are sent, with the commit at the latest."""
        self.table.move(Event.SEND_OFFSETS)
        self.parts.record(group, offsets)

    def give_up(self, text: str, cause: KafkaError | None = None) -> GivenUp:
        """Nothing more of it is sent."""
        self.parts.wanted.clear()
        return GivenUp.because(text, cause, retriable=cause is None or self.table.passes())

    # -- records

    def opened(self, queue: PartitionQueue) -> bool:
        """A batch was opened. On level 1 its partition may have to be added first: True if so."""
        place = (queue.topic.name, queue.index)
        if self.parts.level != 1 or place in self.parts.partitions:
            return False
        self.parts.wanted[place] = queue
        return True

    def sent(self, now: float) -> None:
        """A request with records is written."""
        self.parts.records_sent = True
        self.marker_delay.sent(now)

    def end_of(self, batch: QueuedBatch) -> KafkaError | None:
        """The error of a batch that came back unwritten, if the transaction is given up."""
        if self.given_up is None:
            return None
        if batch.attempts:
            self.parts.failed = True
        return self.given_up.error_of(batch)

    def lost(self, error: KafkaError) -> tuple[Step, ...]:
        """A record of the transaction is not written, or its outcome is unknown."""
        self.parts.failed = True
        if isinstance(error, BrokerError) and error.code in ENDS_THE_PRODUCER:
            return self.ends_with(TransactionError("a broker refuses records of this producer", cause=error))
        return self.failed(error)

    def is_suspicious(self, code: int) -> bool:
        """Whether only the coordinator knows why a batch was refused so."""
        return code in SUSPICIOUS and (code != ErrorCode.INVALID_TXN_STATE or self.parts.was_opened)

    def is_in_doubt(self, code: int) -> bool:
        """Whether the records of a batch that was refused so get their outcome after the coordinator was asked."""
        return self.is_suspicious(code) and self.explanation is None and self.table.state in WITH_RECORDS

    def explanation_of(self, code: int) -> KafkaError | None:
        """The reason behind such a refusal, once the coordinator has answered."""
        return self.explanation if self.is_suspicious(code) else None

    # -- failures

    def failed(self, error: KafkaError) -> tuple[Step, ...]:
        """A part of the transaction failed, so that it can only be aborted."""
        return (EndCalls(),) if self.table.failed(error) else ()

    def taken_over(self, error: KafkaError) -> tuple[Step, ...]:
        """Another producer has the transactional id. The producer ends when its records have their outcome."""
        self.table.refused(error)
        return (RefuseCalls(error),)

    def fatal_error(self, reply: Reply) -> KafkaError:
        """The error of an answer that ends the producer."""
        error = fatal_error(reply)
        is_fenced = isinstance(error, ProducerFencedError)
        return self.fenced(error.cause, error.outcome) if is_fenced else error

    def fenced(
        self, cause: BaseException | None, outcome: Outcome = Outcome.NOT_WRITTEN
    ) -> ProducerFencedError:
        """The error of an identity that is not the newest of its transactional id."""
        if not self.parts.is_unclear:
            return ProducerFencedError(outcome=outcome, cause=cause)
        # Without the cause, whose text names a takeover alone.
        text = (
            "another producer took over this transactional id, or the transaction exceeded its time limit of "
            f"{self.time_limit:g} s (transaction_timeout_ms) while the coordinator could not be asked: its state fits "
            "both. Close this producer; if no other producer uses the id, create a new one and begin again"
        )
        return ProducerFencedError(text, outcome=outcome)

    def ends_with(self, error: KafkaError) -> tuple[Step, ...]:
        """The producer cannot go on."""
        self.table.refused(error)
        return (EndProducer(error),)
