"""D01-D14, D16: the life of a cluster. Every scenario is judged, and recovers within three seconds of being healed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Self

import attrs
import pytest

from aioproducer import (
    BrokerError,
    BufferFullError,
    Delivery,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Outcome,
    Producer,
)
from aioproducer._core import murmur2
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.judge.history import value_of
from tests.judge.judge import Rules
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
from tests.simulation.world import World

RT, DT, MB, CT = 2.0, 20.0, 5.0, 1.0
RECOVERY: Final = 3.0
TICK: Final = 0.05
MOST_DIALS: Final = 16
SEEDS_AT_FULL_LENGTH: Final = 4
"""With these seeds the long scenarios last minutes; with the others they are shorter."""
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID = 3, 100
REBOOTSTRAP_REQUIRED = 129


# -- readings


def answered_at(delivery: Delivery) -> float:
    """The time at which its outcome came from a broker."""
    answered = delivery.timings.answered
    assert answered is not None
    return answered


def accepted_at(delivery: Delivery) -> float:
    """The time of its acceptance."""
    accepted = delivery.timings.accepted
    assert accepted is not None
    return accepted


def known(deliveries: Iterable[Delivery | None]) -> list[Delivery]:
    """The accepted ones."""
    return [delivery for delivery in deliveries if delivery is not None]


def longest_wait(deliveries: Iterable[Delivery | None]) -> float:
    """The duration of the slowest of them."""
    return max(answered_at(delivery) - accepted_at(delivery) for delivery in known(deliveries))


async def recovers(
    world: World, producer: Producer[Any, Any], since: float, within: float = RECOVERY, partitions: int = 3
) -> None:
    """Each partition accepts a record again, soon enough after it was healed."""
    deliveries = [
        await world.ledger.send(producer, TOPIC, partition=partition) for partition in range(partitions)
    ]
    await all_acked(deliveries)
    assert max(answered_at(delivery) for delivery in known(deliveries)) - since <= within


def requests_in_flight(producer: Producer[Any, Any], broker: int) -> int:
    """The number of requests that a broker has not answered."""
    (connection,) = [one for one in producer.stats().connections if one.broker == str(broker)]
    return connection.requests_in_flight


async def one_by_one(world: World, producer: Producer[Any, Any], count: int) -> list[Delivery]:
    """Records of partition 0, each in a request of its own."""
    deliveries: list[Delivery] = []
    for _ in range(count):
        deliveries += await send(world, producer, partition=0)
        await asyncio.sleep(0.01)
    return deliveries


def nothing_is_suspected(world: World) -> None:
    """No line of the log suspects a loss of acknowledged records: none were lost."""
    assert [producer.stats().suspected_data_losses for producer in world.producers] == [0] * len(
        world.producers
    )


# -- D01-D05: brokers come and go, and leaders with them


@pytest.mark.parametrize("moment", ["before", "after"])
@scenario()
async def test_d01_a_leader_is_killed_with_five_requests_in_flight(world: World, moment: str) -> None:
    """Before it appended or after: the next leader gets the missing records, in order, and recognizes the others."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, partition=0))
    broker = leader(world)
    held = world.kafka.faults.delay(before=moment == "before", times=None, broker=broker)
    deliveries = await one_by_one(world, producer, 5)
    assert requests_in_flight(producer, broker) == 5
    deliveries += await send(world, producer, 5, partition=0)
    await world.kafka.faults.stop_broker(broker)
    held.heal()
    killed = world.now
    await all_acked(deliveries)
    assert world.now - killed < RECOVERY
    await asyncio.sleep(world.rng.uniform(0, 3.0))
    await world.kafka.faults.start_broker(broker)
    world.kafka.faults.move_leader(TOPIC, 0, broker)
    await recovers(world, producer, world.now)
    nothing_is_suspected(world)


@pytest.mark.parametrize("moment", ["before", "after"])
@scenario()
async def test_d01_the_only_replica_is_killed_and_comes_back(world: World, moment: str) -> None:
    """It rebuilds the state of the producer from its log: repeated records are recognized."""
    world.kafka.create_topic(TOPIC, 3, replication_factor=1)
    producer = world.producer(linger_ms=0)
    await producer.start(wait_ready=5)
    await all_acked(await send(world, producer, partition=0))
    broker = leader(world)
    held = world.kafka.faults.delay(before=moment == "before", times=None, broker=broker)
    deliveries = await one_by_one(world, producer, 5)
    await world.kafka.faults.stop_broker(broker)
    held.heal()
    await asyncio.sleep(world.rng.uniform(0, 15.0))
    assert {delivery.outcome for delivery in deliveries} == {Outcome.PENDING}
    await world.kafka.faults.start_broker(broker)
    back = world.now
    await all_acked(deliveries)
    assert world.now - back < RECOVERY
    nothing_is_suspected(world)


@scenario()
async def test_d02_a_broker_is_shut_down_cleanly(world: World) -> None:
    """Its leaders move first, then its connections end: no error, no unknown outcome, and no long wait."""
    producer = await stage(world)
    streaming = asyncio.create_task(stream(world, producer, 6.0, every=0.05))
    for broker in world.kafka.brokers:
        await asyncio.sleep(world.rng.uniform(0.1, 0.5))
        others = [other.id for other in world.kafka.brokers if other.id != broker.id]
        led = [partition for partition in range(3) if leader(world, partition) == broker.id]
        for partition in led:
            world.kafka.faults.move_leader(TOPIC, partition, world.rng.choice(others))
        await asyncio.sleep(world.rng.uniform(0, 0.3))
        await world.kafka.faults.stop_broker(broker.id, reset=False)
        await asyncio.sleep(world.rng.uniform(0.1, 0.8))
        await world.kafka.faults.start_broker(broker.id)
        for partition in led:
            world.kafka.faults.move_leader(TOPIC, partition, broker.id)
    deliveries = await streaming
    await all_acked(deliveries)
    assert longest_wait(deliveries) < RECOVERY
    assert producer.stats().records_failed == 0
    nothing_is_suspected(world)


