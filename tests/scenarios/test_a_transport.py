"""A01-A16: faults of connections. Every scenario is judged: no loss, no copy, no disorder, no late outcome."""

from __future__ import annotations

import asyncio
import errno
import itertools
from typing import Final

import pytest

from aioproducer import Outcome
from tests.effort import SCENARIO, SCENARIO_VARIANT
from tests.scenarios.support import (
    TOPIC,
    all_acked,
    dials,
    leader,
    numbers,
    outcomes,
    port_of_leader,
    produced,
    scenario,
    send,
    stage,
    stream,
)
from tests.simulation.wires import End
from tests.simulation.world import World

RT, DT, CT = 2.0, 20.0, 1.0


@scenario()
async def test_a01_one_broker_refuses_connections(world: World) -> None:
    """Records for the others are not held up; those for it are sent when it is back."""
    producer = await stage(world)
    port = port_of_leader(world)
    await world.kafka.faults.refuse_connections(leader(world))
    world.network.reset(port)
    began = world.now
    stuck = await send(world, producer, partition=0)
    await all_acked([*await send(world, producer, partition=1), *await send(world, producer, partition=2)])
    assert world.now - began < 1.0
    await asyncio.sleep(10.0)
    assert dials(world, port, began) <= 16
    await world.kafka.faults.accept_connections(leader(world))
    healed = world.now
    await all_acked(stuck)
    assert world.now - healed < 3.0


@scenario()
async def test_a01_all_brokers_refuse_connections(world: World) -> None:
    """Records that were never sent are NOT_WRITTEN at their deadline; no broker is dialed more often than the backoff allows."""
    producer = await stage(world)
    for broker in world.kafka.brokers:
        await world.kafka.faults.refuse_connections(broker.id)
        world.network.reset(broker.port)
    began = world.now
    deliveries = await send(world, producer, 3)
    assert await outcomes(deliveries) == {Outcome.NOT_WRITTEN: 3}
    assert DT - 0.01 <= world.now - began <= DT + 0.1
    assert all(dials(world, broker.port, began) <= 16 for broker in world.kafka.brokers)
    for broker in world.kafka.brokers:
        await world.kafka.faults.accept_connections(broker.id)
    healed = world.now
    await all_acked(await send(world, producer, 3))
    assert world.now - healed < 3.0


def name_the_brokers(world: World, *addresses: str) -> None:
    """Each broker is known by a name, which resolves to these addresses."""
    for broker in world.kafka.brokers:
        broker_name = f"broker-{broker.id}.test"
        world.network.names[broker_name] = list(addresses)
        world.kafka._cluster.nodes[broker.id].host = broker_name


@scenario()
async def test_a02_a_name_has_several_addresses_of_which_the_first_is_dead(world: World) -> None:
    """Each address is tried in its turn, and the name is resolved again for each connection."""
    name_the_brokers(world, "127.0.0.9", "127.0.0.1")
    world.network.names["bootstrap.test"] = ["127.0.0.9", "127.0.0.1"]
    port = world.port(1)
    producer = await stage(world, bootstrap_servers=f"bootstrap.test:{port}")
    await all_acked(await send(world, producer, 3))
    before = len(world.network.lookups)
    for broker in world.kafka.brokers:
        world.network.reset(broker.port)
    await all_acked([*await send(world, producer, partition=0), *await send(world, producer, partition=1)])
    assert len(world.network.lookups) > before


@scenario()
async def test_a02_the_name_server_is_gone_for_a_while(world: World) -> None:
    """Neither an error nor silence of the name server ends the producer; connections are made when it is back."""
    name_the_brokers(world, "127.0.0.1")
    producer = await stage(world)
    await all_acked(await send(world, producer, 3))
    for broker in world.kafka.brokers:
        silent = world.rng.random() < 0.5
        world.network.names[f"broker-{broker.id}.test"] = None if silent else OSError(-3, "Try again")
        world.network.reset(broker.port)
    deliveries = await send(world, producer, 3)
    await asyncio.sleep(5.0)
    for broker in world.kafka.brokers:
        world.network.names[f"broker-{broker.id}.test"] = ["127.0.0.1"]
    await all_acked(deliveries)


