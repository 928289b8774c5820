"""The errors of calls whose topic or partition cannot be used, by the answers of the brokers."""

from __future__ import annotations

from aioproducer._state.delivery.verdicts import verdict
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer.errors import (
    AuthorizationError,
    BrokerError,
    KafkaError,
    MetadataTimeoutError,
    RecordError,
)

# Errors that waiting does not change.
REFUSALS = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
MISSING = "check its name, or create it: the brokers do not create it by themselves, or have not done so yet"

# A bit for each of Kafka's operations; without an authorizer all are set, and before 2.3 the field is absent.
_WRITE = 1 << 4
_NOT_TOLD = -(1 << 31)


def may_write(operations: int) -> bool:
    """Whether the `topic_authorized_operations` of an answer allow writes; True where brokers do not tell them."""
    return operations == _NOT_TOLD or bool(operations & _WRITE)


def said_of_topic(code: int) -> BrokerError:
    """The brokers' answer about a topic, as the cause of the caller's error."""
    advice = MISSING if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else verdict(code).advice
    return BrokerError(advice, code=code, name=describe(code))


def refusal_of(topic: str, code: int) -> KafkaError:
    """The error of a topic that cannot be written to, now or later."""
    cause = said_of_topic(code)
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return AuthorizationError("not authorized to describe or write this topic", topic=topic, cause=cause)
    return RecordError("the broker refuses this topic name", topic=topic, cause=cause)


def still_unknown(
    topic: str, waited: float | None, cause: BaseException | None, partition: int | None = None
) -> MetadataTimeoutError:
    """A topic did not become known in time; `cause` is the brokers' error, or the reason for their silence."""
    text = None
    if isinstance(cause, BrokerError):
        known = cause.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        text = "the topic does not exist" if known else "the topic did not become usable in time"
    return MetadataTimeoutError(text, topic=topic, partition=partition, waited=waited, cause=cause)


def no_such_partition(
    topic: str, partition: int, count: int, waited: float | None, *, confirmed: bool = True
) -> MetadataTimeoutError:
    """The brokers do not list the partition; `confirmed`: they were asked again because of it."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    advice = f"its partitions are 0 to {count - 1}" if count > 1 else "its only partition is 0"
    return MetadataTimeoutError(
        "the partition does not exist" if confirmed else "the partition did not become known in time",
        topic=topic,
        partition=partition,
        partition_count=count,
        confirmed=confirmed,
        waited=waited,
        cause=BrokerError(advice, code=code, name=describe(code)),
    )
