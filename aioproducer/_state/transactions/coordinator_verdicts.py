"""What a coordinator's error code means for a transaction, as a table for each request."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aioproducer._wire.error_codes import ERRORS


class Request(enum.Enum):
    """What was asked, by the name of its API and what depends on it."""

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
    """What to do after it."""

    DONE = "it is done"
    RETRY = "ask the same again, after the backoff"
    BUSY = "the transaction before is still being ended: ask again soon"
    LOOK_UP = "find the coordinator, then ask the same again"
    REFUSED = "not now, and not until something is changed by hand; the producer may ask again"
    ABORTABLE = "this transaction can only be aborted"
    SUPERSEDED = "the coordinator has ended the transaction, or another producer has taken over"
    UNDECIDED = "nobody knows whether it was done; whoever wants to know may ask again"
    FATAL = "this producer may not go on"


_R, _A = Request, Answer
_ALL = frozenset(_R)
_IN_TRANSACTION = frozenset({_R.ADD_PARTITIONS, _R.ADD_OFFSETS, _R.COMMIT_OFFSETS, _R.COMMIT, _R.ABORT})


UNKNOWN_SERVER_ERROR: Final = -1
# UNKNOWN_SERVER_ERROR, and the codes of a later Kafka. They say nothing, so that nothing may be concluded from them: what can be
# repeated without harm is repeated, what is a part of a transaction can be aborted with it, and the end of one stays in doubt.
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


def _cells() -> Mapping[tuple[Request, int], Answer]:
    cells: dict[tuple[Request, int], Answer] = {}

    def say(answer: Answer, codes: set[int], requests: frozenset[Request] = _ALL) -> None:
        cells.update({(request, code): answer for request in requests for code in codes})

    for request, answer in _OF_NO_MEANING.items():
        say(answer, {UNKNOWN_SERVER_ERROR}, frozenset({request}))
    # A partition that cannot be added: whatever is not retriable, as it may be because of another one.
    say(_A.ABORTABLE, set(ERRORS), frozenset({_R.ADD_PARTITIONS}))
    say(_A.DONE, {0})
    say(_A.RETRY, {code for code, known in ERRORS.items() if known.retriable})
    say(_A.BUSY, {51})
    say(_A.LOOK_UP, {15, 16})
    say(_A.RETRY, {15}, frozenset({_R.FIND_COORDINATOR}))
    say(_A.ABORTABLE, {120})
    say(_A.FATAL, {120}, frozenset({_R.ABORT}))
    say(_A.SUPERSEDED, {47, 90})
    # Who may not write under this transactional id, or not at all, may be allowed to later.
    say(_A.REFUSED, {31, 53}, frozenset({_R.INIT_PRODUCER_ID}))
    say(_A.REFUSED, {53}, frozenset({_R.FIND_COORDINATOR}))
    say(_A.ABORTABLE, {30}, frozenset({_R.FIND_COORDINATOR, _R.ADD_OFFSETS, _R.COMMIT_OFFSETS}))
    say(_A.FATAL, {53}, frozenset({_R.ADD_PARTITIONS}))
    say(_A.ABORTABLE, {59}, frozenset({_R.ADD_OFFSETS, _R.COMMIT, _R.ABORT}))
    # An id that was not used for a week is forgotten (transactional.id.expiration.ms): with a new one the next goes on.
    say(_A.ABORTABLE, {49}, frozenset({_R.ADD_PARTITIONS, _R.ADD_OFFSETS, _R.COMMIT_OFFSETS, _R.ABORT}))
    # The group has a new generation, or does not know this member: what was consumed is somebody else's now.
    say(_A.ABORTABLE, {22, 25, 69, 82, 113}, frozenset({_R.COMMIT_OFFSETS}))
    say(_A.LOOK_UP, {7}, frozenset({_R.COMMIT_OFFSETS}))
    # Told of a transaction that the coordinator has ended by itself, because its time was over.
    say(_A.SUPERSEDED, {48}, _IN_TRANSACTION)
    return MappingProxyType(cells)


CELLS = _cells()

_ADVICE = {
    -1: "the broker failed in an unexpected way; its log tells more",
    22: "the group has another generation by now: what was consumed belongs to another member",
    25: "the group does not know this member any more: what was consumed belongs to another",
    29: "not authorized for a topic; grant the principal WRITE on it, or READ where its offsets are committed",
    30: "not authorized for the group; grant the principal READ on it",
    31: "not authorized on the cluster; grant the principal IDEMPOTENT_WRITE on it",
    35: "the broker does not support this version of the request",
    42: "the broker takes the request for malformed; its log tells more",
    47: "the coordinator knows a newer epoch of this producer",
    48: "the coordinator has no transaction of this producer for which that is possible",
    49: "the producer id does not belong to the transactional id any more",
    50: "transaction_timeout_ms is larger than transaction.max.timeout.ms of the broker",
    51: "the transaction before is still being ended",
    53: "not authorized for the transactional id; grant the principal WRITE on it",
    55: "not attempted, as another partition of the same request was refused",
    90: "another producer with the same transactional_id has taken over",
    120: "the transaction can only be aborted",
}


def advice(code: int) -> str:
    """What a coordinator says by this code, and what to do about it."""
    known = ERRORS.get(code)
    unknown = "a code that this version of the library does not know"
    return _ADVICE.get(code) or (known.message if known else unknown)


# Questions change nothing, and are done or not done without a consequence.
_QUESTIONS = frozenset({_R.FIND_COORDINATOR, _R.FETCH_OFFSETS, _R.DESCRIBE, _R.LIST})
# The coordinator gives these before it writes anything down. Not among them on purpose: 14, 15 and 16, which are also given for
# what was written to the coordinator's log and not replicated, or when it lost its office meanwhile
# (TransactionStateManager.appendTransactionToLog); 7, 13 and -1 (anything); and codes of a later Kafka.
_PROVES_NOT_DONE = frozenset(
    {
        0,
        3,
        12,
        17,
        22,
        24,
        25,
        28,
        29,
        30,
        31,
        35,
        42,
        43,
        47,
        48,
        49,
        50,
        51,
        53,
        55,
        59,
        69,
        82,
        89,
        90,
        113,
        120,
    }
)


def may_be_done(request: Request, code: int) -> bool:
    """Whether what was asked may have been carried out although it was answered with this error."""
    return request not in _QUESTIONS and code not in _PROVES_NOT_DONE


def judge(request: Request, code: int) -> Answer:
    """What is not known to pass is fatal, as in Java, but for codes without a meaning."""
    otherwise = Answer.FATAL if code in ERRORS else _OF_NO_MEANING.get(request, Answer.FATAL)
    return CELLS.get((request, code), otherwise)
