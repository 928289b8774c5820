"""A program that sends without end and writes acknowledged records down, until it is killed.

Its arguments are the bootstrap servers, a topic and its number of partitions. Each line of its output is the number,
partition and offset of one record, and is handed to the operating system as soon as the record is acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from functools import partial

from aioproducer import Delivery, Outcome, Producer
from tests.judge.history import value_of

_FILLING = b"what the record is filled with " * 10
_TASKS = 20


def filled(number: int) -> bytes:
    """The value of a record, known by its number."""
    return value_of(number, _FILLING[: number % 300])


def tell(number: int, delivery: Delivery) -> None:
    """Write one line, past every buffer of this process."""
    if delivery.outcome is Outcome.ACKED:
        metadata = delivery.result()
        os.write(1, b"%d %d %d\n" % (number, metadata.partition, metadata.offset))


async def main(servers: str, topic: str, partitions: int) -> None:
    """Run twenty tasks without end."""
    numbers = itertools.count()

    async def send_on(task: int, producer: Producer) -> None:
        while True:
            number = next(numbers)
            delivery = await producer.send(topic, filled(number), partition=task % partitions)
            delivery.add_done_callback(partial(tell, number))

    async with Producer(servers, batch_size=8192, buffer_memory=1_000_000) as producer:
        await asyncio.gather(*(send_on(task, producer) for task in range(_TASKS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
