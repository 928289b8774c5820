"""The final answer to a request that a coordinator was asked, and its error."""

from __future__ import annotations

from typing import NamedTuple

from aioproducer._state.transactions.coordinator_verdicts import NOT_ALLOWED, Answer, Request, advice
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer.errors import (
    AuthorizationError,
    BrokerError,
    KafkaError,
    ProducerFencedError,
    TransactionError,
    printable,
)
from aioproducer.outcome import Outcome


class Reply(NamedTuple):
    """The meaning of the last answer to a request about `name`, and its code.

    `lost`: the number of earlier attempts without an answer, which may still reach a broker. `undecided`: the number of attempts,
    the last one included, that may have been executed although none was answered by success. `at`: the time of the answer.
    """

    name: str
    answer: Answer
    request: Request
    code: int
    lost: int = 0
    undecided: int = 0
    at: float = 0.0


def error_of(reply: Reply) -> BrokerError:
    """The answer as an error."""
    return BrokerError(
        f"the answer to {reply.request.value}: {advice(reply.code)}",
        code=reply.code,
        name=describe(reply.code),
        outcome=outcome_of(reply),
    )


def abortable_error(reply: Reply) -> KafkaError:
    """The error of an answer after which the transaction can only be aborted."""
    error = error_of(reply)
    if reply.code in NOT_ALLOWED:
        return AuthorizationError(advice(reply.code), outcome=error.outcome, cause=error)
    return error


def outcome_of(reply: Reply) -> Outcome:
    """UNKNOWN if an attempt may have been executed all the same."""
    return Outcome.UNKNOWN if reply.undecided else Outcome.NOT_WRITTEN


def fatal_error(reply: Reply) -> KafkaError:
    """The error of an answer that ends the call, and in most cases the producer."""
    if reply.answer is Answer.SUPERSEDED and reply.code != ErrorCode.INVALID_TXN_STATE:
        return ProducerFencedError(outcome=outcome_of(reply), cause=error_of(reply))
    text = f"{reply.request.value} for {printable(reply.name)!r} was refused"
    if reply.answer is Answer.REFUSED or reply.code in NOT_ALLOWED:
        return AuthorizationError(text, outcome=outcome_of(reply), cause=error_of(reply))
    return TransactionError(text, outcome=outcome_of(reply), cause=error_of(reply))
