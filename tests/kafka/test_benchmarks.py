"""The benchmarks measure every kind of work, and judge their measurements."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from benchmarks.clients.shape import Places, ticks
from benchmarks.counted import Counts, instructions_each
from benchmarks.goals import _BUDGETS, Goal, goals, row, rows
from benchmarks.measure import Round, Transacted, Work, check_offsets, no_offsets, percentiles
from benchmarks.picture import picture, shapes_picture
from benchmarks.report import goal_table, markdown, shape_table
from benchmarks.rounds import Results
from benchmarks.workloads import (
    AIOKAFKA,
    BULK,
    CONFLUENT,
    DIALS,
    ENDLESS,
    JAVA,
    LIMIT,
    NOT_SCRAPED,
    OBSERVED,
    ON_THREE_BROKERS,
    ON_UVLOOP,
    ON_UVLOOP_PLAINTEXT,
    OURS,
    PACES,
    PARTITIONS,
    PLAINTEXT,
    PRODUCTION,
    SCRAPED,
    SCRAPED_OFTEN,
    SECURED,
    SESSIONS,
    SHAPES,
    STALLS,
    THREE_NODES,
    TRANSACTIONS,
    VALUES,
    WITH_SESSIONS,
    WORKLOADS,
    Contestant,
    Workload,
)

if TYPE_CHECKING:
    from tools.kafka_cluster import KafkaCluster

_ROOT = Path(__file__).parents[2]


def _round(rate: float, cpu_micros: float = 1.0, **figures: float) -> list[Round]:
    return [Round(1000, 1000 / rate, cpu_micros / 1000, "a client 1.0", figures)] * 3


def _judged(results: Results) -> list[tuple[str, bool]]:
    return [(goal.text.split(":")[0], goal.met) for goal in goals(rows(results))]


def _values(ours: float, cpu_micros: float) -> Results:
    others = {
        CONFLUENT: _round(100.0, 2.0),
        AIOKAFKA: _round(20.0),
        JAVA: _round(100.0),
        LIMIT: _round(400.0),
    }
    return {VALUES.name: {OURS: _round(ours, cpu_micros), **others}}


@pytest.mark.parametrize(
    ("ours", "cpu_micros", "met"),
    [
        (250.0, 0.79, [True, True, True, True, True]),
        (249.0, 0.79, [False, True, True, True, True]),
        (239.0, 0.79, [False, False, True, True, True]),
        (219.0, 0.81, [False, False, True, False, False]),
        (199.0, 0.81, [False, False, False, False, False]),
    ],
)
def test_each_goal_is_judged_by_itself(ours: float, cpu_micros: float, met: list[bool]) -> None:
    """Against confluent-kafka, aiokafka, Java, the limit, and in processor time: five verdicts."""
    assert [verdict for _, verdict in _judged(_values(ours, cpu_micros))] == met


def test_a_bulk_may_be_faster_or_near_the_limit() -> None:
    """Half as fast again as one by one is enough, and so is 85 percent of the limit."""

    def met(bulk: float, limit: float) -> bool:
        done = {OURS: _round(bulk), "one by one": _round(100.0), LIMIT: _round(limit, 0.9)}
        return _judged({BULK.name: done})[0][1]

    assert met(150.0, 1000.0)
    assert met(120.0, 140.0)
    assert not met(149.0, 1000.0)


def test_a_pace_is_judged_against_both_others() -> None:
    """The median and the 99th percentile must each be as good as aiokafka's and as confluent-kafka's."""
    done = {
        OURS: _round(1.0, p50_ms=2.0, p99_ms=9.0),
        AIOKAFKA: _round(1.0, p50_ms=2.0, p99_ms=8.0),
        CONFLUENT: _round(1.0, p50_ms=1.0, p99_ms=9.0),
    }
    assert [verdict for _, verdict in _judged({PACES[0].name: done})] == [True, False, False, True]


@pytest.mark.parametrize(
    ("rate", "commit", "met"),
    [
        (300.0, 5.0, [True, True, True]),
        (299.0, 5.0, [True, False, True]),
        (149.0, 5.1, [False, False, False]),
    ],
)
def test_small_transactions_are_judged_against_both_others_and_the_round_trip(
    rate: float, commit: float, met: list[bool]
) -> None:
    """Half as many again as confluent-kafka and as Java commit, and no more than five round trips for a commit."""
    done = {
        OURS: _round(rate, commit_in_round_trips=commit),
        CONFLUENT: _round(100.0),
        JAVA: _round(200.0),
    }
    assert [verdict for _, verdict in _judged({TRANSACTIONS[0].name: done})] == met


def test_large_transactions_are_judged_by_their_records() -> None:
    """At 10,000 records in each, twice the rate of confluent-kafka; sizes between are only shown."""

    def met(at: int, rate: float) -> list[bool]:
        done = {OURS: _round(rate), CONFLUENT: _round(100.0), JAVA: _round(1000.0)}
        return [verdict for _, verdict in _judged({TRANSACTIONS[at].name: done})]

    assert (met(-1, 200.0), met(-1, 199.0), met(1, 1.0)) == ([True], [False], [])


def test_the_longest_step_of_any_kind_of_work_is_judged() -> None:
    """One kind of work with a step of more than 5 ms is enough to miss the goal; turns are only shown."""
    figures = {name: 4.9 for name, _, _ in STALLS.figures} | {"bulk_turn_ms": 50.0}
    assert _judged({STALLS.name: {OURS: _round(1.0, **figures)}}) == [("longest step, ms", True)]
    figures["tasks_step_ms"] = 5.1
    assert _judged({STALLS.name: {OURS: _round(1.0, **figures)}}) == [("longest step, ms", False)]


@pytest.mark.parametrize(
    ("secured_micros", "rate", "met"),
    [
        (0.59, 250.0, [True, True, True, True]),
        (0.61, 250.0, [True, True, False, True]),
        (0.59, 249.0, [False, True, True, True]),
    ],
)
def test_a_secured_listener_is_judged_by_rate_and_by_the_cost_beyond_plaintext(
    secured_micros: float, rate: float, met: list[bool]
) -> None:
    """Two and a half times the rate of confluent-kafka, and 0.1 microseconds a record more than in plaintext."""
    done = {
        OURS: _round(rate, secured_micros),
        CONFLUENT: _round(100.0),
        ON_UVLOOP: _round(300.0, 0.5),
        PLAINTEXT: _round(500.0, 0.5),
        ON_UVLOOP_PLAINTEXT: _round(500.0, 0.5),
    }
    assert [verdict for _, verdict in _judged({SECURED[0].name: done})] == met


def test_a_dial_is_judged_in_all_and_on_the_loop() -> None:
    """25 ms of processor time in all, 2 ms of the loop beyond plaintext, and no step of more than 5 ms."""
    secured, plain = (contestant.name for contestant in DIALS.contestants)
    done = {
        secured: _round(1.0, cpu_ms=24.9, loop_ms=3.1, step_ms=4.9),
        plain: _round(1.0, cpu_ms=1.0, loop_ms=1.0, step_ms=9.0),
    }
    assert [verdict for _, verdict in _judged({DIALS.name: done})] == [True, False, True]


def test_sessions_may_cost_three_percent() -> None:
    """The rate with sessions that end is compared with the rate without."""

    def met(rate: float) -> bool:
        return _judged({SESSIONS.name: {WITH_SESSIONS: _round(rate), ENDLESS: _round(100.0)}})[0][1]

    assert met(97.0)
    assert not met(96.9)


def test_a_shape_of_production_is_judged_by_its_processor_time() -> None:
    """The time of all threads for one record is compared with both others."""
    shape = SHAPES[0].name
    done = {CONFLUENT: _round(1.0, 10.0), AIOKAFKA: _round(1.0, 24.0)}
    assert [met for _, met in _judged({shape: {OURS: _round(1.0, 6.0), **done}})] == [True, True]
    assert [met for _, met in _judged({shape: {OURS: _round(1.0, 6.1), **done}})] == [False, False]


def test_the_records_of_a_shape() -> None:
    """Topics take turns, keys differ, the last tick has the rest; places of several topics differ."""
    one = Work(bootstrap_servers="", topic="t", topics=3, records=0)
    records = [record for tick in ticks(one, 1_201) for record in tick.records]
    assert [topic for topic, _ in records[:4]] == ["t-0", "t-1", "t-2", "t-0"]
    assert len({key for _, key in records}) == 1_201
    places = Places(one)
    places.add("t-0", 0, 7)
    places.add("t-1", 0, 7)
    places.check(2)
    places.add("t-1", 0, 7)
    with pytest.raises(SystemExit):
        places.check(3)


def test_each_budget_of_what_is_seen_from_outside_is_judged() -> None:
    """One goal for each figure; a figure just within its budget meets it."""
    figures = {name: float(budget) for name, budget in _BUDGETS.items()}
    assert [met for _, met in _judged({OBSERVED.name: {OURS: _round(1.0, **figures)}})] == [True] * 10
    for name, budget in figures.items():
        above = figures | {name: budget * 1.01}
        assert [met for _, met in _judged({OBSERVED.name: {OURS: _round(1.0, **above)}})].count(False) == 1


def test_scrapes_may_cost_two_percent() -> None:
    """The rate beside scrapes from another thread is compared with the rate without."""

    def met(rate: float) -> bool:
        done = {SCRAPED_OFTEN: _round(rate), NOT_SCRAPED: _round(100.0)}
        return _judged({SCRAPED.name: done})[0][1]

    assert met(98.0)
    assert not met(97.9)


def test_one_slow_round_does_not_decide() -> None:
    """The figure of a contestant is the median of its rounds."""
    rounds = [Round(1000, seconds, 1.0, "v", {"x": seconds}) for seconds in (1.0, 50.0, 2.0)]
    assert (row(rounds).rate, row(rounds).figures) == (500, {"x": 2.0})


@pytest.mark.parametrize(
    "offsets", [{0: [0, 1]}, {0: [0, 1, 3]}, {0: [0, 1, 1]}], ids=["few", "gap", "repeat"]
)
def test_a_round_with_a_lost_or_repeated_record_does_not_count(offsets: dict[int, list[int]]) -> None:
    """A record without an acknowledged offset of its own ends the client's process with an error."""
    found = no_offsets()
    for partition, numbers in offsets.items():
        found[partition].extend(numbers)
    with pytest.raises(SystemExit):
        check_offsets(found, 3)


