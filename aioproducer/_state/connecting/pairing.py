"""The request of each answer: Kafka answers in the order of the requests."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple, Protocol

from aioproducer.errors import KafkaError, ProtocolError

__all__ = ["AnswerHandler", "Pairing", "SentRequest"]

_LAST_CORRELATION_ID = 2**31 - 1
# Requests whose answer may fail to come, and whose late answer is still recognized.
_MOST_OPTIONAL = 16


class AnswerHandler(Protocol):
    """Takes the answer to one request; one of the two is called, once, from inside the event loop's callback.

    An `answered()` that raises ends the connection, and `failed()` follows.
    """

    def answered(self, frame: memoryview) -> None:
        """The answer, from its correlation id on (for `decode_response`). The bytes are valid only during the call."""

    def failed(self, error: KafkaError, *, written: bool) -> None:
        """There will be no answer. `written`: some byte of the request may have reached the broker."""


class SentRequest(NamedTuple):
    """A request that waits for its answer."""

    correlation_id: int
    handler: AnswerHandler
    deadline: float
    timeout: float
    answer_limit: int
    size: int
    sent_at: float


class Pairing:
    """The requests of one connection that wait for their answers, oldest first.

    An answer that does not belong to the oldest request is a ProtocolError: nothing that follows it can be trusted.
    """

    __slots__ = ("_correlation_id", "_newest_unanswered", "broker", "optional", "waiting")

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.waiting: deque[SentRequest] = deque()
        # Requests beside them: without their answer the connection goes on.
        self.optional: dict[int, SentRequest] = {}
        self._correlation_id = -1
        # The newest request that no answer was expected to (acks=0).
        self._newest_unanswered = -1

    def next_correlation_id(self) -> int:
        """The id for the next request; requests must be written in the order of their ids."""
        following = self._correlation_id + 1
        self._correlation_id = following if following <= _LAST_CORRELATION_ID else 0
        return self._correlation_id

    def expect_no_answer(self, correlation_id: int) -> None:
        """A request was sent whose answer is ignored, if there is one: some brokers answer Produce with acks=0."""
        self._newest_unanswered = correlation_id

    def expect_perhaps(self, sent: SentRequest) -> None:
        """A request was sent whose answer may fail to come."""
        if len(self.optional) >= _MOST_OPTIONAL:
            del self.optional[next(iter(self.optional))]
        self.optional[sent.correlation_id] = sent

    @property
    def has_unanswered(self) -> bool:
        """Whether any request was sent that no answer was expected to."""
        return self._newest_unanswered >= 0

    def pair(self, correlation_id: int) -> SentRequest | None:
        """Take the request that this answer belongs to; None for an answer to be ignored."""
        waiting = self.waiting
        if waiting and waiting[0].correlation_id == correlation_id:
            return waiting.popleft()
        found = self.next_for(correlation_id)
        self.optional.pop(correlation_id, None)
        return found

    def next_for(self, correlation_id: int) -> SentRequest | None:
        """The same, without taking it."""
        waiting = self.waiting
        if waiting and waiting[0].correlation_id == correlation_id:
            return waiting[0]
        if correlation_id in self.optional:
            return self.optional[correlation_id]
        if 0 <= correlation_id <= self._newest_unanswered:
            return None
        raise self._unpaired(correlation_id)

    def check_length(self, correlation_id: int, length: int) -> None:
        """Refuse a long answer before there is a buffer for it: one that nothing asked for costs no memory."""
        sent = self.next_for(correlation_id)
        if sent is None:
            raise self._unpaired(correlation_id)
        if length > sent.answer_limit:
            raise ProtocolError(
                f"an answer of {length} bytes exceeds the limit of its request, {sent.answer_limit} bytes",
                broker=self.broker,
            )

    def earliest_deadline(self) -> float:
        """Of all requests that wait; infinite if there are none."""
        return min((sent.deadline for sent in self.waiting), default=math.inf)

    def latest_deadline(self) -> float:
        """Of all requests that wait and have one; the past if there are none."""
        return max((sent.deadline for sent in self.waiting if sent.deadline < math.inf), default=-math.inf)

    def bytes_in_flight(self) -> int:
        """The bytes of all requests that wait; for any thread."""
        return sum(sent.size for sent in list(self.waiting))

    def _unpaired(self, correlation_id: int) -> ProtocolError:
        expected = (
            f"expected {self.waiting[0].correlation_id}" if self.waiting else "no request waits for one"
        )
        text = f"an answer with the unexpected correlation id {correlation_id} ({expected})"
        return ProtocolError(text, broker=self.broker)
