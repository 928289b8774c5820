"""The error tree: what it is made of, what it says, what survives a pickle."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from aioproducer import errors
from aioproducer.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    BufferFullError,
    CheckpointStoppedError,
    CommitOutcomeUnknownError,
    ConfigurationError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    ProducerFencedError,
    ProtocolError,
    RecordError,
    RecordTooLargeError,
    SerializationError,
    StateError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
    printable,
)
from aioproducer.outcome import Outcome

TREE: dict[type[KafkaError], tuple[type[BaseException], ...]] = {
    ConfigurationError: (KafkaError, ValueError),
    StateError: (KafkaError, RuntimeError),
    CheckpointStoppedError: (StateError,),
    RecordError: (KafkaError, ValueError),
    RecordTooLargeError: (RecordError,),
    SerializationError: (RecordError,),
    BufferFullError: (KafkaError, TimeoutError),
    MetadataTimeoutError: (KafkaError, TimeoutError),
    DeliveryError: (KafkaError,),
    DeliveryTimeoutError: (DeliveryError, TimeoutError),
    BrokerError: (DeliveryError,),
    TransactionError: (KafkaError,),
    TransactionAbortedError: (TransactionError,),
    CommitOutcomeUnknownError: (TransactionError, TimeoutError),
    TransactionTimeoutError: (TransactionError, TimeoutError),
    ProducerFencedError: (TransactionError,),
    AuthenticationError: (KafkaError,),
    AuthorizationError: (KafkaError,),
    BrokerUnavailableError: (KafkaError, ConnectionError),
    ProtocolError: (KafkaError,),
}
RETRIABLE = {
    BufferFullError,
    MetadataTimeoutError,
    DeliveryTimeoutError,
    TransactionAbortedError,
    CommitOutcomeUnknownError,
    TransactionTimeoutError,
    BrokerUnavailableError,
}
SPECIFIC: dict[type[KafkaError], dict[str, Any]] = {
    ConfigurationError: {"problems": ("linger_ms=-1: must be 0 or more", "acks=7: must be 'all', 1 or 0")},
    RecordTooLargeError: {"size": 2_000_000, "limit": 1_048_576, "setting": "max_request_size"},
    SerializationError: {"part": "key"},
    BufferFullError: {"waited": 1.5},
    MetadataTimeoutError: {"waited": 60.0},
    DeliveryError: {"attempts": 3, "elapsed": 120.0},
    DeliveryTimeoutError: {"attempts": 3, "elapsed": 120.0},
    BrokerError: {
        "code": 3,
        "name": "UNKNOWN_TOPIC_OR_PARTITION",
        "broker": 2,
        "attempts": 1,
        "elapsed": 0.25,
    },
    CommitOutcomeUnknownError: {"waited": 60.0},
    TransactionTimeoutError: {"waited": 60.0},
    AuthenticationError: {
        "broker": "kafka-1:9092",
        "reason": "credentials",
        "mechanism": "PLAIN",
        "code": 58,
    },
    AuthorizationError: {"broker": 1},
    BrokerUnavailableError: {"broker": 7},
    ProtocolError: {"broker": 7},
}
COMMON: dict[str, Any] = {"topic": "orders", "partition": 3, "outcome": Outcome.UNKNOWN, "retriable": True}
every = pytest.mark.parametrize("cls", [KafkaError, *TREE], ids=lambda cls: cls.__name__)


def make(cls: type[KafkaError], **facts: Any) -> KafkaError:
    return cls(**SPECIFIC.get(cls, {}), **facts)


def test_tree_is_the_one_that_is_documented() -> None:
    """Every public class stands in the tree, with exactly the documented parents to catch it by."""
    public = {getattr(errors, name) for name in errors.__all__} - {printable, KafkaError}
    assert public == set(TREE)
    for cls, parents in TREE.items():
        assert issubclass(cls, parents)
    for cls in TREE:
        if not any(issubclass(cls, parent) for parent in TREE if parent is not cls):
            assert cls.__bases__[0] is KafkaError or cls.__bases__[0].__name__.startswith("_")


@every
def test_tree_is_drawn_in_the_docstring(cls: type[KafkaError]) -> None:
    """The drawing names every class, with the built-in that it also is."""
    builtin = next((base.__name__ for base in TREE.get(cls, ()) if base.__module__ == "builtins"), "")
    line = next(line for line in inspect.getdoc(errors).splitlines() if cls.__name__ in line.split())  # type: ignore[union-attr]
    assert (f"({builtin})" if builtin else "(") in line or not builtin


@every
def test_everything_survives_a_pickle(cls: type[KafkaError]) -> None:
    """Class, text, attributes, cause and notes are the same after pickling, and after copying."""
    error = make(cls, cause=BrokerUnavailableError(broker=1), **COMMON)
    error.add_note("while shutting down")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls
        assert str(again) == str(error)
        assert again.args == error.args
        assert vars(again) == vars(error)
        assert type(again.cause) is BrokerUnavailableError
        assert again.cause.broker == 1


@every
def test_defaults_are_those_of_an_error_before_acceptance(cls: type[KafkaError]) -> None:
    """An error that was told nothing says NOT_WRITTEN (a commit without answer: UNKNOWN), and no place."""
    error = make(cls)
    assert error.outcome is (Outcome.UNKNOWN if cls is CommitOutcomeUnknownError else Outcome.NOT_WRITTEN)
    assert error.retriable is (cls in RETRIABLE)
    assert error.topic is None
    assert error.partition is None
    assert error.cause is None
    assert str(error)


@every
def test_attributes_are_what_was_given(cls: type[KafkaError]) -> None:
    """Each given fact is an attribute, so that programs need not parse text."""
    error = make(cls, **COMMON)
    for name, value in {**SPECIFIC.get(cls, {}), **COMMON}.items():
        assert getattr(error, name) == value


@pytest.mark.parametrize(
    "cls", [cls for cls in TREE if cls is not ConfigurationError], ids=lambda cls: cls.__name__
)
def test_text_names_topic_and_partition(cls: type[KafkaError]) -> None:
    """The text is composed from the attributes, also behind a message of the caller's."""
    assert "topic 'orders', partition 3" in str(make(cls, topic="orders", partition=3))
    assert "topic 'orders', partition 3" in str(
        cls("it broke", **SPECIFIC.get(cls, {}), topic="orders", partition=3)
    )


