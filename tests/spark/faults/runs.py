"""A run under faults: a driver that writes streams or jobs, which is killed and restarted, and an audit of the topics.

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
from tests.soak.secured_nodes import CHANGES, PASSWORD_FILE, SecuredNodes
from tests.spark.faults.diary import Diary, Entry
from tests.spark.faults.injected import Fault
from tests.spark.faults.order import Order
from tests.spark.faults.processes import Driver, process_facts
from tests.spark.faults.sinks import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    Executor,
    diary_in,
    go_on,
    half_way,
    happened,
    hold,
    outlives,
)
from tests.spark.rows import expected_of_a_stream
from tools.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aioproducer.spark.auditing import Verdict

__all__ = ["FaultyRun", "Incident", "incidents"]

# The limit of each wait for the next event of a task or driver, in seconds of a machine with nothing else to do. Beside other work
# it is longer: with eighteen programs on two processors, the successor of a driver had no event within 300 s.
LIMIT: Final = 200.0
# The number of events in the message of a failure.
LAST: Final = 40
# The incidents in which Python outlives its executor.
ZOMBIES: Final = frozenset(
    {"zombies that came first", "zombies that came too late", "zombies beside their successors"}
)
# The incidents for which a task is held.
HELD: Final = ZOMBIES | {"executors killed"}
# The moments of an epoch at which a driver is killed.
MOMENTS: Final = ("began", "wrote", "committing")
HALF_WAY: Final = "drivers killed half-way through their commits"
# The longest time in which secrets and certificates of the cluster and of its clients differ, in seconds.
SECONDS_OF_A_CHANGE: Final = 3.0


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
class FaultyRun:
    """`with FaultyRun(...) as run: run.play()`; then audit the topics."""

    kafka: KafkaCluster
    # The module that is the driver: it writes the streams or jobs of the order.
    program: str
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
            if each.what in ZOMBIES:
                outlives(self.order.folder, each.epoch).touch()
            if each.what == HALF_WAY:
                half_way(self.order.folder, each.epoch).touch()
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

    def play(self) -> None:
        """Let all incidents happen, and the rows end."""
        for incident in self.incidents:
            self._make(incident)
            happened(self.order.folder, incident.epoch).touch()
            self.counts[incident.what] += 1
        self.until(lambda: not self.driver.running, "the end of the rows")
        assert self.driver.process.returncode == 0, self.situation()
        self.seconds = time.monotonic() - self.began

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until the condition holds: it is polled, as other processes send no event."""
        seen, quiet, since = 0, 0.0, time.monotonic()
        last = since
        while not (found := condition()):
            now = time.monotonic()
            # The load may change during the wait.
            quiet, last = quiet + (now - last) / slowness(), now
            if len(self.diary.entries()) > seen:
                seen, quiet, since = len(self.diary.entries()), 0.0, now
            assert quiet < LIMIT, f"no {what}: nothing happened for {now - since:.0f} s\n{self.situation()}"
            time.sleep(0.005)
        return found

    def noted(self, what: str, epoch: int) -> Entry:
        """Wait until a task of that epoch, or the driver, notes this event."""
        return self._first(lambda entry: (entry.what, entry.epoch) == (what, epoch), f"{what!r} of {epoch}")

    def _first(self, fits: Callable[[Entry], bool], what: str, by: int | None = None) -> Entry:
        """Wait for an event of the exactly-once query, which this process notes, if it can only be one."""

        def find() -> Entry | None:
            # Looked at before the diary is: the process may note the event and end.
            can_come = self.driver.running and (by is None or process_facts(by) is not None)
            entries = self.diary.entries()
            found = next((entry for entry in entries if entry.query == EXACTLY_ONCE and fits(entry)), None)
            ended = "driver" if by is None else "process that would note it"
            assert found or can_come, f"no {what}: the {ended} has ended\n{self.situation()}"
            return found

        found: Entry = self.until(find, what)
        return found

    def situation(self) -> str:
        """The known state, for the message of a failure."""
        now, entries = time.time(), self.diary.entries()
        last = "\n".join(f"{each.at - now:9.3f} s: {_told(each)}" for each in reversed(entries[-LAST:]))
        processes = "\n".join(map(str, self.driver.members()))
        return (
            f"seed {self.order.seed}, {time.monotonic() - self.began:.0f} s after the start, load {os.getloadavg()[0]:.1f}, "
            f"{len(entries)} events, incidents so far {dict(self.counts)}, planned "
            f"{[(each.epoch, each.what) for each in self.incidents]}, exit code of the driver {self.driver.process.poll()}\nthe last events, the newest first:\n{last}\nprocesses of the driver:\n{processes}\n"
            f"{self.driver.log_tail()}"
        )

    def _start(self) -> None:
        self.driver = Driver.start(self.program, self.order.write(), Path(self.order.folder))
        self._drivers.append(self.driver)

    # -- incidents of whole processes

    def _make(self, incident: Incident) -> None:
        match incident.what:
            case "drivers killed":
                self._replace_the_driver(self.rng.choice(MOMENTS), incident.epoch)
            case what if what == HALF_WAY:
                self._replace_the_driver("half-way", incident.epoch)
            case "brokers killed":
                self._kill_a_broker(incident.epoch)
            case "executors killed":
                held = self.noted("holding", incident.epoch)
                os.kill(Executor.read(held.detail).java, signal.SIGKILL)
                self._repeated(held, "wrote")
            case "zombies that came first":
                self._let_a_zombie_come_first(incident.epoch)
            case "zombies that came too late":
                zombie = self._let_a_zombie_follow(incident.epoch)
                refusal = self._own(zombie, "failed")
                assert "Fenced" in refusal.detail, refusal
            case "zombies beside their successors":
                self._own(self._let_a_zombie_follow(incident.epoch), "wrote")
            case "secrets changed":
                self._change_secrets(incident.epoch)

    def _replace_the_driver(self, moment: str, epoch: int) -> None:
        self.noted(moment, epoch)
        self.driver.kill()
        self._start()

    def _change_secrets(self, epoch: int) -> None:
        """Change secrets while tasks begin, or while the driver commits."""
        assert isinstance(self.kafka, SecuredNodes)
        moment = self.rng.choice(("began", "committing"))
        self.noted(moment, epoch)
        if moment == "committing":
            happened(self.order.folder, epoch).touch()
        self.rng.choice(CHANGES)(self.kafka, self.rng, SECONDS_OF_A_CHANGE)

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

    def _let_a_zombie_come_first(self, epoch: int) -> None:
        """Kill Java when its Python has written: for Spark the executor is lost, and its task goes to another."""
        held = self.noted("holding", epoch)
        java = Executor.read(held.detail).java
        # A stopped Java gives Spark no result, and no other attempt begins while it is not lost.
        os.kill(java, signal.SIGSTOP)
        self.until(lambda: _is_stopped(java), "stopped Java")
        self._let_go_on(held)
        self._own(held, "wrote")
        os.kill(java, signal.SIGKILL)
        self._repeated(held, "skipped")

    def _let_a_zombie_follow(self, epoch: int) -> Entry:
        """Kill Java while its Python lives, which goes on when the next attempt of the task has begun."""
        held = self.noted("holding", epoch)
        os.kill(Executor.read(held.detail).java, signal.SIGKILL)
        # Behind its fence.
        self._repeated(held, "began")
        self._let_go_on(held)
        self._repeated(held, "wrote")
        return held

    def _let_go_on(self, held: Entry) -> None:
        go_on(self.order.folder, held.epoch).touch()

    def _own(self, held: Entry, what: str) -> Entry:
        """Wait until the held attempt notes this event."""
        return self._first(
            lambda entry: entry[:5] == (what, *held[1:5]),
            f"{what!r} by the held attempt",
            by=Executor.read(held.detail).worker,
        )

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

    def secrets_shown(self) -> list[str]:
        """The files with secrets of the clients that are in the log of the drivers and executors, or in the diary."""
        if not isinstance(self.kafka, SecuredNodes):
            return []
        written = self.driver.log.read_text(errors="replace") + self.diary.path.read_text()
        files = self.kafka.folder.glob(f"{PASSWORD_FILE}.[0-9]*")
        return [file.name for file in files if file.read_text() in written]

    def summary(self, exactly: Verdict, uncommitted: Verdict, others: Sequence[Verdict]) -> str:
        """The results in a line; `others`: of the stream without transactions, if there is one."""
        order = self.order
        nodes = {1: "one node", 3: "three nodes"}[len(self.kafka.nodes)]
        nodes = f"secured, {nodes}" if isinstance(self.kafka, SecuredNodes) else nodes
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


def _is_stopped(pid: int) -> bool:
    facts = process_facts(pid)
    return facts is not None and facts.state == "T"


def slowness() -> float:
    """How many times as long as alone everything takes now: the programs that want a processor, by the processors."""
    return max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


def _told(entry: Entry) -> str:
    task = f"{entry.epoch}, {entry.partition}, {entry.attempt}"
    return f"{entry.query} ({task}): {entry.what} {entry.detail[:160]}".rstrip()
