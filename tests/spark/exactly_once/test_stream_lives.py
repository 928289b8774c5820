"""Lives of a stream: drivers that die between any two steps, attempts that come back, numbers of tasks that change, faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Final

import attrs
import pytest

from aioproducer import KafkaError
from aioproducer.spark.exactly_once.absent import require_no_absent_tasks
from aioproducer.spark.exactly_once.epochs import EpochOfTask
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.markers import OtherRowsError, Place, transactional_name
from aioproducer.spark.options import SinkOptions, read_options
from aioproducer.spark.shipping.columns import Layout
from aioproducer.spark.shipping.worker import this_worker
from tests.effort import EXACTLY_ONCE, seeds
from tests.simulation.world import World
from tests.spark.exactly_once.attempts import SCHEMA, rows
from tests.spark.exactly_once.lives import DAY, OPTIONS, TOPIC, Life, play

QUERY: Final = "query"
NAME: Final = transactional_name(QUERY)
ATTEMPTS: Final = 4


@attrs.define
class LifeOfAStream(Life):
    """A query whose checkpoint is in the test."""

    tasks: list[int] = attrs.field(kw_only=True)
    # Each run has a worker of its own, which keeps its producer from task to task until one fails.
    run: int = 0

    @classmethod
    def of(cls, world: World) -> LifeOfAStream:
        tasks = [world.rng.randrange(1, 5) for _ in range(world.rng.randrange(2, 7))]
        return cls(world, [f"{NAME}-{number}" for number in range(4)], tasks=tasks)

    def whole(self, epochs: int) -> Counter[bytes]:
        """All rows of the first epochs, once."""
        return Counter(
            row
            for epoch in range(epochs)
            for number in range(self.tasks[epoch])
            for row in rows_of(epoch, number)
        )

    def options(self, worker: str) -> SinkOptions:
        """Those of an attempt in this worker."""
        own = {"kafka.client.id": worker}
        return read_options(OPTIONS | own | {"kafka.bootstrap.servers": self.world.kafka.bootstrap_servers})

    async def epoch(self, epoch: int) -> None:
        """As the driver of Spark."""
        worker = f"worker {self.run}"
        for number in range(self.tasks[epoch]):
            await self.task(epoch, number, worker)
        await require_no_absent_tasks(self.options("driver"), QUERY, epoch, self.tasks[epoch])

    async def written_down(self, epoch: int) -> bool:
        """Whether the driver has lived long enough to write down the epoch in its checkpoint."""
        ended = await self.until_death(self.epoch(epoch))
        self.require_no_double()
        error = None if ended is None else ended.exception()
        assert not isinstance(error, OtherRowsError), error
        if ended is None or error is not None:
            self.run += 1
            return False
        missing = self.whole(epoch + 1) - self.visible
        assert not missing, missing
        return self.rng.random() < 0.8

    async def task(self, epoch: int, number: int, worker: str) -> None:
        """The first attempt that succeeds."""
        if self.rng.random() < 0.2:
            self.attempts += 1
            lost = f"lost worker {self.attempts}"
            self.abandon(lambda: self.attempt(epoch, number, lost))
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(KafkaError):
                return await self.attempt(epoch, number, worker)
        return await self.attempt(epoch, number, worker)

    async def attempt(self, epoch: int, number: int, worker: str) -> None:
        """As `EpochOfTask.write`, which needs a thread."""
        options, seen = self.options(worker), Fingerprint(2, 100 * epoch + number)
        first, place = (Place(f"{NAME}-{at}", TOPIC, options.ledger_topic) for at in (0, number))
        work = EpochOfTask(Layout.of(SCHEMA, options), options, first, place, epoch, True)
        try:
            producer, mark = await work._taken_over()
            if mark is not None and mark.epoch >= epoch:
                if mark.epoch == epoch:
                    mark.require_same(seen, TOPIC, place)
                    await work._require_same_topic(mark)
                return
            shipment = await work._begin(producer, {})
            for row in rows_of(epoch, number):
                await shipment.take(*rows(row))
                await asyncio.sleep(self.rng.choice((0.0, 0.0, 0.0, 0.01, 0.5, 3.0)))  # virtual time
            await work._finish(producer, seen, shipment)
        except BaseException:
            await this_worker().forget(options.producer)
            raise


async def no_worker_lives() -> None:
    """Spark ends workers that have had no task for a minute."""
    for config in list(this_worker()._producers):
        await this_worker().forget(config)


def rows_of(epoch: int, number: int) -> tuple[bytes, bytes]:
    """The rows of a task in an epoch."""
    return b"%d.%d first" % (epoch, number), b"%d.%d second" % (epoch, number)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(EXACTLY_ONCE))
def test_each_row_is_there_once(seed: int, version: int) -> None:
    """Each epoch is repeated until its driver has written it down, also after brokers have forgotten its offsets."""

    async def whole(world: World) -> None:
        life = LifeOfAStream.of(world)
        epoch = 0
        life.begin_faults()
        for _ in range(2 * len(life.tasks)):
            if epoch < len(life.tasks) and await life.written_down(epoch):
                epoch += 1
            if world.rng.random() < 0.15:
                await life.end_faults()
                await no_worker_lives()
                await asyncio.sleep(8 * DAY)  # virtual time
                life.begin_faults()
        await life.end_faults()
        for rest in range(epoch, len(life.tasks)):
            await life.epoch(rest)
        # Attempts that were given up on the way of the rest may begin only now.
        await life.end_faults()
        await no_worker_lives()
        assert life.visible == life.whole(len(life.tasks))

    play(whole, seed, version)
