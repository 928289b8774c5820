"""Batches on a real Kafka whose drivers and executors die: all rows of a job are there, or none, and none is open."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import list_transactions
from tests.effort import PROOF
from tests.spark.faults.batching import Order
from tests.spark.faults.processes import CLUSTER, Driver
from tests.spark.faults.sinks import Executor, diary_in, go_on
from tests.spark.rows import committed, numbered, numbers, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

COUNT, TASKS = 20_000, 4
LIMIT = 300.0
# The number of committed tasks when the driver dies.
COMMITTED = range(TASKS + 1) if PROOF else (0, 2)
PROGRAM = "tests.spark.faults.batching"

Run = Callable[..., Driver]


@pytest.fixture
def given(options: dict[str, str]) -> dict[str, str]:
    """The order of a repeatable job."""
    return options | {"delivery": "exactly-once", "write.id": f"job of {options['topic']}"}


@pytest.fixture
def run(given: dict[str, str], tmp_path: Path) -> Iterator[Run]:
    """Starts a driver that writes the rows, and ends all of its processes."""
    drivers = []

    def start(master: str, **order: Any) -> Driver:
        argument = Order(str(tmp_path), master, given, COUNT, TASKS, **order).write()
        drivers.append(Driver.start(PROGRAM, argument, tmp_path))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def until(condition: Callable[[], Any], driver: Driver) -> Any:
    """Wait until the condition holds."""
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < deadline, driver.log_tail()
        time.sleep(0.01)
    return found


async def states(given: dict[str, str]) -> Counter[str]:
    """The states of the transactions of a job's tasks."""
    prefix = f"aioproducer-spark-{given['write.id']}-"
    listed = await list_transactions(prefix, given["kafka.bootstrap.servers"])
    return Counter(
        each.state.removeprefix("Prepare").removeprefix("Complete")
        for each in listed
        if "." in each.transactional_id.removeprefix(prefix)
    )


@pytest.mark.parametrize("done", COMMITTED)
async def test_a_driver_that_dies_between_its_commits(
    spark: SparkSession, given: dict[str, str], run: Run, done: int
) -> None:
    """Some tasks are committed and others are open: running the job again commits the rest, and doubles nothing."""
    driver = run("local[2]", killed_after=done)
    until(lambda: not driver.running, driver)
    assert driver.process.returncode == -signal.SIGKILL, driver.log_tail()
    left = Counter({"Commit": done, "Ongoing": TASKS - done})
    assert await states(given) == +left
    seen = numbers(committed(given))
    assert not seen if done == 0 else set(seen.values()) <= {1}
    numbered(spark, COUNT, TASKS).write.format("aioproducer").options(**given).mode("append").save()
    assert numbers(committed(given)) == once(COUNT)
    assert (await states(given))["Ongoing"] == 0


async def test_a_job_that_fails_while_an_executor_dies(
    spark: SparkSession, given: dict[str, str], run: Run, tmp_path: Path
) -> None:
    """The driver does not know the executor's open transaction: no row is visible, and no later one is hidden."""
    driver = run(CLUSTER)
    diary = diary_in(tmp_path)
    until(diary.entries, driver)
    (held,) = diary.entries()
    assert held.what == "holding"
    assert (await states(given))["Ongoing"] >= 1
    os.kill(Executor.read(held.detail).java, signal.SIGKILL)
    go_on(tmp_path, 1).touch()
    until(lambda: not driver.running, driver)
    assert driver.process.returncode == 0, driver.log_tail()
    (refusal,) = [entry for entry in diary.entries() if entry.what == "refused"]
    assert "a failure of the test" in refusal.detail
    assert committed(given) == []
    assert (await states(given))["Ongoing"] == 0
    del given["write.id"]
    numbered(spark, 100).write.format("aioproducer").options(**given).mode("append").save()
    assert numbers(committed(given)) == once(100)