@scenario()
async def test_a02_an_address_changes(world: World) -> None:
    """The broker's name resolves to another address after its connection broke."""
    name_the_brokers(world, "127.0.0.1")
    producer = await stage(world)
    await all_acked(await send(world, producer, 3))
    for broker in world.kafka.brokers:
        world.network.names[f"broker-{broker.id}.test"] = ["127.0.0.77"]
        world.network.alias["127.0.0.77"] = "127.0.0.1"
        world.network.reset(broker.port)
    await all_acked(await send(world, producer, 3))


@scenario()
async def test_a03_a_black_hole_swallows_the_attempt_to_connect(world: World) -> None:
    """The attempt ends after the set-up time limit, not after the system's, and is repeated with a backoff."""
    producer = await stage(world)
    port = port_of_leader(world)
    world.network.reach(port).swallows = True
    world.network.reset(port)
    began = world.now
    stuck = await send(world, producer, partition=0)
    await all_acked(await send(world, producer, partition=1))
    await asyncio.sleep(8.0)
    at = [when for when, _, called in world.network.dials if called == port and when >= began]
    assert all(later - earlier >= 0.79 * CT for earlier, later in itertools.pairwise(at))
    assert 2 <= len(at) <= 12
    world.network.release(port)
    healed = world.now
    await all_acked(stuck)
    assert world.now - healed < 3.0 + 3.0  # the set-up time limit that was running, and the recovery


@pytest.mark.parametrize("requests", [0, 1, 3])
@scenario()
async def test_a04_a_broker_falls_silent(world: World, requests: int) -> None:
    """The request fails at its timeout, the connection is closed, and its records are sent again on another."""
    producer = await stage(world, linger_ms=0)
    port = port_of_leader(world)
    for _ in range(requests):
        await all_acked(await send(world, producer, partition=0))
    world.network.hold(port)
    began = world.now
    deliveries = await send(world, producer, 2, partition=0)
    await asyncio.sleep(RT + 0.5)
    assert dials(world, port, began, RT + 0.5) >= 1
    world.network.release(port)
    await all_acked(deliveries)
    assert world.now - began < RT + 0.5 + CT + 3.0


@scenario()
async def test_a04_a_broker_stays_silent(world: World) -> None:
    """Records in flight without an answer are UNKNOWN at their deadline, not earlier and not later."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world))
    began = world.now
    deliveries = await send(world, producer, partition=0)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 1}
    assert DT - 0.01 <= world.now - began <= DT + 0.1


@scenario()
async def test_a05_reset_before_any_byte_of_the_request(world: World) -> None:
    """It is sent again on another connection."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    world.network.reset(port_of_leader(world))
    await all_acked(await send(world, producer, 5, partition=0))


@scenario()
async def test_a05_no_connection_ever(world: World) -> None:
    """Nothing reached a transport: at its deadline the record is NOT_WRITTEN."""
    producer = await stage(world, linger_ms=0)
    world.network.isolate(port_of_leader(world))
    world.network.reset(port_of_leader(world))
    assert await outcomes(await send(world, producer, 3, partition=0)) == {Outcome.NOT_WRITTEN: 3}


