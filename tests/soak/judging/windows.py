"""The history and the log cut into windows, each judged once and then forgotten, so that a soak may last for days.

A window is all records below a mark; a mark comes when each of them has its outcome. The last record that every
partition had in one window is judged again as the first of the next, so that the judge sees holes and disorder across
the border. A record that is absent from the log is remembered for some windows: it may have been UNKNOWN and come late,
or be a false NOT_WRITTEN. A second copy of a forgotten record appears as one that was never sent.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

import attrs

from aioproducer import Outcome
from tests.judge.history import Found, Sent
from tests.judge.judge import Anomaly, Finding, Rules, judge

_WINDOWS_REMEMBERED: Final = 12
"""For this many windows an absent record may still come into the log; longer than any fault holds a request back."""

Place = tuple[str, int]


@attrs.frozen
class Verdict:
    """The result of one window."""

    records: int
    in_log: int
    findings: list[Finding]
    anomalies: Counter[Anomaly]


@attrs.define(eq=False)
class Windows:
    """The history and the log that are not judged yet."""

    disorder: frozenset[str] = frozenset()
    """Topics that several producers send to: no order is promised between their records."""
    _sent: dict[int, Sent] = attrs.Factory(dict)
    _log: dict[Place, list[Found]] = attrs.Factory(lambda: defaultdict(list))
    _borders: dict[Place, tuple[Sent | None, Found]] = attrs.Factory(dict)
    _absent: list[dict[int, Sent]] = attrs.Factory(list)
    _awaited: set[int] = attrs.Factory(set)
    _seen: set[int] = attrs.Factory(set)

    @property
    def held(self) -> int:
        """The number of kept records of the history and of the log."""
        parts = [self._sent, *self._log.values(), *self._absent]
        return sum(map(len, parts))

    def add(self, sent: Sent) -> None:
        """Add the outcome of a record."""
        self._sent[sent.number] = sent
        if sent.outcome is Outcome.ACKED and sent.number not in self._seen:
            self._awaited.add(sent.number)

    def read(self, record: Found) -> None:
        """Add a record of the log."""
        self._log[record.topic, record.partition].append(record)
        self._seen.add(record.number)
        self._awaited.discard(record.number)

    def complete(self, below: int) -> bool:
        """Has every acknowledged record below this number been read?"""
        return all(number >= below for number in self._awaited)

    def judge(self, below: int, slack: float) -> Verdict:
        """Judge all records below this number, and forget them."""
        history = {number: sent for number, sent in self._sent.items() if number < below}
        log = {place: [one for one in records if one.number < below] for place, records in self._log.items()}
        findings = [*self._beginnings(log), *self._findings(history, log, slack)]
        in_log = {record.number for records in log.values() for record in records}
        self._forget(below)
        self._remember(history, in_log)
        self._move_borders(history, log)
        anomalies = Counter(finding.anomaly for finding in findings)
        return Verdict(len(history), sum(map(len, log.values())), findings, anomalies)

    def offsets(self) -> dict[str, dict[int, int]]:
        """The offset up to which each partition was judged."""
        ends: dict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), (_, last) in self._borders.items():
            ends[topic][partition] = last.offset + 1
        return dict(ends)

    # -- judging

    def _beginnings(self, log: dict[Place, list[Found]]) -> Iterable[Finding]:
        """The judge checks offsets from the first of its input; a whole log begins with 0."""
        for place, records in log.items():
            if records and place not in self._borders and records[0].offset != 0:
                detail = f"{place[0]}-{place[1]} begins with offset {records[0].offset}"
                yield Finding(Anomaly.HOLE, records[0].number, detail)

    def _findings(
        self, history: dict[int, Sent], log: dict[Place, list[Found]], slack: float
    ) -> Iterable[Finding]:
        known = [sent for absent in self._absent for sent in absent.values()]
        known += [sent for sent, _ in self._borders.values() if sent is not None]
        # A border that was overtaken is in the remembered ones too; the judge takes each number once.
        whole = {sent.number: sent for sent in [*known, *history.values()]}
        for topic in {topic for topic, _ in log} | {sent.topic for sent in whole.values()}:
            rules = Rules(slack=slack, whole_log=False, disorder=topic in self.disorder)
            found = [
                one for place in log if place[0] == topic for one in self._from_border(place, log[place])
            ]
            yield from judge((sent for sent in whole.values() if sent.topic == topic), found, rules)

    def _from_border(self, place: Place, records: list[Found]) -> list[Found]:
        border = self._borders.get(place)
        return records if border is None else [border[1], *records]

    # -- forgetting

    def _forget(self, below: int) -> None:
        self._sent = {number: sent for number, sent in self._sent.items() if number >= below}
        for place, records in self._log.items():
            self._log[place] = [one for one in records if one.number >= below]
        self._awaited = {number for number in self._awaited if number >= below}
        self._seen = {number for number in self._seen if number >= below}

    def _remember(self, history: dict[int, Sent], in_log: set[int]) -> None:
        for absent in self._absent:
            for number in in_log & absent.keys():
                del absent[number]
        self._absent.append(
            {number: _judged(sent) for number, sent in history.items() if _may_come(sent, in_log)}
        )
        del self._absent[:-_WINDOWS_REMEMBERED]

    def _move_borders(self, history: dict[int, Sent], log: dict[Place, list[Found]]) -> None:
        for place, records in log.items():
            if records:
                sent = history.get(records[-1].number)
                self._borders[place] = (None if sent is None else _judged(sent), records[-1])


def _may_come(sent: Sent, in_log: set[int]) -> bool:
    return sent.outcome in (Outcome.UNKNOWN, Outcome.NOT_WRITTEN) and sent.number not in in_log


def _judged(sent: Sent) -> Sent:
    """The record for later windows: findings about the record itself are not repeated."""
    return attrs.evolve(sent, due_at=math.inf, on_wire=True)
