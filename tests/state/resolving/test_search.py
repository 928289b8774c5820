"""The verdict about a batch, by the headers of the log: a table of cases."""

from __future__ import annotations

from typing import Final

import pytest

from aioproducer._state.queues.batches import Anchor
from aioproducer._state.resolving.search import (
    FRESH_MS,
    HOLE,
    NO_ANCHOR,
    NOT_FROM_HERE,
    NOTHING_LATER,
    OLD_FORMAT,
    OTHER_TOPIC,
    STALE,
    UNREAD,
    Search,
    Verdict,
    Wanted,
)
from aioproducer._wire.heads import BatchHead
from aioproducer.outcome import Outcome

PID, OTHER = 7, 8
EPOCH: Final = 3
NOW: Final = 10 * FRESH_MS
LAST: Final = (1 << 31) - 1
ANCHOR: Final = Anchor(10, (PID, EPOCH), 4)

ABSENT: Final = Verdict(Outcome.NOT_WRITTEN)


def head(first: int, sequence: int, *, count: int = 1, pid: int = PID, epoch: int = EPOCH, control: bool = False,
         at: int = NOW) -> BatchHead:  # fmt: skip
    """A batch of so many records from this offset and this number on."""
    return BatchHead(first, first + count - 1, at, pid, epoch, sequence, control)


def unknown(reason: str) -> Verdict:
    """Neither found nor proven absent."""
    return Verdict(Outcome.UNKNOWN, reason=reason)


def found(offset: int) -> Verdict:
    """The first record of the batch has this offset."""
    return Verdict(Outcome.ACKED, offset)