STRIDE: Final = max(SCENARIO_VARIANT, SCENARIO // len(End))
"""Each end is tested with this many seeds: together they cut at every byte."""


@pytest.mark.parametrize("end", list(End))
@scenario()
async def test_a06_a_request_is_cut_at_every_byte(world: World, end: End) -> None:
    """An incomplete request is never appended; it is sent again, and is in the log once."""
    producer = await stage(world, 1, linger_ms=0, retry_backoff_ms=1, reconnect_backoff_ms=1)
    port = port_of_leader(world)
    await all_acked(await send(world, producer))
    size = world.network.lengths(port)[-1]
    for at in range(world.seed, size, STRIDE):
        await all_acked(await send(world, producer, filling=bytes(1_000)))
        link = world.network.busiest(port)
        cut = world.network.cut(port, 1 + at, to_broker=True, end=end, link=link)
        await all_acked(await send(world, producer, 2, filling=bytes(size)))
        assert cut.happened


@scenario()
async def test_a07_the_connection_ends_before_the_append(world: World) -> None:
    """The batch is sent again, and is in the log once."""
    producer = await stage(world, 1, linger_ms=0)
    world.kafka.faults.cut(before=True, reset=world.rng.random() < 0.5, times=3)
    await all_acked(await stream(world, producer, 1.0))


@scenario()
async def test_a08_the_connection_ends_after_the_append(world: World) -> None:
    """The broker answers the repetition with the offset of the first: acknowledged there, in the log once."""
    producer = await stage(world, 1, linger_ms=0)
    world.kafka.faults.cut(reset=world.rng.random() < 0.5, times=3)
    deliveries = await stream(world, producer, 1.0)
    await all_acked(deliveries)
    assert [delivery.result().offset for delivery in deliveries if delivery] == list(range(len(deliveries)))


@scenario()
async def test_a08_without_idempotence_a_repetition_is_a_copy(world: World) -> None:
    """As the documentation of `enable_idempotence=False` says: the record may be there twice, but is never lost."""
    producer = await stage(world, 1, linger_ms=0, enable_idempotence=False)
    world.rules = type(world.rules)(duplicates=True, disorder=True)
    world.kafka.faults.cut(times=1)
    await all_acked(await send(world, producer))
    assert numbers(world) == [0, 0]


@pytest.mark.parametrize("end", list(End))
@scenario()
async def test_a09_an_answer_is_cut_at_every_byte(world: World, end: End) -> None:
    """The part of an answer that arrived is ignored."""
    producer = await stage(world, 1, linger_ms=0, retry_backoff_ms=1, reconnect_backoff_ms=1)
    await all_acked(await send(world, producer))
    for at in range(world.seed, 70, STRIDE):
        world.kafka.faults.cut_answer(at, reset=end is End.RST)
        await all_acked(await send(world, producer, 2))


@scenario()
async def test_a10_the_peer_is_gone_without_a_word(world: World) -> None:
    """A half-open connection is detected at the request timeout and replaced."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    world.network.vanish(port_of_leader(world))
    began = world.now
    await all_acked(await send(world, producer, 3, partition=0))
    assert RT <= world.now - began < RT + 3.0


@scenario()
async def test_a11_the_peer_ends_its_direction(world: World) -> None:
    """No answer can come any more: the connection is replaced, and no task spins."""
    producer = await stage(world, 1, linger_ms=0)
    world.kafka.faults.half_close(times=3)
    before = world.loop.turns
    await all_acked(await stream(world, producer, 2.0, every=0.1))
    assert world.loop.turns - before < 5_000


@scenario()
async def test_a11_the_peer_reads_nothing_more(world: World) -> None:
    """Requests pile up unread until their timeout; then they are sent again on another connection."""
    producer = await stage(world, 1, linger_ms=0)
    await all_acked(await send(world, producer))
    stopped = world.kafka.faults.stop_reading(broker=leader(world))
    deliveries = await send(world, producer, 3)
    await asyncio.sleep(RT + 1.0)
    stopped.heal()
    await all_acked(deliveries)


@scenario()
async def test_a12_the_window_closes(world: World) -> None:
    """The transport's buffer is bounded, the wait reaches `send()`, and the timeout counts from the hand-over."""
    producer = await stage(
        world, 1, linger_ms=0, batch_size=20_000, buffer_memory=300_000, max_block_ms=500, request_timeout_ms=4_000
    )  # fmt: skip
    await all_acked(await send(world, producer))
    world.network.conditions.window = 10_000
    port = port_of_leader(world)
    world.network.hold(port, to_client=False)
    refused = 0
    for _ in range(40):
        refused += await world.ledger.send(producer, TOPIC, bytes(10_000)) is None
        unsent = [link.to_broker.unsent for link in world.network.links(port)]
        assert max(unsent) <= 64 * 1024 + 30_000
        assert producer.stats().bytes_buffered + producer.stats().bytes_in_flight <= 300_000
    assert refused > 0
    world.network.release(port)
    assert Outcome.PENDING not in await outcomes(entry.delivery for entry in world.ledger.entries)


@pytest.mark.parametrize("slow", ["requests", "answers"])
@scenario()
async def test_a13_bytes_trickle(world: World, slow: str) -> None:
    """Single bytes with pauses, in either direction: no work is quadratic, and a trickle of bytes delays no timeout."""
    producer = await stage(world, 1, linger_ms=0, delivery_timeout_ms=5_000)
    await all_acked(await send(world, producer))
    conditions = world.network.conditions
    conditions.trickle, conditions.pace = True, 0.001
    before = world.loop.turns
    await all_acked(await send(world, producer, 3, filling=bytes(500 if slow == "requests" else 0)))
    assert world.loop.turns - before < 20_000
    conditions.pace = 0.1
    began = world.now
    deliveries = await send(world, producer, filling=bytes(200))
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 1}
    assert world.now - began < 5.1
    assert dials(world, port_of_leader(world), began, 5.0) >= 1
    conditions.trickle, conditions.pace = False, 0.0


