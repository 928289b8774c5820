"""Leaders move, brokers come and go, topics appear: every record reaches its leader, in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioproducer import MetadataTimeoutError, Outcome
from aioproducer.testing import EmbeddedKafka
from tests.net.support import (
    LIMIT,
    Make,
    all_acked,
    engine,
    in_flight,
    numbers,
    outcomes,
    permits_are_all_back,
    send_all,
    until,
    warm,
)


def other(kafka: EmbeddedKafka, topic: str = "one") -> int:
    """The broker that does not lead the topic's first partition."""
    return 3 - kafka.leader_of(topic)


def metadata_requests(kafka: EmbeddedKafka) -> int:
    return sum(request.api == "Metadata" for request in kafka.requests)


@pytest.mark.parametrize("known", [False, True], ids=["first batch", "later batch"])
async def test_leader_moves_with_requests_in_flight(known: bool, make: Make, pair: EmbeddedKafka) -> None:
    """Requests at the old leader are refused and sent to the new one, before unsent ones."""
    producer = await warm(make(pair, batch_size=1), "one")
    if known:
        await producer.send_and_wait("one", b"0")
    hold = pair.faults.delay(before=True, times=None)
    deliveries = await send_all(producer, range(int(known), 20))
    await hold.reached()
    pair.faults.move_leader("one", 0, other(pair))
    hold.heal()
    assert await all_acked(deliveries)
    assert numbers(pair) == list(range(20))
    await until(lambda: permits_are_all_back(producer))


async def test_new_batches_do_not_pass_those_at_the_old_leader(make: Make, pair: EmbeddedKafka) -> None:
    """While the old leader does not answer its requests, no newer record overtakes them at the new one."""
    producer = await warm(make(pair, batch_size=1), "one")
    old = pair.leader_of("one")
    hold = pair.faults.delay(before=True, times=None, broker=old)
    first = await send_all(producer, range(5))
    await hold.reached()
    pair.faults.move_leader("one", 0, other(pair))
    engine(producer).cluster.stale("one")
    await until(lambda: engine(producer).accumulator.cluster.topics["one"].leaders[0] != old)
    second = await send_all(producer, range(5, 10))
    pair.faults.drop_connections(old)
    assert await all_acked([*first, *second])
    assert numbers(pair) == list(range(10))


