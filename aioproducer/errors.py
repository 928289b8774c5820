"""Every error that this library raises, in one tree.

KafkaError
├─ ConfigurationError (ValueError)          a setting is wrong; lists every problem at once
├─ StateError (RuntimeError)                not started, closed, another loop, another thread, after a fork
│  └─ CheckpointStoppedError                a record before it was not acknowledged: see `aioproducer.outlets`
├─ RecordError (ValueError)                 this record can never be sent as it is
│  ├─ RecordTooLargeError
│  └─ SerializationError
├─ BufferFullError (TimeoutError)           no memory within max_block, or at once for send_nowait
├─ MetadataTimeoutError (TimeoutError)      the topic or partition did not become known within max_block
├─ DeliveryError                            an accepted record failed
│  ├─ DeliveryTimeoutError (TimeoutError)
│  └─ BrokerError                           the broker answered with an error code
│     └─ RefusedAsTooLargeError             MESSAGE_TOO_LARGE; also a RecordTooLargeError
├─ TransactionError
│  ├─ TransactionAbortedError
│  ├─ CommitOutcomeUnknownError (TimeoutError)
│  ├─ TransactionTimeoutError (TimeoutError)
│  └─ ProducerFencedError
├─ AuthenticationError
├─ AuthorizationError
├─ BrokerUnavailableError (ConnectionError)
└─ ProtocolError                            the peer violates Kafka's protocol, or supports no common version

Facts are attributes; the class composes the text from them. Every error has `outcome` (the outcome of
the record), `retriable` (whether the same call may succeed later), `topic`, `partition` and `cause`. Every error can be
pickled with its facts. Text from a broker is escaped and truncated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TypedDict, Unpack

from aioproducer.outcome import Outcome

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "BrokerUnavailableError",
    "BufferFullError",
    "CheckpointStoppedError",
    "CommitOutcomeUnknownError",
    "ConfigurationError",
    "DeliveryError",
    "DeliveryTimeoutError",
    "KafkaError",
    "MetadataTimeoutError",
    "ProducerFencedError",
    "ProtocolError",
    "RecordError",
    "RecordTooLargeError",
    "SerializationError",
    "StateError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionTimeoutError",
]

TEXT_LIMIT = 1000
PIECE_LIMIT = 300


class Facts(TypedDict, total=False):
    """The keyword arguments that every error takes."""

    topic: str | None
    partition: int | None
    outcome: Outcome
    retriable: bool | None
    cause: BaseException | None


class DeliveryFacts(Facts, total=False):
    """The keyword arguments that every `DeliveryError` takes."""

    attempts: int
    elapsed: float | None


def printable(text: object, limit: int = PIECE_LIMIT) -> str:
    r"""`text` on one line; characters that are not printable are written as `\x0a`, at most `limit` characters.

    A broker's string that reaches a log unescaped could forge log lines or drive a terminal.
    """
    raw = str(text)
    cut = raw if len(raw) <= limit else raw[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    escaped = "".join(char if char.isprintable() else _escape(char) for char in cut)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def text_of(error: BaseException | None) -> str:
    """The text of an error. `str()` of a user's error may raise, at a place where no caller could catch it."""
    try:
        return str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # noqa: BLE001  # named in the text
        return f"(str() of the error raised {type(raised).__name__})"


def error_name(error: BaseException) -> str:
    """The name of an error in statistics: Kafka's own name where the broker gave one."""
    return str(getattr(error, "name", type(error).__name__))


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _restore(cls: type[KafkaError], args: tuple[Any, ...]) -> KafkaError:
    error = cls.__new__(cls)
    error.args = args
    return error


class KafkaError(Exception):
    """The root of all errors of this library.

    `outcome` is `NOT_WRITTEN` by default: an error that is raised before a record is accepted concerns a
    record that is certainly not in the log. `retriable` tells whether the same call may succeed later.
    """

    retriable: bool = False
    summary: ClassVar[str] = "Kafka error"
    advice: ClassVar[str] = ""

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        outcome: Outcome = Outcome.NOT_WRITTEN,
        retriable: bool | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.outcome = outcome
        if retriable is not None:
            self.retriable = retriable
        if cause is not None:
            self.__cause__ = cause
        super().__init__(self._compose(message))

    @property
    def cause(self) -> BaseException | None:
        """The underlying error, if there is one (the same as `__cause__`)."""
        return self.__cause__

    def _what_to_do(self) -> str:
        return self.advice

    def _compose(self, message: str | None) -> str:
        facts = ", ".join(self._facts())
        text = self.summary if message is None else message
        where = f" ({facts})" if facts else ""
        because = (
            f": {type(self.__cause__).__name__}: {text_of(self.__cause__)}" if self._tells_cause() else ""
        )
        advice = f". {self._what_to_do()}" if self.advice and message is None else ""
        return printable(f"{text}{where}{printable(because)}{advice}", TEXT_LIMIT)

    def _facts(self) -> Iterator[str]:
        if self.topic is not None:
            yield f"topic {printable(self.topic)!r}"
        if self.partition is not None:
            yield f"partition {self.partition}"

    def _tells_cause(self) -> bool:
        return self.__cause__ is not None

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        if self.__cause__ is not None:
            state["__cause__"] = self.__cause__
        return _restore, (type(self), self.args), state


