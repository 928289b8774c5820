"""A delivery that is kept, in a cache or a list, keeps no part of its producer."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from aioproducer import Delivery, KafkaError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, unknown_topic, warm


def inside(producer: Producer) -> dict[str, weakref.ref[Any]]:
    """The large parts of a running producer."""
    engine = producer._engine
    assert engine is not None
    parts = {
        "producer": producer,
        "engine": engine,
        "accumulator": engine.accumulator,
        "queue": engine.accumulator.cluster.topics["one"].queue(0),
        "settlement": engine.machines.settlement,
        "cluster": engine.cluster,
    }
    return {name: weakref.ref(part) for name, part in parts.items()}


async def acked(producer: Producer, kafka: EmbeddedKafka) -> Delivery:
    del kafka
    delivery = await producer.send("one", b"v")
    await delivery
    return delivery


async def refused(producer: Producer, kafka: EmbeddedKafka) -> Delivery:
    kafka.faults.error("INVALID_REQUIRED_ACKS")
    return await producer.send("one", b"v")


async def unknown(producer: Producer, kafka: EmbeddedKafka) -> Delivery:
    hold = held_requests(kafka)
    delivery = await producer.send("one", b"v")
    delivery.add_done_callback(lambda _: None)
    await hold.reached()
    await producer.close(timeout=0)
    return delivery


async def withdrawn(producer: Producer, kafka: EmbeddedKafka) -> Delivery:
    del kafka
    delivery = await producer.send("one", b"v")
    assert delivery.try_cancel()
    return delivery


async def never_placed(producer: Producer, kafka: EmbeddedKafka) -> Delivery:
    unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v")
    await producer.close(timeout=0)
    return delivery


@pytest.mark.parametrize("how", [acked, refused, unknown, withdrawn, never_placed])
async def test_a_kept_delivery_keeps_nothing_else(make: Make, kafka: EmbeddedKafka, how: Any) -> None:
    """For any outcome of the record; the delivery still has that outcome and its loop."""
    producer = Producer(kafka.bootstrap_servers)
    await warm(producer)
    delivery: Delivery = await how(producer, kafka)
    parts = inside(producer)
    await producer.close(timeout=1)
    kafka.faults.heal()
    await asyncio.sleep(0)
    del producer
    gc.collect()
    assert [name for name, part in parts.items() if part() is not None] == []
    assert delivery.outcome is not Outcome.PENDING
    assert delivery.exception() is None or isinstance(delivery.exception(), KafkaError)
    assert delivery.get_loop() is asyncio.get_running_loop()
    assert not delivery.try_cancel()