THE_ANCHOR: Final = head(10, 4)
# The wanted batch has the number 5, behind the anchor's 4.
CASES: Final[dict[str, tuple[list[BatchHead | None], Verdict]]] = {
    "at its place": ([THE_ANCHOR, head(11, 5)], found(11)),
    "behind other producers": ([THE_ANCHOR, head(11, 5, pid=OTHER, count=9), head(20, 5)], found(20)),
    "as a part of the batch that it was split from": ([THE_ANCHOR, head(11, 3, count=9)], found(13)),
    "behind a hole": ([THE_ANCHOR, head(15, 5)], found(15)),
    "without the anchor": ([head(10, 0, pid=OTHER), head(11, 5)], found(11)),
    "the anchor in the middle of its batch": ([head(8, 2, count=3), head(11, 5)], found(11)),
    "of another epoch": ([THE_ANCHOR, head(11, 5, epoch=EPOCH - 1)], unknown(NOTHING_LATER)),
    "nothing later": ([THE_ANCHOR], unknown(NOTHING_LATER)),
    "later records of others": ([THE_ANCHOR, head(11, 6, pid=OTHER, epoch=9)], unknown(NOTHING_LATER)),
    "an earlier number": ([THE_ANCHOR, head(11, 4)], unknown(NOTHING_LATER)),
    "an earlier epoch": ([THE_ANCHOR, head(11, 6, epoch=EPOCH - 1)], unknown(NOTHING_LATER)),
    "a marker of the same epoch": ([THE_ANCHOR, head(11, -1, control=True)], unknown(NOTHING_LATER)),
    "a later number": ([THE_ANCHOR, head(11, 6)], ABSENT),
    "a later epoch": ([THE_ANCHOR, head(11, 0, epoch=EPOCH + 1)], ABSENT),
    "a marker of a later epoch": ([THE_ANCHOR, head(11, -1, epoch=EPOCH + 1, control=True)], ABSENT),
    "a later number of long ago": ([THE_ANCHOR, head(11, 6, at=NOW - FRESH_MS - 1)], unknown(STALE)),
    "one of long ago and a fresh one": ([THE_ANCHOR, head(11, 6, at=0), head(12, 7)], ABSENT),
    "a fresh one and one of long ago": ([THE_ANCHOR, head(11, 6), head(12, 7, at=0)], unknown(STALE)),
    "a fresh one and a marker of long ago": (
        [THE_ANCHOR, head(11, 6), head(12, -1, control=True, at=0)],
        unknown(STALE),
    ),
    "a fresh one and one of long ago of another": ([THE_ANCHOR, head(11, 6), head(12, 7, pid=OTHER, at=0)], ABSENT),
    "a hole": ([THE_ANCHOR, head(12, 6)], unknown(HOLE)),
    "a hole behind the proof": ([THE_ANCHOR, head(11, 6), head(20, 7)], unknown(HOLE)),
    "another record at the anchor's place": ([head(10, 4, pid=OTHER), head(11, 6)], unknown(NO_ANCHOR)),
    "another number at the anchor's place": ([head(10, 3), head(11, 6)], unknown(NO_ANCHOR)),
    "another epoch at the anchor's place": (
        [head(10, 4, epoch=EPOCH + 1), head(11, 6)],
        unknown(NO_ANCHOR),
    ),
    "a log that begins behind the anchor": ([head(11, 6)], unknown(NO_ANCHOR)),
    "an old format": ([THE_ANCHOR, head(11, 6), None], unknown(OLD_FORMAT)),
    "no batch at all": ([], unknown(UNREAD)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_verdict(case: str) -> None:
    """Found, absent now and later, or the reason why neither is certain."""
    heads, verdict = CASES[case]
    search = Search(Wanted(PID, EPOCH, 5, ANCHOR))
    assert search.position == ANCHOR.offset
    search.read(heads, 0)
    assert search.verdict(NOW) == verdict


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_in_several_answers(case: str) -> None:
    """The same where each answer has one batch."""
    heads, verdict = CASES[case]
    search = Search(Wanted(PID, EPOCH, 5, ANCHOR))
    for each in heads:
        search.read([each], 0)
    assert search.verdict(NOW) == verdict


def test_batches_before_the_place_count_for_nothing() -> None:
    """An answer may begin with batches before the offset that was asked for."""
    search = Search(Wanted(PID, EPOCH, 5, ANCHOR))
    search.read([head(3, 0), THE_ANCHOR, head(11, 6)], 12)
    assert search.verdict(NOW) == ABSENT


def test_nothing_is_absent_before_the_end_was_read() -> None:
    """The end is the high watermark of the newest answer."""
    search = Search(Wanted(PID, EPOCH, 5, ANCHOR))
    search.read([THE_ANCHOR, head(11, 6)], 13)
    assert not search.is_at_the_end
    assert search.verdict(NOW) == unknown(UNREAD)
    search.read([head(12, 7)], 13)
    assert search.verdict(NOW) == ABSENT


def test_numbers_wrap() -> None:
    """Behind 2**31 - 1 comes 0: found across the border, and proven by a number behind it."""
    anchor = Anchor(10, (PID, EPOCH), LAST - 2)
    search = Search(Wanted(PID, EPOCH, LAST - 1, anchor))
    search.read([head(10, LAST - 2), head(11, 3)], 12)
    assert search.verdict(NOW) == ABSENT
    search = Search(Wanted(PID, EPOCH, 1, anchor))
    search.read([head(10, LAST - 2, count=9)], 19)
    assert search.verdict(NOW) == found(14)
    search = Search(Wanted(PID, EPOCH, 1, anchor))
    search.read([head(10, LAST - 2), head(11, LAST - 1)], 12)
    assert search.verdict(NOW) == unknown(NOTHING_LATER)


def test_the_whole_log_needs_no_anchor() -> None:
    """From its first record on the batch cannot be before the place; from anywhere else it can."""
    for whole, verdict in ((True, ABSENT), (False, unknown(NOT_FROM_HERE))):
        search = Search(Wanted(PID, EPOCH, 0, None))
        assert search.position is None
        search.begin(0, whole=whole)
        search.read([head(0, 0, pid=OTHER), head(1, 0, epoch=EPOCH + 1)], 2)
        assert search.verdict(NOW) == verdict


def test_a_whole_log_that_begins_later_has_a_hole() -> None:
    """Its first records are gone."""
    search = Search(Wanted(PID, EPOCH, 0, None))
    search.begin(0, whole=True)
    search.read([head(1, 0, epoch=EPOCH + 1)], 2)
    assert search.verdict(NOW) == unknown(HOLE)


def test_the_first_reason_is_told() -> None:
    """A reason that was noted outside stands, and the batch may still be found."""
    search = Search(Wanted(PID, EPOCH, 5, ANCHOR))
    search.cannot_prove_absence(OTHER_TOPIC)
    search.read([THE_ANCHOR, head(12, 6)], 13)
    assert search.verdict(NOW) == unknown(OTHER_TOPIC)
    search.read([head(13, 5)], 14)
    assert search.verdict(NOW) == found(13)
