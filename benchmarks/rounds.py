"""Interleaved rounds: every contestant in a process of its own, each time on a new topic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.measure import MARK, Round, Work
from benchmarks.secured import Listener, SecuredCluster
from benchmarks.workloads import MANY_TRANSACTIONS, SHAPES, TRANSACTIONS, VALUES, Contestant, Workload
from tools.kafka_cluster import KafkaCluster

ROOT: Final = Path(__file__).parent.parent
_LIMIT: Final = 300.0
_FEWEST: Final = 1_000
_PACED_WARM_UPS: Final = 3

# The rounds of each contestant by its name, for each workload by its name.
Results = dict[str, dict[str, list[Round]]]


class RoundFailedError(RuntimeError):
    """A contestant's process did not finish its round; the text is its output."""


@attrs.define
class Rounds:
    """Runs workloads on one Kafka and keeps the results."""

    kafka: KafkaCluster
    scale: float
    say: Callable[[str], None]
    results: Results = attrs.field(factory=dict, init=False)
    _topics: int = attrs.field(default=0, init=False)

    def warm_up(self, workloads: Sequence[Workload]) -> None:
        """Let the broker's JVM compile the code that the workloads need."""
        for contestant in VALUES.contestants[:2]:
            self._one(contestant)
        if any(workload in TRANSACTIONS for workload in workloads):
            self._one(MANY_TRANSACTIONS)
        if any(workload in SHAPES for workload in workloads):
            # A broker whose code for small requests is not compiled answers so slowly that all clients make larger batches.
            for contestant in SHAPES[0].contestants[:2] * _PACED_WARM_UPS:
                self._one(contestant)

    def run(self, workload: Workload, rounds: int) -> None:
        """Each contestant once a round, so that disturbances of the machine affect all of them.

        Each round begins with another one: a broker's JVM gets faster all the time, and the last contestant benefits
        most.
        """
        contestants = workload.contestants
        done: dict[str, list[Round]] = {contestant.name: [] for contestant in contestants}
        self.results[workload.name] = done
        for number in range(rounds):
            first = number % len(contestants)
            for contestant in contestants[first:] + contestants[:first]:
                one = self._one(contestant)
                done[contestant.name].append(one)
                self.say(_line(workload, contestant, number + 1, one))

    def _one(self, contestant: Contestant) -> Round:
        self._topics += 1
        servers, authority = self._address(contestant.listener)
        work = Work(
            bootstrap_servers=servers,
            authority=authority,
            topic=f"bench-{self._topics}",
            records=self._scaled(contestant, contestant.records),
            warm_up=self._scaled(contestant, contestant.warm_up) if contestant.warm_up else 0,
            **contestant.options,
        )
        for name in work.topic_names:
            self.kafka.create_topic(name, contestant.partitions)
        try:
            return _run_process(contestant, work)
        finally:
            for name in work.topic_names:
                self.kafka.delete_topic(name)

    def _address(self, listener: Listener) -> tuple[str, str]:
        """The address of the listener, and the file of the certificate to trust."""
        if listener == "plaintext":
            return self.kafka.bootstrap_servers, ""
        if not isinstance(self.kafka, SecuredCluster):
            raise RoundFailedError("only the cluster of one node has secured listeners")
        return self.kafka.servers(listener), self.kafka.authority

    def _scaled(self, contestant: Contestant, records: int) -> int:
        # Whole calls, whole transactions, and whole shares of tasks and producers.
        options = contestant.options
        slower = 10 if "rate" in options else 100 if "per_transaction" in options else 1
        fewest = _FEWEST // slower
        unit: int = max(fewest, options.get("many", 1), options.get("per_transaction", 1))
        return max(unit, int(records * self.scale) // unit * unit)


def _line(workload: Workload, contestant: Contestant, number: int, one: Round) -> str:
    told = [(name, head, form) for name, head, form in workload.figures if name in one.figures]
    figures = "".join(f", {head} {one.figures[name]:{form}}" for name, head, form in told)
    return (
        f"{workload.name} {number}: {contestant.name:16} {one.rate:>11,.0f} records/s, "
        f"{one.cpu_micros:.2f} us{figures}"
    )


def _run_process(contestant: Contestant, one: Work) -> Round:
    command = [
        sys.executable,
        "-m",
        f"benchmarks.clients.{contestant.program}",
        json.dumps(attrs.asdict(one)),
    ]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_LIMIT)
    except subprocess.TimeoutExpired as error:
        raise RoundFailedError(f"{contestant.name} did not end within {_LIMIT:g} s: {command}") from error
    for line in done.stdout.splitlines():
        if done.returncode == 0 and line.startswith(MARK):
            return Round(**json.loads(line.removeprefix(MARK)))
    raise RoundFailedError(f"{contestant.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
