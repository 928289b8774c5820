"""The judge of transactions: the reports to their owners against the records of a reader of committed ones (I13)."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs

Place = tuple[str, int]
"""A topic, and the number of a partition."""


class Fate(enum.Enum):
    """The reported end of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "nobody knows"


@attrs.define(eq=False)
class Told:
    """One transaction; they are numbered in the order in which they began. `offset` is what it committed for its group."""

    number: int
    records: list[tuple[Place, int]] = attrs.Factory(list)
    offset: int | None = None
    fate: Fate = Fate.UNKNOWN
    story: list[str] = attrs.Factory(list)


class Anomaly(enum.Enum):
    """In which way a transaction was none."""

    LOST = "it was committed, and a record of it is not there"
    TORN = "some of its records are there, and some are not"
    VISIBLE = "it was aborted, and a record of it is there"
    DOUBLED = "a record of it is there more than once"
    REORDERED = "a record of it stands behind one that was sent after it"
    STRANGER = "a record is there that nobody sent"
    OFFSETS = "the offset of the group is not that of the last transaction that is there"
    LEFT_OPEN = "a transaction was left open, and hides what is behind it"


@attrs.frozen
class Finding:
    """One broken promise; `transaction` is -1 where it is about none in particular."""

    anomaly: Anomaly
    transaction: int
    detail: str

    def __str__(self) -> str:
        return f"transaction {self.transaction}: {self.anomaly.value} ({self.detail})"


@attrs.frozen
class Seen:
    """The committed records at the end: their numbers by partition, and the offset of the group."""

    records: Mapping[Place, Sequence[int]]
    offset: int | None = None
    hidden: Sequence[Place] = ()
    """Partitions in which something is held back by an open transaction."""


def judge_transactions(history: Iterable[Told], seen: Seen) -> list[Finding]:
    """Every broken promise."""
    told = list(history)
    visible = Counter(number for numbers in seen.records.values() for number in numbers)
    return [
        *(finding for one in told for finding in _of_one(one, visible)),
        *_of_the_partitions(told, seen),
        *_of_the_offset(told, visible, seen.offset),
        *(Finding(Anomaly.LEFT_OPEN, -1, f"{topic}-{partition}") for topic, partition in seen.hidden),
    ]


def _of_one(one: Told, visible: Counter[int]) -> Iterable[Finding]:
    numbers = [number for _, number in one.records]
    there = [number for number in numbers if visible[number]]
    missing = [number for number in numbers if not visible[number]]
    detail = f"{len(there)} of {len(numbers)} records are there; {'; '.join(one.story)}"
    if one.fate is Fate.COMMITTED and missing:
        yield Finding(Anomaly.LOST, one.number, detail)
    if one.fate is Fate.ABORTED and there:
        yield Finding(Anomaly.VISIBLE, one.number, detail)
    if there and missing:
        yield Finding(Anomaly.TORN, one.number, detail)
    if any(visible[number] > 1 for number in numbers):
        yield Finding(Anomaly.DOUBLED, one.number, detail)


def _of_the_partitions(told: Sequence[Told], seen: Seen) -> Iterable[Finding]:
    owners = {number: one.number for one in told for _, number in one.records}
    expected: dict[Place, list[int]] = defaultdict(list)
    for one in told:
        for place, number in one.records:
            expected[place].append(number)
    for place, numbers in seen.records.items():
        order = {number: index for index, number in enumerate(expected[place])}
        newest = -1
        for number in numbers:
            if number not in order:
                yield Finding(Anomaly.STRANGER, owners.get(number, -1), f"record {number} in {place}")
            elif order[number] < newest:
                yield Finding(Anomaly.REORDERED, owners[number], f"record {number} in {place}")
            newest = max(newest, order.get(number, -1))


def _of_the_offset(told: Sequence[Told], visible: Counter[int], offset: int | None) -> Iterable[Finding]:
    """A transaction without records: it is unknown whether it is there, if its owner does not know."""
    sure = [one.offset for one in told if one.offset is not None and _is_there(one, visible)]
    perhaps = [one.offset for one in told if one.offset is not None and _may_be_there(one)]
    least = max(sure, default=None)
    if offset == least or (offset is not None and offset in perhaps and (least is None or offset > least)):
        return
    yield Finding(Anomaly.OFFSETS, -1, f"it is {offset}, at least {least} was committed")


def _is_there(one: Told, visible: Counter[int]) -> bool:
    return one.fate is Fate.COMMITTED or any(visible[number] for _, number in one.records)


def _may_be_there(one: Told) -> bool:
    return one.fate is Fate.UNKNOWN and not one.records
