"""Records that are sent to a real Kafka while its security changes; in the end each is there once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from aioproducer import Delivery, Producer
from tests.kafka.reading import read_all
from tools.kafka_cluster import KafkaCluster

LIMIT: Final = 60.0
PARTITIONS: Final = 3
PAUSE: Final = 0.005
"""Seconds between two records of a partition."""


@attrs.define
class Sender:
    """A producer that sends numbered records to each partition until it is stopped."""

    kafka: KafkaCluster
    topic: str
    producer: Producer[Any, Any]
    sent: list[list[bytes]] = attrs.field(factory=lambda: [[] for _ in range(PARTITIONS)])
    deliveries: list[Delivery] = attrs.field(factory=list)
    stopped: bool = False

    async def run(self) -> None:
        """Send."""
        while not self.stopped:
            for partition, values in enumerate(self.sent):
                values.append(b"%d" % len(values))
                delivery = await self.producer.send(self.topic, values[-1], partition=partition)
                self.deliveries.append(delivery)
            await asyncio.sleep(PAUSE)  # the pace of the application

    async def authenticates_again(self) -> None:
        """Wait until each open connection has authenticated after now."""
        await until(self.authentications)
        before = self.authentications()
        await until(
            lambda: (
                len(before) <= sum(now > before.get(one, 0) for one, now in self.authentications().items())
            )
        )

    def authentications(self) -> dict[str, int]:
        """The successful authentications at each broker."""
        return {
            one.broker: one.authentications + one.reauthentications
            for one in self.producer.stats().connections
            if one.connects and one.broker.isdigit()
        }

    async def judge(self) -> None:
        """Each record is acknowledged, and is there once and in order."""
        async with asyncio.timeout(LIMIT):
            await self.producer.flush()
            await asyncio.gather(*self.deliveries)
        found = await asyncio.to_thread(read_all, self.kafka.bootstrap_servers, self.topic)
        for partition, values in enumerate(self.sent):
            assert [one.value for one in found if one.partition == partition] == values
        stats = self.producer.stats()
        assert (stats.records_failed, stats.records_unknown) == (0, 0)
        assert stats.records_acked == len(self.deliveries)


@asynccontextmanager
async def sending(kafka: KafkaCluster, topic: str, **settings: Any) -> AsyncIterator[Sender]:
    """A sender at work; at the end all is judged."""
    await asyncio.to_thread(kafka.create_topic, topic, PARTITIONS)
    async with Producer(**settings) as producer:
        sender = Sender(kafka, topic, producer)
        await producer.ready(LIMIT)
        work = asyncio.ensure_future(sender.run())
        try:
            yield sender
        finally:
            sender.stopped = True
            await work
        await sender.judge()


async def until(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait for another process."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110  # another process has no event for it
            await asyncio.sleep(0.02)