@scenario()
async def test_d02_a_leader_moves_and_names_its_successor(world: World) -> None:
    """The hint of the old leader is enough (KIP-951): the record is accepted at the second attempt, without a wait."""
    producer = await stage(world, linger_ms=0)
    for partition in range(3):
        await all_acked(await send(world, producer, partition=partition))
    for _ in range(5):
        partition = world.rng.randrange(3)
        world.kafka.faults.move_leader(TOPIC, partition, world.rng.choice([1, 2, 3]))
        before = produced(world)
        deliveries = await send(world, producer, partition=partition)
        await all_acked(deliveries)
        assert longest_wait(deliveries) < 0.05
        assert produced(world) - before <= 2


async def roll(world: World, rounds: int, moves: bool) -> None:
    """Restart every broker in turn, each perhaps at another address."""
    for number in range(rounds):
        for broker in world.kafka.brokers:
            await world.kafka.faults.stop_broker(broker.id, reset=world.rng.random() < 0.5)
            await asyncio.sleep(world.rng.uniform(0.1, 2.0))
            if moves:
                rehouse(world, broker.id, f"10.{number + 1}.0.{broker.id}")
                world.network.names["bootstrap.test"] = [world.kafka._cluster.nodes[1].host]
            await world.kafka.faults.start_broker(broker.id)
            await asyncio.sleep(world.rng.uniform(0.1, 1.0))


def rehouse(world: World, broker: int, host: str) -> None:
    """A stopped broker will be at another address, and no server at the old one."""
    world.kafka._cluster.nodes[broker].host = host


@pytest.mark.parametrize("addresses", ["stay", "change"])
@scenario()
async def test_d03_all_brokers_are_restarted_three_times(world: World, addresses: str) -> None:
    """One after the other, with the same addresses or others: no error, and no unknown outcome."""
    producer = await behind_a_name(world)
    rolling = asyncio.create_task(roll(world, 3, moves=addresses == "change"))
    deliveries: list[Delivery | None] = []
    while not rolling.done():
        deliveries += await stream(world, producer, 0.5, every=0.1)
    await rolling
    healed = world.now
    await all_acked(deliveries)
    assert producer.stats().records_failed == 0
    await recovers(world, producer, healed)
    nothing_is_suspected(world)


async def behind_a_name(world: World, **settings: Any) -> Producer[Any, Any]:
    """A producer that knows the cluster by a name, which resolves to the address of broker 1."""
    world.network.names["bootstrap.test"] = ["127.0.0.1"]
    return await stage(world, bootstrap_servers=f"bootstrap.test:{world.port(1)}", **settings)


async def stop_all(world: World, *, reset: bool = True) -> None:
    """The whole cluster is down."""
    for broker in world.kafka.brokers:
        await world.kafka.faults.stop_broker(broker.id, reset=reset)


async def start_all_elsewhere(world: World) -> None:
    """The cluster comes back at other addresses; the name follows."""
    for broker in world.kafka.brokers:
        rehouse(world, broker.id, f"10.0.0.{broker.id}")
        await world.kafka.faults.start_broker(broker.id)
    world.network.names["bootstrap.test"] = ["10.0.0.1"]


@scenario()
async def test_d03_all_addresses_change_while_the_producer_looks_away(world: World) -> None:
    """All its known addresses are invalid; it begins again with `bootstrap_servers` (KIP-899)."""
    producer = await behind_a_name(world)
    await all_acked(await send(world, producer, 3))
    await stop_all(world, reset=world.rng.random() < 0.5)
    await start_all_elsewhere(world)
    await asyncio.sleep(world.rng.choice((0.0, 1.0, 60.0, 700.0)))
    await recovers(world, producer, world.now)


@scenario()
async def test_d03_the_old_addresses_swallow_every_attempt(world: World) -> None:
    """The old hosts never answer; the new ones are found as soon as the running attempts are given up."""
    producer = await behind_a_name(world)
    await all_acked(await send(world, producer, 3))
    old = [world.port(broker) for broker in (2, 3)]
    await stop_all(world)
    for port in old:
        world.network.reach(port).swallows = True
    for broker in (2, 3):
        await world.kafka.faults.start_broker(broker, port=0)
    rehouse(world, 1, "10.0.0.1")
    await world.kafka.faults.start_broker(1)
    world.network.names["bootstrap.test"] = ["10.0.0.1"]
    await recovers(world, producer, world.now, within=RECOVERY + 2 * CT * 1.2)


@scenario()
async def test_d03_nothing_is_learnt_for_longer_than_the_trigger(world: World) -> None:
    """After `metadata_recovery_rebootstrap_trigger_ms` it begins again from the name, once per trigger (KIP-1102)."""
    producer = await behind_a_name(world, metadata_recovery_rebootstrap_trigger_ms=3_000)
    await all_acked(await send(world, producer, 3))
    await stop_all(world)
    deliveries = await stream(world, producer, 12.0, every=0.5)
    begun_again = [line for line in world.warnings() if "again from bootstrap_servers" in line]
    assert 1 <= len(begun_again) <= 4
    before = len(world.network.lookups)
    await start_all_elsewhere(world)
    healed = world.now
    await all_acked(deliveries)
    assert len(world.network.lookups) > before
    assert max(map(answered_at, known(deliveries))) - healed < RECOVERY


