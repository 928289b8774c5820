"""The goals: the required and the measured value of each ratio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Final

import attrs

from benchmarks.counted import Counts
from benchmarks.measure import Round
from benchmarks.rounds import Results
from benchmarks.workloads import (
    AIOKAFKA,
    BULK,
    CONFLUENT,
    DIALS,
    ENDLESS,
    IDLE,
    JAVA,
    KEYS,
    KEYS_UNPACED,
    KILOBYTES,
    LIMIT,
    MEMORY,
    NOT_SCRAPED,
    OBSERVED,
    ON_UVLOOP,
    ON_UVLOOP_PLAINTEXT,
    OURS,
    PACES,
    PARTITIONS,
    PLAINTEXT,
    SCRAPED,
    SCRAPED_OFTEN,
    SECURED,
    SERIALIZERS,
    SESSIONS,
    SHAPES,
    STALLS,
    TASKS,
    TRANSACTIONS,
    VALUES,
    WITH_SESSIONS,
)


@attrs.frozen
class Row:
    """The medians of one contestant."""

    version: str
    rate: float
    slowest: float
    fastest: float
    cpu_micros: float
    rounds: int
    figures: dict[str, float]


@attrs.frozen
class Goal:
    """A required value, and the measured one."""

    workload: str
    text: str
    value: float
    met: bool

    @property
    def verdict(self) -> str:
        """The result, for a table."""
        return "met" if self.met else "**missed**"


def row(rounds: list[Round]) -> Row:
    """The medians of the rounds."""
    rates = [one.rate for one in rounds]
    return Row(
        version=rounds[0].version,
        rate=median(rates),
        slowest=min(rates),
        fastest=max(rates),
        cpu_micros=median(one.cpu_micros for one in rounds),
        rounds=len(rounds),
        figures={name: median(one.figures[name] for one in rounds) for name in rounds[0].figures},
    )


def rows(results: Results) -> dict[str, dict[str, Row]]:
    """The medians of every contestant of every workload."""
    return {
        workload: {name: row(rounds) for name, rounds in done.items()} for workload, done in results.items()
    }


Rows = Mapping[str, Row]
# Only the smallest and the largest have goals.
_SINGLE, _, _LARGE = TRANSACTIONS


def _at_least(workload: str, text: str, value: float, bound: float) -> Goal:
    return Goal(workload, f"{text}: at least {bound:,g}", value, value >= bound)


def _at_most(workload: str, text: str, value: float, bound: float) -> Goal:
    return Goal(workload, f"{text}: at most {bound:,g}", value, value <= bound)


def _values(rows: Rows) -> Iterator[Goal]:
    ours = rows[OURS]
    for other, bound in ((CONFLUENT, 2.5), (AIOKAFKA, 12), (JAVA, 2), (LIMIT, 0.55)):
        yield _at_least(VALUES.name, f"rate, x {other}", ours.rate / rows[other].rate, bound)
    yield _at_most(
        VALUES.name, "CPU per record, x confluent-kafka", ours.cpu_micros / rows[CONFLUENT].cpu_micros, 0.4
    )


def _keys(rows: Rows) -> Iterator[Goal]:
    ours, confluent = rows[OURS], rows[CONFLUENT]
    yield _at_least(KEYS.name, "rate, x confluent-kafka", ours.rate / confluent.rate, 2)
    yield _at_most(
        KEYS.name, "CPU per record, x confluent-kafka", ours.cpu_micros / confluent.cpu_micros, 0.45
    )


def _kilobytes(rows: Rows) -> Iterator[Goal]:
    ours, confluent = rows[OURS], rows[CONFLUENT]
    yield _at_least(KILOBYTES.name, "rate, x the limit", ours.rate / rows[LIMIT].rate, 0.9)
    yield _at_most(
        KILOBYTES.name, "CPU per record, x confluent-kafka", ours.cpu_micros / confluent.cpu_micros, 0.5
    )


def _bulk(rows: Rows) -> Iterator[Goal]:
    ours, single, limit = rows[OURS], rows["one by one"], rows[LIMIT]
    faster, near = ours.rate / single.rate, ours.rate / limit.rate
    met = faster >= 1.5 or near >= 0.85
    yield Goal(BULK.name, f"rate, x one by one: at least 1.5 (or 0.85 x the limit: {near:.2f})", faster, met)
    yield _at_most(
        BULK.name, "CPU us per record beyond the network's", ours.cpu_micros - limit.cpu_micros, 0.25
    )


def _tasks(rows: Rows) -> Iterator[Goal]:
    many, fewer = rows["10,000 tasks"], rows["1,000 tasks"]
    yield _at_least(TASKS.name, "records/s with 10,000 tasks", many.rate, 100_000)
    yield _at_least(TASKS.name, "rate with 10,000 tasks, x with 1,000", many.rate / fewer.rate, 0.7)


def _pace(name: str) -> Callable[[Rows], Iterator[Goal]]:
    def judge(rows: Rows) -> Iterator[Goal]:
        for part in ("p50", "p99"):
            own = rows[OURS].figures[f"{part}_ms"]
            for other in (AIOKAFKA, CONFLUENT):
                yield _at_most(name, f"{part}, x {other}", own / rows[other].figures[f"{part}_ms"], 1)

    return judge


def _partitions(counts: Counts) -> Goal:
    # By count and not by time: a broker with many partitions answers more slowly, and a client that waits longer
    # between two requests has less of its data in the processor's caches.
    ratio = counts.request_among_many / counts.request
    return _at_most(PARTITIONS.name, "instructions per request, 5,000 partitions x 1", ratio, 1.02)


def _small_transactions(rows: Rows) -> Iterator[Goal]:
    ours, name = rows[OURS], _SINGLE.name
    for other in (CONFLUENT, JAVA):
        yield _at_least(name, f"transactions, x {other}", ours.rate / rows[other].rate, 1.5)
    # Unnecessary waits of a client show here: a commit is the record's request and the one that ends.
    trips = ours.figures["commit_in_round_trips"]
    yield _at_most(name, "median commit, x a record that is sent without a transaction", trips, 5)


def _large_transactions(rows: Rows) -> Iterator[Goal]:
    yield _at_least(_LARGE.name, "rate, x confluent-kafka", rows[OURS].rate / rows[CONFLUENT].rate, 2)


def _memory(rows: Rows) -> Iterator[Goal]:
    yield _at_most(MEMORY.name, "bytes beside the value", rows[OURS].figures["bytes_per_record"], 120)


def _idle(rows: Rows) -> Iterator[Goal]:
    yield _at_most(IDLE.name, "KiB of each producer", rows[OURS].figures["kib_each"], 100)


def _stalls(rows: Rows) -> Iterator[Goal]:
    figures = rows[OURS].figures
    longest = max(value for name, value in figures.items() if name.endswith("_step_ms"))
    yield _at_most(STALLS.name, "longest step, ms", longest, 5)


def _secured(name: str, ratio: float, micros: float) -> Callable[[Rows], Iterator[Goal]]:
    def judge(rows: Rows) -> Iterator[Goal]:
        confluent = rows[CONFLUENT].rate
        yield _at_least(name, "rate, x confluent-kafka", rows[OURS].rate / confluent, ratio)
        yield _at_least(name, "rate on uvloop, x confluent-kafka", rows[ON_UVLOOP].rate / confluent, ratio)
        for text, secured, plain in (
            ("CPU us per record beyond plaintext", OURS, PLAINTEXT),
            ("CPU us per record beyond plaintext, on uvloop", ON_UVLOOP, ON_UVLOOP_PLAINTEXT),
        ):
            yield _at_most(name, text, rows[secured].cpu_micros - rows[plain].cpu_micros, micros)

    return judge


def _dials(rows: Rows) -> Iterator[Goal]:
    secured, plain = (rows[contestant.name].figures for contestant in DIALS.contestants)
    yield _at_most(DIALS.name, "CPU with TLS and SCRAM, ms", secured["cpu_ms"], 25)
    beyond = secured["loop_ms"] - plain["loop_ms"]
    yield _at_most(DIALS.name, "the loop's thread beyond plaintext, ms", beyond, 2)
    yield _at_most(DIALS.name, "longest step, ms", secured["step_ms"], 5)


def _serializers(rows: Rows) -> Iterator[Goal]:
    ours, confluent, limit = (rows[name].figures for name in (OURS, CONFLUENT, LIMIT))
    for figure in ours:
        name = figure.removesuffix("_us")
        yield _at_most(
            SERIALIZERS.name, f"{name}, CPU us beyond the encoder's", ours[figure] - limit[figure], 0.8
        )
        yield _at_least(SERIALIZERS.name, f"{name}, x confluent-kafka", confluent[figure] / ours[figure], 2)


def _shape_of(name: str) -> Callable[[Rows], Iterator[Goal]]:
    def judge(rows: Rows) -> Iterator[Goal]:
        ours = rows[OURS].cpu_micros
        for other, bound in ((CONFLUENT, 0.6), (AIOKAFKA, 0.25)):
            yield _at_most(name, f"CPU per record, x {other}", ours / rows[other].cpu_micros, bound)

    return judge


def _keys_unpaced(rows: Rows) -> Iterator[Goal]:
    yield _at_least(KEYS_UNPACED.name, f"rate, x {CONFLUENT}", rows[OURS].rate / rows[CONFLUENT].rate, 2.5)


def _sessions(rows: Rows) -> Iterator[Goal]:
    ratio = rows[WITH_SESSIONS].rate / rows[ENDLESS].rate
    yield _at_least(SESSIONS.name, f"rate with {WITH_SESSIONS}, x without an end", ratio, 0.97)


# The budgets of one figure each; the differences of two measurements vary by a microsecond per batch.
_BUDGETS: Final = {
    "listener_us": 5,
    "prometheus_us": 1,
    "otel_us": 30,
    "context_none_us": 0.2,
    "context_same_us": 0.6,
    "context_other_us": 5,
    "span_us": 60,
    "push_ms": 2,
    "stats_ms": 1,
    "scrape_ms": 10,
}


def _observed(rows: Rows) -> Iterator[Goal]:
    figures = rows[OURS].figures
    for name, heading, _ in OBSERVED.figures:
        yield _at_most(OBSERVED.name, heading, figures[name], _BUDGETS[name])


def _scraped(rows: Rows) -> Iterator[Goal]:
    ratio = rows[SCRAPED_OFTEN].rate / rows[NOT_SCRAPED].rate
    yield _at_least(SCRAPED.name, f"rate with {SCRAPED_OFTEN}, x without", ratio, 0.98)


_JUDGES: Final[Mapping[str, Callable[[Rows], Iterator[Goal]]]] = {
    VALUES.name: _values,
    KEYS.name: _keys,
    KILOBYTES.name: _kilobytes,
    BULK.name: _bulk,
    TASKS.name: _tasks,
    **{pace.name: _pace(pace.name) for pace in PACES},
    _SINGLE.name: _small_transactions,
    _LARGE.name: _large_transactions,
    MEMORY.name: _memory,
    IDLE.name: _idle,
    STALLS.name: _stalls,
    SECURED[0].name: _secured(SECURED[0].name, 2.5, 0.1),
    SECURED[1].name: _secured(SECURED[1].name, 2, 0.7),
    DIALS.name: _dials,
    SESSIONS.name: _sessions,
    OBSERVED.name: _observed,
    SCRAPED.name: _scraped,
    SERIALIZERS.name: _serializers,
    **{shape.name: _shape_of(shape.name) for shape in SHAPES},
    KEYS_UNPACED.name: _keys_unpaced,
}


def goals(table: Mapping[str, Rows], counts: Counts | None = None) -> list[Goal]:
    """The verdict on each goal with a measured value."""
    found = [goal for name, judge in _JUDGES.items() if name in table for goal in judge(table[name])]
    return found if counts is None else [*found, _partitions(counts)]
