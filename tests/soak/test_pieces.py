"""The pieces of a soak: the history's format, gauges, the gate where users rest, the verdict over a whole report."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import threading
from collections import Counter

import attrs
import pytest

from aioproducer import Outcome
from tests.judge.history import Sent
from tests.soak import gauges
from tests.soak.gauges import GAUGES, MEGABYTE, Reading
from tests.soak.judging import history_format
from tests.soak.judging.history_format import Mark
from tests.soak.judging.trend import FEWEST
from tests.soak.programs import JudgeProcess
from tests.soak.report import Report
from tests.soak.users import Gate

_PERIOD = 10.0
_RATE = 5_000


def quiet(**changes: int) -> Reading:
    """The counts of a process at a quiet moment, with these changes."""
    usual = Reading(50 * MEGABYTE, tasks=40, fds=16, timers=4, threads=9, objects=46_000)
    return attrs.evolve(usual, **changes)


def report_of(readings: list[Reading]) -> Report:
    """A soak without problems except for those in these readings."""
    report = Report(seed=0, least_rate=_RATE)
    for index, reading in enumerate(readings):
        report.rows.add(_PERIOD * index, reading)
    report.seconds = _PERIOD * len(readings)
    records = int(_RATE * report.seconds)
    report.outcomes = Counter({Outcome.ACKED: records})
    report.judged = records
    return report


# -- the history in the pipe


def test_the_history_passes_the_pipe_unchanged() -> None:
    """The records from the pipe are those that were written, with and without a partition, and an error in any script."""
    sent: list[Sent | Mark] = [
        Sent(7, b"digested", "t", 3, Outcome.ACKED, 2**40, due_at=1.5, resolved_at=1.25),
        Sent(8, b"12345678", "täglich", None, Outcome.NOT_WRITTEN, on_wire=False, error="déjà vu"),
        Sent(9, b"12345678", "t", 0, Outcome.PENDING),
        Mark(10, 0.25, 60.0),
        Mark(11, 0.5, 1.0, last=True),
    ]
    written = b"".join(
        history_format.of_mark(one) if isinstance(one, Mark) else history_format.of_record(one)
        for one in sent
    )
    assert list(history_format.read(io.BytesIO(written))) == sent


def test_a_record_that_is_cut_is_an_error() -> None:
    """A pipe that ends inside a record is an error, not the end of the history."""
    record = history_format.of_record(Sent(7, b"digested", "topic", 3, Outcome.ACKED, 5))
    for size in range(1, len(record)):
        with pytest.raises(EOFError):
            list(history_format.read(io.BytesIO(record[:size])))


def test_a_long_error_is_cut() -> None:
    """An error of any length fits its record."""
    [read] = history_format.read(
        io.BytesIO(history_format.of_record(Sent(1, b"12345678", "t", 0, Outcome.UNKNOWN, error="é" * 9999)))
    )
    assert isinstance(read, Sent)
    assert read.error.startswith("éé")


# -- a judge that cannot judge


async def test_a_judge_that_cannot_read_the_log_ends(capfd: pytest.CaptureFixture[str]) -> None:
    """No broker reports the end of the log: the judge's process ends with the reason, and the soak does not wait for it."""
    nothing = socket.create_server(("127.0.0.1", 0))
    with nothing:
        host, port = nothing.getsockname()
        judge = await JudgeProcess.start(f"{host}:{port}", {"t": 1}, [])
        await judge.send(bytearray(), Mark(0, 0.0, 0.1, last=True))
        with pytest.raises(EOFError, match="ended with code 1"):
            await judge.verdict()
    assert "no broker reported the end of t-0" in capfd.readouterr().err


# -- gauges