@scenario()
async def test_d03_a_broker_asks_for_a_new_beginning(world: World) -> None:
    """REBOOTSTRAP_REQUIRED: the name is resolved again, all connections are made anew, and no record is affected."""
    producer = await behind_a_name(world, metadata_max_age_ms=1_000)
    streaming = asyncio.create_task(stream(world, producer, 4.0, every=0.05))
    await asyncio.sleep(0.5)
    before = len(world.network.lookups)
    asked = world.kafka.faults.error(REBOOTSTRAP_REQUIRED, api="Metadata")
    deliveries = await streaming
    assert asked.hits == 1
    await all_acked(deliveries)
    assert len(world.network.lookups) > before
    assert longest_wait(deliveries) < RECOVERY


@pytest.mark.parametrize("failover", [False, True])
@scenario()
async def test_d04_two_of_three_brokers_are_stopped_for_45_seconds(world: World, failover: bool) -> None:
    """SIGSTOP, SIGCONT, twice: unknown are only records that were written and waited for all of their delivery time."""
    producer = await stage(world)
    await all_acked(await send(world, producer, 9))
    deliveries: list[Delivery | None] = []
    for _ in range(2 if world.seed < SEEDS_AT_FULL_LENGTH else 1):
        stopped = world.rng.sample([1, 2, 3], 2)
        for broker in stopped:
            world.network.hold(world.port(broker))
        streaming = asyncio.create_task(stream(world, producer, 45.0, every=0.5))
        if failover:
            await fail_over(world, stopped)
        deliveries += await streaming
        for broker in stopped:
            world.network.release(world.port(broker))
        for partition in range(3):
            world.kafka.faults.shrink_isr(TOPIC, partition, 1, 2, 3)
        await recovers(world, producer, world.now, RECOVERY + RT)
    assert (await outcomes(deliveries))[Outcome.ACKED] > 0
    for delivery in known(deliveries):
        if delivery.outcome is Outcome.UNKNOWN:
            error = delivery.exception()
            assert isinstance(error, DeliveryTimeoutError)
            assert error.elapsed is not None
            assert error.elapsed >= DT - TICK


async def fail_over(world: World, stopped: list[int]) -> None:
    """The controller notices after a while: the third broker leads all partitions, and is alone in sync."""
    await asyncio.sleep(9.0)
    (left,) = {1, 2, 3} - set(stopped)
    for partition in range(3):
        world.kafka.faults.move_leader(TOPIC, partition, left)
        world.kafka.faults.shrink_isr(TOPIC, partition, left)


