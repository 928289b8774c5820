"""Certainty after UNKNOWN: each verdict of `resolve_unknown()` is compared with the log, at the end of the scenario."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aioproducer import (
    ConfigurationError,
    Delivery,
    DeliveryError,
    FlushReport,
    KafkaError,
    Outcome,
    Producer,
    StateError,
)
from aioproducer._net.resolving import (
    reading,
    resolver,
)  # loaded by a thread otherwise, and time stands still here
from aioproducer._net.resolving.reading import MAY_NOT_READ
from aioproducer._state.resolving.known import SPLIT
from aioproducer._state.resolving.search import NOTHING_LATER, OTHER_TOPIC, UNREAD
from aioproducer.records import Resolution
from tests.judge.judge import Rules
from tests.scenarios.support import TOPIC, all_acked, leader, outcomes, port_of_leader, scenario, send, stage
from tests.simulation.world import World

LIMIT = 5.0
DT = 20.0


async def unknown(world: World, *, appended: bool, count: int = 1) -> list[Delivery]:
    """Records whose answers never came; they reached the broker (`appended`), or hang in the network before it."""
    producer = await stage(world, linger_ms=5)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world), to_broker=not appended, to_client=appended)
    deliveries = await send(world, producer, count, partition=0)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: count}
    return deliveries


async def found_at_the_beginning(world: World, producer: Producer[Any, Any]) -> None:
    """Send a record whose answers are dropped, and find it at offset 0."""
    lost = world.kafka.faults.drop_answer(api="Produce", times=None)
    deliveries = await send(world, producer, partition=0)
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 1}
    lost.heal()
    assert await deliveries[0].resolve_unknown(LIMIT) == Resolution(Outcome.ACKED, 0)


@scenario()
async def test_the_record_is_in_the_log(world: World) -> None:
    """The answers were lost: each record of the batch is found at its offset, and the deliveries keep their outcome."""
    deliveries = await unknown(world, appended=True, count=3)
    world.network.release(port_of_leader(world))
    told = await asyncio.gather(*(delivery.resolve_unknown(LIMIT) for delivery in deliveries))
    assert told == [Resolution(Outcome.ACKED, 1 + index) for index in range(3)]
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 3}


@scenario()
async def test_a_later_record_proves_that_it_never_will_be(world: World) -> None:
    """The request was lost; the next record of the partition has a later epoch, behind which no leader takes it."""
    (delivery,) = await unknown(world, appended=False)
    world.network.reset(port_of_leader(world))
    world.network.release(port_of_leader(world))
    assert await delivery.resolve_unknown(LIMIT) == Resolution(Outcome.UNKNOWN, reason=NOTHING_LATER)
    waiting = asyncio.ensure_future(delivery.resolve_unknown(LIMIT))
    await all_acked(await send(world, world.producers[0], partition=0))
    assert await waiting == Resolution(Outcome.NOT_WRITTEN)
    assert world.kafka.high_watermark(TOPIC, 0) == 2


@scenario()
async def test_the_leader_is_gone(world: World) -> None:
    """It stays UNKNOWN within its time, and the reason names the broker; when it is back, it is resolved."""
    (delivery,) = await unknown(world, appended=True)
    world.network.isolate(port_of_leader(world))
    world.network.reset(port_of_leader(world))
    began = world.now
    told = await delivery.resolve_unknown(LIMIT)
    assert told.outcome is Outcome.UNKNOWN
    assert told.reason
    assert LIMIT - 0.01 <= world.now - began <= LIMIT + 0.1
    waiting = asyncio.ensure_future(delivery.resolve_unknown(DT))
    await asyncio.sleep(1)
    world.network.release(port_of_leader(world))
    assert await waiting == Resolution(Outcome.ACKED, 1)


@scenario()
async def test_another_broker_leads(world: World) -> None:
    """The log is read where it is now."""
    (delivery,) = await unknown(world, appended=True)
    world.kafka.faults.move_leader(TOPIC, 0, leader(world) % 3 + 1)
    assert await delivery.resolve_unknown(DT) == Resolution(Outcome.ACKED, 1)


@scenario()
async def test_another_topic_of_this_name(world: World) -> None:
    """A topic that was made again says nothing about the record."""
    (delivery,) = await unknown(world, appended=True)
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 3)
    world.rules = Rules(loss=True)
    for broker in world.kafka.brokers:
        world.network.release(broker.port)
    told = await delivery.resolve_unknown(LIMIT)
    assert told == Resolution(Outcome.UNKNOWN, reason=OTHER_TOPIC)


@scenario(runs=4)
async def test_another_topic_between_two_attempts(world: World) -> None:
    """The first attempt named the topic, and reached the former one; the last one has the id of the present one."""
    world.kafka.limit_version("Produce", 3, 12)
    producer = await stage(world, linger_ms=0)
    dropped = world.kafka.faults.drop_answer(api="Produce", times=None)
    (delivery,) = await send(world, producer, partition=0)
    await asyncio.sleep(0.5)
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 3)
    world.rules = Rules(loss=True)
    world.kafka.limit_version("Produce", 3, 13)
    dropped.heal()
    lost = world.kafka.faults.cut(before=True, api="Produce", times=None)
    for broker in world.kafka.brokers:
        world.network.reset(broker.port)
    assert await delivery.wait(None) is Outcome.UNKNOWN
    lost.heal()
    await all_acked(await send(world, producer, partition=0))
    told = await delivery.resolve_unknown(LIMIT)
    assert told == Resolution(Outcome.UNKNOWN, reason=OTHER_TOPIC)


@scenario()
async def test_another_topic_before_the_record(world: World) -> None:
    """The place of a record in the former topic says nothing about the present one, which is read from its beginning."""
    producer = await stage(world, linger_ms=0)
    await all_acked(await send(world, producer, 3, partition=0))
    world.kafka.delete_topic(TOPIC)
    world.kafka.create_topic(TOPIC, 3)
    world.rules = Rules(loss=True)
    await all_acked(await send(world, producer, partition=1))
    await found_at_the_beginning(world, producer)


@scenario(runs=4)
async def test_an_unclean_election_while_the_log_is_read(world: World) -> None:
    """Records that were read are replaced, among them the one before the record: the log is read again."""
    producer = await stage(world, linger_ms=0, client_id="slow", request_timeout_ms=15_000)
    world.rules = Rules(loss=True)
    await all_acked(await send(world, producer, partition=0))
    other = world.producer(linger_ms=0)
    await other.start(wait_ready=5)
    slow = world.kafka.faults.delay(before=True, api="Produce", client_id="slow", times=None)
    (delivery,) = await send(world, producer, partition=0, timeout=1.0)
    assert await delivery.wait(None) is Outcome.UNKNOWN
    for _ in range(4):
        await all_acked(await send(world, other, partition=0))
    waiting = asyncio.ensure_future(delivery.resolve_unknown(DT))
    await asyncio.sleep(1)
    world.kafka.faults.truncate(TOPIC, 0, 1)
    slow.heal()
    await asyncio.sleep(0.1)
    for _ in range(4):
        await all_acked(await send(world, other, partition=0))
    await all_acked(await send(world, producer, partition=0))
    assert await waiting == Resolution(Outcome.ACKED, 1)


@scenario(runs=4)
async def test_an_unclean_election_lost_the_place(world: World) -> None:
    """The log ends before the record that was acknowledged last: the record is found by its numbers nevertheless."""
    producer = await stage(world, linger_ms=0, request_timeout_ms=15_000)
    world.rules = Rules(loss=True)
    await all_acked(await send(world, producer, 5, partition=0))
    slow = world.kafka.faults.delay(before=True, api="Produce", times=None)
    (delivery,) = await send(world, producer, partition=0, timeout=1.0)
    world.kafka.faults.truncate(TOPIC, 0, 0)
    assert await delivery.wait(None) is Outcome.UNKNOWN
    slow.heal()
    await asyncio.sleep(0.1)
    assert await delivery.resolve_unknown(LIMIT) == Resolution(Outcome.ACKED, 0)


@scenario()
async def test_nothing_was_acknowledged_before(world: World) -> None:
    """A short log is read from its first record on."""
    producer = await stage(world, linger_ms=0)
    await found_at_the_beginning(world, producer)


@scenario(runs=2)
async def test_without_numbers(world: World) -> None:
    """A producer without idempotence gets an error that says so; other outcomes are returned as they are."""
    producer = await stage(world, linger_ms=0, enable_idempotence=False)
    (acked,) = await send(world, producer, partition=0)
    assert await acked.resolve_unknown() == Resolution(Outcome.ACKED, 0)
    world.network.hold(port_of_leader(world), to_broker=False)
    (delivery,) = await send(world, producer, partition=0)
    assert await delivery.wait(None) is Outcome.UNKNOWN
    with pytest.raises(ConfigurationError, match="enable_idempotence") as caught:
        await delivery.resolve_unknown(LIMIT)
    assert caught.value.outcome is Outcome.UNKNOWN
    world.rules = Rules(duplicates=True)


@scenario(runs=2)
async def test_the_principal_may_not_read(world: World) -> None:
    """No later attempt helps: the reason comes at once."""
    (delivery,) = await unknown(world, appended=True)
    world.network.release(port_of_leader(world))
    world.kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch")
    began = world.now
    assert await delivery.resolve_unknown() == Resolution(Outcome.UNKNOWN, reason=MAY_NOT_READ)
    assert world.now - began < 1


@scenario(runs=2)
async def test_the_producer_closes_meanwhile(world: World) -> None:
    """The call ends with the producer, and says so; later ones too."""
    (delivery,) = await unknown(world, appended=True)
    world.network.isolate(port_of_leader(world))
    waiting = asyncio.ensure_future(delivery.resolve_unknown(1_000))
    await asyncio.sleep(1)
    await world.producers[0].close()
    for told in (await waiting, await delivery.resolve_unknown()):
        assert told == Resolution(Outcome.UNKNOWN, reason=resolver.CLOSED)


@scenario(runs=2)
async def test_a_search_that_fails_unexpectedly(world: World) -> None:
    """A defect of the search costs the verdict, which has the error as its reason. The producer goes on."""

    def broken(_records: object) -> Any:
        raise ZeroDivisionError("a defect")

    (delivery,) = await unknown(world, appended=True)
    world.network.release(port_of_leader(world))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "heads_of", broken)
        told = await delivery.resolve_unknown(LIMIT)
    assert told == Resolution(Outcome.UNKNOWN, reason=f"{resolver.FAILED}: ZeroDivisionError: a defect")
    assert (await delivery.resolve_unknown(LIMIT)).outcome is Outcome.ACKED
    await all_acked(await send(world, world.producers[0], partition=0))


@scenario(runs=2)
async def test_from_another_loop(world: World) -> None:
    """The call belongs to the loop of the producer."""
    (delivery,) = await unknown(world, appended=True)
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(lambda: asyncio.run(delivery.resolve_unknown(0)))
        with pytest.raises(StateError, match="run_coroutine_threadsafe"):
            asked.result()


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("appended", [False, True], ids=["lost", "appended"])
@scenario(runs=4)
async def test_in_a_transaction(world: World, level: int, appended: bool) -> None:
    """The log decides, whatever became of the transaction: the next one proves that a record is absent."""
    world.kafka.set_transaction_version(level)
    world.rules = Rules(loss=True)
    world.forgotten.add(TOPIC)
    producer = await stage(world, linger_ms=0, transactional_id="tx", delivery_timeout_ms=4_000)
    async with producer.transaction():
        await all_acked(await send(world, producer, partition=0))
    delivery = None
    with pytest.raises(KafkaError):
        async with producer.transaction():
            await all_acked(await send(world, producer, partition=0))
            world.network.hold(port_of_leader(world), to_broker=not appended, to_client=appended)
            (delivery,) = await send(world, producer, partition=0)
            await delivery.wait(None)
            world.network.reset(port_of_leader(world))
            world.network.release(port_of_leader(world))
    assert delivery is not None
    if delivery.outcome is Outcome.UNKNOWN:
        async with producer.transaction():
            await all_acked(await send(world, producer, partition=0))
        told = await delivery.resolve_unknown(LIMIT)
        assert told.outcome is (Outcome.ACKED if appended else Outcome.NOT_WRITTEN), told


@scenario(runs=4)
async def test_a_record_that_ended_before_its_batch(world: World) -> None:
    """It has the fate of the others, also where the batch is numbered anew while the log is read."""
    producer = await stage(world, linger_ms=20, retry_backoff_max_ms=200)
    await all_acked(await send(world, producer, partition=0))
    refusing = world.kafka.faults.error("NOT_ENOUGH_REPLICAS", api="Produce", times=None)
    (early,) = await send(world, producer, partition=0, timeout=1.0)
    others = await send(world, producer, 2, partition=0)
    assert await early.wait(None) is Outcome.UNKNOWN
    waiting = asyncio.ensure_future(early.resolve_unknown(DT))
    await asyncio.sleep(1)
    refusing.heal()
    world.kafka.faults.error("OUT_OF_ORDER_SEQUENCE_NUMBER", api="Produce")
    assert await waiting == Resolution(Outcome.ACKED, 1)
    await all_acked(others)
    assert await early.resolve_unknown(0) == Resolution(Outcome.ACKED, 1)


@scenario(runs=4)
async def test_a_batch_that_is_refused_in_the_end(world: World) -> None:
    """A record that had ended before it was not written either; no log is read for that."""
    producer = await stage(world, linger_ms=20)
    refusing = world.kafka.faults.error("NOT_ENOUGH_REPLICAS", api="Produce", times=None)
    (early,) = await send(world, producer, partition=0, timeout=1.0)
    others = await send(world, producer, 2, partition=0)
    assert await early.wait(None) is Outcome.UNKNOWN
    waiting = asyncio.ensure_future(early.resolve_unknown(DT))
    await asyncio.sleep(1)
    refusing.heal()
    world.kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce")
    assert await waiting == Resolution(Outcome.NOT_WRITTEN)
    assert await outcomes(others) == {Outcome.NOT_WRITTEN: 2}


@scenario(runs=4)
async def test_a_batch_that_is_split_meanwhile(world: World) -> None:
    """Its parts may get other numbers: the record stays UNKNOWN, and says why."""
    producer = await stage(world, linger_ms=20)
    await all_acked(await send(world, producer, partition=0))
    world.kafka.faults.error("MESSAGE_TOO_LARGE", api="Produce")
    world.network.hold(port_of_leader(world), to_broker=False, to_client=True)
    (early,) = await send(world, producer, partition=0, timeout=1.0)
    others = await send(world, producer, 2, partition=0)
    assert await early.wait(None) is Outcome.UNKNOWN
    world.network.release(port_of_leader(world))
    await all_acked(others)
    assert await early.resolve_unknown(LIMIT) == Resolution(Outcome.UNKNOWN, reason=SPLIT)


@scenario(runs=2)
async def test_answers_without_a_batch(world: World) -> None:
    """A leader that has less than it says is asked again after a pause."""
    (delivery,) = await unknown(world, appended=True)
    world.network.release(port_of_leader(world))

    def empty(answer: Any) -> Any:
        (topic,) = answer.responses
        (partition,) = topic.partitions
        partition = partition._replace(records=b"", high_watermark=9)
        return answer._replace(responses=[topic._replace(partitions=[partition])])

    world.kafka.faults.alter(empty, api="Fetch", times=None)
    assert await delivery.resolve_unknown(LIMIT) == Resolution(Outcome.UNKNOWN, reason=UNREAD)
    assert sum(request.api == "Fetch" for request in world.kafka.requests) < 20


# -- the records of a flush


@scenario()
async def test_a_flush_resolves_its_records(world: World) -> None:
    """Found ones count as acknowledged, lost ones as not written; the deliveries keep their outcome."""
    producer = await stage(world, linger_ms=5)
    for partition in (0, 1):
        await all_acked(await send(world, producer, partition=partition))
    world.network.hold(port_of_leader(world, 0), to_broker=False, to_client=True)
    world.network.hold(port_of_leader(world, 1), to_broker=True, to_client=False)
    deliveries = [
        *await send(world, producer, 3, partition=0),
        *await send(world, producer, 2, partition=1),
    ]
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 5}
    for partition in (0, 1):
        world.network.reset(port_of_leader(world, partition))
        world.network.release(port_of_leader(world, partition))
    await all_acked(await send(world, producer, partition=1))
    report = await producer.flush(LIMIT, resolve=True)
    assert (report.acked, report.not_written, report.unknown) == (6, 2, 0)
    assert (report.resolved_acked, report.resolved_not_written, report.unknown_reasons) == (3, 2, {})
    assert [error.outcome for error in report.first_errors] == [Outcome.NOT_WRITTEN]
    with pytest.raises(DeliveryError, match="2 of 8") as caught:
        report.raise_for_errors()
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert await producer.flush(resolve=True) == FlushReport()
    assert await outcomes(deliveries) == {Outcome.UNKNOWN: 5}


@scenario()
async def test_a_flush_ends_in_time(world: World) -> None:
    """Outcomes that are not certain by then stay UNKNOWN, with the reasons; the records of a scope are looked for by its flush."""
    producer = await stage(world, linger_ms=5, delivery_timeout_ms=2_000, request_timeout_ms=1_500)
    await all_acked(await send(world, producer, partition=0))
    world.network.hold(port_of_leader(world), to_broker=False, to_client=True)
    async with producer.scope() as scope:
        await send(world, producer, 3, partition=0)
        began = world.now
        report = await scope.flush(LIMIT, resolve=True)
        assert LIMIT - 0.01 <= world.now - began <= LIMIT + 0.1
        assert (report.acked, report.unknown, sum(report.unknown_reasons.values())) == (0, 3, 3)
        assert [error.outcome for error in report.first_errors] == [Outcome.UNKNOWN]
        world.network.release(port_of_leader(world))
        await send(world, producer, partition=0)
        assert await scope.flush(LIMIT, resolve=True) == FlushReport(acked=1)
    # The report of another owner, who asks now.
    report = await producer.flush(LIMIT, resolve=True)
    assert (report.acked, report.unknown, report.resolved_acked) == (5, 0, 3)
    report.raise_for_errors()


@scenario(runs=2)
async def test_a_flush_without_numbers(world: World) -> None:
    """It is refused at once."""
    producer = await stage(world, linger_ms=1_000, enable_idempotence=False)
    (delivery,) = await send(world, producer, partition=0)
    with pytest.raises(ConfigurationError, match="enable_idempotence"):
        await producer.flush(resolve=True)
    assert delivery.outcome is Outcome.PENDING


@scenario(runs=2)
async def test_the_producer_closes_while_a_flush_resolves(world: World) -> None:
    """The flush ends with its report; nothing of it is lost."""
    (delivery,) = await unknown(world, appended=True)
    world.network.isolate(port_of_leader(world))
    waiting = asyncio.ensure_future(world.producers[0].flush(1_000, resolve=True))
    await asyncio.sleep(1)
    await world.producers[0].close()
    report = await waiting
    assert (report.unknown, report.unknown_reasons) == (1, {resolver.CLOSED: 1})
    assert delivery.outcome is Outcome.UNKNOWN


@scenario(runs=2)
async def test_a_cancelled_flush_takes_no_report(world: World) -> None:
    """Its searches end, and the next flush has the records."""
    await unknown(world, appended=True)
    producer = world.producers[0]
    world.network.isolate(port_of_leader(world))
    waiting = asyncio.ensure_future(producer.flush(1_000, resolve=True))
    await asyncio.sleep(3)
    waiting.cancel()
    await asyncio.wait([waiting])
    await asyncio.sleep(0.1)
    assert not [task for task in asyncio.all_tasks() if "resolving" in task.get_name()]
    world.network.release(port_of_leader(world))
    report = await producer.flush(DT, resolve=True)
    assert (report.acked, report.resolved_acked, report.unknown) == (2, 1, 0)
