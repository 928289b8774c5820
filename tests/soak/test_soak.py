"""Short soaks, whole: real sockets, brokers and judge in processes of their own, faults, and a report."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import attrs

from aioproducer import Outcome
from tests.judge.history import Sent
from tests.seeds import fresh_seed
from tests.soak.__main__ import plan_of, soaked
from tests.soak.judging.ledger import Ledger
from tests.soak.judging.trend import FEWEST
from tests.soak.programs import Brokers
from tests.soak.report import BYTES_PER_RECORD, Report
from tests.soak.run import Plan, Soak, succeeded

HOUR = 3600.0
RATE = 1_500.0
# Well above the bound of a soak at this rate.
CLEARLY = 10 * BYTES_PER_RECORD * RATE * HOUR


def plan(period: float, lines: list[str]) -> Plan:
    """A soak of an hour, at a rate for a machine that is busy with other tests."""
    return Plan(
        HOUR, fresh_seed(), period, records_per_second=RATE, least_rate=0.0, haste=4.0, say=lines.append
    )


def soaked_without_harm(report: Report) -> None:
    """The soak has no problems, and has measured and judged its records."""
    assert report.problems() == []
    assert succeeded(report)
    assert report.judged == report.outcomes.total() > 500
    assert report.outcomes[Outcome.ACKED] > 0
    assert report.outcomes[Outcome.NOT_WRITTEN] > 0, (
        "purged and cancelled records are reported as not written"
    )
    assert report.outcomes[Outcome.PENDING] == 0
    assert report.in_log >= report.outcomes[Outcome.ACKED]
    assert report.rows.times
    assert report.last is not None


async def test_ctrl_c_ends_a_soak_with_the_whole_report() -> None:
    """After four periods of an hour: every record is judged, each period has its line, and nothing is left."""
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    report = await soaked(attrs.evolve(plan(0.5, lines), say=say))
    soaked_without_harm(report)
    periods = [line for line in lines if " records/s " in line]
    assert len(periods) == len(report.rows.times) >= 4
    assert report.faults.total() == len(periods) + report.restless
    assert report.windows == report.faults.total() + 1
    text = report.write(place=None)
    assert text.endswith("all is well")
    for words in ("RSS slope", "tasks at quiet moments", "fds at", "timers at", "threads at", "longest time"):
        assert words in text


class Leaky(Ledger):
    """Keeps a timer and a kilobyte of every record, and reports a false outcome of one."""

    lied = False

    def _write(self, sent: Sent) -> None:
        asyncio.get_running_loop().call_later(HOUR, partial(len, bytearray(4000)))
        if sent.outcome is Outcome.ACKED and not self.lied:
            self.lied = True
            sent = attrs.evolve(sent, outcome=Outcome.NOT_WRITTEN, offset=-1)
        super()._write(sent)


class Calm(Soak):
    """A soak without faults; its findings are planted."""

    async def _strike(self, brokers: Brokers, number: int) -> str:
        return "none"


async def test_a_planted_leak_and_a_planted_lie_are_found() -> None:
    """A timer that every record leaves, and an acknowledged record that is reported as not written."""
    soak = Calm(plan(0.1, []))

    def say(line: str) -> None:
        # On a busy machine the periods differ, and the growth shows later.
        found = soak.report.slope
        if len(soak.report.rows.times) > FEWEST and found is not None and found.clearly_above(CLEARLY):
            soak.stop.set()

    soak.plan = attrs.evolve(soak.plan, say=say)
    soak.ledger = Leaky()
    report = await soak.run()
    problems = "\n".join(report.problems())
    # The first record of all: where it is also the last one of its partition in the first window, both windows judge it.
    assert set(report.anomalies) == {"UNTRUE_NOT_WRITTEN"}
    assert report.anomalies["UNTRUE_NOT_WRITTEN"] <= 2
    assert not succeeded(report)
    for words in ("memory grows by", "timers grow:", "timers are left of the producer"):
        assert words in problems


def test_the_command_line_makes_the_plan() -> None:
    """Minutes become seconds, and a given seed is used; without one, another is drawn each time."""
    plan = plan_of(
        ["--minutes", "3", "--seed", "5", "--real", "--period", "20", "--rate", "6000", "--least", "1"]
    )
    assert (plan.seconds, plan.seed, plan.period, plan.records_per_second, plan.least_rate, plan.real) == (
        180.0, 5, 20.0, 6000.0, 1.0, True,
    )  # fmt: skip
    drawn = {plan_of([]).seed for _ in range(5)}
    assert len(drawn) > 1