@scenario()
async def test_d05_leaders_move_every_100_ms_for_a_minute(world: World) -> None:
    """Records are acknowledged in each five seconds, none fails, and there is no storm of requests."""
    producer = await stage(world, linger_ms=0)
    began = world.now
    windows = 12 if world.seed < SEEDS_AT_FULL_LENGTH else 2

    async def ping_pong() -> None:
        for broker in itertools.islice(itertools.cycle((1, 2, 3)), 50 * windows):
            for partition in range(3):
                world.kafka.faults.move_leader(TOPIC, partition, 1 + (broker + partition) % 3)
            await asyncio.sleep(0.1)

    moving = asyncio.create_task(ping_pong())
    deliveries = await stream(world, producer, 5.0 * windows, every=0.25)
    await moving
    healed = world.now
    await all_acked(deliveries)
    acked = sorted(answered_at(delivery) for delivery in known(deliveries))
    progress = Counter(int((at - began) // 5) for at in acked)
    assert all(progress[number] > 0 for number in range(windows))
    assert max(acked) - healed < RECOVERY
    assert produced(world) < 12 * len(acked)
    nothing_is_suspected(world)


# -- D06-D07: views of the cluster


@attrs.define
class StaleView:
    """A broker that repeats its first answer about the topic without end."""

    topics: list[Any] | None = None

    def __call__(self, answer: Any) -> Any:
        """Its answer to a Metadata request."""
        if not answer.topics:
            return answer
        if self.topics is None:
            self.topics = list(answer.topics)
        return answer._replace(topics=self.topics)


def epochs(producer: Producer[Any, Any]) -> tuple[int, ...]:
    """The leader epochs in the producer's metadata."""
    assert producer._engine is not None
    facts = producer._engine.view.topic(TOPIC)
    assert facts is not None
    return tuple(facts.partitions.leader_epochs)


@scenario()
async def test_d06_two_brokers_give_an_old_view(world: World) -> None:
    """For any order of the brokers, the newest leader epoch wins: it never goes back, and every record is written."""
    producer = await stage(world, metadata_max_age_ms=200)
    for behind in world.rng.sample([1, 2, 3], 2):
        world.kafka.faults.alter(StaleView(), api="Metadata", broker=behind, times=None)
    for broker in world.kafka.brokers:
        world.network.reset(broker.port)
    await all_acked(await stream(world, producer, 1.0))
    streaming = asyncio.create_task(stream(world, producer, 8.0, every=0.1))
    believed = epochs(producer)
    while not streaming.done():
        if world.rng.random() < 0.1:
            world.kafka.faults.move_leader(TOPIC, world.rng.randrange(3), world.rng.choice([1, 2, 3]))
        if world.rng.random() < 0.1:
            world.network.reset(world.port(world.rng.choice([1, 2, 3])))
        await asyncio.sleep(0.04)
        before, believed = believed, epochs(producer)
        assert all(old <= new for old, new in zip(before, believed, strict=True))
    deliveries = await streaming
    await all_acked(deliveries)
    assert longest_wait(deliveries) < RECOVERY
    await recovers(world, producer, world.now)
    # A leader that moved away and back unnoticed has a newer epoch than the known one, which does no harm.
    assert [part.leader for part in await producer.partitions_for(TOPIC)] == [
        leader(world, p) for p in range(3)
    ]


@scenario()
async def test_d06_one_broker_stays_behind_without_hints(world: World) -> None:
    """Brokers before Kafka 3.7 do not name the next leader: when the asked broker does not know it, another is asked."""
    world.kafka.limit_version("Produce", 3, 9)
    producer = await stage(world, linger_ms=0)
    assert producer._engine is not None
    assert producer._engine.control.connection is not None
    asked = next(
        broker.id
        for broker in world.kafka.brokers
        if f":{broker.port}" in producer._engine.control.connection.broker
    )
    world.kafka.faults.alter(StaleView(), api="Metadata", broker=asked, times=None)
    partition = world.rng.randrange(3)
    await all_acked(await send(world, producer, partition=partition))
    await producer._engine.control.ask(*whole_topic())
    led = leader(world, partition)
    world.kafka.faults.move_leader(TOPIC, partition, led % 3 + 1)
    await recovers(world, producer, world.now)


def whole_topic() -> tuple[Any, Any]:
    """A request for the topic, so that a broker has answered about it."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), MetadataResponse


@pytest.mark.parametrize("seconds", [3, 12])
@scenario()
async def test_d07_a_topic_is_missing_for_a_while(world: World, seconds: int) -> None:
    """The topic accepts records all the time, and its sequences continue when it is listed again."""
    producer = await stage(world, linger_ms=0, metadata_max_age_ms=500)
    await all_acked(await send(world, producer, 6))
    world.kafka.faults.hide_topic(TOPIC)
    streaming = asyncio.create_task(stream(world, producer, seconds, every=0.1))
    await asyncio.sleep(world.rng.uniform(0, seconds))
    for partition in range(3):
        world.kafka.faults.move_leader(TOPIC, partition, world.rng.choice([1, 2, 3]))
    deliveries = await streaming
    world.kafka.faults.show_topic(TOPIC)
    healed = world.now
    await all_acked(deliveries)
    assert max(map(answered_at, known(deliveries))) - healed < RECOVERY
    batches = [batch for request in world.kafka.requests for batch in request.batches]
    assert {batch.producer_epoch for batch in batches} == {0}


@pytest.mark.parametrize("hidden", [False, True])
@scenario()
async def test_d07_a_topic_comes_back_after_it_was_forgotten(world: World, hidden: bool) -> None:
    """Idle for longer than `metadata_max_idle_ms`, repeatedly: no record is taken for a copy of an earlier one."""
    producer = await stage(world, linger_ms=0, metadata_max_idle_ms=5_000, metadata_max_age_ms=1_000)
    assert producer._engine is not None
    for _ in range(4):
        await all_acked(await send(world, producer, world.rng.randrange(1, 4), partition=0))
        if hidden:
            world.kafka.faults.hide_topic(TOPIC)
        await asyncio.sleep(world.rng.uniform(11.0, 40.0))
        assert producer._engine.view.topic(TOPIC) is None
        world.kafka.faults.show_topic(TOPIC)
    await recovers(world, producer, world.now)
    assert numbers(world, 0) == sorted(numbers(world, 0))
    nothing_is_suspected(world)


# -- D08-D10: topics


async def old_records(world: World, producer: Producer[Any, Any], count: int) -> None:
    """Records without the judge's knowledge: their topic will be deleted."""
    for _ in range(count):
        for partition in range(3):
            await producer.send_and_wait(TOPIC, value_of(1_000_000), partition=partition)
    assert len(world.kafka.records(TOPIC)) == 3 * count


@scenario(auto_create_topics=False)
async def test_d08_a_topic_is_deleted_for_good(world: World) -> None:
    """Its records are NOT_WRITTEN at their deadline, with that reason; other topics are not held up."""
    producer = await stage(world, linger_ms=0)
    world.kafka.create_topic("other", 3)
    await producer.partitions_for("other")
    await old_records(world, producer, 2)
    world.kafka.delete_topic(TOPIC)
    began = world.now
    deliveries = await send(world, producer, 6)
    others = []
    while world.now < began + DT + 1.0:
        others.append(await world.ledger.send(producer, "other"))
        await asyncio.sleep(0.25)
    await all_acked(others)
    assert longest_wait(others) < 0.1
    assert await outcomes(deliveries) == {Outcome.NOT_WRITTEN: 6}
    for delivery in deliveries:
        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert isinstance(error.cause, BrokerError)
        assert error.cause.code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID)
    stats = producer.stats()
    assert (stats.bytes_buffered, stats.bytes_in_flight, stats.waiting_calls) == (0, 0, 0)


@scenario(auto_create_topics=False)
async def test_d08_no_broker_knows_the_topic_any_more(world: World) -> None:
    """A producer that meets the topic after its end reports that after `max_block`, and keeps no state about it."""
    producer = await stage(world)
    await old_records(world, producer, 1)
    world.kafka.delete_topic(TOPIC)
    newcomer = world.producer()
    await newcomer.start(wait_ready=5)
    began = world.now
    assert await world.ledger.send(newcomer, TOPIC) is None
    assert MB <= world.now - began <= MB + TICK
    (entry,) = world.ledger.entries
    assert isinstance(entry.error, MetadataTimeoutError)
    assert newcomer.stats().bytes_buffered == 0


Place = tuple[int, int, int, int]


def places(world: World) -> list[Place]:
    """Partition, producer id, epoch and sequence of every batch that a broker received."""
    return [
        (batch.partition, batch.producer_id, batch.producer_epoch, batch.base_sequence)
        for request in world.kafka.requests
        for batch in request.batches
    ]


@pytest.mark.parametrize("partitions", [1, 3, 5])
@pytest.mark.parametrize("waiting", ["nothing", "unsent", "unanswered"])
@scenario()
async def test_d09_a_topic_is_deleted_and_made_again(world: World, partitions: int, waiting: str) -> None:
    """The new one begins with sequence 0, and gets no batch under a number of the old one."""
    producer = await stage(world, linger_ms=0)
    await old_records(world, producer, 3)
    deliveries = await on_their_way(world, producer, waiting)
    before = set(places(world))
    world.kafka.forget_requests()
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, partitions, min_insync_replicas=2)
    for broker in world.kafka.brokers:
        world.network.reset(broker.port)
        world.network.release(broker.port)
    made = world.now
    await recovers(world, producer, made, RECOVERY + RT, partitions)
    found = await outcomes(deliveries)
    bound = sum(delivery.partition is not None and delivery.partition < partitions for delivery in deliveries)
    assert found[Outcome.ACKED] + found[Outcome.UNKNOWN] >= bound
    if waiting == "unsent":
        assert found == +Counter({Outcome.ACKED: bound, Outcome.NOT_WRITTEN: len(deliveries) - bound})
    await all_acked(await stream(world, producer, 0.3))
    assert before.isdisjoint(places(world))
    for partition in range(partitions):
        assert next(sequence for at, _, _, sequence in places(world) if at == partition) == 0
    nothing_is_suspected(world)


