"""One soak: users, faults, measuring and judging run in parallel until the time is up or Ctrl-C."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import attrs

from aioproducer import Outcome, Producer
from aioproducer._state.delivery import tally
from tests.judge.lag import Lag, LagWatch
from tests.simulation.fault_schedule import TOPIC
from tests.soak import gauges
from tests.soak.access import PLAIN, Access
from tests.soak.gauges import Reading
from tests.soak.judging.history_format import Mark
from tests.soak.judging.ledger import Ledger
from tests.soak.programs import Brokers, JudgeProcess
from tests.soak.report import RECOVERY, Report, period_line
from tests.soak.secured_nodes import CHANGES
from tests.soak.users import THREADS, TOPICS, VISITS, Users, settings

_LONGEST_FAULT: Final = 0.5
"""Of a period. The rest of it is for the consequences of the fault."""
_AT_WORK: Final = 0.9
"""Of a period, before the quiet moment."""
_LEAVING: Final = 40.0
"""Seconds that the slowest user may take for its work: each of its calls is bounded."""
_MOMENT: Final = 2.0
_READ_LIMIT: Final = 60.0
_SLACK: Final = 0.25
_LOOK_EVERY: Final = 0.05
_SEND_EVERY: Final = 0.2
_STALL: Final = 0.5
_WORKERS: Final = 4
_KEPT_IN_DOUBT: Final = 50
_LOCAL_FAULTS: Final = 2
_SECURED_FAULTS: Final = 4
"""The local ones, and two of the provider of tokens."""
_HARMLESS: Final = frozenset(
    {change.__name__ for change in CHANGES} | {"identity_provider_is_down", "identity_provider_hangs"}
)
"""Faults that end no connection: no record becomes UNKNOWN."""


@attrs.frozen
class Plan:
    """The parameters of a soak."""

    seconds: float
    seed: int
    period: float = 10.0
    records_per_second: float = 9_000.0
    """The users' target; during faults they reach less."""
    least_rate: float = 5_000.0
    real: bool = False
    mechanism: str = PLAIN
    """Of the lasting producer on a secured cluster; PLAIN: the cluster is not secured."""
    haste: float = 1.0
    """The factor by which the producer's time limits are shorter than usual."""
    say: Callable[[str], object] = print

    @property
    def brokers(self) -> str:
        """The module of the cluster's program."""
        if self.mechanism:
            return "secured_brokers"
        return "real_brokers" if self.real else "brokers"


