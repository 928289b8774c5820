"""The verdict on each error code, for a batch and for a producer id."""

from __future__ import annotations

import pytest

from aioproducer._state.delivery.verdicts import (
    LOOK_UP_CODES,
    REFUSED_BEFORE_APPEND,
    VERDICTS,
    IdentityKind,
    Kind,
    identity_verdict,
    verdict,
)
from aioproducer._wire.error_codes import ERRORS
from aioproducer.outcome import Outcome

SPECIAL = {
    0: Kind.ACK,
    46: Kind.ACK,
    10: Kind.SPLIT,
    18: Kind.SPLIT,
    45: Kind.NEW_IDENTITY,
    47: Kind.NEW_IDENTITY,
    59: Kind.NEW_IDENTITY,
    53: Kind.FATAL,
    90: Kind.FATAL,
}
UNKNOWN_CODES = (999, -2, 134, 32767, -32768)


def test_every_code_of_kafka_has_a_row() -> None:
    """No code that Kafka has a name for is decided by accident."""
    assert set(VERDICTS) == set(ERRORS)


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_the_kind_follows_kafkas_class_but_for_named_exceptions(code: int) -> None:
    """A code is retried exactly if Kafka calls it retriable, unless it has a meaning of its own for Produce."""
    expected = SPECIAL.get(code, Kind.RETRY if ERRORS[code].retriable else Kind.FAIL)
    assert verdict(code).kind is expected


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_metadata_is_refreshed_where_kafka_says_so(code: int) -> None:
    """The codes that make metadata stale are those of Kafka's own table."""
    assert verdict(code).refresh_metadata is ERRORS[code].refreshes_metadata


@pytest.mark.parametrize("code", [3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103])
def test_stale_metadata_is_refreshed_and_the_batch_retried(code: int) -> None:
    """A moved or missing leader is no reason to give up a batch."""
    found = verdict(code)
    assert (found.kind, found.refresh_metadata) == (Kind.RETRY, True)


@pytest.mark.parametrize("code", [-1, 7, 13, 20, 56])
@pytest.mark.parametrize("base_offset", [None, -1, 7])
def test_ambiguous_answers_prove_nothing(code: int, base_offset: int | None) -> None:
    """Timeouts, broken connections, failed disks and unexpected errors may come after the append."""
    found = verdict(code, base_offset)
    assert (found.proves_not_appended, found.outcome) == (False, Outcome.UNKNOWN)


@pytest.mark.parametrize("code", sorted(LOOK_UP_CODES))
def test_a_lost_leader_is_a_proof_only_without_an_offset(code: int) -> None:
    """A leader deposed while it waited for followers answers NOT_LEADER with the offset that it had appended at."""
    assert verdict(code, -1).proves_not_appended
    assert not verdict(code, 0).proves_not_appended
    assert not verdict(code, 41).proves_not_appended
    assert not verdict(code).proves_not_appended


@pytest.mark.parametrize("code", sorted(REFUSED_BEFORE_APPEND))
def test_what_is_refused_in_front_of_the_log_is_not_written(code: int) -> None:
    """Checks in front of the append prove that nothing was written, whatever else the answer has."""
    assert verdict(code).outcome is Outcome.NOT_WRITTEN
    assert verdict(code, 0).outcome is Outcome.NOT_WRITTEN


@pytest.mark.parametrize("code", [17, 21, 29, 31, 32, 35, 42, 43, 44, 76, 87, 120])
def test_refusals_end_the_batch_alone(code: int) -> None:
    """A refused batch fails at once, certainly not written, and does not end the producer."""
    found = verdict(code)
    assert (found.kind, found.outcome) == (Kind.FAIL, Outcome.NOT_WRITTEN)


def test_a_batch_that_is_too_large_is_split() -> None:
    """Both ways of being too large are mended by smaller batches, and prove that nothing was written."""
    assert {verdict(code).kind for code in (10, 18)} == {Kind.SPLIT}
    assert {verdict(code).outcome for code in (10, 18)} == {Outcome.NOT_WRITTEN}


def test_a_duplicate_is_a_success() -> None:
    """DUPLICATE_SEQUENCE_NUMBER says that an earlier attempt is in the log."""
    assert verdict(46).outcome is Outcome.ACKED
    assert verdict(0).outcome is Outcome.ACKED


@pytest.mark.parametrize("code", UNKNOWN_CODES)
def test_an_unknown_code_is_an_unknown_server_error(code: int) -> None:
    """A code of a later Kafka ends the batch, with the outcome UNKNOWN."""
    found = verdict(code, -1)
    expected = (Kind.FAIL, False, Outcome.UNKNOWN)
    assert (found.kind, found.refresh_metadata, found.outcome) == expected
    assert str(code) in found.name


@pytest.mark.parametrize("code", [*sorted(ERRORS), *UNKNOWN_CODES])
def test_every_verdict_has_a_text(code: int) -> None:
    """Every code, also an unknown one, has a sentence of advice for the reader of the error."""
    assert len(verdict(code).advice) > 10
    assert len(identity_verdict(code).advice) > 10
    assert not verdict(code).advice.endswith("None")


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_identity_errors_follow_kafkas_class(code: int) -> None:
    """Asking for a producer id is repeated where Kafka calls the code retriable, and where it has no meaning."""
    expected = IdentityKind.RETRY if ERRORS[code].retriable else IdentityKind.FATAL
    known = {
        -1: IdentityKind.RETRY,
        0: IdentityKind.OBTAINED,
        15: IdentityKind.LOOK_UP,
        16: IdentityKind.LOOK_UP,
    }
    expected = known.get(code, expected)
    assert identity_verdict(code).kind is expected


@pytest.mark.parametrize("code", [31, 35, 47, 50, 53, 90])
def test_some_identity_errors_need_a_person(code: int) -> None:
    """Missing rights and fencing end the attempts to get an identity."""
    assert identity_verdict(code).kind is IdentityKind.FATAL


@pytest.mark.parametrize("code", UNKNOWN_CODES)
def test_identity_errors_without_a_meaning(code: int) -> None:
    """They are no reason to end: asking again does no harm."""
    assert identity_verdict(code).kind is IdentityKind.RETRY
