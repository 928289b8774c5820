"""Requests that a connection can do without: their answers may come, come late, or never."""

from __future__ import annotations

import math

import pytest

from aioproducer import KafkaError, ProtocolError
from aioproducer._state.connecting.pairing import Pairing, SentRequest


class Handler:
    """Takes no answer."""

    def answered(self, frame: memoryview) -> None: ...

    def failed(self, error: KafkaError, *, written: bool) -> None: ...


def sent(pairing: Pairing, answer_limit: int = 100) -> SentRequest:
    return SentRequest(pairing.next_correlation_id(), Handler(), math.inf, math.inf, answer_limit, 10, 0.0)


def test_the_answers_come_in_any_order() -> None:
    """An optional request is found by its id, before, between or behind the others; each answer once."""
    pairing = Pairing("b")
    first, optional, last = sent(pairing), sent(pairing), sent(pairing)
    pairing.waiting += (first, last)
    pairing.expect_perhaps(optional)
    assert pairing.pair(0) is first
    assert pairing.next_for(1) is optional
    pairing.check_length(1, 100)
    with pytest.raises(ProtocolError, match="exceeds the limit"):
        pairing.check_length(1, 101)
    assert pairing.pair(2) is last
    assert pairing.pair(1) is optional
    with pytest.raises(ProtocolError, match="unexpected correlation id 1"):
        pairing.pair(1)


def test_a_missing_answer_holds_up_nothing() -> None:
    """It has no deadline and no bytes in flight, and the next answers are paired as if it were not there."""
    pairing = Pairing("b")
    pairing.expect_perhaps(sent(pairing))
    assert (pairing.earliest_deadline(), pairing.latest_deadline(), pairing.bytes_in_flight()) == (
        math.inf,
        -math.inf,
        0,
    )
    after = sent(pairing)
    pairing.waiting.append(after)
    assert pairing.pair(1) is after


def test_few_late_answers_are_expected() -> None:
    """A broker that never answers them costs no memory."""
    pairing = Pairing("b")
    for _ in range(1000):
        pairing.expect_perhaps(sent(pairing))
    assert len(pairing.optional) == 16
    assert pairing.pair(999) is not None