async def test_all_hints_of_an_answer_are_one_change(
    make: Make, pair: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a topic costs as much as the topic has partitions: one for each partition held the loop for half a second."""
    pair.create_topic("wide", 40)
    producer = await warm(
        make(pair, linger_ms=5, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000), "wide"
    )
    await producer.send_batch("wide", [b"%d" % index for index in range(40)], partition=list(range(40)))
    await producer.flush()
    mine = [index for index in range(40) if pair.leader_of("wide", index) == 1]
    for index in mine:
        pair.faults.move_leader("wide", index, 2)
    cluster = engine(producer).accumulator.cluster
    learn, learned = cluster.learn, []

    def counted(name: str, *arguments: Any) -> Any:
        learned.append(name)
        return learn(name, *arguments)

    monkeypatch.setattr(cluster, "learn", counted)
    delivery = await (await producer.send_batch("wide", [b"v"] * len(mine), partition=mine))
    assert delivery.acked == len(mine) > 10
    assert learned.count("wide") < 5


async def test_hint_of_the_old_leader_is_followed_at_once(make: Make, pair: EmbeddedKafka) -> None:
    """NOT_LEADER with the new leader in it is acted upon without metadata and without the retry backoff (KIP-951)."""
    producer = await warm(make(pair, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000), "one")
    await producer.send_and_wait("one", b"0")
    held = pair.faults.delay(api="Metadata", times=None)
    pair.faults.move_leader("one", 0, other(pair))
    async with asyncio.timeout(LIMIT):
        await producer.send_and_wait("one", b"1")
    held.heal()
    assert numbers(pair) == [0, 1]


async def test_without_hints_metadata_names_the_leader(make: Make, pair: EmbeddedKafka) -> None:
    """A broker too old for hints answers NOT_LEADER only: metadata is requested, and the record sent to the new leader."""
    pair.limit_version("Produce", 3, 9)
    producer = await warm(make(pair), "one")
    await producer.send_and_wait("one", b"0")
    before = metadata_requests(pair)
    pair.faults.move_leader("one", 0, other(pair))
    await producer.send_and_wait("one", b"1")
    assert metadata_requests(pair) > before
    assert numbers(pair) == [0, 1]


async def test_leader_moves_to_and_fro(make: Make, pair: EmbeddedKafka) -> None:
    """A leader that moves after every few records loses none and changes no order."""
    producer = await warm(make(pair, batch_size=1), "one")
    deliveries = []
    for turn in range(20):
        deliveries += await send_all(producer, range(turn * 5, turn * 5 + 5))
        pair.faults.move_leader("one", 0, other(pair))
        await deliveries[-3].wait(LIMIT)
    assert await all_acked(deliveries)
    assert numbers(pair) == list(range(100))


async def test_leaderless_partition(make: Make, pair: EmbeddedKafka) -> None:
    """Records for a partition without a leader wait until it has one; others are written meanwhile."""
    pair.faults.move_leader("two", 0, -1)
    producer = await warm(make(pair), "two")
    waiting = await send_all(producer, range(3), "two", partition=0)
    assert await all_acked(await send_all(producer, range(3), "two", partition=1))
    assert [delivery.outcome for delivery in waiting] == [Outcome.PENDING] * 3
    pair.faults.move_leader("two", 0, 2)
    assert await all_acked(waiting)
    assert numbers(pair, "two", 0) == [0, 1, 2]


async def test_topic_that_is_created_later(make: Make, nothing_left: None) -> None:
    """A send to a topic that does not exist waits for it, and is written there after its creation."""
    async with EmbeddedKafka(auto_create_topics=False) as kafka:
        producer = await warm(make(kafka))
        task = asyncio.ensure_future(producer.send_and_wait("late", b"0"))
        await until(lambda: sum(r.topics == (("late", None),) for r in kafka.requests) >= 2)
        kafka.create_topic("late")
        assert (await task).offset == 0
        await producer.close()


async def test_topic_that_never_comes(make: Make, nothing_left: None) -> None:
    """A send to an unknown topic gives up after `max_block`, asks with a growing pause, and others are written."""
    async with EmbeddedKafka(auto_create_topics=False) as kafka:
        kafka.create_topic("one")
        producer = await warm(make(kafka, retry_backoff_ms=20, retry_backoff_max_ms=100), "one")
        before = metadata_requests(kafka)
        task = asyncio.ensure_future(producer.send("never", b"0", max_block=1.0))
        await producer.send_and_wait("one", b"0")
        with pytest.raises(MetadataTimeoutError, match="never"):
            await task
        # 20 + 40 + 80 + 100 ms and so on: 12 in a second, 20 % shorter at most; 50 without a growing pause.
        assert 3 <= metadata_requests(kafka) - before <= 17
        await producer.close()


async def test_broker_restarts_on_another_port(make: Make, pair: EmbeddedKafka) -> None:
    """The broker is found again by its id, at its new address."""
    producer = await warm(make(pair), "two")
    await producer.send_and_wait("two", b"0", partition=0)
    leader = pair.leader_of("two", 0)
    await pair.faults.stop_broker(leader)
    delivery = await producer.send("two", b"1", partition=0)
    await pair.faults.start_broker(leader, port=0)
    assert (await delivery).offset == 1
    assert await all_acked(await send_all(producer, [2], "two", partition=0))


async def test_metadata_from_any_broker(make: Make, pair: EmbeddedKafka) -> None:
    """A broker without knowledge of a topic does not hide it: other brokers are asked."""
    pair.faults.hide_topic("one", broker=1)
    producer = await warm(make(pair))
    await producer.send_and_wait("one", b"0", max_block=5)
    pair.faults.show_topic("one", broker=1)
    pair.faults.hide_topic("two", broker=2)
    await producer.send_and_wait("two", b"0", max_block=5)


async def test_partitions_added_while_sending(make: Make, kafka: EmbeddedKafka) -> None:
    """A send to an added partition works as soon as a call asks for it."""
    producer = await warm(make(kafka), "one")
    task = asyncio.ensure_future(producer.send_and_wait("one", b"0", partition=1))
    await until(lambda: engine(producer).admission.calls.waiting == 1)
    kafka.add_partitions("one", 2)
    assert (await task).partition == 1


async def test_topic_gone_for_good(make: Make, kafka: EmbeddedKafka) -> None:
    """Records for a deleted topic end as NOT_WRITTEN at their deadline; other topics are not affected."""
    producer = await warm(
        make(kafka, delivery_timeout_ms=300, request_timeout_ms=200, batch_size=1), "one", "four"
    )
    await producer.send_and_wait("one", b"0")
    kafka.faults.hide_topic("one")
    fault = kafka.faults.error("UNKNOWN_TOPIC_OR_PARTITION", topic="one", times=None)
    lost = await send_all(producer, range(1, 4))
    assert await all_acked(await send_all(producer, range(4), "four"))
    assert set(await outcomes(lost)) == {Outcome.NOT_WRITTEN}
    assert fault.hits > 1
    assert engine(producer).accumulator.budget.used == 0


async def test_recreated_topic(make: Make, kafka: EmbeddedKafka) -> None:
    """A topic that is deleted and created again, with fewer partitions, takes records again."""
    producer = await warm(make(kafka), "four")
    await send_all(producer, range(8), "four")
    await producer.flush()
    kafka.delete_topic("four")
    kafka.create_topic("four", 2)
    assert await all_acked(await send_all(producer, range(8), "four", partition=1))
    assert numbers(kafka, "four", 1) == list(range(8))
    # By key and round robin too: no record goes to a removed partition.
    assert await all_acked([await producer.send("four", bytes(9), key=b"%d" % n) for n in range(20)])
    assert await all_acked([await producer.send("four", bytes(100_000)) for _ in range(20)])


async def test_rebootstrap_on_request(make: Make, pair: EmbeddedKafka) -> None:
    """REBOOTSTRAP_REQUIRED closes all connections and begins again from the bootstrap addresses (KIP-1102)."""
    producer = await warm(make(pair), "two")
    await send_all(producer, range(2), "two", partition=0)
    await producer.flush()
    connects = engine(producer).senders[pair.leader_of("two", 0)].history.traffic.connects
    fault = pair.faults.alter(lambda answer: answer._replace(error_code=129), api="Metadata")
    engine(producer).cluster.stale(None)
    await fault.reached()
    assert await all_acked(await send_all(producer, range(2, 6), "two", partition=0))
    # Those in flight have their answers over the former connection.
    traffic = engine(producer).senders[pair.leader_of("two", 0)].history.traffic
    while traffic.connects == connects:
        assert await all_acked(await send_all(producer, range(6, 8), "two", partition=0))
    assert traffic.connects == connects + 1
    assert producer.stats().records_retried == 0


async def test_no_rebootstrap_while_brokers_answer(make: Make, pair: EmbeddedKafka) -> None:
    """Brokers that are given up at once when they do not answer keep their connections while they answer."""
    producer = await warm(make(pair, metadata_recovery_rebootstrap_trigger_ms=0), "two")
    for number in range(3):
        await producer.send_and_wait("two", b"%d" % number, partition=0)
        pair.forget_requests()
        engine(producer).cluster.stale(None)
        await until(lambda: metadata_requests(pair))
    assert producer.stats().connections[0].connects == 1


async def test_rebootstrap_when_all_known_brokers_are_gone(make: Make, nothing_left: None) -> None:
    """All brokers at other ports: the bootstrap addresses lead to the new ones (KIP-899)."""
    async with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("one")
        producer = await warm(make(kafka.brokers[0].address), "one")
        await producer.send_and_wait("one", b"0")
        await kafka.faults.stop_broker(2)
        await kafka.faults.start_broker(2, port=0)
        await kafka.faults.stop_broker(1)
        delivery = await producer.send("one", b"1")
        await kafka.faults.start_broker(1)
        assert await all_acked([delivery])
        await producer.close()


async def test_in_flight_is_never_more_than_allowed(make: Make, kafka: EmbeddedKafka) -> None:
    """At most `max_in_flight_requests_per_connection` requests are in flight to a broker."""
    producer = await warm(make(kafka, batch_size=1, max_in_flight_requests_per_connection=3), "one", "four")
    for partition in range(4):
        await producer.send_and_wait("four", b"0", partition=partition)
    hold = kafka.faults.delay(before=True, times=None)
    deliveries: list[Any] = []
    for partition in range(4):
        deliveries += await send_all(producer, range(5), "four", partition=partition)
    await until(lambda: in_flight(producer) == 3)
    for _ in range(20):
        await asyncio.sleep(0)
        assert in_flight(producer) == 3
    hold.heal()
    assert await all_acked(deliveries)


async def test_dead_brokers_records_do_not_hold_up_others(make: Make, pair: EmbeddedKafka) -> None:
    """With one of two brokers dead, the other's records are written though the dead one's wait, also for memory."""
    producer = await warm(make(pair, buffer_memory=4_000, batch_size=100, max_block_ms=5_000), "two")
    dead = pair.leader_of("two", 0)
    await pair.faults.stop_broker(dead)
    probe = await producer.send("two", b"0", partition=0)
    await until(lambda: dead in engine(producer).accumulator.cluster.dead)
    waiting = [asyncio.ensure_future(producer.send("two", b"%0100d" % n, partition=0)) for n in range(50)]
    for turn in range(10):
        assert await all_acked(await send_all(producer, range(turn, turn + 20), "two", partition=1))
    assert engine(producer).accumulator.budget.peak <= 4_000
    assert probe.outcome is Outcome.PENDING
    await pair.faults.start_broker(dead)
    assert await all_acked([probe, *await asyncio.gather(*waiting)])
    assert numbers(pair, "two", 0) == [0, *range(50)]


async def test_two_callers_share_the_connection_to_a_broker(make: Make, pair: EmbeddedKafka) -> None:
    """The sender, and a call that connects early: the second uses the connection of the first."""
    producer = await warm(make(pair), "one")
    await producer.send_and_wait("one", b"0", partition=0)
    sender = engine(producer).senders[pair.leader_of("one")]
    sender.close()
    connects = sender.history.traffic.connects
    await asyncio.gather(sender.connect(), sender.connect())
    assert sender.history.traffic.connects == connects + 1
    assert len(engine(producer).addresses.connected()) <= 2