async def on_their_way(world: World, producer: Producer[Any, Any], waiting: str) -> list[Delivery]:
    """Records for each partition that the producer holds when the topic is deleted."""
    if waiting == "nothing":
        return []
    if waiting == "unsent":
        for broker in world.kafka.brokers:
            world.network.isolate(broker.port)
            world.network.reset(broker.port)
    else:
        for broker in world.kafka.brokers:
            world.network.hold(broker.port, to_broker=False)
    deliveries = [
        delivery
        for partition in range(3)
        for _ in range(3)
        for delivery in await send(world, producer, partition=partition)
    ]
    await asyncio.sleep(0.5)
    return deliveries


def by_key(key: bytes, partitions: int) -> int:
    """The partition that Kafka chooses for this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@scenario()
async def test_d10_partitions_are_added(world: World) -> None:
    """The count of partitions known at the call decides for keys; the new partitions are used within metadata's age."""
    producer = await stage(world, linger_ms=0, batch_size=200, metadata_max_age_ms=2_000)
    keys = [b"key-%d" % number for number in range(12)]
    streams = [asyncio.create_task(stream(world, producer, 6.0, every=0.05))]
    streams += [asyncio.create_task(stream(world, producer, 6.0, every=0.3, key=key)) for key in keys]
    await asyncio.sleep(world.rng.uniform(0.5, 1.5))
    world.kafka.add_partitions(TOPIC, 7)
    added = world.now
    pinned = asyncio.create_task(send(world, producer, 3, partition=6))
    sent = [await one for one in streams]
    await all_acked([*await pinned, *itertools.chain(*sent)])
    for key, deliveries in zip(keys, sent[1:], strict=True):
        went = [(accepted_at(delivery), delivery.partition) for delivery in known(deliveries)]
        assert [where for _, where in went if where != by_key(key, 7)] == [
            by_key(key, 3) for _, where in went if where != by_key(key, 7)
        ]
        assert all(where == by_key(key, 7) for at, where in went if at > added + 2.0 + 1.0)
        in_time = [where == by_key(key, 7) for _, where in went]
        if by_key(key, 3) != by_key(key, 7):
            assert in_time == sorted(in_time)
    used = {delivery.partition for delivery in known(sent[0]) if accepted_at(delivery) > added + 3.0}
    assert used & {3, 4, 5, 6}


@scenario()
async def test_d10_a_partition_that_is_not_there_yet(world: World) -> None:
    """A record for the partition is refused as soon as the brokers confirm that it is missing; later it is accepted."""
    producer = await stage(world, linger_ms=0)
    called = world.now
    assert await world.ledger.send(producer, TOPIC, partition=3) is None
    assert world.now - called < 1.0
    await asyncio.sleep(world.rng.uniform(0.0, 3.0))
    world.kafka.add_partitions(TOPIC, 4)
    await all_acked(await send(world, producer, partition=3))
    early = asyncio.create_task(send(world, producer, partition=4))
    await asyncio.sleep(world.rng.uniform(0.0, 0.05))
    world.kafka.add_partitions(TOPIC, 5)
    await all_acked(await early)
    await all_acked(await send(world, producer, partition=0))


# -- D11-D14: parts of the cluster are unreachable, or of no use


