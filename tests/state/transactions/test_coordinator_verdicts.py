"""The verdict on each code after each request to a coordinator: Kafka's own table, written down a second time."""

from __future__ import annotations

import pytest

from aioproducer._state.transactions.coordinator_verdicts import CELLS, Answer, Request, advice, judge
from aioproducer._wire.error_codes import ERRORS

R, A = Request, Answer
RETRIED: dict[Answer, dict[Request, set[int]]] = {
    A.RETRY: {
        R.INIT_PRODUCER_ID: {14},
        R.FIND_COORDINATOR: {15},
        R.ADD_PARTITIONS: {3, 14},
        R.COMMIT_OFFSETS: {3},
    },
    A.BUSY: {request: {51} for request in R},
    A.REPLACED: {R.COMMIT_OFFSETS: {14}},
    A.LOOK_UP: {
        request: {7, 15, 16} if request is R.COMMIT_OFFSETS else {15, 16}
        for request in R
        if request is not R.FIND_COORDINATOR
    },
}
ABORTABLE = {
    R.FIND_COORDINATOR: {30, 120},
    R.INIT_PRODUCER_ID: {120},
    R.ADD_PARTITIONS: {29, 49, 55, 59, 120},
    R.ADD_OFFSETS: {30, 49, 59, 120},
    R.COMMIT_OFFSETS: {22, 25, 30, 49, 69, 82, 113, 120},
    R.COMMIT: {59, 120},
    R.ABORT: {49, 59},
}
FATAL = {
    R.FIND_COORDINATOR: {35, 42},
    R.INIT_PRODUCER_ID: {35, 48, 49, 50},
    R.ADD_PARTITIONS: {53},
    R.ADD_OFFSETS: {53},
    R.COMMIT_OFFSETS: {12, 43, 53},
    R.COMMIT: {35, 49, 53},
    R.ABORT: {35, 53, 120},
}
REFUSED = {R.FIND_COORDINATOR: {53}, R.INIT_PRODUCER_ID: {31, 53}}
WHILE_OPEN = (R.ADD_PARTITIONS, R.ADD_OFFSETS, R.COMMIT_OFFSETS, R.COMMIT, R.ABORT)
SUPERSEDED = {request: {47, 90} for request in R} | {request: {47, 48, 90} for request in WHILE_OPEN}

# UNKNOWN_SERVER_ERROR, and what a later Kafka may say: nothing is concluded from it.
OF_NO_MEANING = {
    A.RETRY: (R.FIND_COORDINATOR, R.DESCRIBE, R.INIT_PRODUCER_ID),
    A.ABORTABLE: (R.ADD_PARTITIONS, R.ADD_OFFSETS, R.COMMIT_OFFSETS),
    A.UNDECIDED: (R.COMMIT, R.ABORT),
    A.FATAL: (R.FETCH_OFFSETS, R.LIST),
}
EXPECTED = [
    (request, code, answer)
    for answer, table in [
        *RETRIED.items(),
        (A.ABORTABLE, ABORTABLE),
        (A.FATAL, FATAL),
        (A.REFUSED, REFUSED),
        (A.SUPERSEDED, SUPERSEDED),
        (A.DONE, {request: {0} for request in R}),
    ]
    for request, codes in table.items()
    for code in sorted(codes)
]


@pytest.mark.parametrize(
    ("request_", "code", "answer"), EXPECTED, ids=[f"{r.name}-{code}" for r, code, _ in EXPECTED]
)
def test_each_cell(request_: Request, code: int, answer: Answer) -> None:
    """As in Java's client, but for what tells a transaction that timed out from a producer that was superseded."""
    assert judge(request_, code) is answer


@pytest.mark.parametrize("code", [-1, 999, -2, 32_767])
@pytest.mark.parametrize(
    ("request_", "answer"),
    [(request, answer) for answer, asked in OF_NO_MEANING.items() for request in asked],
)
def test_what_has_no_meaning_decides_nothing(request_: Request, answer: Answer, code: int) -> None:
    """It ends no producer: what does no harm is asked again, and an end of a transaction stays in doubt."""
    assert judge(request_, code) is answer


@pytest.mark.parametrize("request_", Request)
def test_only_no_error_is_done(request_: Request) -> None:
    """No code but 0 means that the request was carried out."""
    assert [code for code in ERRORS if judge(request_, code) is A.DONE] == [0]


def test_no_cell_is_beyond_kafkas_codes() -> None:
    """Each stands for a code that Kafka has."""
    assert {code for _, code in CELLS} <= set(ERRORS)


@pytest.mark.parametrize("code", sorted({code for _, code, answer in EXPECTED if answer is not A.DONE}))
def test_what_a_code_is_told_as(code: int) -> None:
    """As what a coordinator says: not of the batch of a Produce, nor of doing without idempotence, as it would elsewhere."""
    text = advice(code)
    assert len(text) > 10
    assert not any(word in text for word in ("the batch", "for the partition", "enable_idempotence"))


def test_a_code_of_the_future_is_told_as_one() -> None:
    """There is no text for it."""
    assert "does not know" in advice(9999)