async def test_each_gauge_sees_what_it_is_for() -> None:
    """One task, one descriptor, one timer, one thread and many objects are counted, and their end too."""
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
    """While the gate is shut, all users wait at it; a user that has finished does not count."""
    gate, done = Gate(users=3), Counter[int]()

    async def work(user: int) -> None:
        while done[user] < 10:
            await gate.pass_through()
            done[user] += 1
            await asyncio.sleep(0)
        gate.remove_user()

    gate.open()
    users = [asyncio.create_task(work(user)) for user in range(3)]
    await asyncio.sleep(0)
    gate.shut()
    await gate.all_waiting()
    before = dict(done)
    await asyncio.sleep(0)
    assert dict(done) == before
    gate.open()
    await asyncio.gather(*users)
    await gate.all_waiting()
    assert set(done.values()) == {10}


# -- the verdict


def test_a_soak_that_holds_still_is_well() -> None:
    """Noise in every gauge, and a step of the allocator, are negligible."""
    readings = [
        quiet(rss=(50 + index % 2 + (index > 40)) * MEGABYTE, timers=4 + index % 3, fds=16 + index % 2)
        for index in range(60)
    ]
    assert report_of(readings).problems() == []


def test_steps_of_the_allocator_at_a_low_rate_are_no_leak() -> None:
    """Two steps of a megabyte in the second half of ten minutes, while 1,500 records a second have a bound of 5 MB/h."""
    readings = [quiet(rss=(50 + (index > 35) + (index > 50)) * MEGABYTE) for index in range(60)]
    report = report_of(readings)
    for name in report.outcomes:
        report.outcomes[name] //= 3
    report.judged, report.least_rate = report.outcomes.total(), 0
    found = report.slope
    assert found is not None
    assert found.clearly_above(report.bound)
    assert report.problems() == []


def test_the_peak_of_one_fault_is_no_leak() -> None:
    """Megabytes as a soak of eight minutes measured them: ten thousand records waited once for two killed nodes."""
    later = [81.2] * 4 + [81.3] * 5 + [81.4, 83.3] + [83.3] * 6 + [83.8] * 7
    report = report_of([quiet(rss=round(size * MEGABYTE)) for size in [*[79.0] * 24, *later]])
    found = report.slope
    assert found is not None
    assert found.clearly_above(report.bound)
    assert report.problems() == []


def test_a_leak_of_each_fault_is_seen() -> None:
    """Two megabytes of every fifth fault, in ten minutes."""
    leak = [quiet(rss=(50 + 2 * (index // 5)) * MEGABYTE) for index in range(60)]
    assert any(problem.startswith("memory grows") for problem in report_of(leak).problems())


def test_a_pointer_kept_of_every_record_is_seen() -> None:
    """Eight bytes of each of 5,000 records a second, in ten minutes: the slope is clearly above its bound."""
    leak = [quiet(rss=50 * MEGABYTE + int(8 * _RATE * _PERIOD * index)) for index in range(60)]
    [problem] = report_of(leak).problems()
    assert problem.startswith("memory grows by +137.3 ± 0.0 MB/h, more than 17.2")


def test_a_list_that_keeps_every_batch_is_seen() -> None:
    """One small object of every batch of a hundred records, 200 bytes, under the allocator's noise."""
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
    """A task, descriptor or timer more than before the construction of the producer is reported."""
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
    """Fewer than a dozen quiet moments are no trend, for any rise."""
    readings = [quiet(rss=index * MEGABYTE * 50, tasks=index) for index in range(1, FEWEST)]
    assert report_of(readings).problems() == []
    assert report_of(readings[:5]).facts()["RSS slope over the second half, MB by the hour"] == "too short"


def test_slow_recovery_fails_a_soak() -> None:
    """Three seconds after a fault every partition accepts records; a lag of the loop is added to that."""
    report = report_of([quiet()] * 60)
    report.recoveries += [(2.9, "nonsense"), (3.5, "broker_is_silent")]
    [problem] = report.problems()
    assert problem.startswith("broker_is_silent: 3.5 s")
    report.longest_lag = 0.2
    assert report.problems() == []