@scenario()
async def test_d11_too_few_replicas_are_in_sync_for_a_minute(world: World) -> None:
    """No record is written and none is lost: memory fills, callers wait, and all records are written after the fault."""
    producer = await stage(
        world, buffer_memory=20_000, batch_size=2_000, delivery_timeout_ms=120_000, linger_ms=0
    )
    await all_acked(await send(world, producer, 3))
    for partition in range(3):
        world.kafka.faults.shrink_isr(TOPIC, partition, leader(world, partition))
    began, deliveries, refused = world.now, [], 0
    while world.now < began + 60.0:
        called = world.now
        delivery = await world.ledger.send(producer, TOPIC, bytes(500))
        deliveries.append(delivery)
        stats = producer.stats()
        assert stats.bytes_buffered + stats.bytes_in_flight <= 20_000
        if delivery is None:
            refused += 1
            assert isinstance(world.ledger.entries[-1].error, BufferFullError)
            assert MB <= world.now - called <= MB + TICK
        await asyncio.sleep(0.05)
    assert refused >= 5
    assert len(numbers(world)) == 3
    for partition in range(3):
        world.kafka.faults.shrink_isr(TOPIC, partition, 1, 2, 3)
    healed = world.now
    await all_acked(known(deliveries))
    assert max(map(answered_at, known(deliveries))) - healed < RECOVERY
    assert produced(world) < 60 * 3 * 3


@scenario()
async def test_d11_too_few_replicas_are_in_sync_for_longer_than_the_deadline(world: World) -> None:
    """Each attempt was proven not to be written: NOT_WRITTEN at the deadline, none unknown; then records are written."""
    producer = await stage(world)
    await all_acked(await send(world, producer, 3))
    for partition in range(3):
        world.kafka.faults.shrink_isr(TOPIC, partition, leader(world, partition))
    began = world.now
    deliveries = await send(world, producer, 9)
    assert await outcomes(deliveries) == {Outcome.NOT_WRITTEN: 9}
    assert DT - TICK <= world.now - began <= DT + TICK
    later = await stream(world, producer, 40.0, every=0.5)
    for partition in range(3):
        world.kafka.faults.shrink_isr(TOPIC, partition, 1, 2, 3)
    await recovers(world, producer, world.now)
    # A refused batch is sent again with its younger records, and so the first overdue ones may be written.
    found = await outcomes(later)
    assert found[Outcome.NOT_WRITTEN] > 0
    assert found[Outcome.ACKED] > 0


