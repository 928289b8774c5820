"""Windows: a soak that is judged in parts gets the same findings as one that is judged as a whole."""

from __future__ import annotations

from aioproducer import Outcome
from tests.judge.history import Found, Sent
from tests.judge.judge import Anomaly
from tests.soak.judging.windows import Windows


def acked(number: int, offset: int | None = None) -> Sent:
    """An acknowledged record at this offset of partition 0; without an offset, at that of its number."""
    return Sent(number, b"%d" % number, "t", 0, Outcome.ACKED, number if offset is None else offset)


def lost(number: int, outcome: Outcome) -> Sent:
    """A record that was not acknowledged."""
    return Sent(number, b"%d" % number, "t", 0, outcome)


def at(offset: int, number: int | None = None) -> Found:
    """The record in the log at this offset; without a number, the record of the same number."""
    number = offset if number is None else number
    return Found("t", 0, offset, number, b"%d" % number)


def windows_of(*parts: Sent | Found) -> Windows:
    """Windows with this history and log."""
    return add(Windows(), *parts)


def add(windows: Windows, *parts: Sent | Found) -> Windows:
    """Add more history and log."""
    for one in parts:
        windows.add(one) if isinstance(one, Sent) else windows.read(one)
    return windows


def anomalies(windows: Windows, below: int) -> list[Anomaly]:
    """The anomalies of the next window."""
    return [finding.anomaly for finding in windows.judge(below, 0.0).findings]


def pairs(*numbers: int) -> list[Sent | Found]:
    """Acknowledged records, each at its place."""
    return [one for number in numbers for one in (acked(number), at(number))]


def test_good_windows_are_silent_and_forgotten() -> None:
    """A thousand records in ten windows: each is judged once, there are no findings, and only the borders are kept."""
    windows, judged = Windows(), 0
    for below in range(100, 1100, 100):
        verdict = add(windows, *pairs(*range(below - 100, below))).judge(below, 0.0)
        assert verdict.findings == []
        judged += verdict.records
        assert windows.held == 0
        assert windows.offsets() == {"t": {0: below}}
    assert judged == 1000


def test_what_is_above_the_mark_waits_for_its_window() -> None:
    """A record that is read before its outcome is known is judged with the window of its outcome."""
    windows = windows_of(*pairs(0, 1), at(2), at(3))
    assert anomalies(windows, 2) == []
    assert windows.held == 2
    assert anomalies(add(windows, acked(2), acked(3)), 4) == []


def test_a_window_is_complete_when_all_acknowledged_were_read() -> None:
    """A window waits only for acknowledged records below the mark, in any order."""
    windows = windows_of(at(0), acked(0), acked(1), acked(5), lost(2, Outcome.UNKNOWN))
    assert not windows.complete(3)
    assert add(windows, at(1)).complete(3)
    assert not windows.complete(6)


def test_lost_records_are_found() -> None:
    """A record that was acknowledged and never read is lost."""
    assert anomalies(windows_of(*pairs(0), acked(1)), 2) == [Anomaly.LOST]


def test_a_hole_at_the_border_is_found() -> None:
    """Offsets continue at the end of the last window, and begin with 0."""
    windows = windows_of(*pairs(0, 1))
    assert anomalies(windows, 2) == []
    assert anomalies(add(windows, acked(2, 3), at(3, 2)), 3) == [Anomaly.HOLE]
    assert anomalies(windows_of(acked(0, 1), at(1, 0)), 1) == [Anomaly.HOLE]


def test_disorder_across_the_border_is_found() -> None:
    """A record of the first window that stands behind one of the second leaves a hole in the first."""
    windows = windows_of(acked(0), at(0), acked(1, 2), at(1, 2), at(2, 1))
    assert anomalies(windows, 2) == [Anomaly.HOLE]


def test_disorder_behind_the_border_is_found() -> None:
    """A record of unknown outcome in the first window must not come behind a record that was sent after it."""
    windows = windows_of(lost(0, Outcome.UNKNOWN), acked(1, 0), at(0, 1))
    assert anomalies(windows, 2) == []
    assert anomalies(add(windows, at(1, 0)), 3) == [Anomaly.REORDERED]


def test_a_second_copy_in_a_later_window_is_found() -> None:
    """A second copy of a judged record is a stranger."""
    windows = windows_of(*pairs(0, 1, 2))
    assert anomalies(windows, 3) == []
    assert anomalies(add(windows, at(3, 1)), 4) == [Anomaly.STRANGER]


def test_an_unknown_record_may_come_later_once() -> None:
    """UNKNOWN is 0 or 1 copies: one late copy is allowed, a second is not."""
    windows = windows_of(*pairs(0), lost(1, Outcome.UNKNOWN))
    assert anomalies(windows, 2) == []
    assert anomalies(add(windows, at(1)), 2) == []
    assert Anomaly.STRANGER in anomalies(add(windows, at(2, 1)), 3)


def test_not_written_that_comes_later_is_untrue() -> None:
    """NOT_WRITTEN is a promise for later windows too."""
    windows = windows_of(*pairs(0), lost(1, Outcome.NOT_WRITTEN))
    assert anomalies(windows, 2) == []
    assert anomalies(add(windows, at(1)), 2) == [Anomaly.UNTRUE_NOT_WRITTEN]


def test_what_is_absent_is_remembered_for_a_bounded_time() -> None:
    """After a dozen further windows, no window waits for an unknown record."""
    windows = Windows()
    for number in range(100):
        add(windows, lost(number, Outcome.UNKNOWN)).judge(number + 1, 0.0)
    assert windows.held == 12


def test_late_and_unresolved_records_are_found_once() -> None:
    """The anomaly of a record itself is not repeated in later windows."""
    late = Sent(0, b"0", "t", 0, Outcome.UNKNOWN, due_at=1.0, resolved_at=2.0)
    windows = windows_of(late, lost(1, Outcome.PENDING))
    assert sorted(one.name for one in anomalies(windows, 2)) == ["LATE", "UNRESOLVED"]
    assert anomalies(windows, 3) == []


def test_slack_is_granted() -> None:
    """An outcome may be late by as much as the loop was."""
    late = Sent(0, b"0", "t", 0, Outcome.NOT_WRITTEN, due_at=1.0, resolved_at=2.0)
    assert windows_of(late).judge(1, 1.0).findings == []


def test_topics_of_several_producers_may_be_out_of_order() -> None:
    """Order is promised to each producer, not among them."""
    swapped = (acked(0, 1), acked(1, 0), at(0, 1), at(1, 0))
    assert anomalies(add(Windows(frozenset({"t"})), *swapped), 2) == []
    assert anomalies(windows_of(*swapped), 2) == [Anomaly.REORDERED]


def test_each_topic_is_judged_by_its_own_records() -> None:
    """A record in the log of another topic is lost here, and a stranger there."""
    windows = windows_of(acked(0), Found("other", 0, 0, 0, b"0"))
    assert sorted(one.name for one in anomalies(windows, 1)) == ["LOST", "STRANGER"]
