"""A coordinator forgets a transactional id after an unused week; its producer continues with the next transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import Producer, ProducerFencedError, TransactionAbortedError
from tests.simulation.world import World, simulate

TOPIC = "t"
NAME = "books"
A_WEEK = 7 * 86_400.0


async def _write(producer: Producer[Any, Any], value: bytes, *, offsets_first: bool = False) -> None:
    if offsets_first:
        await producer.send_offsets_to_transaction({("source", 0): 1}, "readers")
    await producer.send(TOPIC, value)


def _committed(world: World) -> list[bytes | None]:
    return [record.value for record in world.kafka.records(TOPIC)]


async def _stage(world: World) -> Producer[Any, Any]:
    world.forgotten.update((TOPIC, "source"))
    world.kafka.create_topic("source", 1)
    world.kafka.create_topic(TOPIC, 1)
    producer = world.producer(
        transactional_id=NAME,
        connections_max_idle_ms=-1,
        metadata_max_age_ms=20_000_000,
        metadata_max_idle_ms=2_000_000_000,
    )
    await producer.start()
    await producer.run_transaction(_write, producer, b"before")
    return producer


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("offsets_first", [False, True])
def test_after_a_week_one_transaction_is_aborted_and_the_next_goes_on(
    version: int, *, offsets_first: bool
) -> None:
    """INVALID_PRODUCER_ID_MAPPING: writes under the forgotten id are refused, until there is a new one."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(A_WEEK + 1)
        with pytest.raises(TransactionAbortedError) as caught:
            async with producer.transaction():
                await _write(producer, b"refused", offsets_first=offsets_first)
        assert caught.value.retriable
        await producer.run_transaction(_write, producer, b"after", timeout=60)
        assert _committed(world) == [b"before", b"after"]

    simulate(play, version, transaction_version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_just_before_it_is_still_known(version: int) -> None:
    """A pause of less than `transactional.id.expiration.ms` has no effect."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(A_WEEK - 60)
        async with producer.transaction():
            await _write(producer, b"after")
        assert _committed(world) == [b"before", b"after"]

    simulate(play, version, transaction_version=version)


@pytest.mark.parametrize("version", [1, 2])
def test_who_was_replaced_meanwhile_is_told_so(version: int) -> None:
    """The id was forgotten and then taken by another producer: the first one is fenced."""

    async def play(world: World) -> None:
        producer = await _stage(world)
        await asyncio.sleep(A_WEEK + 1)
        successor = world.producer(transactional_id=NAME)
        await successor.start()
        await successor.run_transaction(_write, successor, b"mine")
        with pytest.raises(ProducerFencedError):
            for _ in range(2):
                async with producer.transaction():
                    await _write(producer, b"refused")
        await successor.run_transaction(_write, successor, b"still mine")
        assert _committed(world) == [b"before", b"mine", b"still mine"]

    simulate(play, version, transaction_version=version)
