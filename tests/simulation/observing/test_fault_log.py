"""The log of faults: one line for each, none per record, and the reason of a slow delivery."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

from aioproducer import Producer
from tests.scenarios.support import (
    TOPIC,
    all_acked,
    leader,
    outcomes,
    port_of_leader,
    scenario,
    send,
    stage,
    stream,
)
from tests.simulation.world import World


@scenario()
async def test_a_broker_that_was_away_is_one_line_when_it_is_over(world: World) -> None:
    """The line has the length, the partitions, the reason, the number of retries, and the outcomes."""
    producer = await stage(world, linger_ms=0)
    world.kafka.faults.error("NOT_ENOUGH_REPLICAS", times=12, partition=0)
    await all_acked(await stream(world, producer, 3.0, partition=0))
    (line,) = world.lines("broker .*: t-0 not written for", logging.WARNING)
    assert re.search(r"NOT_ENOUGH_REPLICAS.*; sent again 12 times, then records written: \d+$", line)


@scenario()
async def test_what_nobody_noticed_is_no_warning(world: World) -> None:
    """A leader moved, and the records were written a moment later."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    world.kafka.faults.move_leader(TOPIC, 0, 1 + leader(world) % 3)
    await all_acked(await send(world, producer, 3, partition=0))
    assert world.warnings() == []
    assert len(world.lines("t-0 not written for 0")) == 1


@scenario()
async def test_a_fault_that_lasts_is_told_now_and_then(world: World) -> None:
    """Lasting faults are repeated; losses are counted at the end."""
    producer = await stage(world, linger_ms=0)
    fault = world.kafka.faults.error("NOT_ENOUGH_REPLICAS", times=None, partition=0)
    sent = await stream(world, producer, 30.0, every=0.2, partition=0)
    fault.heal()
    await outcomes(sent)
    assert 1 <= len(world.lines("and is tried again", logging.WARNING)) <= 4
    ends = world.lines("sent again", logging.WARNING)
    assert any(re.search(r"then records (written: \d+, )?not written: \d+$", end) for end in ends)


@scenario()
async def test_many_records_and_partitions_are_few_lines(world: World) -> None:
    """A broker that dies under load causes no line for each record or partition."""
    producer = await stage(world, 60, linger_ms=0)
    await all_acked(
        [delivery for index in range(60) for delivery in await send(world, producer, partition=index)]
    )
    before = len(world.log)
    await world.kafka.faults.stop_broker(leader(world))
    await all_acked(await stream(world, producer, 3.0, every=0.005))
    assert len([record for record in world.log[before:] if record.levelno >= logging.WARNING]) <= 4


async def an_aborted_transaction(world: World) -> Producer[Any, Any]:
    """A transaction whose records are dropped while they wait for their retry."""
    producer = await stage(world, linger_ms=0, transactional_id="orders")
    world.forgotten.add(TOPIC)
    await producer.init_transactions()
    await producer.begin_transaction()
    fault = world.kafka.faults.error("NOT_ENOUGH_REPLICAS", times=None, partition=0)
    await producer.send(TOPIC, b"0", partition=0)
    await fault.reached()
    await asyncio.sleep(0.01)
    await producer.abort_transaction()
    fault.heal()
    return producer


@scenario()
async def test_a_fault_of_another_day_is_another_story(world: World) -> None:
    """The time counts from the first record that could not be written, and not from an earlier fault."""
    producer = await an_aborted_transaction(world)
    await asyncio.sleep(20_000)
    before = len(world.log)
    world.kafka.faults.error("NOT_ENOUGH_REPLICAS", partition=0)
    async with producer.transaction():
        await producer.send(TOPIC, b"1", partition=0)
    lines = [record.getMessage() for record in world.log[before:]]
    (line,) = [line for line in lines if "t-0 not written for" in line]
    assert re.search(r"not written for 0\.\d\d s \(.*; sent again once, then records written: 1$", line)


@scenario()
async def test_a_slow_delivery_names_the_phase_that_was_slow(world: World) -> None:
    """The line names the network or the broker; later records cause no further line."""
    producer = await stage(world, linger_ms=0, request_timeout_ms=10_000)
    await all_acked(await send(world, producer, partition=0))
    world.kafka.faults.delay(3.0, times=3)
    await all_acked(await send(world, producer, 3, partition=0))
    (line,) = world.lines("a delivery took", logging.WARNING)
    assert re.search(r"took 3\.0\d s \(t-0\): network and broker 3\.0\d s$", line)


@scenario()
async def test_a_slow_delivery_tells_of_failed_attempts(world: World) -> None:
    """The line has the number of attempts, and the reason of the last failure."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world))
    deliveries = await send(world, producer, partition=0)
    await asyncio.sleep(3.0)
    world.network.release(port_of_leader(world))
    await all_acked(deliveries)
    (line,) = world.lines("a delivery took", logging.WARNING)
    assert re.search(r"attempts that failed \(1, the last with .*timed out.*\) [23]\.\d+ s", line)


@scenario()
async def test_a_slow_delivery_names_the_code_that_held_the_loop_up(world: World) -> None:
    """An example is `time.sleep()` in a callback."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    deliveries = await send(world, producer, partition=0)
    world.loop.call_soon(world.loop.stall, 3.4)
    await all_acked(deliveries)
    (line,) = world.lines("a delivery took", logging.WARNING)
    found = re.search(r"your code blocked the event loop for (\d+) ms of it", line)
    assert found is not None
    assert 3_000 <= int(found[1]) <= 3_500


@scenario()
async def test_an_offset_that_goes_back_is_told_as_suspected_loss(world: World) -> None:
    """An unclean election is counted, and logged in one line."""
    producer = await stage(world, linger_ms=0, batch_size=1)
    world.rules = type(world.rules)(loss=True)
    await all_acked(await send(world, producer, 10, partition=0))
    world.kafka.faults.truncate(TOPIC, 0, 4)
    world.kafka.faults.forget_producers(TOPIC, 0)
    await all_acked(await send(world, producer, 3, partition=0))
    assert producer.stats().suspected_data_losses == 1
    (line,) = world.lines("suspected data loss in t-0", logging.WARNING)
    assert "at offset 4, though records up to 9 were acknowledged" in line