@attrs.define(eq=False)
class Soak:
    """`await Soak(plan).run()` returns the report. `stop` ends the soak at the next opportunity."""

    plan: Plan
    report: Report = attrs.field(init=False)
    stop: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    ledger: Ledger = attrs.field(factory=Ledger, init=False)
    producer: Producer[Any, Any] = attrs.field(init=False)
    access: Access = attrs.field(init=False)
    _lag: LagWatch = attrs.field(factory=LagWatch, init=False)
    _lags: deque[Lag] = attrs.field(factory=lambda: deque([Lag()], maxlen=3), init=False)
    _rng: random.Random = attrs.field(init=False)
    _reported: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        limit = settings(self.plan.haste)["request_timeout_ms"] / 1000
        self.report = Report(self.plan.seed, self.plan.least_rate, allowed=RECOVERY + limit)
        self._rng = random.Random(self.plan.seed)

    async def run(self) -> Report:
        """Run from the start of the first process to the end of the last."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._callback_failed)
        loop.set_default_executor(_full_pool())
        brokers = await Brokers.start(TOPICS, module=self.plan.brokers)
        self.access = Access(brokers.servers, brokers.folder, self.plan.mechanism)
        try:
            judge = await JudgeProcess.start(brokers.readers_servers, TOPICS, [VISITS])
            try:
                await self._live(brokers, judge)
            finally:
                await judge.end()
        finally:
            await brokers.end()
        return self.report

    async def _live(self, brokers: Brokers, judge: JudgeProcess) -> None:
        # The soak's own tasks exist before the first reading, and after the last.
        own = [
            asyncio.create_task(one)
            for one in (self._lag.watch(), self._send_history(judge), self._read_verdicts(judge, brokers))
        ]
        await asyncio.sleep(0)
        self.report.before = gauges.read(asyncio.get_running_loop())
        # Until there are so many, the batches of unknown outcome that a flush may look for would be taken for a leak.
        with mock.patch.object(tally, "KEPT_IN_DOUBT", _KEPT_IN_DOUBT):
            self.producer = Producer(**self.access.lasting, **settings(self.plan.haste))
            await self.producer.start(wait_ready=30.0)
        users = Users(self.producer, self.ledger, self.plan.records_per_second, self.plan.seed, self.access)
        began = time.monotonic()
        users.start()
        try:
            await self._periods(users, brokers, judge, began)
        finally:
            await self._end(users, judge, began)
            own[0].cancel()
            own[1].cancel()
            await asyncio.gather(*own, return_exceptions=True)
            for attendant in own:
                error = None if attendant.cancelled() else attendant.exception()
                if error is not None:
                    self.report.wrong.append(f"the soak itself broke: {error!r}")

    # -- periods

    async def _periods(self, users: Users, brokers: Brokers, judge: JudgeProcess, began: float) -> None:
        faults = self._faults(brokers)
        until = began + self.plan.seconds
        while not self.stop.is_set() and time.monotonic() < until - _MOMENT:
            # Lost time is not made up for: each fault has its whole period.
            ends = min(time.monotonic() + self.plan.period, until)
            unknown = self._unknown()
            fault = await next(faults)
            self.access.servers = brokers.servers
            self.report.faults[fault] += 1
            await self._recovered(fault, ends)
            await self._wait(ends - (1 - _AT_WORK) * self.plan.period - time.monotonic())
            reading = await self._quiet(users, began)
            await self._mark(judge)
            if reading is not None:
                self._say(reading, fault, began)
                self._check_harm(fault, self._unknown() - unknown)
            await self._wait(ends - time.monotonic())

    def _faults(self, brokers: Brokers) -> Any:
        """Every kind once in an order drawn from the seed, then again in another order."""
        while True:
            numbers = list(
                range(brokers.faults + (_SECURED_FAULTS if self.plan.mechanism else _LOCAL_FAULTS))
            )
            self._rng.shuffle(numbers)
            for number in numbers:
                yield self._strike(brokers, number)

    async def _strike(self, brokers: Brokers, number: int) -> str:
        longest = _LONGEST_FAULT * self.plan.period
        lasts = self._rng.uniform(0.1, 1.0) * longest
        match number - brokers.faults:
            case 0:
                await brokers.sleep(lasts)
                return "whole_cluster_is_stopped"
            case 1:
                # The blocked loop is the fault itself.
                time.sleep(lasts / longest * min(_STALL, longest))  # noqa: ASYNC251
                return "loop_stalls"
            case 2:
                await self.access.provider.fail(lasts, hangs=False)
                return "identity_provider_is_down"
            case 3:
                await self.access.provider.fail(lasts, hangs=True)
                return "identity_provider_hangs"
        return await brokers.strike(number, self._rng.randrange(2**31), longest)

    async def _recovered(self, fault: str, ends: float) -> None:
        """Wait until every partition has an acknowledgement again, and record the duration."""
        healed_at = asyncio.get_running_loop().time()
        places = [(TOPIC, partition) for partition in range(TOPICS[TOPIC])]
        while any(self.ledger.acked_at.get(place, 0.0) <= healed_at for place in places):
            if time.monotonic() > max(ends, healed_at + RECOVERY) or self.stop.is_set():
                break
            await asyncio.sleep(_LOOK_EVERY)
        seconds = asyncio.get_running_loop().time() - healed_at
        self.report.recoveries.append((seconds, fault))

    async def _wait(self, seconds: float) -> None:
        """Wait for this time, or until the soak is to end."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self.stop.wait()
        except TimeoutError:
            pass

    async def _quiet(self, users: Users, began: float) -> Reading | None:
        """Pause all users, resolve all records, and measure; None if the users do not come to rest."""
        self._note_the_lag()
        users.gate.shut()
        try:
            async with asyncio.timeout(2 * users.delivery_timeout + _MOMENT):
                await users.gate.all_waiting()
                await self.producer.flush()
        except TimeoutError:
            self.report.restless += 1
            return None
        else:
            reading = gauges.read(asyncio.get_running_loop())
            self.report.rows.add(time.monotonic() - began, reading)
            self._check_empty()
            return reading
        finally:
            # Collecting garbage has held up the loop; this lag is the soak's own.
            self._lag.take()
            users.gate.open()

    def _check_empty(self) -> None:
        stats = self.producer.stats()
        held = (stats.records_buffered, stats.bytes_buffered, stats.records_in_flight, stats.waiting_calls)
        if any(held):
            self.report.wrong.append(f"at a quiet moment the producer holds {held}")

    def _unknown(self) -> int:
        # Records of other topics are purged on their way, or sent by producers that are closed.
        return self.ledger.unknown[TOPIC] + self.ledger.unknown[THREADS]

    def _check_harm(self, fault: str, unknown: int) -> None:
        self.report.unknown[fault] += unknown
        if unknown and fault in _HARMLESS:
            self.report.wrong.append(f"{unknown} records became UNKNOWN by {fault}, which ends no connection")

    def _say(self, reading: Reading, fault: str, began: float) -> None:
        seconds, resolved = time.monotonic() - began, self.ledger.resolved
        rate = (resolved - self._reported) / (seconds - self.report.seconds)
        self._reported, self.report.seconds = resolved, seconds
        self.plan.say(
            period_line(seconds, rate, self.ledger.outcomes, reading, self._lags[-1].longest, fault)
        )

    # -- the judge

    async def _mark(self, judge: JudgeProcess, *, last: bool = False) -> None:
        slack = _SLACK + max(lag.of_some_turns for lag in self._lags)
        await judge.send(self.ledger.unsent, Mark(self.ledger.below, slack, _READ_LIMIT, last))

    async def _send_history(self, judge: JudgeProcess) -> None:
        while True:
            await asyncio.sleep(_SEND_EVERY)
            await judge.send(self.ledger.unsent)

    async def _read_verdicts(self, judge: JudgeProcess, brokers: Brokers) -> None:
        """Read verdicts until the last window is judged."""
        while True:
            verdict = await judge.verdict()
            self.report.add_verdict(verdict)
            for finding in verdict["findings"]:
                self.plan.say(f"THE JUDGE: {finding}")
            await brokers.trim(verdict["offsets"])
            if verdict["last"]:
                return

    # -- the end

    async def _end(self, users: Users, judge: JudgeProcess, began: float) -> None:
        wrong = await users.finish(_LEAVING)
        self.report.wrong += [f"a user got {error!r}" for error in wrong]
        connections = self.producer.stats().connections
        self.report.reauthentications = sum(one.reauthentications for one in connections)
        self.report.authentication_failures = sum(one.authentication_failures for one in connections)
        report = await self.producer.close()
        # The callbacks of the last deliveries run in slices.
        for _ in range(100):
            await asyncio.sleep(0)
        self.report.seconds = time.monotonic() - began
        self.report.last = gauges.read(asyncio.get_running_loop())
        self.plan.say(f"closed: {report}")
        self.ledger.hand_over_the_rest()
        self.report.outcomes = self.ledger.outcomes
        self.report.latest = self.ledger.latest
        self._note_the_lag()
        await self._mark(judge, last=True)

    def _note_the_lag(self) -> None:
        self._lags.append(self._lag.take())
        self.report.longest_lag = max(self.report.longest_lag, self._lags[-1].longest)

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.report.wrong.append(f"in a callback: {context.get('message')}: {context.get('exception')!r}")


def _full_pool() -> concurrent.futures.ThreadPoolExecutor:
    """A pool with all its threads: one that makes them on demand looks like growth."""
    pool = concurrent.futures.ThreadPoolExecutor(_WORKERS)
    together = threading.Barrier(_WORKERS)
    for one in [pool.submit(together.wait) for _ in range(_WORKERS)]:
        one.result()
    return pool


def silence_the_log() -> None:
    """Faults every few seconds make the library log much, which other tests cover."""
    log = logging.getLogger("aioproducer")
    log.addHandler(logging.NullHandler())
    log.propagate = False


def succeeded(report: Report) -> bool:
    """The soak has no problems."""
    return not report.problems() and report.outcomes[Outcome.ACKED] > 0
