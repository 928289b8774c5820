"""The judge: a pure function over the sent records, their reported outcomes, and the log.

It knows nothing of the producer, of brokers or of the fault that was injected; every layer of the proof is judged by it.
"""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import attrs

from aioproducer import Outcome
from tests.judge.history import NO_NUMBER, Found, Sent


class Anomaly(enum.Enum):
    """In which way the promise was broken: invariants I1, I2, I3, I4, I5 and I12 of tests/CATALOGUE.md."""

    LOST = "it was acknowledged, and is not in the log"
    DUPLICATE = "it is in the log more than once"
    REORDERED = "it stands behind a record that was sent after it"
    UNTRUE_NOT_WRITTEN = "it was said not to be written, and is in the log"
    UNTRUE_UNKNOWN = "its fate was said to be unknown, but no byte of it was given to a transport"
    WRONG_OFFSET = "it is in the log, but not where it was said to be"
    WRONG_BYTES = "it is in the log with another content"
    WRONG_PARTITION = "it is in the log of another topic or partition"
    STRANGER = "it is in the log, and nobody sent it"
    UNRESOLVED = "it has no outcome"
    LATE = "its outcome came after its deadline"
    HOLE = "the log's offsets have a gap or go back"


@attrs.frozen
class Finding:
    """One broken promise."""

    anomaly: Anomaly
    record: int
    detail: str

    def __str__(self) -> str:
        return f"record {self.record}: {self.anomaly.value} ({self.detail})"


@attrs.frozen
class Rules:
    """The promises under the settings of the run.

    `duplicates`: without idempotence, or where the broker forgot its producers. `disorder`: without idempotence and
    several requests in flight. `disorder_of_unknown`: without idempotence and one request in flight, acknowledged records
    are in order at their reported places. `unordered`: topics to which calls are made in no known order. `loss`: with acks below
    all, or after an unclean election. `most_copies`: an attempt writes a record at most once. `slack`: seconds that an outcome
    may be late. `whole_log`: the log was read from offset 0 on.
    """

    duplicates: bool = False
    disorder: bool = False
    disorder_of_unknown: bool = False
    unordered: frozenset[str] = frozenset()
    most_copies: float = math.inf
    loss: bool = False
    slack: float = 0.0
    whole_log: bool = True


def judge(history: Iterable[Sent], log: Iterable[Found], rules: Rules | None = None) -> list[Finding]:
    """Every broken promise; the log is given in the order of its offsets, partition by partition."""
    rules = Rules() if rules is None else rules
    sent = {record.number: record for record in history}
    places = _places(log)
    return [
        *_of_the_log(sent, places, rules),
        *_of_the_copies(sent, places, rules),
        *_of_the_records(sent, places, rules),
    ]


@attrs.define
class _Places:
    """The log by record and by partition."""

    by_number: dict[int, list[Found]] = attrs.Factory(lambda: defaultdict(list))
    by_partition: dict[tuple[str, int], list[Found]] = attrs.Factory(lambda: defaultdict(list))


def _places(log: Iterable[Found]) -> _Places:
    places = _Places()
    for record in log:
        places.by_number[record.number].append(record)
        places.by_partition[record.topic, record.partition].append(record)
    return places


# -- partition by partition


def _of_the_log(sent: dict[int, Sent], places: _Places, rules: Rules) -> Iterable[Finding]:
    for (topic, partition), records in places.by_partition.items():
        where = f"{topic}-{partition}"
        yield from _holes(where, records, rules)
        if not rules.disorder and topic not in rules.unordered:
            known = [
                record
                for record in records
                if not rules.disorder_of_unknown or _is_where_it_was_said(record, sent)
            ]
            yield from _disorder(where, known, sent)


def _holes(where: str, records: Sequence[Found], rules: Rules) -> Iterable[Finding]:
    expected = 0 if rules.whole_log else records[0].offset
    for record in records:
        if record.offset != expected:
            yield Finding(
                Anomaly.HOLE, record.number, f"{where}: offset {record.offset} where {expected} follows"
            )
        expected = record.offset + 1


def _disorder(where: str, records: Sequence[Found], sent: dict[int, Sent]) -> Iterable[Finding]:
    newest = NO_NUMBER
    seen: set[int] = set()
    for record in records:
        if record.number not in sent or record.number in seen:
            continue
        seen.add(record.number)
        if record.number < newest:
            yield Finding(
                Anomaly.REORDERED, record.number, f"{where} offset {record.offset}, behind record {newest}"
            )
        newest = max(newest, record.number)


def _is_where_it_was_said(record: Found, sent: dict[int, Sent]) -> bool:
    said = sent.get(record.number)
    return said is not None and said.outcome is Outcome.ACKED and said.offset in (-1, record.offset)


# -- copy by copy


def _of_the_copies(sent: dict[int, Sent], places: _Places, rules: Rules) -> Iterable[Finding]:
    for number, copies in places.by_number.items():
        record = sent.get(number)
        if record is None:
            yield from (Finding(Anomaly.STRANGER, number, _at(copy)) for copy in copies)
            continue
        if len(copies) > (rules.most_copies if rules.duplicates else 1):
            yield Finding(Anomaly.DUPLICATE, number, ", ".join(map(_at, copies)))
        for copy in copies:
            yield from _differences(record, copy)


def _differences(record: Sent, copy: Found) -> Iterable[Finding]:
    if copy.digest != record.digest:
        yield Finding(Anomaly.WRONG_BYTES, record.number, _at(copy))
    expected = (record.topic, record.partition)
    if copy.topic != record.topic or record.partition not in (None, copy.partition):
        yield Finding(Anomaly.WRONG_PARTITION, record.number, f"{_at(copy)}, but sent to {expected}")


# -- record by record


def _of_the_records(sent: dict[int, Sent], places: _Places, rules: Rules) -> Iterable[Finding]:
    for record in sent.values():
        copies = places.by_number.get(record.number, [])
        yield from _fate(record, copies, rules)
        if record.outcome is not Outcome.PENDING and record.resolved_at > record.due_at + rules.slack:
            late = record.resolved_at - record.due_at
            yield Finding(Anomaly.LATE, record.number, f"by {late:.3f} s: {record.error or 'acked'}")


def _fate(record: Sent, copies: Sequence[Found], rules: Rules) -> Iterable[Finding]:
    match record.outcome:
        case Outcome.PENDING:
            yield Finding(Anomaly.UNRESOLVED, record.number, f"{record.topic}-{record.partition}")
        case Outcome.ACKED:
            yield from _acknowledged(record, copies, rules)
        case Outcome.NOT_WRITTEN:
            yield from (
                Finding(Anomaly.UNTRUE_NOT_WRITTEN, record.number, f"{_at(copy)}: {record.error}")
                for copy in copies
            )
        case Outcome.UNKNOWN:
            if not record.on_wire:
                yield Finding(Anomaly.UNTRUE_UNKNOWN, record.number, record.error)


def _acknowledged(record: Sent, copies: Sequence[Found], rules: Rules) -> Iterable[Finding]:
    if not copies:
        if not rules.loss:
            detail = f"{record.topic}-{record.partition}, said to be at offset {record.offset}"
            yield Finding(Anomaly.LOST, record.number, detail)
        return
    # -1: a broker that no longer knew the offset of a repeated batch, or acks=0.
    if record.offset >= 0 and all(copy.offset != record.offset for copy in copies):
        yield Finding(Anomaly.WRONG_OFFSET, record.number, f"{_at(copies[0])}, said to be at {record.offset}")


def _at(copy: Found) -> str:
    return f"{copy.topic}-{copy.partition} offset {copy.offset}"