@scenario()
async def test_d12_two_brokers_swap_their_addresses(world: World) -> None:
    """Connections follow the id: each broker gets the records of its partitions, at its present address."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, 6))
    for _ in range(2):
        one, other = world.rng.sample([1, 2, 3], 2)
        ports = world.port(one), world.port(other)
        streaming = asyncio.create_task(stream(world, producer, 3.0, every=0.05))
        await asyncio.sleep(world.rng.uniform(0.1, 1.0))
        await world.kafka.faults.stop_broker(one)
        await world.kafka.faults.stop_broker(other)
        await world.kafka.faults.start_broker(one, port=ports[1])
        await world.kafka.faults.start_broker(other, port=ports[0])
        for partition in range(3):
            world.kafka.faults.move_leader(TOPIC, partition, partition + 1)
        healed = world.now
        await recovers(world, producer, healed)
        await all_acked(await streaming)
        world.kafka.forget_requests()
        await all_acked(
            [*await send(world, producer, 3, partition=0), *await send(world, producer, partition=1)]
        )
        asked = {request.broker for request in world.kafka.requests if request.api == "Produce"}
        assert asked == {1, 2}
    assert producer.stats().records_failed == 0


@scenario(brokers=4)
async def test_d12_another_broker_takes_an_address_over(world: World) -> None:
    """Another id at the same host and port: records of the old one go there as soon as it leads their partitions."""
    await world.kafka.faults.stop_broker(4)
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, 6))
    port = world.port(1)
    streaming = asyncio.create_task(stream(world, producer, 4.0, every=0.05))
    await asyncio.sleep(world.rng.uniform(0.1, 1.0))
    await world.kafka.faults.stop_broker(1)
    await asyncio.sleep(world.rng.uniform(0, 1.0))
    await world.kafka.faults.start_broker(4, port=port)
    for partition in range(3):
        if leader(world, partition) != 3:
            world.kafka.faults.move_leader(TOPIC, partition, 4)
    await recovers(world, producer, world.now)
    await all_acked(await streaming)
    world.kafka.forget_requests()
    before = producer.stats().records_retried
    for partition in range(3):
        await all_acked(await send(world, producer, 2, partition=partition))
    asked = {request.broker for request in world.kafka.requests if request.api == "Produce"}
    assert asked == {leader(world, partition) for partition in range(3)} == {3, 4}
    assert producer.stats().records_retried == before
    (connection,) = [one for one in producer.stats().connections if one.broker == "4"]
    assert connection.state == "connected"


NAMED: Final = re.compile(r"\(broker [\d.]+:(\d+)|\bbroker (\d+): ")


class TimedLines(logging.Handler):
    """Counts the lines of the log by broker and second of virtual time."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world = world
        self.counts: Counter[tuple[int, int]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line; a line without a broker counts for a broker of its own."""
        self.counts[self._broker(record.getMessage()), int(self.world.now)] += 1

    def _broker(self, line: str) -> int:
        named = NAMED.search(line)
        if named is None:
            return 0
        port, number = named.groups()
        return int(number) if number else next(b.id for b in self.world.kafka.brokers if b.port == int(port))

    def __enter__(self) -> Self:
        logging.getLogger("aioproducer").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("aioproducer").removeHandler(self)


@scenario()
async def test_d13_all_brokers_are_killed_with_requests_in_flight(world: World) -> None:
    """Restarted leaders recognize only the newest batch of a producer; the state of the others is found at once."""
    producer = await stage(world, 1, linger_ms=0)
    await all_acked(await send(world, producer))
    appended = world.rng.randrange(6)
    if appended:
        world.kafka.faults.drop_answer(times=appended)
    world.kafka.faults.silence(times=None, skip=appended)
    deliveries = []
    for _ in range(5):
        deliveries += await send(world, producer)
        await asyncio.sleep(0.05)
    assert world.kafka.high_watermark(TOPIC) == 1 + appended
    for broker in world.kafka.brokers:
        await world.kafka.faults.stop_broker(broker.id)
    world.kafka.faults.heal()
    await asyncio.sleep(world.rng.uniform(0.1, 5.0))
    for broker in world.kafka.brokers:
        await world.kafka.faults.start_broker(broker.id)
    healed = world.now
    await all_acked(deliveries)
    assert world.now - healed < RECOVERY
    assert numbers(world) == sorted(numbers(world))
    assert world.kafka.high_watermark(TOPIC) == 6


@pytest.mark.parametrize("how", ["down", "unreachable"])
@scenario()
async def test_d13_all_brokers_are_gone_for_ten_minutes(world: World, how: str) -> None:
    """Old records end at their deadline, calls wait `max_block` for room, brokers are dialed rarely; then all works."""
    producer = await stage(
        world,
        delivery_timeout_ms=120_000,
        buffer_memory=10_000,
        batch_size=1_000,
        metadata_max_age_ms=300_000,
    )
    await all_acked(await send(world, producer, 9))
    for broker in world.kafka.brokers:
        if how == "down":
            await world.kafka.faults.stop_broker(broker.id)
        else:
            world.network.isolate(broker.port)
            world.network.reset(broker.port)
    lasts = 600.0 if world.seed < SEEDS_AT_FULL_LENGTH else 160.0
    gone, turns, deliveries, refused = world.now, world.loop.turns, [], 0
    with TimedLines(world) as lines:
        while world.now < gone + lasts:
            called = world.now
            deliveries.append(await world.ledger.send(producer, TOPIC, bytes(400)))
            if deliveries[-1] is None:
                refused += 1
                assert MB <= world.now - called <= MB + TICK
            await asyncio.sleep(0.5)
    assert refused > lasts / 20
    no_storm(world, gone, lasts)
    assert max(lines.counts.values()) <= 1
    assert world.loop.turns - turns < 100 * lasts
    for broker in world.kafka.brokers:
        await world.kafka.faults.start_broker(broker.id)
        world.network.release(broker.port)
    healed = world.now
    within = RECOVERY if how == "down" else RECOVERY + 3 * CT * 1.2
    fresh = await send(world, producer, 3, max_block=10.0)
    await all_acked(fresh)
    assert min(map(answered_at, fresh)) - healed <= within
    for delivery in known(deliveries):
        if await delivery.wait(None) is not Outcome.ACKED:
            error = delivery.exception()
            assert isinstance(error, DeliveryTimeoutError)
            assert error.outcome is Outcome.NOT_WRITTEN
            assert error.elapsed is not None
            # Counted from the first record of its batch, which may be open for a second.
            assert 120.0 - TICK <= error.elapsed <= 121.0 + TICK


@pytest.mark.parametrize("how", ["refused", "silent", "sent to another beginning", "useless answers"])
@scenario()
async def test_d13_a_program_starts_before_kafka_is_there(world: World, how: str) -> None:
    """No broker gives metadata since the start, for longer than brokers are asked before all begins anew; then all works."""
    world.kafka.create_topic(TOPIC, 3)
    gone = world.rng.uniform(301.0, 900.0)
    if how == "refused":
        for broker in world.kafka.brokers:
            await world.kafka.faults.stop_broker(broker.id)
    elif how == "silent":
        for broker in world.kafka.brokers:
            world.network.isolate(broker.port)
    elif how == "sent to another beginning":
        world.kafka.faults.error("REBOOTSTRAP_REQUIRED", api="Metadata", times=None)
    else:
        world.kafka.faults.error("UNKNOWN_SERVER_ERROR", api="Metadata", times=None)
    producer = world.producer()
    await producer.start()
    early = await world.ledger.send(producer, TOPIC)
    assert early is None, "the call waits for metadata at most max_block"
    await asyncio.sleep(gone)
    world.kafka.faults.heal()
    for broker in world.kafka.brokers:
        await world.kafka.faults.start_broker(broker.id)
        world.network.release(broker.port)
    healed = world.now
    fresh = await send(world, producer, 3, max_block=60.0)
    await all_acked(fresh)
    assert min(map(answered_at, fresh)) - healed <= 3 * CT * 1.2 + RECOVERY
    assert producer.health().ready, producer.health()


def no_storm(world: World, since: float, lasts: float) -> None:
    """At most this many attempts to each broker in the first ten seconds, and not more in any ten that follow."""
    windows = [
        [dials(world, broker.port, since + 10.0 * number) for number in range(int(lasts / 10))]
        for broker in world.kafka.brokers
    ]
    # A broker that has no record to get at first is dialed later than the others.
    first = max(each[0] for each in windows)
    for each in windows:
        assert 1 <= each[0] <= MOST_DIALS
        assert max(each[1:]) <= first


async def turn_out(
    world: World, producer: Producer[Any, Any], partitions: Iterable[int], seconds: float
) -> int:
    """The number of acknowledged records within this time, from tasks that wait for each record."""
    until, acked = world.now + seconds, 0

    async def one_task(partition: int) -> None:
        nonlocal acked
        while world.now < until:
            # Too large for the room that the crowd leaves.
            deliveries = await send(world, producer, partition=partition, filling=bytes(1_200))
            outcome = await deliveries[0].wait(None)
            acked += outcome is Outcome.ACKED

    async with asyncio.TaskGroup() as tasks:
        for partition in partitions:
            tasks.create_task(one_task(partition))
    return acked


@pytest.mark.parametrize("cut_off", ["both ways", "requests", "answers"])
@scenario()
async def test_d14_one_broker_is_cut_off(world: World, cut_off: str) -> None:
    """At most a tenth of the throughput is lost on the other brokers' partitions, with any number of records for this one."""
    conditions = world.network.conditions
    conditions.fastest, conditions.slowest = 0.02, 0.06
    producer = await stage(world, buffer_memory=60_000, batch_size=2_000, delivery_timeout_ms=8_000)
    await all_acked(await send(world, producer, 6))
    normal = await turn_out(world, producer, (1, 2, 1, 2), 3.0)
    port = port_of_leader(world)
    cut(world, port, cut_off)
    await send(world, producer, partition=0)
    # Before the producer can know of it, or after it was noticed.
    await asyncio.sleep(world.rng.choice((0.0, RT + 0.1)))
    crowding = asyncio.create_task(crowd(world, producer, 4.0))
    await asyncio.sleep(0.5)
    during = await turn_out(world, producer, (1, 2, 1, 2), 3.0)
    assert during >= 0.9 * normal > 100
    await crowding
    world.network.release(port)
    await recovers(world, producer, world.now, RECOVERY + RT)


def cut(world: World, port: int, cut_off: str) -> None:
    """One of the ways in which packets are lost."""
    if cut_off == "both ways":
        world.network.isolate(port)
    else:
        world.network.hold(port, to_broker=cut_off == "requests", to_client=cut_off == "answers")


async def crowd(world: World, producer: Producer[Any, Any], seconds: float) -> None:
    """Many more records for the broker that is cut off than memory has room for."""
    until = world.now + seconds
    while world.now < until:
        sends = [
            world.ledger.send(producer, TOPIC, bytes(1_000), partition=0, max_block=1.0) for _ in range(60)
        ]
        await asyncio.gather(*sends)


# -- D16: a leader that knows less


SUSPICION: Final = re.compile(r"(?i)los[st]")


@pytest.mark.parametrize("left", [0, 4])
@scenario()
async def test_d16_acknowledged_records_are_lost_by_an_unclean_election(world: World, left: int) -> None:
    """The loss is logged as suspected and counted; sequences are corrected, and later records are there, in order."""
    world.rules = Rules(loss=True)
    producer = await stage(world, linger_ms=0)
    for _ in range(10):
        await all_acked(await send(world, producer, partition=0))
    nothing_is_suspected(world)
    world.kafka.faults.truncate(TOPIC, 0, left)
    world.kafka.faults.move_leader(TOPIC, 0, leader(world) % 3 + 1)
    cut_at = world.now
    later = [*await send(world, producer, 5, partition=0), *await stream(world, producer, 1.0, partition=0)]
    await all_acked(later)
    assert min(map(answered_at, known(later))) - cut_at < RECOVERY
    kept = [*range(left), *range(10, 10 + len(later))]
    assert numbers(world, 0) == kept
    assert producer.stats().suspected_data_losses == 1
    (line,) = [line for line in world.warnings() if SUSPICION.search(line)]
    assert f"{TOPIC}-0" in line


@scenario()
async def test_d16_a_log_is_truncated_again_and_again_under_a_stream(world: World) -> None:
    """No task fails, no record is doubled or out of order, and the number of warnings stays small."""
    world.rules = Rules(loss=True)
    producer = await stage(world, linger_ms=0)
    streaming = asyncio.create_task(stream(world, producer, 5.0, every=0.02))
    with TimedLines(world) as lines:
        for _ in range(15):
            await asyncio.sleep(world.rng.uniform(0, 0.6))
            partition = world.rng.randrange(3)
            end = world.kafka.high_watermark(TOPIC, partition)
            world.kafka.faults.truncate(TOPIC, partition, max(0, end - world.rng.randrange(1, 30)))
            if world.rng.random() < 0.5:
                world.kafka.faults.move_leader(TOPIC, partition, world.rng.choice([1, 2, 3]))
        deliveries = await streaming
        await all_acked(deliveries)
    assert producer.stats().suspected_data_losses >= 1
    assert max(lines.counts.values(), default=0) <= 3
    before = len(world.ledger.entries)
    await recovers(world, producer, world.now)
    assert set(range(before, before + 3)) <= set(numbers(world))


@scenario()
async def test_d16_retention_is_not_taken_for_a_loss(world: World) -> None:
    """By its settings a topic may move the log's start beyond acknowledged records."""
    producer = await stage(world, linger_ms=0)
    world.rules = Rules(loss=True, whole_log=False)
    for _ in range(5):
        await all_acked(await send(world, producer, partition=0))
    world.kafka.faults.delete_records(TOPIC, 0, world.rng.randrange(1, 6))
    await recovers(world, producer, world.now)
    nothing_is_suspected(world)
