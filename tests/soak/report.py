"""The results of a soak: a line for each period, the numbers at its end, and the problems."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from aioproducer import Outcome
from tests.soak.gauges import GAUGES, MEGABYTE, Reading, Rows
from tests.soak.judging.trend import FEWEST, Slope, growth, largest_step, second_half, slope

PLACE: Final = Path(__file__).parents[2] / "build" / "checks" / "soak.json"

BYTES_PER_RECORD: Final = 1.0
"""Bytes that each record may leave in memory: the bound of the slope. The smallest thing that a leak can keep of every
record is a pointer of 8 bytes, and of every batch of a hundred, an object of more than 100. At 5,000 records a second
this is 17 MiB an hour, which a run of ten minutes can tell from the allocator's own steps."""
STEPS: Final = 2.5 * MEGABYTE
"""The allocator grows in steps of a megabyte, which no slope tells from a leak at a low rate or in a short soak: measured over
75 minutes at 600 records a second, all objects were as many at the end, and memory rose by 1.2 MB/h. The largest rise between two
readings is not counted: once in eight minutes, records that waited for two killed nodes left 2 MB with the allocator."""
SLACK_OF: Final = dict.fromkeys(GAUGES, 0.0) | {"objects": 200.0}
"""The allowed excess of the last over the first: Python itself also makes objects, for caches."""

RECOVERY: Final = 3.0
"""Seconds from healing until every partition has an acknowledgement (I11); besides, a request may have to time out."""