class ConfigurationError(KafkaError, ValueError):
    """Invalid settings; `problems` has one line for each problem, with its fix."""

    summary = "invalid configuration"

    def __init__(self, problems: str | Iterable[str] = (), **facts: Unpack[Facts]) -> None:
        lines = (problems,) if isinstance(problems, str) else tuple(problems)
        self.problems = tuple(printable(line, TEXT_LIMIT) for line in lines)
        super().__init__(None, **facts)

    def _compose(self, message: str | None) -> str:
        if len(self.problems) <= 1:
            return "".join(self.problems) or super()._compose(message)
        return "\n".join([f"{len(self.problems)} problems:", *(f"  - {line}" for line in self.problems)])


class StateError(KafkaError, RuntimeError):
    """The producer is not in a state for this call: not started, closed, another loop, thread or process."""

    summary = "the call is not possible in the producer's current state"


class CheckpointStoppedError(StateError):
    """A record of the checkpoint was not acknowledged: `cause` is its error. `await checkpoint.rewind()` goes on from there."""

    summary = "the checkpoint has stopped"


class RecordError(KafkaError, ValueError):
    """This record can never be sent as it is."""

    summary = "the record cannot be sent"


class RecordTooLargeError(RecordError):
    """The record is larger than a limit: `size` and `limit` are in bytes, `setting` is the name of the limit."""

    summary = "the record is too large"

    def __init__(
        self,
        message: str | None = None,
        *,
        size: int | None = None,
        limit: int | None = None,
        setting: str = "max_request_size",
        **facts: Unpack[Facts],
    ) -> None:
        self.size = size
        self.limit = limit
        self.setting = setting
        super().__init__(message, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.size is not None:
            yield f"{self.size} bytes before compression"
        if self.limit is not None:
            yield f"{self.setting} is {self.limit}"


class SerializationError(RecordError):
    """A serializer failed on this record, or returned an object that is not bytes.

    `part` is the part of the record, such as "key" or "value".
    """

    summary = "serialization failed"

    def __init__(
        self, message: str | None = None, *, part: str | None = None, **facts: Unpack[Facts]
    ) -> None:
        self.part = part
        super().__init__(message, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.part is not None:
            yield self.part


class _WaitingError(KafkaError):
    """An event that did not occur within `waited` seconds (None: the call did not wait)."""

    def __init__(
        self, message: str | None = None, *, waited: float | None = None, **facts: Unpack[Facts]
    ) -> None:
        self.waited = waited
        super().__init__(message, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.waited is not None:
            yield f"waited {self.waited:.3g} s"


class BufferFullError(_WaitingError, TimeoutError):
    """`buffer_memory` had no room within `max_block`, or at once for `send_nowait`."""

    retriable = True
    summary = "buffer_memory has no room for the record"
    advice = "Records arrive faster than brokers accept them: send more slowly, or raise buffer_memory or max_block_ms"

    def _what_to_do(self) -> str:
        # A broker that cannot be reached accepts no record, however slowly the program sends.
        return (
            "Its memory is released when the brokers are reachable again"
            if isinstance(self.cause, ConnectionError)
            else self.advice
        )


class MetadataTimeoutError(_WaitingError, TimeoutError):
    """The topic or partition did not become known within `max_block`, or the brokers say that it does not exist.

    `cause` is the brokers' error for the topic (a `BrokerError` with its code), or the error of a connection.
    `partition_count` is the number of partitions of the topic, if the requested partition is not one of them.
    `confirmed`: the brokers were asked because of this call, and do not have this partition.
    """

    retriable = True
    summary = "timed out waiting for metadata of the topic or partition"
    advice = "Check that it exists and that bootstrap_servers are reachable, or raise max_block_ms"

    def __init__(
        self,
        message: str | None = None,
        *,
        partition_count: int | None = None,
        confirmed: bool = False,
        waited: float | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        self.partition_count = partition_count
        self.confirmed = confirmed
        super().__init__(message, waited=waited, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.partition_count is not None:
            yield f"the topic has {self.partition_count} partition{'' if self.partition_count == 1 else 's'}"


class DeliveryError(KafkaError):
    """An accepted record was not acknowledged; `outcome` tells whether it may be in the log nevertheless.

    `attempts` is the number of times that it was sent, `elapsed` the seconds since it was accepted.
    """

    summary = "the record was not delivered"

    def __init__(
        self,
        message: str | None = None,
        *,
        attempts: int = 0,
        elapsed: float | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        self.attempts = attempts
        self.elapsed = elapsed
        super().__init__(message, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.attempts:
            yield f"{self.attempts} attempt{'s' if self.attempts > 1 else ''}"
        if self.elapsed is not None:
            yield f"after {self.elapsed:.3g} s"
        if self._is_of_a_record():
            yield "it may have been written" if self.outcome is Outcome.UNKNOWN else "it was not written"

    def _is_of_a_record(self) -> bool:
        return True


class DeliveryTimeoutError(DeliveryError, TimeoutError):
    """The record's time (`delivery_timeout_ms`, or `timeout` of the call) ran out before an acknowledgement."""

    retriable = True
    summary = "no acknowledgement within the record's delivery timeout"


class BrokerError(DeliveryError):
    """The broker answered with an error: its `code`, Kafka's `name` for it, the `broker` that answered."""

    def __init__(
        self,
        message: str | None = None,
        *,
        code: int,
        name: str,
        broker: int | str | None = None,
        **facts: Unpack[DeliveryFacts],
    ) -> None:
        self.code = int(code)
        self.name = name
        self.broker = broker
        super().__init__(message, **facts)

    def _is_of_a_record(self) -> bool:
        # Coordinators answer for ids and transactions; the error that wraps such an answer has the outcome of records.
        return self.topic is not None

    def _compose(self, message: str | None) -> str:
        said = f"{printable(self.name)} (error {self.code})"
        return super()._compose(said if not message else f"{said}: {printable(message)}")

    def _facts(self) -> Iterator[str]:
        if self.broker is not None:
            yield f"broker {printable(self.broker)}"
        yield from super()._facts()


class RefusedAsTooLargeError(RecordTooLargeError, BrokerError):
    """An accepted record is larger than the broker accepts; `setting` is the topic's setting to raise.

    It can be caught as a `RecordTooLargeError`, and as the `DeliveryError` that every delivery raises. Programs need not
    name it: it is not a public name of `aioproducer`.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        code: int,
        name: str,
        broker: int | str | None = None,
        size: int | None = None,
        setting: str = "max.message.bytes",
        **facts: Unpack[DeliveryFacts],
    ) -> None:
        self.size = size
        self.limit = None
        self.setting = setting
        BrokerError.__init__(self, message, code=code, name=name, broker=broker, **facts)


class TransactionError(KafkaError):
    """A transaction cannot continue."""

    summary = "the transaction cannot continue"


class TransactionAbortedError(TransactionError):
    """The transaction was aborted, or can only be aborted; none of its records becomes visible. Repeat the transaction."""

    retriable = True
    summary = "the transaction was aborted, or can only be aborted now"


class CommitOutcomeUnknownError(_WaitingError, TransactionError, TimeoutError):
    """The commit was not answered in time: it may be committed. The same call again joins the same attempt."""

    retriable = True
    summary = "timed out waiting for the answer to the commit"
    advice = "Repeat the call to join the same attempt, or call init_transactions() to resolve it"

    def __init__(
        self, message: str | None = None, *, waited: float | None = None, **facts: Unpack[Facts]
    ) -> None:
        facts.setdefault("outcome", Outcome.UNKNOWN)
        super().__init__(message, waited=waited, **facts)


class TransactionTimeoutError(_WaitingError, TransactionError, TimeoutError):
    """A call of a transaction did not end in time. Its operation continues: the same call again joins it."""

    retriable = True
    summary = "timed out waiting for the coordinator"
    advice = "Repeat the call to join the same attempt"


class ProducerFencedError(TransactionError):
    """Another producer with the same transactional id took over; this one can only be closed."""

    summary = "another producer took over this transactional id"
    advice = "Close this producer"


class _BrokerSideError(KafkaError):
    """An error that concerns one `broker` (its id or "host:port")."""

    def __init__(
        self, message: str | None = None, *, broker: int | str | None = None, **facts: Unpack[Facts]
    ) -> None:
        self.broker = broker
        super().__init__(message, **facts)

    def _facts(self) -> Iterator[str]:
        if self.broker is not None:
            yield f"broker {printable(self.broker)}"
        yield from super()._facts()


class AuthenticationError(_BrokerSideError):
    """The broker refused the identity of this client, or did not prove its own.

    `reason` names the failed part ("credentials", "mechanism", "server", "token"), `mechanism` is that of SASL, and `code` the
    error code of the broker; each is None where it does not apply.
    """

    summary = "authentication failed"

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str | None = None,
        mechanism: str | None = None,
        code: int | None = None,
        broker: int | str | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        self.reason = reason
        self.mechanism = mechanism
        self.code = code
        super().__init__(message, broker=broker, **facts)

    def _facts(self) -> Iterator[str]:
        yield from super()._facts()
        if self.mechanism is not None:
            yield f"SASL mechanism {printable(self.mechanism)}"
        if self.code is not None:
            yield f"error {self.code}"


class AuthorizationError(_BrokerSideError):
    """The principal of this client lacks a permission."""

    summary = "not authorized"
    advice = "Grant the missing ACL (WRITE on the topic, IDEMPOTENT_WRITE on old clusters)"


class BrokerUnavailableError(_BrokerSideError, ConnectionError):
    """A broker cannot be reached or stopped answering, or all of them."""

    retriable = True
    summary = "the broker cannot be reached"
    advice = "Check bootstrap_servers, and that the brokers' advertised.listeners are reachable from here"


class ProtocolError(_BrokerSideError):
    """The received bytes violate Kafka's protocol, or both sides support no common version."""

    summary = "the peer does not support Kafka's protocol in a version of this client"
