"""Finalizers that send to a partition in the middle of a change of the number of partitions: it has one queue all the same."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aioproducer import Delivery, Producer
from aioproducer._state.queues.partition_queue import TopicQueues
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, until


class Finalized:
    """Garbage whose finalizer calls a function, and makes the next garbage until that has returned True."""

    def __init__(self, call: Callable[[], bool]) -> None:
        self.itself = self
        self.call = call

    def __del__(self) -> None:
        if not self.call():
            Finalized(self.call)


@contextmanager
def collecting(call: Callable[[], bool]) -> Iterator[None]:
    """The collector runs at each allocation of a container. The last garbage calls nothing: another test may be running then."""
    before, is_over = gc.get_threshold(), False
    Finalized(lambda: is_over or call())
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        is_over = True
        gc.set_threshold(*before)


def queues(producer: Producer[Any, Any]) -> TopicQueues | None:
    engine = producer._engine
    assert engine is not None
    return engine.accumulator.cluster.topics.get("t")


async def test_a_partition_that_comes_back_has_one_queue() -> None:
    """A record waits for a partition that was gone; the topic grows again, and a finalizer sends to that partition."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 6)
        async with Producer(kafka.bootstrap_servers, metadata_max_age_ms=300, linger_ms=30_000) as producer:
            deliveries: list[Delivery] = [await producer.send("t", b"waiting", partition=5)]
            kafka.delete_topic("t")
            kafka.create_topic("t", 3)
            await until(lambda: (topic := queues(producer)) is not None and len(topic.partitions) == 3)
            done = False

            def send() -> bool:
                nonlocal done
                topic = queues(producer)
                if not done and topic is not None and len(topic.partitions) == 6:
                    done = True
                    deliveries.append(producer.send_nowait("t", b"between", partition=5))
                return done

            with collecting(send):
                kafka.add_partitions("t", 6)
                await until(lambda: done)
            topic = queues(producer)
            assert topic is not None
            assert len({queue.index for queue in topic.in_use}) == len(topic.in_use)
            await producer.flush(LIMIT)
            assert [delivery.result().offset for delivery in deliveries] == [0, 1]
            assert [record.value for record in kafka.records("t")] == [b"waiting", b"between"]


async def test_a_first_record_for_a_partition_that_goes_away() -> None:
    """A topic is made anew with fewer partitions, and a finalizer sends to one that it no longer has: the producer goes on."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 6)
        async with Producer(kafka.bootstrap_servers, metadata_max_age_ms=300, linger_ms=0) as producer:
            await producer.send_and_wait("t", b"old", partition=5)
            kafka.delete_topic("t")
            tried = 0
            calls: list[asyncio.Future[None]] = []

            def send() -> bool:
                nonlocal tried
                topic = queues(producer)
                if topic is not None and 5 in topic.gone and tried < 20:
                    tried += 1
                    calls.append(asyncio.ensure_future(_refused(producer)))
                return tried >= 20

            with collecting(send):
                kafka.create_topic("t", 3)
                await until(lambda: (topic := queues(producer)) is not None and len(topic.partitions) == 3)
            await asyncio.gather(*calls)
            topic = queues(producer)
            assert topic is not None
            assert all(queue.index < 3 for queue in topic.in_use)
            assert (await producer.send_and_wait("t", b"new")).offset >= 0
            assert producer.health().live


async def _refused(producer: Producer[Any, Any]) -> None:
    for partition in (4, None):
        try:
            await producer.send("t", b"between", partition=partition, max_block=0.1)
        except Exception:  # noqa: BLE001  # refused, as there is no such partition
            return
