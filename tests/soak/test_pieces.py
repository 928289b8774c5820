"""The pieces of a soak: letters to the court, gauges, the gate where users rest, the verdict over a whole report."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections import Counter

import attrs
import pytest

from aioproducer import Outcome
from tests.judge.history import Sent
from tests.soak import gauges
from tests.soak.gauges import GAUGES, MEGABYTE, Reading
from tests.soak.judging import letters
from tests.soak.judging.letters import Mark
from tests.soak.judging.trend import FEWEST
from tests.soak.report import Report
from tests.soak.users import Rest

_PERIOD = 10.0
_RATE = 5_000


def quiet(**changes: int) -> Reading:
    """What a producer holds at a quiet moment, changed in one place."""
    usual = Reading(50 * MEGABYTE, tasks=40, fds=16, timers=4, threads=9, objects=46_000)
    return attrs.evolve(usual, **changes)


def report_of(readings: list[Reading]) -> Report:
    """A soak of which nothing is wrong but what these readings show."""
    report = Report(seed=0, least_rate=_RATE)
    for index, reading in enumerate(readings):
        report.rows.add(_PERIOD * index, reading)
    report.seconds = _PERIOD * len(readings)
    records = int(_RATE * report.seconds)
    report.outcomes = Counter({Outcome.ACKED: records})
    report.judged = records
    return report


# -- letters


def test_letters_bring_the_history_as_it_was() -> None:
    """What is read from the pipe is what was written, with and without a partition, and an error in any script."""
    sent: list[Sent | Mark] = [
        Sent(7, b"digested", "t", 3, Outcome.ACKED, 2**40, due_at=1.5, resolved_at=1.25),
        Sent(8, b"12345678", "täglich", None, Outcome.NOT_WRITTEN, on_wire=False, error="déjà vu"),
        Sent(9, b"12345678", "t", 0, Outcome.PENDING),
        Mark(10, 0.25, 60.0),
        Mark(11, 0.5, 1.0, last=True),
    ]
    written = b"".join(
        letters.of_mark(one) if isinstance(one, Mark) else letters.of_record(one) for one in sent
    )
    assert list(letters.read(io.BytesIO(written))) == sent


def test_a_letter_that_is_cut_is_noticed() -> None:
    """A pipe that ends inside a letter is an error, not the end of the history."""
    letter = letters.of_record(Sent(7, b"digested", "topic", 3, Outcome.ACKED, 5))
    for size in range(1, len(letter)):
        with pytest.raises(EOFError):
            list(letters.read(io.BytesIO(letter[:size])))


def test_a_long_error_is_cut() -> None:
    """An error of any length fits its letter."""
    [read] = letters.read(
        io.BytesIO(letters.of_record(Sent(1, b"12345678", "t", 0, Outcome.UNKNOWN, error="é" * 9999)))
    )
    assert isinstance(read, Sent)
    assert read.error.startswith("éé")


# -- gauges


async def test_each_gauge_sees_what_it_is_for() -> None:
    """One task, one descriptor, one timer, one thread and many objects more are seen as that; then they are gone."""
    loop, end = asyncio.get_running_loop(), threading.Event()
    before = gauges.read(loop)
    task = asyncio.create_task(asyncio.Event().wait())
    timer = loop.call_later(1000, print)
    pipe = os.pipe()
    thread = threading.Thread(target=end.wait)
    thread.start()
    kept: list[list[int]] = [[] for _ in range(100_000)]
    ballast = b"x" * (64 << 20)
    with_them = gauges.read(loop)
    assert (len(kept), len(ballast)) == (100_000, 64 << 20)
    task.cancel()
    timer.cancel()
    for descriptor in pipe:
        os.close(descriptor)
    end.set()
    thread.join()
    del kept, thread, ballast
    await asyncio.wait([task])
    after = gauges.read(loop)
    assert with_them.tasks - before.tasks == 1
    assert with_them.timers - before.timers == 1
    assert with_them.fds - before.fds == 2
    assert with_them.threads - before.threads == 1
    assert with_them.objects - before.objects > 50_000
    assert with_them.rss - before.rss > 32 << 20
    assert (after.tasks, after.timers, after.fds, after.threads) == (
        before.tasks, before.timers, before.fds, before.threads,
    )  # fmt: skip


# -- resting


async def test_all_users_rest_between_two_pieces_of_work() -> None:
    """While the gate is shut, everybody stands at it, and nobody counts who has gone home."""
    rest, done = Rest(users=3), Counter[int]()

    async def work(user: int) -> None:
        while done[user] < 10:
            await rest.here()
            done[user] += 1
            await asyncio.sleep(0)
        rest.leave()

    rest.open()
    users = [asyncio.create_task(work(user)) for user in range(3)]
    await asyncio.sleep(0)
    rest.shut()
    await rest.all_here()
    before = dict(done)
    await asyncio.sleep(0)
    assert dict(done) == before
    rest.open()
    await asyncio.gather(*users)
    await rest.all_here()
    assert set(done.values()) == {10}


# -- the verdict


def test_a_soak_that_holds_still_is_well() -> None:
    """Chance in every gauge, and a step of the allocator, are nothing to speak of."""
    readings = [
        quiet(rss=(50 + index % 2 + (index > 40)) * MEGABYTE, timers=4 + index % 3, fds=16 + index % 2)
        for index in range(60)
    ]
    assert report_of(readings).problems() == []


def test_a_pointer_kept_of_every_record_is_seen() -> None:
    """Eight bytes of each of 5,000 records a second, in ten minutes: the slope is clearly above its bound."""
    leak = [quiet(rss=50 * MEGABYTE + int(8 * _RATE * _PERIOD * index)) for index in range(60)]
    [problem] = report_of(leak).problems()
    assert problem.startswith("memory grows by +137.3 ± 0.0 MB/h, more than 17.2")


def test_a_list_that_keeps_every_batch_is_seen() -> None:
    """One small object of every batch of a hundred records, 200 bytes, under the allocator's chance."""
    leak = [
        quiet(rss=50 * MEGABYTE + int(2 * _RATE * _PERIOD * index) + index % 3 * 20_000)
        for index in range(60)
    ]
    assert any(problem.startswith("memory grows") for problem in report_of(leak).problems())


