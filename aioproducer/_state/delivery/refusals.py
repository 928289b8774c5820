"""Refusals: the broker refuses a batch, or some of its records, for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.delivery.verdicts import Kind, verdict
from aioproducer._state.effects import event
from aioproducer._wire.error_codes import ERRORS, ErrorCode, describe
from aioproducer.errors import AuthorizationError, BrokerError, RefusedAsTooLargeError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aioproducer._state.delivery.losses import Losses
    from aioproducer._state.delivery.verdicts import Verdict
    from aioproducer._state.queues.batches import PartitionAnswer, QueuedBatch
    from aioproducer.errors import KafkaError

# The limits that keep a batch of one record out of the log; message.max.bytes is the default of the first.
SIZE_LIMITS: Mapping[int, tuple[str, str]] = {
    ErrorCode.MESSAGE_TOO_LARGE: ("max.message.bytes", "of the topic (or message.max.bytes of the brokers)"),
    ErrorCode.RECORD_LIST_TOO_LARGE: ("segment.bytes", "of the topic (or log.segment.bytes of the brokers)"),
}
# The missing permission behind a refusal of Produce.
PERMISSIONS: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the principal may not write this topic: grant it WRITE on the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the principal may not write: grant it IDEMPOTENT_WRITE on the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the principal may not use the transactional id: grant it WRITE on it",
}


class Refusals:
    """Ends refused batches. In a transaction, a suspicious refusal waits for the coordinator's reason."""

    def __init__(self, losses: Losses) -> None:
        self.losses = losses
        self.effects = losses.effects
        self.transaction = losses.outcomes.transaction

    def refuse(self, batch: QueuedBatch, answer: PartitionAnswer, decided: Verdict, now: float) -> None:
        """The answer ends the batch, unless only the coordinator knows the reason."""
        error = broker_error(batch, answer, decided, now)
        if self.transaction is not None:
            if self.transaction.is_in_doubt(answer.code):
                self.effects.in_doubt = True
                batch.last_error = error
                self.transaction.unexplained.append((batch, answer))
                return
            error.__cause__ = self.transaction.explanation_of(answer.code) or error.__cause__
        if decided.kind is Kind.SPLIT and error.outcome is Outcome.NOT_WRITTEN:
            # An unknown outcome keeps the type BrokerError: a handler of RefusedAsTooLargeError assumes that nothing
            # was written.
            error = refused_as_too_large(error, batch.plain_size or batch.size)
        self._refuse_for_good(batch, answer, error, now)

    @event
    def explain(self, cause: BaseException | None, now: float) -> None:
        """The reason of refusals that only the coordinator knew is known."""
        if self.transaction is None:
            return
        unexplained, self.transaction.unexplained = self.transaction.unexplained, []
        for batch, answer in unexplained:
            if not batch.settled:
                decided = verdict(answer.code, answer.base_offset)
                error = broker_error(batch, answer, decided, now)
                error.__cause__ = cause
                self._refuse_for_good(batch, answer, error, now)
                self.losses.accumulator.update_readiness(batch.queue, now)

    def _refuse_for_good(
        self, batch: QueuedBatch, answer: PartitionAnswer, error: KafkaError, now: float
    ) -> None:
        named = {index: text for index, text in answer.record_errors if 0 <= index < batch.record_count}
        if named:
            self._refuse_named(batch, answer, named, error, now)
        self.losses.fail(batch, error if not named else bystander(batch, answer, error, now), now)

    def _refuse_named(
        self,
        batch: QueuedBatch,
        answer: PartitionAnswer,
        named: dict[int, str | None],
        error: KafkaError,
        now: float,
    ) -> None:
        # KIP-467: the records at fault have messages of their own; the user may send the other records again.
        for index, text in named.items():
            own = code_error(batch, answer, error.outcome, now, message=text or answer.message)
            # First, as in `Losses.fail`.
            self.effects.losses.append(own)
            self.losses.outcomes.fail_records(batch, [index], own, now)


def broker_error(batch: QueuedBatch, answer: PartitionAnswer, decided: Verdict, now: float) -> BrokerError:
    """The error of a refused batch: unknown unless every attempt is proven not appended."""
    clean = decided.proves_not_appended and not batch.dirty
    outcome = Outcome.NOT_WRITTEN if clean else Outcome.UNKNOWN
    error = code_error(batch, answer, outcome, now, message=answer.message or decided.advice)
    missing = PERMISSIONS.get(answer.code)
    if missing is not None:
        error.__cause__ = AuthorizationError(missing, topic=error.topic, outcome=outcome)
    return error


def code_error(
    batch: QueuedBatch,
    answer: PartitionAnswer,
    outcome: Outcome,
    now: float,
    *,
    message: str | None,
    retriable: bool | None = None,
) -> BrokerError:
    """The error with the broker's code, for a batch or for some of its records."""
    known = ERRORS.get(answer.code)
    return BrokerError(
        message,
        code=answer.code,
        name=describe(answer.code),
        broker=answer.broker,
        outcome=outcome,
        retriable=(known is not None and known.retriable) if retriable is None else retriable,
        **batch.facts(now),
    )


def bystander(batch: QueuedBatch, answer: PartitionAnswer, error: KafkaError, now: float) -> BrokerError:
    """The error of a record that the broker did not name, in a batch where it named others."""
    text = "this record was part of a batch with invalid records; it may be sent again"
    return code_error(batch, answer, error.outcome, now, message=text, retriable=True)


def refused_as_too_large(error: BrokerError, size: int) -> RefusedAsTooLargeError:
    """The error of a batch that cannot be split any more: one record."""
    setting, where = SIZE_LIMITS[error.code]
    return RefusedAsTooLargeError(
        f"raise {setting} {where}, compress the record, or split it",
        size=size,
        setting=setting,
        code=error.code,
        name=error.name,
        broker=error.broker,
        topic=error.topic,
        partition=error.partition,
        outcome=error.outcome,
        attempts=error.attempts,
        elapsed=error.elapsed,
        retriable=False,
    )
