"""The commits of a driver in virtual time: coordinators that move, cut connections, brokers that are down, sessions that end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    Coordinators,
    KafkaError,
    Outcome,
    ProducerFencedError,
    TransactionError,
    TransactionHandle,
)
from aioproducer.spark.exactly_once.commits import commit_all
from aioproducer.spark.exactly_once.jobs import Job
from tests.effort import HANDLES, seeds
from tests.simulation.access import Access
from tests.simulation.world import World, simulate
from tests.spark.scale.open_jobs import TOPIC, open_job, row_of

TASKS: Final = 90
LIMIT: Final = {"kafka_max_block_ms": "20000"}
PASSWORD: Final = {
    "kafka_security_protocol": "SASL_PLAINTEXT",
    "kafka_allow_plaintext_credentials": "true",
    "kafka_sasl_mechanism": "SCRAM-SHA-256",
    "kafka_sasl_username": "alice",
    "kafka_sasl_password": "first",
}


@attrs.define
class Driver:
    """A driver at the end of its job, in a cluster of three brokers."""

    world: World
    job: Job
    handles: list[TransactionHandle]

    @classmethod
    async def of(cls, world: World, options: Mapping[str, str], tasks: int = TASKS) -> Driver:
        world.forgotten.add(TOPIC)
        world.kafka.create_topic(TOPIC, 12)
        return cls(
            world, *await open_job(world.kafka.bootstrap_servers, tasks, workers=5, **LIMIT, **options)
        )

    @property
    def visible(self) -> list[bytes | None]:
        return sorted(record.value or b"" for record in self.world.kafka.records(TOPIC))  # type: ignore[return-value]

    async def until_committed(self, tasks: int, step: float = 0.001) -> None:
        """Wait until so many transactions have ended; a reader sees nothing behind an open one."""
        for _ in range(10_000):
            if len(self.handles) - len(self.open_transactions()) >= tasks:
                return
            await asyncio.sleep(step)  # virtual time
        raise AssertionError(f"{tasks} tasks were not committed in time")

    async def commit(self) -> TransactionError | None:
        """The commit of the job, and its error."""
        try:
            await self.job._commit(self.handles)
        except TransactionError as error:
            return error
        return None

    async def commit_during(self, disturbance: Callable[[], Awaitable[None]]) -> None:
        """The commit, while something happens once a third of the tasks is visible."""
        commit = asyncio.create_task(self.commit())
        await self.until_committed(len(self.handles) // 3)
        await disturbance()
        assert await commit is None
        self.require_all()

    def require_all(self) -> None:
        """Each row is visible once."""
        assert self.visible == sorted(map(row_of, range(len(self.handles))))
        assert self.open_transactions() == []

    def open_transactions(self) -> list[str]:
        """The tasks whose transactions hide later records."""
        found = ((one, self.world.kafka.transaction(one.transactional_id)) for one in self.handles)
        return [one.transactional_id for one, view in found if view is not None and view.state == "Ongoing"]

    def of_broker(self, broker: int) -> list[TransactionHandle]:
        """The transactions that a broker coordinates."""
        return [
            one for one in self.handles if self.world.kafka.coordinator_of(one.transactional_id) == broker
        ]


def play(scene: Callable[[Driver], Awaitable[None]], *, access: Access | None = None, **options: str) -> None:
    """A scene with a driver, whose connections are all closed at its end."""

    async def whole(world: World) -> None:
        await scene(await Driver.of(world, options))

    simulate(whole, 1, access=access)


def test_coordinators_move_in_the_middle() -> None:
    """Connections to the former coordinators are of no use, and others take their place."""

    async def scene(driver: Driver) -> None:
        async def move() -> None:
            for one in driver.handles:
                moved = driver.world.kafka.coordinator_of(one.transactional_id) % 3 + 1
                driver.world.kafka.faults.move_coordinator(one.transactional_id, moved, loading=1.0)

        await driver.commit_during(move)

    play(scene)


def test_connections_are_cut_behind_the_commit() -> None:
    """A commit without its answer is repeated, and was executed once."""

    async def scene(driver: Driver) -> None:
        driver.world.kafka.faults.cut(api="EndTxn", skip=7, times=25)
        assert await driver.commit() is None
        driver.require_all()

    play(scene)


def test_a_broker_goes_down_in_the_middle() -> None:
    """Its transactions have another coordinator, and are committed by it."""

    async def scene(driver: Driver) -> None:
        await driver.commit_during(lambda: driver.world.kafka.faults.stop_broker(2))
        await driver.world.kafka.faults.start_broker(2)

    play(scene)


def test_one_transaction_is_taken_over() -> None:
    """The error is that of one task, and all others are committed."""

    async def scene(driver: Driver) -> None:
        gone = driver.handles[5]
        async with Coordinators(driver.world.kafka.bootstrap_servers) as coordinators:
            await coordinators.fence([gone.transactional_id])
        failed = await commit_all(driver.handles, driver.job.options.producer)
        assert {name: type(error) for name, error in failed.items()} == {
            gone.transactional_id: ProducerFencedError
        }
        assert len(driver.visible) == TASKS - 1

    play(scene)


def test_a_coordinator_that_does_not_answer_holds_up_its_own_transactions_only() -> None:
    """The others are visible soon, although a third of all commits waits; after the recovery all are."""

    async def scene(driver: Driver) -> None:
        others = TASKS - len(driver.of_broker(2))
        silence = driver.world.kafka.faults.silence(api="EndTxn", broker=2)
        began = driver.world.now
        commit = asyncio.create_task(driver.commit())
        await driver.until_committed(others, step=0.1)
        assert driver.world.now - began < 35
        await asyncio.sleep(10)  # virtual time
        silence.heal()
        assert await commit is None
        driver.require_all()

    play(scene)


def test_no_broker_answers_a_commit() -> None:
    """The driver gives up after three limits of a call, whatever the number of tasks, and aborts all of them."""

    async def scene(driver: Driver) -> None:
        driver.world.kafka.faults.silence(api="EndTxn")
        began = driver.world.now
        failed = await commit_all(driver.handles, driver.job.options.producer)
        assert driver.world.now - began == pytest.approx(60, abs=1)
        assert {type(error) for error in failed.values()} == {CommitOutcomeUnknownError}
        assert len(failed) == TASKS
        # The driver's own note is a transaction as well, which cannot be committed.
        error = await driver.commit()
        assert error is not None
        assert f"{TASKS} of {TASKS} tasks are not certainly committed" in str(error)
        assert error.outcome is Outcome.UNKNOWN
        assert driver.open_transactions() == []
        assert driver.visible == []

    play(scene)


@pytest.mark.parametrize("call", ["commit", "abort"])
def test_transactions_that_no_broker_lists_are_aborted(call: str) -> None:
    """Coordinators are being elected: the driver knows the tasks that have reported, and waits for their coordinators."""

    async def scene(driver: Driver) -> None:
        driver.world.kafka.faults.alter(_nothing_listed, api="ListTransactions", times=None)
        if call == "commit":
            error = await driver.commit()
            assert error is not None
            assert "no longer open (its state is 'unknown')" in str(error)
        else:
            await driver.job._abort(driver.handles)
        assert driver.open_transactions() == []
        assert driver.visible == []

    play(scene)


def _nothing_listed(answer: Any) -> Any:
    return answer._replace(transaction_states=[])


def test_the_answers_of_all_commits_are_lost() -> None:
    """All rows are visible: an error that says not written would lead to a second run, which doubles them."""

    async def scene(driver: Driver) -> None:
        driver.world.kafka.faults.drop_answer(api="EndTxn", times=None)
        error = await driver.commit()
        assert error is not None
        assert error.outcome is Outcome.UNKNOWN
        driver.require_all()

    play(scene)


@pytest.mark.parametrize("tasks", [0, 10, TASKS - 1])
def test_a_commit_is_cancelled(tasks: int) -> None:
    """Its connections are closed with it; an abort ends the other transactions, and no row is doubled."""

    async def scene(driver: Driver) -> None:
        commit = asyncio.create_task(driver.commit())
        await driver.until_committed(tasks)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        await driver.job._abort()
        assert driver.open_transactions() == []
        assert len(set(driver.visible)) == len(driver.visible) >= tasks

    play(scene)


def test_sessions_of_idle_connections_end() -> None:
    """An idle connection whose session has ended is not used; on a secured cluster all connections are authenticated."""
    access = Access("SCRAM-SHA-256", 2.0, 3_600.0, 0.0)

    async def scene(driver: Driver) -> None:
        config = driver.job.options.producer
        async with Coordinators.from_config(config) as coordinators:
            for first in range(0, TASKS, 30):
                some = driver.handles[first : first + 30]
                await asyncio.gather(*map(coordinators.commit, some))
                await asyncio.sleep(5.0)  # virtual time
        driver.require_all()

    play(scene, access=access, **PASSWORD)


def test_connections_that_were_idle_for_too_long_are_not_used() -> None:
    """A device on the way has dropped them silently: a request would wait for its answer."""

    async def scene(driver: Driver) -> None:
        async with Coordinators.from_config(driver.job.options.producer) as coordinators:
            await asyncio.gather(*map(coordinators.commit, driver.handles[:30]))
            await asyncio.sleep(601.0)  # virtual time
            for one in driver.world.kafka.brokers:
                driver.world.network.vanish(one.port)
            began = driver.world.now
            await asyncio.gather(*map(coordinators.commit, driver.handles[30:]))
            assert driver.world.now - began < 1
        driver.require_all()

    play(scene, kafka_connections_max_idle_ms="540000")


# -- drawn from seeds

ERRORS: Final = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
    "REQUEST_TIMED_OUT",
)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(HANDLES))
def test_each_result_holds(seed: int, version: int) -> None:
    """Faults and takeovers at any time: a committed task is visible once, a task that is not written never."""

    async def whole(world: World) -> None:
        rng = world.rng
        driver = await Driver.of(world, {"kafka_request_timeout_ms": "3000"}, rng.randrange(1, 60))
        commit = asyncio.create_task(commit_all(driver.handles, driver.job.options.producer))
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(rng.choice((0.0, 0.002, 0.005, 0.02, 1.0)))  # virtual time
            await _disturb(driver, rng)
        await asyncio.sleep(rng.choice((0.0, 5.0)))  # virtual time
        world.kafka.faults.heal()
        for broker in (1, 2, 3):
            if not world.kafka.brokers[broker - 1].up:
                await world.kafka.faults.start_broker(broker)
        failed = await commit
        await driver.job._abort()
        assert driver.open_transactions() == []
        visible = driver.visible
        for one in driver.handles:
            times = visible.count(row_of(int(one.transactional_id.rpartition(".")[2])))
            error = failed.get(one.transactional_id)
            allowed = {1} if error is None else {0} if _is_not_written(error) else {0, 1}
            assert times in allowed, (one, error)

    simulate(whole, seed, transaction_version=version)


def _is_not_written(error: Exception) -> bool:
    assert isinstance(error, KafkaError)
    return error.outcome is Outcome.NOT_WRITTEN


async def _disturb(driver: Driver, rng: random.Random) -> None:
    faults, broker = driver.world.kafka.faults, rng.randrange(1, 4)
    some = rng.sample(driver.handles, rng.randrange(1, len(driver.handles) + 1))
    match rng.randrange(7):
        case 0:
            faults.cut(
                api="EndTxn", before=rng.random() < 0.5, skip=rng.randrange(5), times=rng.randrange(1, 9)
            )
        case 1:
            for one in some:
                faults.move_coordinator(one.transactional_id, broker, loading=rng.choice((0.0, 0.5)))
        case 2:
            faults.error(rng.choice(ERRORS), api="EndTxn", times=rng.randrange(1, 9))
        case 3:
            faults.silence(api="EndTxn", broker=broker)
        case 4:
            faults.drop_connections(broker)
        case 5:
            await faults.stop_broker(broker)
        case 6:
            async with Coordinators(driver.world.kafka.bootstrap_servers) as coordinators:
                with contextlib.suppress(KafkaError):
                    await coordinators.fence([one.transactional_id for one in some[:2]], timeout=5.0)
