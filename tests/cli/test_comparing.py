"""The demo's audit finds defects: a check that cannot fail proves nothing."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from aioproducer import Outcome
from aioproducer.cli.comparing import audit


@attrs.frozen
class Record:
    """A record of a log."""

    value: bytes
    offset: int
    partition: int = 0
    key: bytes | None = b"k"


@attrs.frozen
class Told:
    """A delivery with fixed results."""

    offset: int
    partition: int = 0
    outcome: Outcome = Outcome.ACKED

    def result(self) -> Told:
        """Its metadata, in as far as the audit looks."""
        return self


SENT: Any = {b"a": Told(0), b"b": Told(1)}


def test_good_log_has_no_complaint() -> None:
    """A log that holds every record once, in place and in order, is good."""
    result = audit(SENT, [Record(b"a", 0), Record(b"b", 1)])
    assert (result.is_good, result.acked, result.found, result.complaints) == (True, 2, 2, [])


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([Record(b"a", 0)], "b'b' is not in the log"),
        (
            [Record(b"a", 0), Record(b"b", 1), Record(b"a", 2)],
            "offset 2: b'a' is in the log twice, or was never sent",
        ),
        (
            [Record(b"a", 0), Record(b"b", 1), Record(b"x", 2)],
            "offset 2: b'x' is in the log twice, or was never sent",
        ),
        ([Record(b"a", 0), Record(b"b", 7)], "offset 7: its delivery reports partition 0 offset 1"),
        (
            [Record(b"a", 0), Record(b"b", 1, partition=3)],
            "partition 3 offset 1: its delivery reports partition 0",
        ),
        ([Record(b"b", 1), Record(b"a", 0)], "offset 0: b'a' is behind a later record of its key"),
    ],
    ids=["missing", "doubled", "foreign", "other offset", "other partition", "out of order"],
)
def test_each_kind_of_loss_is_found(log: list[Record], complaint: str) -> None:
    """Missing, doubled, foreign, misplaced and disordered records are each named."""
    result = audit(SENT, log)
    assert not result.is_good
    assert any(complaint in each for each in result.complaints)


def test_written_record_that_was_called_lost_is_found() -> None:
    """A record in the log whose delivery says NOT_WRITTEN is a broken promise."""
    sent: Any = {b"a": Told(0, outcome=Outcome.NOT_WRITTEN)}
    assert "its delivery has the outcome not written" in audit(sent, [Record(b"a", 0)]).complaints[0]
