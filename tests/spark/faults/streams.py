"""Streams under faults: a driver that writes them, which is killed and restarted, and an audit of the topics.

No result depends on timing. An epoch with an incident of a whole process does not end before the incident,
and a task that is to be held finds its marker on arrival: all of that is decided before the driver starts.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from aioproducer.spark import audit
from tests.spark.faults.diary import Diary, Entry
from tests.spark.faults.injected import Fault
from tests.spark.faults.processes import Driver
from tests.spark.faults.sinks import AT_LEAST_ONCE, EXACTLY_ONCE, diary_in, go_on, happened, hold
from tests.spark.faults.streaming import Order
from tests.spark.rows import expected_of_a_stream
from tools.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aioproducer.spark.auditing import Verdict

__all__ = ["Incident", "Streams", "incidents"]

# The limit of each wait for the next event of a task or driver, on a machine that has other work as well.
LIMIT: Final = 300.0
# The incidents for which a task is held.
HELD: Final = frozenset({"executors killed", "zombies that came first", "zombies that came too late"})
# The moments of an epoch at which a driver is killed.
MOMENTS: Final = ("began", "wrote", "committing")
PROGRAM: Final = "tests.spark.faults.streaming"


@attrs.frozen
class Incident:
    """An event of an epoch that hits a whole process, and not one attempt of a task."""

    epoch: int
    what: str


def incidents(seed: int, epochs: int, wanted: Counter[str]) -> list[Incident]:
    """The wanted incidents, in a random order of this seed, with some epochs between one and the next."""
    rng = random.Random(f"{seed} incidents")
    kinds = sorted(wanted.elements())
    rng.shuffle(kinds)
    gap = (epochs - 3) // max(len(kinds), 1)
    assert gap >= 2 or not kinds, "they would be too close to each other"
    return [Incident(2 + number * gap + rng.randrange(gap - 1), what) for number, what in enumerate(kinds)]


@attrs.define(eq=False)
class Streams:
    """`with Streams(...) as streams: streams.run()`; then audit the topics."""

    kafka: KafkaCluster
    order: Order
    # In the epochs of the order.
    incidents: list[Incident]
    driver: Driver = attrs.field(init=False)
    diary: Diary = attrs.field(init=False)
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    rng: random.Random = attrs.field(init=False)
    began: float = attrs.field(factory=time.monotonic, init=False)
    seconds: float = attrs.field(default=0.0, init=False)
    _drivers: list[Driver] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.diary = diary_in(self.order.folder)
        self.rng = random.Random(f"{self.order.seed} moments")

    def __enter__(self) -> Self:
        assert self.order.incidents == tuple(each.epoch for each in self.incidents)
        for each in self.incidents:
            if each.what in HELD:
                hold(self.order.folder, each.epoch).touch()
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        for driver in self._drivers:
            driver.close()
        for node in self.kafka.nodes:
            if not node.running:
                node.start()
        self.kafka.wait_ready()

    # -- at work

    def run(self) -> None:
        """Let all incidents happen, and the streams end."""
        for incident in self.incidents:
            self._make(incident)
            happened(self.order.folder, incident.epoch).touch()
            self.counts[incident.what] += 1
        self.until(lambda: not self.driver.running, "the end of the streams")
        assert self.driver.process.returncode == 0, self.situation()
        self.seconds = time.monotonic() - self.began

    def until(self, condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
        """Wait until the condition holds: it is polled, as other processes send no event."""
        seen, since = 0, time.monotonic()
        while not (found := condition()):
            if len(self.diary.entries()) > seen:
                seen, since = len(self.diary.entries()), time.monotonic()
            quiet = time.monotonic() - since
            assert quiet < limit, f"{what}: nothing happened for {limit:g} s\n{self.situation()}"
            time.sleep(0.005)
        return found

    def noted(self, what: str, epoch: int) -> Entry:
        """Wait until a task of that epoch, or the driver, notes this event."""
        return self._first(lambda entry: (entry.what, entry.epoch) == (what, epoch), f"{what!r} of {epoch}")

    def _first(self, fits: Callable[[Entry], bool], what: str) -> Entry:
        """Wait for an event of the exactly-once query."""

        def find() -> Entry | None:
            assert self.driver.running, f"{what}: the driver has ended\n{self.situation()}"
            entries = self.diary.entries()
            return next((entry for entry in entries if entry.query == EXACTLY_ONCE and fits(entry)), None)

        found: Entry = self.until(find, what)
        return found

    def situation(self) -> str:
        """The known state, for the message of a failure."""
        last = "\n".join(map(str, self.diary.entries()[-40:]))
        return f"{dict(self.counts)}\n{last}\n{self.driver.log_tail()}"

    def _start(self) -> None:
        self.driver = Driver.start(PROGRAM, self.order.write(), Path(self.order.folder))
        self._drivers.append(self.driver)

    # -- incidents of whole processes

    def _make(self, incident: Incident) -> None:
        match incident.what:
            case "drivers killed":
                self.noted(self.rng.choice(MOMENTS), incident.epoch)
                self.driver.kill()
                self._start()
            case "brokers killed":
                self._kill_a_broker(incident.epoch)
            case "executors killed":
                held = self.noted("holding", incident.epoch)
                os.kill(int(held.detail), signal.SIGKILL)
                self._repeated(held, "wrote")
            case "zombies that came first":
                self._freeze(incident.epoch, comes_first=True)
            case "zombies that came too late":
                self._freeze(incident.epoch, comes_first=False)

    def _kill_a_broker(self, epoch: int) -> None:
        self.noted("began", epoch)
        node = self.rng.choice(self.kafka.nodes)
        node.kill()
        if len(self.kafka.nodes) > 1:
            # The others take over.
            happened(self.order.folder, epoch).touch()
            self.noted("wrote", epoch + 1)
        node.start()
        self.kafka.wait_ready()

    def _freeze(self, epoch: int, *, comes_first: bool) -> None:
        """Freeze Java while its Python lives: for Spark the executor is lost, and its task goes to another."""
        held = self.noted("holding", epoch)
        java = int(held.detail)
        os.kill(java, signal.SIGSTOP)
        try:
            if comes_first:
                self._let_go_on(held)
                self._own(held, "wrote")
                self._repeated(held, "skipped")
            else:
                # The repeated attempt has taken the transactional id by now.
                self._repeated(held, "began")
                self._let_go_on(held)
                refusal = self._own(held, "failed")
                assert "Fenced" in refusal.detail, refusal
                self._repeated(held, "wrote")
        finally:
            _wake(java)

    def _let_go_on(self, held: Entry) -> None:
        go_on(self.order.folder, held.epoch).touch()

    def _own(self, held: Entry, what: str) -> Entry:
        """Wait until the held attempt notes this event."""
        return self._first(lambda entry: entry[:5] == (what, *held[1:5]), f"{what!r} by the held attempt")

    def _repeated(self, held: Entry, what: str) -> Entry:
        """Wait until a later attempt of the same task notes this event."""
        return self._first(
            lambda entry: entry[:4] == (what, *held[1:4]) and entry.attempt > held.attempt,
            f"{what!r} by a later attempt",
        )

    # -- results

    def verdict(self, spark: SparkSession, delivery: str, isolation: str = "read_committed") -> Verdict:
        """The verdict on the topic of a query, which must have every row."""
        expected = expected_of_a_stream(self.order.rows, self.order.epochs)
        topics = [self.order.topics[delivery]]
        return audit(spark, self.kafka.bootstrap_servers, topics, expected=expected, isolation=isolation)

    def faults(self, query: str) -> Counter[str]:
        """The number of failed attempts and commits, by kind."""
        kinds = {*(fault.value for fault in Fault), "commit() raised"}
        return Counter(
            entry.what for entry in self.diary.entries() if entry.query == query and entry.what in kinds
        )

    def waited(self) -> set[int]:
        """The epochs in which an attempt has waited for another one of its task."""
        return {entry.epoch for entry in self.diary.entries() if entry.what == "waited"}

    def skips(self) -> int:
        """The number of attempts that found their rows written by an earlier one."""
        return sum(1 for entry in self.diary.entries() if entry.what == "skipped")

    def summary(self, exactly: Verdict, uncommitted: Verdict, others: Sequence[Verdict]) -> str:
        """The results in a line; `others`: of the stream without transactions, if there is one."""
        order = self.order
        nodes = {1: "one node", 3: "three nodes"}[len(self.kafka.nodes)]
        happened = ", ".join(f"{what} {count}" for what, count in sorted(self.counts.items()))
        faults = self.faults(EXACTLY_ONCE)
        tasks = ", ".join(f"{what} {count}" for what, count in sorted(faults.items()))
        waited = f"{len(self.waited())} attempts waited for another; " if order.waits else ""
        return (
            f"seed {order.seed}, {order.master}, {nodes}: {order.epochs} epochs, {order.epochs * order.rows:,} rows, "
            f"{self.seconds:.0f} s; tasks and commits {faults.total()} ({tasks}); {happened}; {waited}"
            f"{self.skips()} tasks found their marks; exactly once: {_counted(exactly)}, "
            f"{uncommitted.doubled:,} aborted copies for uncommitted readers"
        ) + "".join(
            f"; at least once, {self.faults(AT_LEAST_ONCE).total()} faults: {_counted(each)}"
            for each in others
        )


def _counted(verdict: Verdict) -> str:
    return (
        f"lost {verdict.lost:,}, doubled {verdict.doubled:,}, out of order {verdict.out_of_order:,}"
        f"{', clean' if verdict.is_clean else ''}"
    )


def _wake(java: int) -> None:
    try:
        os.kill(java, signal.SIGCONT)
    except ProcessLookupError:
        return
