"""A slow `close()` gives its reason: in the log after a second, and at its end, in its report and each delivery."""

from __future__ import annotations

import asyncio
import logging

from aioproducer import CloseReport, DeliveryError, Outcome
from aioproducer._state.queues.partition_queue import NO_LEADER
from tests.scenarios.support import TOPIC, all_acked, scenario, send, stage
from tests.simulation.world import World


async def closing_line(world: World) -> str:
    """The line, after a second."""
    await asyncio.sleep(1.5)
    (line,) = world.lines(r"close\(\) waits for", logging.INFO)
    return line


@scenario()
async def test_each_broker_is_named_with_its_records(world: World) -> None:
    """One broker does not answer, one cannot be reached: the line has known reasons; nothing waits for the third."""
    producer = await stage(world, linger_ms=0)
    await all_acked(
        [delivery for index in range(3) for delivery in await send(world, producer, partition=index)]
    )
    world.kafka.faults.silence(api="Produce", broker=1)
    await world.kafka.faults.stop_broker(2)
    world.kafka.faults.delay(1e9, api="Metadata", times=None)
    await asyncio.sleep(0.5)
    sent = [await send(world, producer, 3, partition=0), await send(world, producer, 2, partition=1)]
    await send(world, producer, partition=2)
    await asyncio.sleep(0.5)
    closing = asyncio.ensure_future(producer.close(timeout=1.8))
    line = await closing_line(world)
    silent, down = (f"broker 127.0.0.1:{world.port(broker)} (id {broker})" for broker in (1, 2))
    assert line.startswith(
        f"aioproducer: close() waits for 0.8 s more at most: 5 records without an outcome (3 at {silent}; 2 at {down}: "
    )
    assert "Connection refused" in line
    report = await closing
    assert report == CloseReport(0, 2, 3)
    assert report.waited_for is not None
    assert report.waited_for.startswith(f"5 records without an outcome (3 at {silent}; 2 at {down}: ")
    (loss,) = world.lines("records were lost", logging.ERROR)
    assert loss.endswith(
        f"2 not written, 3 unknown (close() ran out of time waiting for {report.waited_for})"
    )
    for delivery in sent[1]:
        error = delivery.exception()
        assert isinstance(error, DeliveryError)
        assert "Connection refused" in str(error.cause)


@scenario()
async def test_a_topic_without_metadata_is_named(world: World) -> None:
    """Records of `send_nowait` do not have a partition yet."""
    producer = await stage(world)
    world.kafka.faults.silence(api="Metadata", times=None)
    sent = [producer.send_nowait("new", b"v") for _ in range(2)]
    closing = asyncio.ensure_future(producer.close(timeout=1.8))
    assert (await closing_line(world)).endswith(
        "2 records without an outcome (2 without metadata of topic new)"
    )
    assert (await closing).waited_for == "2 records without an outcome (2 without metadata of topic new)"
    assert {delivery.outcome for delivery in sent} == {Outcome.NOT_WRITTEN}


@scenario()
async def test_why_a_topic_has_no_metadata(world: World) -> None:
    """No broker can be reached."""
    producer = await stage(world)
    for broker in (1, 2, 3):
        await world.kafka.faults.stop_broker(broker)
    producer.send_nowait("new", b"v")
    await asyncio.sleep(0.5)
    closing = asyncio.ensure_future(producer.close(timeout=1.8))
    line = await closing_line(world)
    assert "1 without metadata of topic new: " in line
    assert "Connection refused" in line
    await closing


@scenario()
async def test_partitions_without_a_leader_are_named(world: World) -> None:
    """The line has three partitions, and the number of the others; no broker is named for them."""
    producer = await stage(world, 5, linger_ms=0)
    world.kafka.faults.silence(api="Metadata", times=None)
    engine = producer._engine
    assert engine is not None
    engine.accumulator.cluster.learn(
        TOPIC, world.kafka._cluster.topics[TOPIC].id, (NO_LEADER,) * 5, world.now
    )
    for index in range(5):
        await send(world, producer, partition=index)
    closing = asyncio.ensure_future(producer.close(timeout=1.8))
    assert (await closing_line(world)).endswith("(5 without a leader, of t-0, t-1, t-2, and 2 more)")
    await closing


@scenario()
async def test_a_missing_producer_id_is_named(world: World) -> None:
    """The broker is reachable, and takes no record before the producer id."""
    world.kafka.faults.silence(api="InitProducerId", times=None)
    producer = await stage(world)
    await send(world, producer, partition=0)
    closing = asyncio.ensure_future(producer.close(timeout=1.5))
    assert (await closing_line(world)).endswith(f":{world.port(1)} (id 1), without a producer id)")
    await closing


@scenario()
async def test_the_coordinator_is_named(world: World) -> None:
    """An open transaction is aborted, and the coordinator does not answer."""
    producer = await stage(world, transactional_id="orders")
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send_and_wait(TOPIC, b"of an aborted transaction", partition=0)
    world.forgotten.add(TOPIC)
    world.kafka.faults.silence(api="EndTxn", times=None)
    closing = asyncio.ensure_future(producer.close(timeout=2))
    assert (await closing_line(world)).endswith(
        "s more at most: abort_transaction(), by the coordinator of transactional id 'orders'"
    )
    report = await closing
    assert report.waited_for == "abort_transaction(), by the coordinator of transactional id 'orders'"


@scenario()
async def test_a_close_that_is_in_time_has_waited_for_nothing(world: World) -> None:
    """Neither the report nor the log has a reason."""
    producer = await stage(world)
    await send(world, producer, 3)
    assert (await producer.close()).waited_for is None
    assert world.lines(r"close\(\) waits") == []
