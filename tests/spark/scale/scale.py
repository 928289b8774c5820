"""The driver of a job with many tasks: a model of its requests, and the same job in a simulation.

    python -m tests.spark.scale.scale TASKS BROKERS

Prints the row of docs/spark-scale.md for such a job.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

import attrs

from aioproducer.spark.exactly_once.commits import AT_ONCE
from tests.simulation.world import World, simulate
from tests.spark.scale.open_jobs import TOPIC, open_job

__all__ = ["ROUND_TRIP", "Driver", "Measured", "modelled", "run"]

# Seconds, as between machines of one data center with a busy broker.
ROUND_TRIP: Final = 0.002
# Round trips of one task, whose connections are there. Of a commit: FindCoordinator, EndTxn. Of an abort: FindCoordinator,
# InitProducerId twice (the first ends the transaction), and a pause of 1 ms.
OF_A_COMMIT: Final = 2.0
OF_AN_ABORT: Final = 3.5
SEED: Final = 1


@attrs.frozen
class Driver:
    """The work of a driver at the end of a job: commit all tasks, or abort them."""

    seconds: float
    connections: int
    requests: int


@attrs.frozen
class Measured:
    """Both ends of a job."""

    commit: Driver
    abort: Driver


def modelled(tasks: int, brokers: int) -> Measured:
    """The expectation, without the few requests that do not depend on the number of tasks or brokers."""
    rounds = tasks / AT_ONCE
    # The transactions are listed at each broker: twice for a commit, once for an abort.
    connections = 2 * brokers + min(tasks, 2 * AT_ONCE + brokers)
    commit = Driver(rounds * OF_A_COMMIT * ROUND_TRIP, connections, 2 * tasks + 2 * brokers + connections)
    connections = min(tasks, 2 * AT_ONCE) + 2 * brokers
    abort = Driver(rounds * OF_AN_ABORT * ROUND_TRIP, connections, 3 * tasks + brokers + connections)
    return Measured(commit, abort)


def run(tasks: int, brokers: int) -> Measured:
    """A job with so many open transactions is committed, and another one is aborted."""
    found: dict[str, Driver] = {}

    async def play(world: World) -> None:
        conditions = world.network.conditions
        conditions.fastest = conditions.slowest = ROUND_TRIP / 2
        conditions.fragmented = 0.0
        world.kafka.create_topic(TOPIC, 12)
        world.forgotten.add(TOPIC)
        for way in ("commit", "abort"):
            job, handles = await open_job(world.kafka.bootstrap_servers, tasks)
            world.kafka.forget_requests()
            dials, began = len(world.network.dials), world.now
            await (job._commit(handles) if way == "commit" else job._abort())
            requests = Counter(one.api for one in world.kafka.requests).total()
            found[way] = Driver(world.now - began, len(world.network.dials) - dials, requests)

    simulate(play, SEED, brokers=brokers, history=6 * (tasks + brokers))
    return Measured(found["commit"], found["abort"])


def main(tasks: int, brokers: int) -> None:
    """Print one row of the table."""
    model, measured = modelled(tasks, brokers), run(tasks, brokers)
    cells = [f"{tasks:,}", f"{brokers:,}"]
    for way in ("commit", "abort"):
        for part in ("seconds", "connections", "requests"):
            expected, found = getattr(getattr(model, way), part), getattr(getattr(measured, way), part)
            form = ",.2f" if part == "seconds" else ",d"
            cells.append(f"{found:{form}} ({expected:{form}})")
    print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
