"""The verdict of an audit, on which two methods agree, or the report that they do not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from aioproducer.documentation import page
from aioproducer.spark.auditing.bruteforce import Counted
from aioproducer.spark.auditing.onepass import Piece, put_together
from aioproducer.spark.auditing.seen import SHOWN, Seen

__all__ = ["KINDS", "Damage", "Verdict", "judge"]

DRAWN: Final = frozenset({"pieces", "damages", "partitions"})
KINDS: Final = ("unmarked", "altered", "misplaced")


@attrs.frozen
class Damage:
    """The faults of one source: the number of lost and duplicate sequences, and the first of each."""

    source: str
    expected: int
    lost: int
    lost_examples: tuple[int, ...]
    doubled: int
    doubled_examples: tuple[int, ...]


@attrs.frozen
class Verdict:
    """`is_clean`: both methods found every expected record exactly once, in order, unaltered and in its place."""

    topics: tuple[str, ...]
    isolation: str
    records: int
    bytes: int
    sources: int
    lost: int
    doubled: int
    out_of_order: int
    altered: int
    misplaced: int
    unmarked: int
    agree: bool
    # The faults, a line each, with sequences and offsets.
    problems: tuple[str, ...]
    seconds: float = 0.0
    # For the picture: the findings of the first method in each split, the faulty sources, and the partition count of
    # each topic, also of empty partitions.
    pieces: tuple[Piece, ...] = attrs.field(default=(), repr=False, eq=False)
    damages: tuple[Damage, ...] = attrs.field(default=(), repr=False, eq=False)
    partitions: Mapping[str, int] = attrs.field(factory=dict, repr=False, eq=False)

    @property
    def is_clean(self) -> bool:
        """Whether there is no fault."""
        return not self.problems

    def as_json(self) -> str:
        """As JSON, for programs."""
        facts = attrs.asdict(self, filter=lambda field, _: field.name not in DRAWN)
        return json.dumps(facts | {"is_clean": self.is_clean}, indent=2)

    def as_table(self) -> str:
        """As a table, for people."""
        rows = [
            ("topics", ", ".join(self.topics)), ("read as", self.isolation), ("records", f"{self.records:,}"),
            ("bytes", f"{self.bytes:,}"), ("sources", f"{self.sources:,}"), ("lost", f"{self.lost:,}"),
            ("doubled", f"{self.doubled:,}"), ("out of order", f"{self.out_of_order:,}"), ("altered", f"{self.altered:,}"),
            ("in the wrong partition", f"{self.misplaced:,}"), ("without marks", f"{self.unmarked:,}"),
            ("methods agree", "yes" if self.agree else "NO"), ("verdict", "clean" if self.is_clean else "NOT CLEAN"),
            ("seconds", f"{self.seconds:.1f}"),
        ]  # fmt: skip
        width = max(len(name) for name, _ in rows)
        lines = [*(f"{name:<{width}}  {value}" for name, value in rows), *self.problems]
        if self.doubled and self.isolation == "read_committed":
            lines.append(
                f"for what doubles records that were written exactly once, see {page('spark.md#failures')}"
            )
        return "\n".join(lines)


def judge(
    found: Sequence[Piece],
    counted: Mapping[str, Counted],
    expected: Mapping[str, int],
    topics: Iterable[str],
    isolation: str,
) -> Verdict:
    """Compare both methods with the expected counts; a source that is not in `expected` ends at its highest sequence."""
    seen = put_together(found)
    wanted = {source: one.most + 1 for source, one in counted.items()} | dict(expected)
    problems: list[str] = []
    for source in sorted(wanted):
        problems += _of_source(source, seen.get(source, Seen()), counted.get(source), wanted[source])
    disagreements = [
        line for source in sorted({*seen, *counted}) for line in _disagreement(source, seen, counted, wanted)
    ]
    sums = {kind: sum(getattr(piece, f"{kind}_count") for piece in found) for kind in KINDS}
    altered = {source: one.altered for source, one in sorted(counted.items()) if one.altered}
    if sum(altered.values()) != sums["altered"]:
        disagreements.append(
            f"the two methods disagree: {sums['altered']:,} altered, and by the other {altered or 'none'}"
        )
    problems += disagreements
    for kind in KINDS:
        problems += [_places(kind, piece) for piece in found if getattr(piece, kind)]
    return Verdict(
        topics=tuple(topics),
        isolation=isolation,
        records=sum(piece.records for piece in found),
        bytes=sum(piece.bytes for piece in found),
        sources=len(seen),
        lost=sum(
            wanted[source] - one.distinct for source, one in counted.items() if one.distinct < wanted[source]
        ),
        doubled=sum(one.records - one.distinct for one in counted.values()),
        out_of_order=sum(one.backwards for one in seen.values()),
        agree=not disagreements,
        problems=tuple(problems),
        pieces=tuple(found),
        damages=tuple(
            _damage(source, one, wanted[source])
            for source, one in sorted(counted.items())
            if one.distinct < wanted[source] or one.records > one.distinct
        ),
        **sums,
    )


def _damage(source: str, counted: Counted, wanted: int) -> Damage:
    return Damage(
        source,
        wanted,
        max(wanted - counted.distinct, 0),
        tuple(counted.lost),
        counted.records - counted.distinct,
        tuple(counted.doubled),
    )


def _of_source(source: str, seen: Seen, counted: Counted | None, wanted: int) -> list[str]:
    lines = []
    if counted is not None and counted.distinct < wanted:
        lines.append(
            f"source {source!r}: {wanted - counted.distinct:,} of {wanted:,} lost: sequences {_some(counted.lost)}"
        )
    if counted is not None and counted.most >= wanted:
        lines.append(
            f"source {source!r}: sequences up to {counted.most:,} exist, and {wanted:,} records were expected: losses "
            "among them are not counted"
        )
    if counted is not None and counted.records > counted.distinct:
        copies = ", ".join(f"{sequence} ({copies} times)" for sequence, copies in counted.doubled.items())
        lines.append(
            f"source {source!r}: {counted.records - counted.distinct:,} too many: sequences {copies}"
        )
    if seen.backwards:
        lines.append(
            f"source {source!r}: {seen.backwards:,} records out of order: offsets {_some(seen.examples)}"
        )
    return lines


def _disagreement(
    source: str, seen: Mapping[str, Seen], counted: Mapping[str, Counted], wanted: Mapping[str, int]
) -> list[str]:
    one, other = seen.get(source, Seen()), counted.get(source, Counted(0, 0, -1, 0))
    whole = other.distinct == other.records == wanted.get(source, 0)
    if (one.count, one.most) == (other.records, other.most) and one.is_each_once(
        wanted.get(source, 0)
    ) == whole:
        return []
    return [f"source {source!r}: the two methods disagree: {one} and {other}"]


def _places(kind: str, piece: Piece) -> str:
    count, offsets = getattr(piece, f"{kind}_count"), getattr(piece, kind)
    return f"{piece.topic}-{piece.partition}: {count:,} {kind}: offsets {_some(offsets)}"


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) + (", …" if len(numbers) == SHOWN else "")
