"""Lives of a job with a write.id: runs whose drivers die or go on beside others, attempts that come back, faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Final

import attrs
import pytest

from aioproducer import KafkaError, Producer, TransactionHandle
from aioproducer.spark.exactly_once.fingerprint import Fingerprint
from aioproducer.spark.exactly_once.jobs import THE_ONLY, Job
from aioproducer.spark.exactly_once.markers import Mark
from aioproducer.spark.options import SinkOptions, read_options
from tests.effort import EXACTLY_ONCE, seeds
from tests.simulation.world import World
from tests.spark.exactly_once.lives import DAY, OPTIONS, TOPIC, Life, play

ATTEMPTS: Final = 3


@attrs.define
class LifeOfAJob(Life):
    """A job and its runs."""

    tasks: int = attrs.field(kw_only=True)
    options: SinkOptions = attrs.field(kw_only=True)

    @classmethod
    def of(cls, world: World) -> LifeOfAJob:
        given = OPTIONS | {
            "kafka.bootstrap.servers": world.kafka.bootstrap_servers,
            "kafka.transaction.timeout.ms": "120000",
            "write.id": "nightly",
        }
        names = ["aioproducer-spark-nightly-driver"]
        return cls(world, names, tasks=world.rng.randrange(1, 5), options=read_options(given))

    @property
    def whole(self) -> Counter[bytes]:
        """All rows, once."""
        return Counter(row for number in range(self.tasks) for row in rows_of(number))

    async def run(self) -> bool:
        """A run of the job, as Spark does it; whether it has succeeded."""
        try:
            job = await Job.of(self.options)._begin()
        except KafkaError:
            return False
        handles: list[TransactionHandle | None] = []
        try:
            for number in range(self.tasks):
                handles += [await self.task(job, number)]
            await job._commit(handles)
        except KafkaError:
            with contextlib.suppress(KafkaError):
                await job._abort([one for one in handles if one is not None])
            return False
        return True

    async def task(self, job: Job, number: int) -> TransactionHandle | None:
        """The result of the first attempt that has one."""
        if self.rng.random() < 0.15:
            self.abandon(lambda: self.attempt(job, number))
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(KafkaError):
                return await self.attempt(job, number)
        return await self.attempt(job, number)

    async def attempt(self, job: Job, number: int) -> TransactionHandle | None:
        """As `write_and_leave_open`, which needs a thread."""
        self.attempts += 1
        name, place, seen = (
            job.transactional_id(number, self.attempts),
            job.place(number),
            Fingerprint(2, number),
        )
        self.names += [name, place.name]
        async with Producer.from_config(job.options.producer) as producer:
            await producer.init_transactions(name)
            mark = job.marks_before.get(number)
            await job.require_going_on(producer, is_written=mark is not None)
            if mark is not None:
                mark.require_same(seen, TOPIC, place)
                return None
            async with producer.transaction() as transaction:
                for row in rows_of(number):
                    await producer.send(TOPIC, row)
                note = Mark.new(producer, place, THE_ONLY, seen, TOPIC).as_offset()
                await place.keep(producer, note)
                transaction.send_offsets({place.where: note}, place.name)
                return await transaction.detach()


def rows_of(number: int) -> tuple[bytes, bytes]:
    """The rows of a task."""
    return b"%d first" % number, b"%d second" % number


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(EXACTLY_ONCE))
def test_each_row_is_there_once(seed: int, version: int) -> None:
    """Whatever has happened, the job can be run again, also after brokers have forgotten its offsets."""

    async def whole(world: World) -> None:
        life = LifeOfAJob.of(world)
        life.begin_faults()
        for _ in range(world.rng.randrange(1, 5)):
            run = await life.until_death(life.run())
            if run is not None and run.result():
                assert life.visible == life.whole
            life.require_no_double()
        await life.end_faults()
        life.require_no_double()
        if world.rng.random() < 0.3:
            await asyncio.sleep(8 * DAY)  # virtual time
        assert await life.run()
        # Its abandoned attempts begin behind its commit.
        await life.end_faults()
        assert life.visible == life.whole
        assert "Ongoing" not in {one.state for one in await Job.of(life.options)._listed()}
        job = await Job.of(life.options)._begin()
        assert set(job.marks_before) == set(range(life.tasks))

    play(whole, seed, version)