@pytest.mark.parametrize("gauge", GAUGES)
def test_one_more_of_anything_with_every_fault_is_seen(gauge: str) -> None:
    """A task, descriptor, timer or thread, or twenty objects, that each fault leaves behind."""
    each = 20 if gauge == "objects" else 1
    leak = [quiet(**{gauge: getattr(quiet(), gauge) + each * index}) for index in range(60)]
    [problem] = report_of(leak).problems()
    assert problem.startswith(f"{gauge} grow")


def test_what_outlives_the_producer_is_seen() -> None:
    """A task, descriptor or timer more than before the producer was made is told."""
    report = report_of([quiet()] * 60)
    report.before, report.last = quiet(tasks=3), quiet(tasks=4)
    assert report.problems() == ["1 tasks are left of the producer that was closed"]


def test_findings_wrong_words_low_rates_and_unjudged_records_are_problems() -> None:
    """Each of them fails a soak."""
    report = report_of([quiet()] * 60)
    finding = {"records": 0, "in_log": 0, "held": 5, "anomalies": {"LOST": 1}, "findings": ["record 3: lost"]}
    report.add_verdict(finding)
    report.wrong.append("in a callback: it failed")
    report.judged -= 1
    report.least_rate += 1
    problems = "\n".join(report.problems())
    for words in ("the judge: 1 x LOST", "record 3: lost", "in a callback", "were judged", "only 5,000"):
        assert words in problems


def test_too_short_a_soak_says_so_and_does_not_fail() -> None:
    """Less than a dozen quiet moments are no trend, however they rise."""
    readings = [quiet(rss=index * MEGABYTE * 50, tasks=index) for index in range(1, FEWEST)]
    assert report_of(readings).problems() == []
    assert report_of(readings[:5]).facts()["RSS slope over the second half, MB by the hour"] == "too short"


def test_slow_recovery_fails_a_soak() -> None:
    """Three seconds after a fault every partition is written to; a loop that was held up is allowed for."""
    report = report_of([quiet()] * 60)
    report.recoveries += [(2.9, "nonsense"), (3.5, "broker_is_silent")]
    [problem] = report.problems()
    assert problem.startswith("broker_is_silent: 3.5 s")
    report.longest_lag = 0.2
    assert report.problems() == []
