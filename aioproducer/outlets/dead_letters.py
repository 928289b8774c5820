"""Dead letters: records that can never be written go to a topic of their own, with the reason in headers."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from aioproducer._core import Delivery, Sending, observe, peek
from aioproducer._net.log import log
from aioproducer._net.observing.failures import END_OF_THE_PROGRAM, Failures
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer.config import topic_problem
from aioproducer.errors import ConfigurationError, KafkaError, RecordError, StateError
from aioproducer.outcome import Outcome
from aioproducer.outlets.kept import kept, kept_headers, readable_again
from aioproducer.outlets.letters import Letter, letter_of, outcome_of, shown
from aioproducer.outlets.rule import is_of_the_record
from aioproducer.outlets.sent_record import SentRecord
from aioproducer.producer import Producer
from aioproducer.records import Headers, Record, RecordMetadata, Timestamp
from aioproducer.stats import OTHER_TOPICS

__all__ = ["DeadLetters"]

K = TypeVar("K", bound=Any, default=Any)
V = TypeVar("V", bound=Any, default=Any)

# The place of the headers among the positional arguments.
_HEADERS_AT: Final = 5

TopicOf = Callable[[Record[Any, Any]], str]


class DeadLetters(Generic[K, V]):
    """Sends records, and sets aside those that can never be written: a dead letter for each goes to `topic`.

    ```python
    letters = DeadLetters(producer, "orders.dead")
    metadata = await letters.send_and_wait("orders", order)  # of the record, or of its dead letter
    ```

    `topic`: a name, or a function of the `Record`. `when(error)` decides which errors set a record aside, in place of the
    rule: a `RecordError`, or a broker's refusal for a reason in the record. A record with an unknown outcome is never set
    aside, because it may be written.
    """

    def __init__(
        self,
        producer: Producer[K, V],
        topic: str | TopicOf,
        *,
        when: Callable[[KafkaError], bool] | None = None,
    ) -> None:
        if not isinstance(producer, Producer):
            raise ConfigurationError(f"DeadLetters takes a Producer, not {type(producer).__name__}")
        _check_topic(topic)
        _check_when(when)
        self.producer = producer
        self._topic = topic
        self._when = when
        self._failures_of_rule = Failures("when() of DeadLetters")
        self._failures_of_letters = Failures("a dead letter")

    # -- records

    def send(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
        max_block: float | None = None,
    ) -> SentRecord:
        """Send one record, and return its handle at once. The record has its place in the order of the calls.

        The parameters are those of `Producer.send`. Await the handle for the metadata of the record or of its dead letter.
        """
        return self.send_by(
            self.producer, topic, value, key, partition, timestamp, headers, timeout, max_block
        )

    def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
        max_block: float | None = None,
    ) -> Coroutine[Any, Any, RecordMetadata]:
        """Send one record: await the call for the metadata of the record, or of its dead letter.

        Raises the error of the record if neither was written. Cancelled before acceptance, the record is withdrawn.
        """
        sent = self.send_by(
            self.producer, topic, value, key, partition, timestamp, headers, timeout, max_block
        )
        return _metadata_of(sent)

    def put(self, record: Record[Any, Any], error: BaseException) -> Delivery:
        """Set a record aside that failed with this error; returns the delivery of its dead letter.

        Nothing is asked for a reason: any error will do, but one with an unknown outcome, because the record may be
        written. Raises `BufferFullError` when there is no room. In a transaction any other exception fails the transaction.
        """
        delivery = self.producer._set_aside_now(lambda: self._put_letter(record, error))  # noqa: SLF001

        def ended(delivery: Delivery) -> None:
            _, failure = peek(delivery)
            if failure is None:
                self.count(record.topic)
            else:
                now = asyncio.get_running_loop().time()
                self._failures_of_letters.note(failure, log, now, "record")

        if delivery.done():
            ended(delivery)
        else:
            observe(delivery, ended)
        return delivery

    # -- for the other parts of this package

    def send_by(self, producer: Producer[Any, Any], *arguments: Any) -> SentRecord:
        """Send a record by this producer, with the positional arguments of a `send()`."""
        once = _readable_again(arguments)
        return SentRecord(self, producer, _record(once)).send(*once)

    def send_nowait_by(self, producer: Producer[Any, Any], *arguments: Any) -> SentRecord:
        """The same of a `send_nowait()`."""
        once = _readable_again(arguments)
        return SentRecord(self, producer, _record(once)).send_nowait(*once)

    def takes(self, error: KafkaError) -> bool:
        """True when a record that failed with this error is set aside."""
        if error.outcome is not Outcome.NOT_WRITTEN:
            return False
        if self._when is None:
            return is_of_the_record(error)
        try:
            return bool(self._when(error))
        except END_OF_THE_PROGRAM:
            raise
        except BaseException as failure:  # noqa: BLE001  # logged; the record fails with its own error
            self._failures_of_rule.note(failure, log, time.monotonic(), "record")
            return False

    def begin(
        self,
        record: Record[Any, Any],
        ready: ReadyRecord | None,
        error: KafkaError,
        delivery: Delivery | None,
        *,
        is_refused: bool,
    ) -> Sending[Delivery]:
        """Send the dead letter of a record; it waits for room. `is_refused`: the call of the record ends just now."""
        topic, letter = self._letter(record, ready, error, delivery)
        return self.producer._set_aside(  # noqa: SLF001
            topic, letter.value, letter.key, letter.headers, may_be_ending=is_refused
        )

    def _put_letter(
        self, record: object, error: BaseException
    ) -> tuple[str, bytes | None, bytes | None, Headers]:
        if not isinstance(record, Record):
            raise RecordError(f"put() takes a Record, not {type(record).__name__}")
        if outcome_of(error) is Outcome.UNKNOWN:
            text = "the record may be written: a dead letter of it could be a copy"
            raise RecordError(text, topic=_name(record.topic), cause=error)
        topic, letter = self._letter(record, None, error, None)
        return topic, letter.value, letter.key, letter.headers

    def count(self, topic: object) -> None:
        """A dead letter of a record for this topic is written."""
        # Of another type, it may be the value of the record.
        name = shown(topic) if issubclass(type(topic), str) else OTHER_TOPICS
        self.producer._count_dead_letter(name)  # noqa: SLF001

    def _letter(
        self,
        record: Record[Any, Any],
        ready: ReadyRecord | None,
        error: BaseException,
        delivery: Delivery | None,
    ) -> tuple[str, Letter]:
        partition = record.partition if delivery is None else delivery.partition
        timestamp = record.timestamp
        letter = letter_of(
            record.topic,
            record.value if ready is None else ready.value,
            record.key if ready is None else ready.key,
            record.headers if ready is None else ready.headers,
            error,
            limit=self.producer.config.max_request_size,
            partition=partition,
            timestamp=time.time_ns() // 1_000_000 if timestamp is None else timestamp,
        )
        return self._topic_of(record), letter

    def _topic_of(self, record: Record[Any, Any]) -> str:
        if isinstance(self._topic, str):
            return self._topic
        try:
            return self._topic(record)
        except asyncio.CancelledError as error:
            # Raised by a task that the function asked: the caller is not cancelled.
            raise StateError(
                "the function for the topic of dead letters was cancelled", cause=error
            ) from error

    def __repr__(self) -> str:
        return f"<DeadLetters to {self._topic!r}>"


async def _metadata_of(sent: SentRecord) -> RecordMetadata:
    try:
        return await sent
    except asyncio.CancelledError:
        sent.withdraw()
        raise


def _readable_again(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments of a `send()`, whose headers the dead letter reads as well."""
    before, headers, behind = arguments[:_HEADERS_AT], arguments[_HEADERS_AT], arguments[_HEADERS_AT + 1 :]
    return (*before, readable_again(headers), *behind)


def _record(arguments: tuple[Any, ...]) -> Record[Any, Any]:
    topic, value, key, partition, timestamp, headers, *_ = arguments
    return Record(
        topic,
        kept(value),
        key=kept(key),
        partition=partition,
        timestamp=timestamp,
        headers=kept_headers(headers),
    )


def _name(topic: object) -> str | None:
    return topic if isinstance(topic, str) else None


def _check_when(when: object) -> None:
    if when is not None and (not callable(when) or inspect.iscoroutinefunction(when)):
        raise ConfigurationError("when must be a function of an error that is not a coroutine function")


def _check_topic(topic: object) -> None:
    if isinstance(topic, str):
        problem = topic_problem(topic)
        if problem is not None:
            raise ConfigurationError(problem)
    elif not callable(topic) or inspect.iscoroutinefunction(topic):
        raise ConfigurationError(
            "topic must be a name, or a function of a Record that is not a coroutine function"
        )