@attrs.define
class Report:
    """The numbers of a soak, filled while it runs."""

    seed: int
    least_rate: float
    rows: Rows = attrs.Factory(Rows)
    outcomes: Counter[Outcome] = attrs.Factory(Counter)
    reauthentications: int = 0
    authentication_failures: int = 0
    faults: Counter[str] = attrs.Factory(Counter)
    unknown: Counter[str] = attrs.Factory(Counter)
    """Records that became UNKNOWN in the periods of each fault."""
    anomalies: Counter[str] = attrs.Factory(Counter)
    findings: list[str] = attrs.Factory(list)
    windows: int = 0
    judged: int = 0
    in_log: int = 0
    most_held: int = 0
    """The largest number of records that the judge kept between two windows."""
    seconds: float = 0.0
    longest_lag: float = 0.0
    latest: float = float("-inf")
    recoveries: list[tuple[float, str]] = attrs.Factory(list)
    """Seconds from the end of each fault to an acknowledgement of every partition, and the fault."""
    allowed: float = RECOVERY
    restless: int = 0
    """Periods at whose end the users did not come to rest, so that there is no measurement."""
    wrong: list[str] = attrs.Factory(list)
    """All other problems, in words."""
    last: Reading | None = None
    """The reading after the close of the producer."""
    before: Reading | None = None
    """The reading before its construction."""

    def add_verdict(self, verdict: dict[str, Any]) -> None:
        """Add the verdict about a window."""
        self.windows += 1
        self.judged += verdict["records"]
        self.in_log += verdict["in_log"]
        self.most_held = max(self.most_held, verdict["held"])
        self.anomalies.update(verdict["anomalies"])
        self.findings += verdict["findings"]

    @property
    def rate(self) -> float:
        """Records with an outcome, by the second."""
        return self.outcomes.total() / self.seconds if self.seconds else 0.0

    @property
    def bound(self) -> float:
        """The largest slope that is negligible, in bytes by the hour."""
        return BYTES_PER_RECORD * self.rate * 3600

    @property
    def slope(self) -> Slope | None:
        """The slope of memory after warming up."""
        return slope(second_half(self.rows.times), second_half(self.rows.rows["rss"]))

    def problems(self) -> list[str]:
        """The reasons for a failure of this soak; empty if there are none."""
        return [
            *(f"the judge: {count} x {name}" for name, count in self.anomalies.items()),
            *self.findings[:20],
            *self.wrong,
            *self._too_little(),
            *self._slow_to_recover(),
            *self._growing(),
            *self._left_behind(),
        ]

    def _too_little(self) -> Iterator[str]:
        if self.rate < self.least_rate:
            yield f"only {self.rate:,.0f} records/s, and not {self.least_rate:,.0f}"
        if self.judged != self.outcomes.total():
            yield f"{self.outcomes.total():,} records have an outcome, but {self.judged:,} were judged"

    def _slow_to_recover(self) -> Iterator[str]:
        allowed = self.allowed + 4 * self.longest_lag
        for seconds, fault in self.recoveries:
            if seconds > allowed:
                yield f"{fault}: {seconds:.1f} s until every partition was written to again, more than {allowed:.1f}"

    def _growing(self) -> Iterator[str]:
        found, times = self.slope, second_half(self.rows.times)
        if (
            len(self.rows.times) >= FEWEST
            and found is not None
            and found.clearly_above(self.bound)
            and found.rise(times) - largest_step(second_half(self.rows.rows["rss"])) > STEPS
        ):
            yield f"memory grows by {_line(found)}, more than {self.bound / MEGABYTE:.1f}"
        for name in GAUGES:
            more = growth(self.rows.rows[name])
            if more > SLACK_OF[name]:
                yield f"{name} grow: at the end at least {more:g} more than at any time of the first half"

    def _left_behind(self) -> Iterator[str]:
        if self.before is None or self.last is None:
            return
        for name in ("tasks", "fds", "timers"):
            before, after = getattr(self.before, name), getattr(self.last, name)
            if after > before:
                yield f"{after - before} {name} are left of the producer that was closed"

    # -- in words

    def facts(self) -> dict[str, Any]:
        """All numbers, for the file."""
        found = self.slope
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "records by the second": round(self.rate),
            "records": {outcome.name: self.outcomes[outcome] for outcome in Outcome},
            "faults": dict(self.faults),
            "UNKNOWN by fault": {fault: count for fault, count in self.unknown.items() if count},
            "windows judged": self.windows,
            "records judged": self.judged,
            "records read back": self.in_log,
            "records held by the judge at most": self.most_held,
            "anomalies": dict(self.anomalies),
            "latest outcome after its deadline (negative: before)": round(self.latest, 3),
            "re-authentications, and authentications that failed": (
                self.reauthentications,
                self.authentication_failures,
            ),
            "longest time the loop did not turn": round(self.longest_lag, 3),
            "seconds from healing until every partition had an ack": self._recovery(),
            "quiet moments": len(self.rows.times),
            "periods without a quiet moment": self.restless,
            "RSS slope over the second half, MB by the hour": "too short" if found is None else _line(found),
            "bound of the slope, MB by the hour": round(self.bound / MEGABYTE, 1),
            **{f"{name} at quiet moments": _range(name, row) for name, row in self.rows.rows.items()},
            "left after the close": None if self.last is None else attrs.asdict(self.last),
            "there before the start": None if self.before is None else attrs.asdict(self.before),
            "problems": self.problems(),
        }

    def _recovery(self) -> dict[str, float]:
        seconds = [one for one, _ in self.recoveries] or [0.0]
        return {"median": round(statistics.median(seconds), 2), "maximum": round(max(seconds), 2)}

    def write(self, place: Path | None = PLACE) -> str:
        """Write it to a file, and return it as text."""
        facts = self.facts()
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            rows = {name: list(row) for name, row in {"times": self.rows.times, **self.rows.rows}.items()}
            place.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
        problems = facts.pop("problems")
        verdict = [f"FAILED: {problem}" for problem in problems] or ["all is well"]
        return "\n".join([*(f"  {name}: {value}" for name, value in facts.items()), *verdict])


def period_line(
    seconds: float, rate: float, outcomes: Counter[Outcome], reading: Reading, lag: float, fault: str
) -> str:
    """The line of a period."""
    counts = ", ".join(
        f"{outcomes[one]:,} {one.value}" for one in (Outcome.ACKED, Outcome.UNKNOWN, Outcome.NOT_WRITTEN)
    )
    gauges = ", ".join(f"{getattr(reading, name):,} {name}" for name in GAUGES)
    minutes, rest = divmod(int(seconds), 60)
    return (
        f"{minutes}:{rest:02}  {rate:,.0f} records/s  {counts}  "
        f"RSS {reading.rss / MEGABYTE:.1f} MB, {gauges}  lag {lag * 1000:.0f} ms  {fault}"
    )


def _line(found: Slope) -> str:
    return f"{found.per_hour / MEGABYTE:+.1f} ± {found.uncertainty / MEGABYTE:.1f} MB/h"


def _range(name: str, row: Sequence[float]) -> str:
    if not row:
        return "never measured"
    unit = MEGABYTE if name == "rss" else 1
    ends: Iterable[float] = (min(row), max(row), row[0], row[-1])
    least, most, first, last = (f"{one / unit:,.1f}".removesuffix(".0") for one in ends)
    return f"{least} to {most} (first {first}, last {last})"
