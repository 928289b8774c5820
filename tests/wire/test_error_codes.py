"""Kafka's error codes, and the treatment of unknown codes."""

from __future__ import annotations

from aioproducer._wire.error_codes import ERRORS, describe


def test_known_codes() -> None:
    """A known code has Kafka's name, text and meaning."""
    known = ERRORS[6]
    assert (known, known.name) == (6, "NOT_LEADER_OR_FOLLOWER")
    assert "is not the current leader" in known.message
    assert known.retriable
    assert known.refreshes_metadata
    assert (ERRORS[7].retriable, ERRORS[7].refreshes_metadata) == (True, False)
    assert (ERRORS[10].retriable, ERRORS[10].refreshes_metadata) == (False, False)


def test_every_code_has_its_own_row() -> None:
    """The table is keyed by code and complete from -1 on."""
    assert list(ERRORS) == list(range(-1, max(ERRORS) + 1))
    assert all(code == row for code, row in ERRORS.items())


def test_any_number_has_a_name() -> None:
    """A code of the future stays a number that can be shown."""
    assert describe(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert describe(999) == "UNKNOWN_ERROR_CODE_999"
    assert describe(-32768) == "UNKNOWN_ERROR_CODE_-32768"