def _transacted(*transactions: dict[int, list[int]]) -> Transacted:
    done = Transacted()
    for offsets in transactions:
        found = no_offsets()
        for partition, numbers in offsets.items():
            found[partition].extend(numbers)
        done.committed(found, 0.002)
    return done


def test_transactions_leave_room_for_their_markers() -> None:
    """Behind the last record of each transaction in a partition is its marker, and no other offset is missing."""
    done = _transacted({0: [5, 6], 1: [0]}, {1: [2]}, {0: [8]})
    done.check(5)
    assert done.figures(1.5) == {"transactions": 2.0, "p50_ms": 2.0, "p99_ms": 2.0}


@pytest.mark.parametrize(
    "second",
    [{0: [2]}, {0: [1]}, {0: [4]}, {}],
    ids=["no marker", "repeat", "gap", "lost"],
)
def test_a_transaction_with_a_lost_or_repeated_record_does_not_count(second: dict[int, list[int]]) -> None:
    """A gap in the offsets that is not a marker ends the client's process with an error."""
    with pytest.raises(SystemExit):
        _transacted({0: [0, 1]}, second).check(3)


def test_percentiles_are_in_milliseconds() -> None:
    """Of a hundred waits the median is the 51st and the 99th percentile the last."""
    assert percentiles([number / 1000 for number in range(100)]) == {"p50_ms": 50.0, "p99_ms": 99.0}


