"""The judge sees each way in which the promise can be broken, and nothing where it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import Outcome
from tests.judge.history import NO_NUMBER, Found, Sent, digest_of, number_of, value_of
from tests.judge.judge import Anomaly, Finding, Rules, judge

SAME = b"content"


def sent(number: int, outcome: Outcome = Outcome.ACKED, offset: int | None = None, **facts: Any) -> Sent:
    at = number if offset is None and outcome is Outcome.ACKED else (-1 if offset is None else offset)
    return attrs.evolve(Sent(number, SAME, "t", 0, outcome, at), **facts)


def copy(number: int, offset: int | None = None, **facts: Any) -> Found:
    return attrs.evolve(Found("t", 0, number if offset is None else offset, number, SAME), **facts)


def anomalies(history: Sequence[Sent], log: Sequence[Found], rules: Rules | None = None) -> list[Anomaly]:
    return [finding.anomaly for finding in judge(history, log, rules)]


def test_a_kept_promise_has_no_findings() -> None:
    """Acked records at their places, unwritten ones absent, unknown ones there or not: no findings."""
    history = [
        sent(0),
        sent(1, Outcome.NOT_WRITTEN),
        sent(2, Outcome.UNKNOWN),
        sent(3, Outcome.UNKNOWN),
        sent(4, offset=2),
    ]
    assert judge(history, [copy(0), copy(3, 1), copy(4, 2)]) == []


def test_a_lost_record() -> None:
    """Acked, and not in the log."""
    assert anomalies([sent(0), sent(1)], [copy(0)]) == [Anomaly.LOST]


def test_a_duplicate() -> None:
    """Twice in the log, though its offset is right."""
    assert anomalies([sent(0)], [copy(0), copy(0, 1)]) == [Anomaly.DUPLICATE]


def test_a_duplicate_of_unknown_fate() -> None:
    """UNKNOWN allows no copy or one, never two."""
    assert anomalies([sent(0, Outcome.UNKNOWN)], [copy(0), copy(0, 1)]) == [Anomaly.DUPLICATE]


def test_a_duplicate_in_another_partition() -> None:
    """A copy elsewhere is one as well."""
    assert anomalies([sent(0)], [copy(0), copy(0, 0, partition=1)]) == [
        Anomaly.DUPLICATE,
        Anomaly.WRONG_PARTITION,
    ]


def test_a_duplicate_that_was_allowed() -> None:
    """Without idempotence a retry may write twice."""
    assert anomalies([sent(0)], [copy(0), copy(0, 1)], Rules(duplicates=True)) == []


def test_records_in_the_wrong_order() -> None:
    """Behind one that was sent later."""
    assert anomalies([sent(0, offset=1), sent(1, offset=0)], [copy(1, 0), copy(0, 1)]) == [Anomaly.REORDERED]


def test_unknown_records_keep_their_place_too() -> None:
    """A record whose fate was not known, if it is there, is where it belongs."""
    history = [sent(0, Outcome.UNKNOWN), sent(1, offset=0)]
    assert anomalies(history, [copy(1, 0), copy(0, 1)]) == [Anomaly.REORDERED]


def test_partitions_have_their_own_order() -> None:
    """Records of two partitions are in no order."""
    history = [sent(0, offset=0, partition=1), sent(1, offset=0)]
    assert anomalies(history, [copy(1, 0), copy(0, 0, partition=1)]) == []


def test_an_untrue_not_written() -> None:
    """Said not to be written, and there it is."""
    assert anomalies([sent(0, Outcome.NOT_WRITTEN)], [copy(0)]) == [Anomaly.UNTRUE_NOT_WRITTEN]


def test_an_untrue_unknown() -> None:
    """Unknown, though nothing of it ever left."""
    assert anomalies([sent(0, Outcome.UNKNOWN, on_wire=False)], []) == [Anomaly.UNTRUE_UNKNOWN]


def test_a_wrong_offset() -> None:
    """In the log, but elsewhere."""
    assert anomalies([sent(0, offset=7)], [copy(0)]) == [Anomaly.WRONG_OFFSET]


def test_an_offset_that_nobody_knows() -> None:
    """-1 claims nothing."""
    assert anomalies([sent(0, offset=-1)], [copy(0)]) == []


def test_wrong_bytes() -> None:
    """Another content under the same number."""
    assert anomalies([sent(0)], [copy(0, digest=b"else")]) == [Anomaly.WRONG_BYTES]


def test_a_wrong_partition() -> None:
    """In another partition than was told."""
    assert anomalies([sent(0)], [copy(0, partition=1)]) == [Anomaly.WRONG_PARTITION]


def test_a_stranger() -> None:
    """A record that was never sent."""
    assert anomalies([sent(0)], [copy(0), copy(NO_NUMBER, 1)]) == [Anomaly.STRANGER]


def test_a_record_without_an_outcome() -> None:
    """Pending at the end."""
    assert anomalies([sent(0, Outcome.PENDING)], []) == [Anomaly.UNRESOLVED]


@pytest.mark.parametrize(("late", "found"), [(0.2, []), (0.3, [Anomaly.LATE])])
def test_a_late_outcome(late: float, found: list[Anomaly]) -> None:
    """Later than its deadline, and than the slack allows."""
    record = sent(0, due_at=10.0, resolved_at=10.0 + late)
    assert anomalies([record], [copy(0)], Rules(slack=0.25)) == found


def test_a_hole_in_the_log() -> None:
    """Offsets follow each other: a reader that skips some would hide a loss."""
    assert anomalies([sent(0), sent(1, offset=2)], [copy(0), copy(1, 2)]) == [Anomaly.HOLE]


def test_a_log_read_from_later_on() -> None:
    """Where the beginning was not read, it may begin anywhere."""
    assert anomalies([sent(0, offset=5)], [copy(0, 5)], Rules(whole_log=False)) == []


def test_what_the_broker_may_lose() -> None:
    """With acks=1 an acknowledged record may be gone."""
    assert anomalies([sent(0)], [], Rules(loss=True)) == []


def test_an_attempt_writes_a_record_once() -> None:
    """Where a record was tried twice, it may be there twice, and not three times."""
    log = [copy(0, offset) for offset in range(3)]
    assert anomalies([sent(0)], log[:2], Rules(duplicates=True, most_copies=2)) == []
    assert anomalies([sent(0)], log, Rules(duplicates=True, most_copies=2)) == [Anomaly.DUPLICATE]


def test_the_order_of_what_is_known() -> None:
    """With one request in flight and no idempotence, a late copy may stand anywhere; acknowledged records are in order."""
    rules = Rules(duplicates=True, disorder_of_unknown=True)
    late = [copy(1, 0), copy(0, 1), copy(2, 2), copy(1, 3)]
    assert anomalies([sent(0, Outcome.UNKNOWN), sent(1, offset=0), sent(2, offset=2)], late, rules) == []
    assert anomalies([sent(0, offset=1), sent(1, offset=0)], late[:2], rules) == [Anomaly.REORDERED]


def test_topics_without_an_order() -> None:
    """Records that other threads send are not in the order of their numbers."""
    swapped = [copy(1, 0), copy(0, 1)]
    assert anomalies([sent(0, offset=1), sent(1, offset=0)], swapped, Rules(unordered=frozenset("t"))) == []


def test_a_finding_says_which_record_and_where() -> None:
    """A finding names the record and its place."""
    (finding,) = judge([sent(3, Outcome.NOT_WRITTEN)], [copy(3, 0)])
    assert finding == Finding(Anomaly.UNTRUE_NOT_WRITTEN, 3, "t-0 offset 0: ")
    assert str(finding).startswith("record 3: it was said not to be written")


@given(st.data())
def test_every_tampering_is_found(data: st.DataObject) -> None:
    """A log that kept the promise, with one record taken away, doubled, swapped or altered, is never let through."""
    count = data.draw(st.integers(2, 40))
    history = [sent(number) for number in range(count)]
    log = [copy(number) for number in range(count)]
    assert judge(history, log) == []
    at = data.draw(st.integers(0, count - 2))
    match data.draw(st.sampled_from(["remove", "double", "swap", "alter"])):
        case "remove":
            del log[at]
        case "double":
            log.append(attrs.evolve(log[at], offset=count))
        case "swap":
            log[at], log[at + 1] = (
                attrs.evolve(log[at + 1], offset=at),
                attrs.evolve(log[at], offset=at + 1),
            )
        case "alter":
            log[at] = attrs.evolve(log[at], digest=b"else")
    assert judge(history, log) != []


def test_numbers_survive_in_values() -> None:
    """A record is identified by its value; one without a number has no sender."""
    assert number_of(value_of(12345, b"filling")) == 12345
    assert number_of(None) == number_of(b"short") == NO_NUMBER


def test_digests_tell_contents_apart() -> None:
    """Absent and empty, key and value, headers and their order are all different."""
    contents = [
        (None, b"v", (), None),
        (b"", b"v", (), None),
        (b"v", None, (), None),
        (None, b"v", (("a", b"1"), ("b", b"2")), None),
        (None, b"v", (("b", b"2"), ("a", b"1")), None),
        (None, b"v", (("a", None), ("b", b"2")), None),
        (None, b"v", (), 1),
    ]
    assert len({digest_of(*content) for content in contents}) == len(contents)