@scenario()
async def test_a14_answers_arrive_in_any_pieces(world: World) -> None:
    """For every way in which the bytes are split and merged, the outcomes are the same."""
    world.network.conditions.fragmented = 1.0
    producer = await stage(world, linger_ms=0, batch_size=200)
    await all_acked(await stream(world, producer, 1.0, every=0.005))
    assert sorted(numbers(world)) == list(range(len(world.ledger.entries)))


@scenario()
async def test_a15_an_idle_connection_is_closed_as_a_request_is_written(world: World) -> None:
    """At most one retry, no error to the user, and no warning."""
    producer = await stage(world, 1, linger_ms=0)
    for _ in range(5):
        await all_acked(await send(world, producer))
        before = produced(world)
        world.kafka.faults.drop_connections(leader(world), reset=False)
        await asyncio.sleep(world.rng.uniform(0, 0.003))
        await all_acked(await send(world, producer))
        assert produced(world) - before <= 2
    assert world.warnings() == []


CONNECT_ERRORS = (
    errno.EMFILE,
    errno.ENOBUFS,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
    errno.EPIPE,
    errno.EHOSTUNREACH,
)


@pytest.mark.parametrize("error", CONNECT_ERRORS)
@scenario()
async def test_a16_the_system_refuses_to_connect(world: World, error: int) -> None:
    """For any error of the system, the attempt is repeated, and succeeds when the system allows it."""
    producer = await stage(world, 1, linger_ms=0)
    port = port_of_leader(world)
    world.network.fail_connecting(port, error)
    world.network.reset(port)
    began = world.now
    deliveries = await send(world, producer, 3)
    await asyncio.sleep(5.0)
    assert dials(world, port, began) <= 16
    world.network.release(port)
    healed = world.now
    await all_acked(deliveries)
    assert world.now - healed < 3.0


@pytest.mark.parametrize("error", [errno.EPIPE, errno.ENOBUFS, errno.ETIMEDOUT, errno.ECONNRESET])
@scenario()
async def test_a16_the_system_fails_while_sending(world: World, error: int) -> None:
    """The connection is replaced; requests in flight are sent again."""
    producer = await stage(world, 1, linger_ms=0)
    port = port_of_leader(world)
    await all_acked(await send(world, producer))
    world.kafka.faults.delay(0.5, times=2)
    deliveries = await send(world, producer, 2)
    await asyncio.sleep(0.1)
    for link in world.network.links(port):
        link.client.fail(OSError(error, "a test fails it"))
    await all_acked([*deliveries, *await send(world, producer, 3)])