def test_payloads_have_their_size() -> None:
    """Values and keys have the requested lengths, and texts differ from each other."""
    work = Work(
        bootstrap_servers="", topic="t", records=1, value_size=1024, key_size=16, texts=True, warm_up=0
    )
    assert {len(value) for value in work.values(50)} == {1024}
    assert len(set(work.values(50))) == 50
    assert [len(key) for key in work.keys(3)] == [16, 16, 16]


def test_the_report_shows_every_goal_with_its_verdict() -> None:
    """A missed goal is in the table as missed, beside its measurement."""
    measured = rows(_values(199.0, 0.81))
    counts = Counts(send=1234, request=2000, request_among_many=2041)
    text = markdown(measured, counts, 0.0)
    assert goal_table(measured, counts) in text
    assert "5,000 partitions x 1: at most 1.02 | 1.02 | **missed** |" in text
    assert "at least 2.5 | 1.99 | **missed** |" in text
    assert "**1,234** machine instructions" in text


def test_the_picture_is_an_image_with_a_bar_for_each_client() -> None:
    """The picture is well-formed, has a title in words and colours for a dark ground, and leaves out the limit."""
    text = picture(rows(_values(250.0, 0.7))[VALUES.name])
    image = ET.fromstring(text)
    bars = [each for each in image.iter() if each.tag.endswith("rect")]
    assert len(bars) == 4
    assert "prefers-color-scheme: dark" in text
    assert f"{OURS} 250" in text


