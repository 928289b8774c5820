"""The results of runs on a real Kafka, in numbers: printed at the end and kept in a file."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs

from aioproducer import Outcome
from tests.judge.history import Sent
from tests.judge.judge import Anomaly, Finding
from tests.kafka.faults.load import Load

PLACE: Final = Path(__file__).parents[3] / "build" / "checks" / "real_faults.json"


@attrs.frozen
class Recovery:
    """One fault that ended: seconds from its end to the first ack, and until every partition had one.

    `allowed` is the connect or request timeout that may have been running.
    """

    scenario: str
    fault: str
    first_ack: float
    all_partitions: float
    allowed: float


@attrs.define
class Report:
    """Sums over all runs of a session."""

    seed: int
    counts: Counter[str] = attrs.Factory(Counter)
    outcomes: Counter[str] = attrs.Factory(Counter)
    anomalies: Counter[str] = attrs.Factory(Counter)
    recoveries: list[Recovery] = attrs.Factory(list)
    longest: dict[str, float] = attrs.Factory(dict)
    """By delivery timeout in seconds: the longest time from a call to its outcome."""
    latest: float = float("-inf")
    lag: float = 0.0
    requests_killed: list[int] = attrs.Factory(list)
    """The number of requests in flight to each node at the moment it was killed."""
    rates: dict[str, float] = attrs.Factory(dict)
    scenarios: list[str] = attrs.Factory(list)

    def add(self, load: Load, findings: list[Finding]) -> None:
        """Count the outcomes of one load, and the findings of the judge."""
        self.outcomes.update({outcome.name: count for outcome, count in _outcomes(load.history).items()})
        self.anomalies.update(finding.anomaly.name for finding in findings)
        timeout = f"{load.producer.config.delivery_timeout_ms / 1000:g} s"
        self.longest[timeout] = max(self.longest.get(timeout, 0.0), round(load.longest, 3))
        self.latest = max(self.latest, load.latest)
        self.lag = max(self.lag, load.lag.so_far.longest)

    def facts(self) -> dict[str, Any]:
        """All results, as they are written to the file."""
        return {
            "seed": self.seed,
            "scenarios": self.scenarios,
            "records": {"sent": sum(self.outcomes.values()), **dict(self.outcomes)},
            "faults": dict(self.counts),
            "requests in flight when a node was killed": self.requests_killed,
            "anomalies": {anomaly.name: self.anomalies[anomaly.name] for anomaly in Anomaly},
            "longest time to an outcome, by delivery timeout": self.longest,
            "latest outcome after its deadline, lag of the loop apart (negative: before)": round(
                self.latest, 3
            ),
            "longest time the loop did not turn": round(self.lag, 3),
            "seconds from healing to the first ack": _spread([one.first_ack for one in self.recoveries]),
            "seconds from healing until every partition had an ack": _spread(
                [one.all_partitions for one in self.recoveries]
            ),
            "throughput with one of three down, relative to normal": self.rates,
            "recoveries": [attrs.asdict(one) for one in self.recoveries],
        }

    def write(self) -> str:
        """Write the results to a file, and return them as text."""
        facts = self.facts()
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        PLACE.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        del facts["recoveries"]
        return "\n".join(f"  {name}: {value}" for name, value in facts.items())


def _outcomes(history: list[Sent]) -> Counter[Outcome]:
    return Counter(record.outcome for record in history)


def _spread(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {"median": round(statistics.median(seconds), 3), "maximum": round(max(seconds), 3)}
