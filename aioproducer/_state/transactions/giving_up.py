"""A transaction that is given up, and the errors of its records that are not written."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import attrs

from aioproducer.errors import DeliveryError, ProducerFencedError, TransactionAbortedError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer.errors import KafkaError


@attrs.frozen(eq=False)
class GivenUp:
    """Records that are not in flight end now; the others end when they come back unwritten."""

    text: str
    cause: KafkaError | None
    """The first failure, if there was one."""
    reason: KafkaError
    """The cause of the errors of deliveries."""

    @classmethod
    def because(cls, text: str, cause: KafkaError | None, *, retriable: bool) -> GivenUp:
        """A fenced producer tells its records that; the records of any other learn that their transaction is aborted."""
        if isinstance(cause, ProducerFencedError):
            return cls(text, cause, cause)
        return cls(text, cause, TransactionAbortedError(text, cause=cause, retriable=retriable))

    def error_of_call(self, topic: str) -> KafkaError:
        """The error of a call whose record was not accepted yet."""
        if self.reason is self.cause:
            return copy.copy(self.reason)
        return TransactionAbortedError(
            self.text, topic=topic, cause=self.cause, retriable=self.reason.retriable
        )

    def error_of(self, batch: QueuedBatch) -> DeliveryError:
        """The error of a batch that is not in flight."""
        return DeliveryError(
            self.text,
            topic=batch.topic,
            partition=batch.partition,
            outcome=Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN,
            attempts=batch.attempts,
            cause=self.reason,
            retriable=self.reason.retriable,
        )