@pytest.mark.parametrize(
    "cls", [BrokerError, AuthenticationError, BrokerUnavailableError], ids=lambda c: c.__name__
)
def test_text_names_the_broker(cls: type[KafkaError]) -> None:
    """The text of an error that happened at a broker names the broker."""
    assert f"broker {SPECIFIC[cls]['broker']}" in str(make(cls))


def test_delivery_errors_say_whether_the_record_may_be_there() -> None:
    """The text of a delivery error states the outcome in words."""
    assert "it was not written" in str(DeliveryTimeoutError())
    assert "it may have been written" in str(DeliveryTimeoutError(outcome=Outcome.UNKNOWN))
    refused = BrokerError("no", code=10, name="MESSAGE_TOO_LARGE", topic="orders")
    assert str(refused) == "MESSAGE_TOO_LARGE (error 10): no (topic 'orders', it was not written)"


@pytest.mark.parametrize("outcome", [Outcome.NOT_WRITTEN, Outcome.UNKNOWN])
def test_what_a_coordinator_answers_is_not_about_a_record(outcome: Outcome) -> None:
    """Whether something was written is no question where a producer id or a transaction was asked for."""
    error = BrokerError("a newer epoch is known", code=47, name="INVALID_PRODUCER_EPOCH", outcome=outcome)
    assert str(error) == "INVALID_PRODUCER_EPOCH (error 47): a newer epoch is known"


def test_broker_errors_give_number_name_and_the_brokers_words() -> None:
    """A broker's error has its name and code, and the text that the broker added."""
    error = BrokerError("Unknown.", code=3, name="UNKNOWN_TOPIC_OR_PARTITION", broker=2)
    assert str(error).startswith("UNKNOWN_TOPIC_OR_PARTITION (error 3): Unknown.")


def test_configuration_error_lists_every_problem() -> None:
    """Several problems stand on a line each; one stands alone."""
    error = ConfigurationError(["linger_ms is wrong", "acks is wrong"])
    assert str(error).splitlines() == ["2 problems:", "  - linger_ms is wrong", "  - acks is wrong"]
    assert str(ConfigurationError("acks is wrong")) == "acks is wrong"
    assert ConfigurationError("acks is wrong").problems == ("acks is wrong",)


def test_cause_is_the_cause_of_the_exception() -> None:
    """`cause` given, or chained by `raise … from`, is one and the same, and is named in the text if given."""
    cause = OSError("no route")
    error = DeliveryError(cause=cause)
    assert error.__cause__ is error.cause is cause
    assert "OSError: no route" in str(error)
    with pytest.raises(RecordError) as caught:
        raise RecordError from cause
    assert caught.value.cause is cause


@pytest.mark.parametrize(
    "nasty", ["a\nERROR forged line", "\x1b[2Jgone", "left\u202eright", "\ud800", "a\x00b", "a\u2028b"]
)
def test_control_characters_of_a_broker_do_not_reach_the_text(nasty: str) -> None:
    """Whatever a broker puts into its strings, the text stays printable and on one line."""
    for error in (
        BrokerError(nasty, code=1, name=nasty, broker=nasty, topic=nasty),
        ProtocolError(nasty, broker=nasty),
        DeliveryError(cause=ValueError(nasty)),
        ConfigurationError([nasty]),
    ):
        assert str(error).isprintable()
        str(error).encode()


def test_long_strings_of_a_broker_are_cut() -> None:
    """A broker cannot fill a log with one message."""
    error = BrokerError("x" * 100_000, code=1, name="y" * 100_000, broker=1, cause=ValueError("z" * 100_000))
    assert len(str(error)) <= errors.TEXT_LIMIT
    assert len(printable("\x00" * 10_000, 50)) <= 50


def test_a_record_that_a_broker_refuses_is_caught_as_either() -> None:
    """As too large, and as what a delivery raises; both sets of facts survive a pickle and are in the text."""
    error = errors.RefusedAsTooLargeError(
        "raise it",
        code=10,
        name="MESSAGE_TOO_LARGE",
        broker=2,
        size=500,
        setting="max.message.bytes",
        **COMMON,
    )
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(again, RecordTooLargeError)
        assert isinstance(again, BrokerError)
        assert isinstance(again, ValueError)
        assert vars(again) == vars(error)
        assert str(again) == str(error)
    assert str(error) == (
        "MESSAGE_TOO_LARGE (error 10): raise it (broker 2, topic 'orders', partition 3, it may have been written, "
        "500 bytes before compression)"
    )


def test_timeouts_are_caught_as_timeouts() -> None:
    """`except TimeoutError`, which asyncio's users write, catches each error that is one."""
    for cls in (BufferFullError, MetadataTimeoutError, DeliveryTimeoutError, CommitOutcomeUnknownError):
        with pytest.raises(TimeoutError):
            raise make(cls)
