"""Errors about missing room while brokers are down, and about two tasks that want a transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import BrokerUnavailableError, BufferFullError, Producer, StateError
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.net.support import Make, engine, turns, until, warm

SOON = 0.05
"""Seconds that a call may wait for memory."""


async def small(make: Make, kafka: EmbeddedKafka) -> Producer[Any, Any]:
    """A producer with room for one or two records."""
    return await warm(make(kafka, buffer_memory=2000), "one")


@pytest.mark.parametrize("how", ["send", "send_nowait"])
async def test_no_room_while_brokers_are_down(make: Make, kafka: EmbeddedKafka, how: str) -> None:
    """The error of the connection is the cause, and the text does not blame the speed of the records."""
    producer = await small(make, kafka)
    await producer.send_and_wait("one", b"v")
    await kafka.faults.stop_broker(1)
    await producer.send("one", bytes(1800))
    await until(lambda: engine(producer).accumulator.cluster.dead)
    with pytest.raises(BufferFullError) as caught:
        if how == "send":
            await producer.send("one", bytes(500), max_block=SOON)
        else:
            producer.send_nowait("one", bytes(500))
    assert isinstance(caught.value.cause, BrokerUnavailableError)
    assert "slowly" not in str(caught.value)
    assert "brokers are reachable again" in str(caught.value)
    await kafka.faults.start_broker(1)


async def test_no_room_while_all_is_well(make: Make, kafka: EmbeddedKafka) -> None:
    """Records come too fast: there is no other cause."""
    producer = await small(make, kafka)
    hold = kafka.faults.delay(before=True)
    await producer.send("one", bytes(1800))
    with pytest.raises(BufferFullError, match="more slowly") as caught:
        await producer.send("one", bytes(500), max_block=SOON)
    assert caught.value.cause is None
    hold.release()


@pytest.mark.parametrize("kind", ["producer", "mock"])
async def test_one_transaction_at_a_time(make: Make, kafka: EmbeddedKafka, kind: str) -> None:
    """A second task that begins one while another commits is not advised to join it."""
    settings: dict[str, Any] = {"transactional_id": "clerk"}
    producer: Any = (
        MockProducer(auto_complete=False, **settings) if kind == "mock" else make(kafka, **settings)
    )
    hold = kafka.faults.delay(before=True)
    async with producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(StateError, match="one transaction at a time"):
            await producer.begin_transaction()
        await producer.send("one", b"v")
        committing = asyncio.ensure_future(producer.commit_transaction())
        await turns()
        with pytest.raises(StateError, match="one transaction at a time") as caught:
            async with producer.transaction():
                raise AssertionError("it was entered")
        assert "join" not in str(caught.value)
        hold.heal()
        if kind == "mock":
            producer.complete_all()
        await committing