def test_the_shapes_are_shown_from_small_batches_to_large_ones() -> None:
    """Each shape has a line in the table and in the picture, ordered by its records in a batch."""
    results = {
        shape.name: {
            OURS: _round(1.0, 9.5, per_batch=float(10 - at)),
            CONFLUENT: _round(1.0, 4.5),
            AIOKAFKA: _round(1.0, 123.4),
        }
        for at, shape in enumerate(PRODUCTION)
    }
    titles = [shape.title.removesuffix(ON_THREE_BROKERS) for shape in reversed(PRODUCTION)]
    table = shape_table(rows(results)).splitlines()
    assert [line.split(" | ")[0] for line in table[2:]] == [f"| {title}" for title in titles]
    assert all(line.endswith(" | 9.50 | 4.50 | 123.40 |") for line in table[2:])
    text = shapes_picture(rows(results))
    image = ET.fromstring(text)
    dots = [float(each.attrib["cx"]) for each in image.iter() if each.tag.endswith("circle")]
    legend, drawn = dots[:3], dots[3:]
    assert len(legend) == 3
    assert len(drawn) == 3 * len(PRODUCTION)
    assert all(
        second < first < third
        for first, second, third in zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True)
    )
    described = next(each.text or "" for each in image.iter() if each.tag.endswith("desc"))
    assert [shape.partition(": ")[0] for shape in described.split("; ")] == titles


def test_every_goal_belongs_to_a_workload() -> None:
    """Every judged workload is also shown: a goal's workload is among those that run."""
    judged: list[Goal] = goals(rows(_values(1.0, 1.0)))
    assert {goal.workload for goal in judged} <= {workload.name for workload in WORKLOADS}


def _command(*names: str) -> list[str]:
    small = ["--rounds", "1", "--scale", "0.005", "--no-write", "--only", *names]
    return [sys.executable, "-m", "benchmarks", *small]


def _lines(output: str, contestants: tuple[Contestant, ...]) -> int:
    return sum(f": {contestant.name} " in output for contestant in contestants)


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_every_workload_runs() -> None:
    """A tiny run on a real Kafka ends well and has a line for each contestant of each kind of work."""
    # Three brokers and 5,000 partitions take half a minute each; so does counting, which comes with the latter.
    left_out = (THREE_NODES, PARTITIONS)
    # The same programs with other sizes would test nothing new.
    different = {_programs(workload): workload for workload in WORKLOADS if workload not in left_out}
    chosen = list(different.values())
    done = subprocess.run(
        _command(*(workload.name for workload in chosen)),
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for workload in chosen:
        assert _lines(done.stdout, workload.contestants) == len(workload.contestants), done.stdout
        assert f"\n{workload.title}\n| " in done.stdout


def _programs(workload: Workload) -> tuple[str, ...]:
    return tuple(contestant.program for contestant in workload.contestants)


@pytest.mark.kafka
def test_instructions_are_counted(real_kafka: KafkaCluster) -> None:
    """More requests take more instructions, in a plausible number."""
    # Sends are counted by the same program; each run begins with fifteen seconds of importing.
    real_kafka.create_topic("counted")
    counted = instructions_each(real_kafka.bootstrap_servers, "requests", "counted", 10, 100, runs=1)
    assert 50_000 < counted < 5_000_000


def test_workloads_are_told_apart() -> None:
    """No two kinds of work, and no two contestants of one, have the same name."""
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    for workload in WORKLOADS:
        inside = [contestant.name for contestant in workload.contestants]
        assert len(set(inside)) == len(inside)
        assert attrs.asdict(workload)["contestants"]
