"""Jobs whose tasks have all left their transactions open, without a Spark."""

from __future__ import annotations

import asyncio
from typing import Final

from aioproducer import Producer, TransactionHandle
from aioproducer.spark.exactly_once.jobs import Job
from aioproducer.spark.options import read_options

__all__ = ["TOPIC", "open_job", "row_of"]

TOPIC: Final = "orders"


def row_of(task: int) -> bytes:
    """The only row of a task."""
    return b"%d" % task


async def open_job(
    bootstrap_servers: str, tasks: int, *, workers: int = 1, **options: str
) -> tuple[Job, list[TransactionHandle]]:
    """A job with one open transaction of each task; `options` have underscores for dots."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    target = {"kafka.bootstrap.servers": bootstrap_servers, "topic": TOPIC, "delivery": "exactly-once"}
    job = await Job.of(read_options(target | given))._begin()
    handles: list[TransactionHandle] = []
    numbers = iter(range(tasks))

    async def work() -> None:
        async with Producer.from_config(job.options.producer) as producer:
            for number in numbers:
                await producer.init_transactions(job.transactional_id(number, number))
                async with producer.transaction() as transaction:
                    await producer.send(TOPIC, row_of(number))
                    handles.append(await transaction.detach())

    await asyncio.gather(*(work() for _ in range(workers)))
    return job, handles
