"""The meaning of a coordinator's error code for a transaction, as a table for each request."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from aioproducer._wire.error_codes import ERRORS, ErrorCode


class Request(enum.Enum):
    """A request, by the name of its API and its purpose."""

    # `Enum` computes that of the name, in Python, at each look-up in a table.
    __hash__ = object.__hash__

    FIND_COORDINATOR = "FindCoordinator"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    FETCH_OFFSETS = "OffsetFetch"
    DESCRIBE = "DescribeTransactions"
    LIST = "ListTransactions"
    COMMIT = "EndTxn (commit)"
    ABORT = "EndTxn (abort)"


class Answer(enum.Enum):
    """The next step after an answer."""

    DONE = "it is done"
    RETRY = "ask the same again, after the backoff"
    BUSY = "the transaction before is still being ended: ask again soon"
    REPLACED = "another request may have taken its place: ask again at once, and after the backoff if that does not help"
    LOOK_UP = "find the coordinator, then ask the same again"
    REFUSED = "not now, and not until something is changed by hand; the producer may ask again"
    ABORTABLE = "this transaction can only be aborted"
    SUPERSEDED = "the coordinator has ended the transaction, or another producer has taken over"
    UNDECIDED = "it may have been done or not; the producer may ask again"
    FATAL = "this producer may not go on"


_R, _A = Request, Answer
_ALL = frozenset(_R)
_IN_TRANSACTION = frozenset({_R.ADD_PARTITIONS, _R.ADD_OFFSETS, _R.COMMIT_OFFSETS, _R.COMMIT, _R.ABORT})


# UNKNOWN_SERVER_ERROR, and the codes of a later Kafka. They prove nothing: a harmless request is repeated, a part of a transaction
# aborts the transaction, and an end stays in doubt.
_OF_NO_MEANING: Mapping[Request, Answer] = MappingProxyType(
    {
        _R.FIND_COORDINATOR: _A.RETRY,
        _R.DESCRIBE: _A.RETRY,
        _R.INIT_PRODUCER_ID: _A.RETRY,
        _R.ADD_PARTITIONS: _A.ABORTABLE,
        _R.ADD_OFFSETS: _A.ABORTABLE,
        _R.COMMIT_OFFSETS: _A.ABORTABLE,
        _R.COMMIT: _A.UNDECIDED,
        _R.ABORT: _A.UNDECIDED,
    }
)


# Another identity of the same producer is newer: a successor has it, or the coordinator ended a transaction by itself.
FENCING: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
# The answers to EndTxn under an identity that is not the present one of the transactional id.
REFUSES_TO_END: Final = FENCING | {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
# The coordinator does not know the producer any more.
FORGOTTEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
# The principal lacks a permission.
NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# Two sets for a leader's answers to batches. The transaction may have ended, or its id may belong to another producer:
SUSPICIOUS: Final = FENCING | {ErrorCode.INVALID_TXN_STATE}
# The producer may not write under its transactional id any more:
ENDS_THE_PRODUCER: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def _cells() -> Mapping[tuple[Request, int], Answer]:
    cells: dict[tuple[Request, int], Answer] = {}

    def say(answer: Answer, codes: Collection[int], requests: frozenset[Request] = _ALL) -> None:
        cells.update({(request, code): answer for request in requests for code in codes})

    for request, answer in _OF_NO_MEANING.items():
        say(answer, {ErrorCode.UNKNOWN_SERVER_ERROR}, frozenset({request}))
    # A partition that cannot be added: each code that is not retriable, as another partition may be the cause.
    say(_A.ABORTABLE, set(ERRORS), frozenset({_R.ADD_PARTITIONS}))
    say(_A.DONE, {ErrorCode.NONE})
    say(_A.RETRY, {code for code, known in ERRORS.items() if known.retriable})
    say(_A.BUSY, {ErrorCode.CONCURRENT_TRANSACTIONS})
    # Also the answer where a question of the broker to the coordinator of the transaction was replaced by that of another request.
    say(_A.REPLACED, {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, frozenset({_R.COMMIT_OFFSETS}))
    say(_A.LOOK_UP, {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
    say(_A.RETRY, {ErrorCode.COORDINATOR_NOT_AVAILABLE}, frozenset({_R.FIND_COORDINATOR}))
    say(_A.ABORTABLE, {ErrorCode.TRANSACTION_ABORTABLE})
    say(_A.FATAL, {ErrorCode.TRANSACTION_ABORTABLE}, frozenset({_R.ABORT}))
    say(_A.SUPERSEDED, FENCING)
    # The principal may get the permission later.
    say(
        _A.REFUSED,
        {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
        frozenset({_R.INIT_PRODUCER_ID}),
    )
    say(_A.REFUSED, {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}, frozenset({_R.FIND_COORDINATOR}))
    say(
        _A.ABORTABLE,
        {ErrorCode.GROUP_AUTHORIZATION_FAILED},
        frozenset({_R.FIND_COORDINATOR, _R.ADD_OFFSETS, _R.COMMIT_OFFSETS}),
    )
    say(_A.FATAL, {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}, frozenset({_R.ADD_PARTITIONS}))
    say(_A.ABORTABLE, {ErrorCode.UNKNOWN_PRODUCER_ID}, frozenset({_R.ADD_OFFSETS, _R.COMMIT, _R.ABORT}))
    # An id that was not used for a week is forgotten (transactional.id.expiration.ms): with a new one the next goes on.
    say(
        _A.ABORTABLE,
        {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        frozenset({_R.ADD_PARTITIONS, _R.ADD_OFFSETS, _R.COMMIT_OFFSETS, _R.ABORT}),
    )
    # The group has a new generation, or does not know this member: the consumed records belong to another member.
    say(
        _A.ABORTABLE,
        {
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.STALE_MEMBER_EPOCH,
        },
        frozenset({_R.COMMIT_OFFSETS}),
    )
    say(_A.LOOK_UP, {ErrorCode.REQUEST_TIMED_OUT}, frozenset({_R.COMMIT_OFFSETS}))
    # The answer for a transaction that the coordinator has aborted after its time limit.
    say(_A.SUPERSEDED, {ErrorCode.INVALID_TXN_STATE}, _IN_TRANSACTION)
    return MappingProxyType(cells)


CELLS = _cells()

_ADVICE: Mapping[int, str] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed in an unexpected way; its log has details",
    ErrorCode.ILLEGAL_GENERATION: "the group has a newer generation: the consumed records belong to another member",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group no longer has this member: the consumed records belong to another member",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for a topic; grant the principal WRITE on it, or READ where its offsets are committed",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for the group; grant the principal READ on it",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized on the cluster; grant the principal IDEMPOTENT_WRITE on it",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support this version of the request",
    ErrorCode.INVALID_REQUEST: "the broker found the request malformed; its log has details",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the coordinator knows a newer epoch of this producer",
    ErrorCode.INVALID_TXN_STATE: "the coordinator has no transaction of this producer in a state for the request",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the producer id no longer belongs to the transactional id",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is larger than transaction.max.timeout.ms of the broker",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the previous transaction is still being ended",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not authorized for the transactional id; grant the principal WRITE on it",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "not attempted, because another partition of the same request was refused",
    ErrorCode.PRODUCER_FENCED: "another producer with the same transactional_id has taken over",
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction can only be aborted",
}


def advice(code: int) -> str:
    """The meaning of the code in words, and the remedy."""
    known = ERRORS.get(code)
    unknown = "an error code that this version of the library does not know"
    return _ADVICE.get(code) or (known.message if known else unknown)


# Requests that change nothing.
_QUESTIONS = frozenset({_R.FIND_COORDINATOR, _R.FETCH_OFFSETS, _R.DESCRIBE, _R.LIST})
# The coordinator answers with these before it writes to its log. Not in the set on purpose: 14, 15 and 16, which it also gives
# after a write that was not replicated, or when it lost its role meanwhile (TransactionStateManager.appendTransactionToLog); 7, 13
# and -1 (any reason); and codes of a later Kafka.
_PROVES_NOT_DONE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


def may_be_done(request: Request, code: int) -> bool:
    """Whether the request may have been executed although its answer has this error."""
    return request not in _QUESTIONS and code not in _PROVES_NOT_DONE


def judge(request: Request, code: int) -> Answer:
    """The next step. A code that is not in the table is fatal, as in Java, except for codes without a meaning."""
    otherwise = Answer.FATAL if code in ERRORS else _OF_NO_MEANING.get(request, Answer.FATAL)
    return CELLS.get((request, code), otherwise)


def answers_later(code: int) -> bool:
    """Whether the coordinator that answered DescribeTransactions so, or another one, will give the state of the id later."""
    return judge(Request.DESCRIBE, code) in (Answer.RETRY, Answer.LOOK_UP)
