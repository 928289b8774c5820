"""C01-C16: codes of a broker for a batch, with 1, 2 and 5 batches in flight, at their head and behind it.

Every scenario is judged. Where a real broker may have appended before it gives the code, both cases run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import pytest

from aioproducer import AuthorizationError, BrokerError, Delivery, Outcome, Producer, RecordTooLargeError
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer._wire.error_codes import ERRORS
from aioproducer.testing.broker.history import SeenBatch
from aioproducer.testing.broker.logs.batches import BatchHeader, read_header
from aioproducer.testing.broker.logs.producer_state import SEQUENCE_LIMIT, ProducerEntry
from aioproducer.testing.broker.rules import Fault
from tests.scenarios.support import TOPIC, all_acked, leader, outcomes, produced, scenario, send, stage
from tests.simulation.world import World

DT = 20.0
BATCH_OVERHEAD: Final = 61
ROOM: Final = 60
"""The largest size of a record of `FILLING`, in bytes."""
FILLING: Final = bytes(42)
RECOVERY: Final = 3.0
AT_ONCE: Final = 0.1
"""Seconds within which a record without an obstacle is acknowledged: some round trips."""


@attrs.frozen
class Place:
    """This many batches are in flight, and one of them has another answer."""

    in_flight: int
    at: int

    def __str__(self) -> str:
        return f"batch {self.at} of {self.in_flight} in flight"


PLACES: Final = (Place(1, 0), Place(2, 0), Place(2, 1), Place(5, 0), Place(5, 2), Place(5, 4))


@contextmanager
def case(*words: object) -> Iterator[None]:
    """A failure inside names its case."""
    try:
        yield
    except BaseException as error:
        error.add_note("in the case: " + ", ".join(map(str, words)))
        raise


# -- batches in flight


async def on_stage(world: World, each: int = 1, partitions: int = 3, **settings: Any) -> Producer[Any, Any]:
    """A producer whose batches hold this many records, and whose id the leaders of all partitions know."""
    settings = {"linger_ms": 0, "batch_size": BATCH_OVERHEAD + each * ROOM, **settings}
    producer = await stage(world, partitions, **settings)
    await warm_up(world, producer, partitions)
    return producer


async def warm_up(world: World, producer: Producer[Any, Any], partitions: int = 3) -> None:
    """A record for each partition: the first batch of a producer id goes alone."""
    for partition in range(partitions):
        await all_acked(await send(world, producer, partition=partition))


async def fly(
    world: World, producer: Producer[Any, Any], count: int, each: int = 1, *, partition: int = 0
) -> list[list[Delivery]]:
    """This many batches of one partition, all of which have reached its leader before it processes the first."""
    with world.kafka.faults.delay(before=True, topic=TOPIC, partition=partition) as held:
        batches = [
            await send(world, producer, each, filling=FILLING, partition=partition) for _ in range(count)
        ]
        await all_with_the_leader(world, producer, held, count, partition)
    return batches


async def all_with_the_leader(
    world: World, producer: Producer[Any, Any], held: Fault, count: int, partition: int = 0
) -> None:
    """This many requests are in flight, and the leader has begun with the first."""
    async with asyncio.timeout(10.0):
        await held.reached()
    assert in_flight(world, producer, partition) == count


def in_flight(world: World, producer: Producer[Any, Any], partition: int) -> int:
    """Requests that wait for the answer of a partition's leader."""
    broker = str(leader(world, partition))
    return sum(one.requests_in_flight for one in producer.stats().connections if one.broker == broker)


def flat(batches: Iterable[Iterable[Delivery]]) -> list[Delivery]:
    """Their records."""
    return [delivery for batch in batches for delivery in batch]


def without(batches: list[list[Delivery]], at: int) -> list[Delivery]:
    """The records of all batches but one."""
    return flat(batch for index, batch in enumerate(batches) if index != at)


def say(
    world: World, code: int, place: Place, *, append: bool = False, partition: int = 0, **options: Any
) -> Fault:
    """The batch at this place is answered with a code."""
    where: dict[str, Any] = {"topic": TOPIC, "partition": partition, "skip": place.at, "times": 1, **options}
    return world.kafka.faults.error(code, append=append, **where)


def with_offset(world: World, place: Place, code: int) -> None:
    """The answer at this place keeps its base offset: the leadership ended after the append."""

    def change(answer: Any) -> Any:
        return answer._replace(responses=[_appended(topic, code) for topic in answer.responses])

    world.kafka.faults.alter(change, topic=TOPIC, partition=0, skip=place.at, times=1)


def _appended(topic: Any, code: int) -> Any:
    return topic._replace(
        partition_responses=[
            one._replace(base_offset=1) if one.error_code == code else one
            for one in topic.partition_responses
        ]
    )


# -- contents of the log and of the requests


def headers(world: World, partition: int = 0) -> list[BatchHeader]:
    """The headers of the batches in the log."""
    return [read_header(batch.data) for batch in world.kafka._cluster.partition(TOPIC, partition).log.batches]


def runs_on(world: World, partition: int = 0) -> bool:
    """Under each identity the numbers in the log begin at 0 and continue without a gap."""
    expected: dict[tuple[int, int], int] = {}
    for header in headers(world, partition):
        identity = (header.producer_id, header.producer_epoch)
        if header.base_sequence != expected.get(identity, 0):
            return False
        expected[identity] = (header.base_sequence + header.record_count) % SEQUENCE_LIMIT
    return True


def epochs(world: World, partition: int = 0) -> list[int]:
    """The epochs of the batches in the log."""
    return [header.producer_epoch for header in headers(world, partition)]


def seen(world: World, partition: int = 0) -> list[SeenBatch]:
    """The batches of a partition that a broker received, oldest first."""
    return [
        batch for request in world.kafka.requests for batch in request.batches if batch.partition == partition
    ]


def attempts(world: World, partition: int, topic: str = TOPIC) -> int:
    """The number of Produce requests with records of a partition."""
    return sum(
        request.api == "Produce" and (topic, partition) in request.topics for request in world.kafka.requests
    )


def questions(world: World, api: str) -> int:
    """The number of requests of this kind to the brokers."""
    return sum(request.api == api for request in world.kafka.requests)


def sound(world: World) -> None:
    """No line of the log reports a bug."""
    bugs = [line for line in world.log if line.exc_info]
    assert not bugs, [(line.getMessage(), line.exc_info) for line in bugs]


def entry(world: World, producer: Producer[Any, Any], partition: int = 0) -> ProducerEntry:
    """The leader's state about this producer, for a partition."""
    identity = queue_of(producer, partition).identity
    assert identity is not None
    return world.kafka._cluster.partition(TOPIC, partition).log.producers._entries[identity[0]]


def queue_of(producer: Producer[Any, Any], partition: int = 0) -> PartitionQueue:
    """The producer's own view of a partition."""
    engine = producer._engine
    assert engine is not None
    return engine.accumulator.cluster.topics[TOPIC].queue(partition)


# -- codes that ask for another attempt

LOOK_UP: Final = (6, 5, 74, 9, 100, 3)
"""The results of a partition's look-up; with an offset in the answer, the code came after the append."""
LOOK_UP_OR_DISK: Final = (*LOOK_UP, 56)
RETRIABLE: Final[tuple[tuple[int, bool], ...]] = (
    *((code, False) for code in LOOK_UP_OR_DISK),
    *((code, True) for code in LOOK_UP_OR_DISK),
    (19, False),
    (20, True),
    (20, False),
    (7, True),
    (7, False),
    (13, True),
    (13, False),
    (2, False),
    (89, False),
)


def ids_of(codes: Iterable[tuple[int, bool]]) -> list[str]:
    """Names for the cases of a test."""
    return [f"{code}-{'appended' if append else 'refused'}" for code, append in codes]


async def retried(world: World, codes: Iterable[int], *, append: bool) -> None:
    """Each code at each place: all records are acknowledged under the first identity, in order, soon."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    for code in codes:
        for place in PLACES:
            with case(ERRORS[code].name, place, f"append={append}"):
                fault = say(world, code, place, append=append)
                if append and code in LOOK_UP:
                    with_offset(world, place, code)
                before, began = len(seen(world)), world.now
                await all_acked(flat(await fly(world, producer, place.in_flight, each)))
                assert fault.hits == 1
                assert world.now - began < RECOVERY
                assert set(epochs(world)) == {0}, "an epoch was raised for an error that passes"
                assert runs_on(world)
                same_bytes(seen(world)[before:])
    sound(world)


def same_bytes(batches: list[SeenBatch]) -> None:
    """Repeated batches have the same bytes as before."""
    known: dict[tuple[int, int, int], SeenBatch] = {}
    for batch in batches:
        identity = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        first = known.setdefault(identity, batch)
        assert (batch.crc, batch.count, batch.size) == (first.crc, first.count, first.size)


@pytest.mark.parametrize("append", [False, True])
@scenario()
async def test_c01_the_broker_is_not_the_leader(world: World, append: bool) -> None:
    """Sent again under the same numbers after a metadata request, even if the code came after the append."""
    await retried(world, LOOK_UP_OR_DISK, append=append)
    assert questions(world, "Metadata") > len(PLACES)


@scenario()
async def test_c01_metadata_is_asked_for(world: World) -> None:
    """Each of the codes shows that the view is old: the request follows the answer, and does not wait for the metadata's age."""
    producer = await on_stage(world)
    for code in LOOK_UP_OR_DISK:
        with case(ERRORS[code].name):
            await asyncio.sleep(2.0)
            before = questions(world, "Metadata")
            say(world, code, PLACES[0])
            await all_acked(await send(world, producer, partition=0))
            assert questions(world, "Metadata") > before


@scenario()
async def test_c01_the_leaders_hint_is_enough(world: World) -> None:
    """The answer names the new leader (KIP-951): all records are there a round trip later, without metadata."""
    producer = await on_stage(world)
    world.kafka.faults.silence(api="Metadata")
    for count in (1, 2, 5):
        with case(count):
            with world.kafka.faults.delay(before=True, topic=TOPIC, partition=0) as held:
                deliveries = await send(world, producer, count, filling=FILLING, partition=0)
                await all_with_the_leader(world, producer, held, count)
                world.kafka.faults.move_leader(TOPIC, 0, leader(world, 0) % 3 + 1)
            began = world.now
            await all_acked(deliveries)
            assert world.now - began < AT_ONCE
    assert set(epochs(world)) == {0}


@scenario()
async def test_c01_old_metadata_does_not_undo_a_hint(world: World) -> None:
    """A broker that lags behind names the old leader under a lower epoch: the producer does not follow it."""
    producer = await on_stage(world)
    old, new = leader(world, 0), leader(world, 1)

    def lags(answer: Any) -> Any:
        return answer._replace(topics=[_led(topic, old) for topic in answer.topics])

    world.kafka.faults.move_leader(TOPIC, 0, new)
    world.kafka.faults.alter(lags, api="Metadata", times=None)
    await all_acked(await send(world, producer, partition=0))
    world.kafka.forget_requests()
    for _ in range(5):
        assert producer._engine is not None
        producer._engine.cluster.stale(TOPIC)
        await asyncio.sleep(1.0)
        await all_acked(await send(world, producer, partition=0))
    assert questions(world, "Metadata") >= 5
    asked = [request.broker for request in world.kafka.requests if request.api == "Produce"]
    assert set(asked) == {new}


def _led(topic: Any, broker: int) -> Any:
    return topic._replace(
        partitions=[
            one._replace(leader_id=broker, leader_epoch=0) if one.partition_index == 0 else one
            for one in topic.partitions
        ]
    )


@scenario()
async def test_c02_too_few_replicas(world: World) -> None:
    """It was not written, and is sent again."""
    await retried(world, [19], append=False)


@scenario()
async def test_c02_replicas_are_missing_for_a_while(world: World) -> None:
    """A real leader without its replicas: all records are there soon after the replicas are back."""
    producer = await on_stage(world)
    for count in (1, 2, 5):
        with case(count):
            world.kafka.faults.shrink_isr(TOPIC, 0, leader(world, 0))
            batches = await fly(world, producer, count)
            await all_acked(await send(world, producer, partition=1))
            await asyncio.sleep(world.rng.uniform(1.0, 10.0))
            assert [delivery.outcome for delivery in flat(batches)] == [Outcome.PENDING] * count
            world.kafka.faults.shrink_isr(TOPIC, 0, 1, 2, 3)
            healed = world.now
            await all_acked(flat(batches))
            assert world.now - healed < RECOVERY
    assert set(epochs(world)) == {0}


@pytest.mark.parametrize("append", [False, True])
@scenario()
async def test_c03_it_may_be_written(world: World, append: bool) -> None:
    """Sent again under the same numbers, for a batch that was appended and for one that was not."""
    await retried(world, [20, 7], append=append)


@scenario()
async def test_c03_repetitions_fare_no_better_while_others_pass(world: World) -> None:
    """However often the same batch gets the code, its leader still recognizes it when it comes again."""
    producer = await on_stage(world, retry_backoff_ms=10, retry_backoff_max_ms=50)
    for skip in world.rng.sample(range(60), 25):
        world.kafka.faults.error(world.rng.choice((7, 20)), append=True, partition=0, skip=skip)
    began, deliveries = world.now, []
    for _ in range(60):
        deliveries += await send(world, producer, partition=0)
        await asyncio.sleep(world.rng.choice((0.0, 0.0, 0.005)))
    await all_acked(deliveries)
    assert world.now - began < DT / 2
    assert set(epochs(world)) == {0}


@pytest.mark.parametrize("append", [False, True])
@scenario()
async def test_c04_the_network_or_the_bytes_failed(world: World, append: bool) -> None:
    """NETWORK_EXCEPTION and CORRUPT_MESSAGE are sent again under the same numbers."""
    await retried(world, [13] if append else [13, 2], append=append)


def is_under_way(delivery: Delivery) -> bool:
    """Is the last attempt still without an answer?"""
    times = delivery.timings
    assert times.written is not None
    return times.answered is None or times.answered < times.written


PROVEN: Final = {*LOOK_UP, 19, 2, 89}


@pytest.mark.parametrize("append", [False, True])
@scenario()
async def test_c01_to_c04_it_does_not_pass(world: World, append: bool) -> None:
    """At its deadline a record is NOT_WRITTEN if every answer proves it, else UNKNOWN; the pauses between attempts grow."""
    cases = [code for code, appends in RETRIABLE if appends is append and (not append or code not in LOOK_UP)]
    producer = await on_stage(world, partitions=len(cases))
    world.kafka.forget_requests()
    for partition, code in enumerate(cases):
        world.kafka.faults.error(code, append=append, topic=TOPIC, partition=partition, times=None)
    began = world.now
    sent = {code: await send(world, producer, 2, partition=at) for at, code in enumerate(cases)}
    await asyncio.sleep(10.0)
    for partition, code in enumerate(cases):
        assert 4 <= attempts(world, partition) <= 16, ERRORS[code].name
    for code, deliveries in sent.items():
        with case(ERRORS[code].name):
            outcome = await deliveries[0].wait(None)
            proven = code in PROVEN and not is_under_way(deliveries[0])
            assert outcome is (Outcome.NOT_WRITTEN if proven else Outcome.UNKNOWN)
            assert DT - 0.01 <= world.now - began <= DT + 0.1
            error = deliveries[0].exception()
            assert error is not None
            assert isinstance(error.cause, BrokerError)
            assert error.cause.code == code
    sound(world)


# -- codes that are final

FINAL: Final = (32, 17, 44, 76, 43, 21)


async def refused(world: World, codes: Iterable[int]) -> None:
    """Each code at each place: that batch is NOT_WRITTEN after one attempt, and the others are acknowledged."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    for code in codes:
        for place in PLACES:
            with case(ERRORS[code].name, place):
                say(world, code, place)
                began = world.now
                batches = await fly(world, producer, place.in_flight, each)
                for delivery in batches[place.at]:
                    assert await delivery.wait(None) is Outcome.NOT_WRITTEN
                    error = delivery.exception()
                    assert isinstance(error, BrokerError)
                    assert (error.code, error.attempts, error.retriable) == (code, 1, False)
                assert world.now - began < AT_ONCE
                await all_acked(without(batches, place.at))
                await all_acked(await send(world, producer, partition=0))
                assert world.now - began < RECOVERY
    assert runs_on(world)
    sound(world)


@pytest.mark.parametrize("append", [False, True])
@scenario()
async def test_c04_the_broker_failed_in_an_unknown_way(world: World, append: bool) -> None:
    """UNKNOWN_SERVER_ERROR is final and UNKNOWN; later records are acknowledged in order."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    for place in PLACES:
        with case(place):
            say(world, -1, place, append=append)
            began = world.now
            batches = await fly(world, producer, place.in_flight, each)
            assert await outcomes(batches[place.at]) == {Outcome.UNKNOWN: each}
            assert world.now - began < AT_ONCE
            error = batches[place.at][0].exception()
            assert isinstance(error, BrokerError)
            assert error.attempts == 1
            await all_acked(without(batches, place.at))
            await all_acked(await send(world, producer, partition=0))
            assert world.now - began < RECOVERY
    sound(world)


# -- too large


async def narrow_stage(world: World, each: int, limit: int, **settings: Any) -> Producer[Any, Any]:
    """Batches of `each` records, and a topic that takes batches of `limit` records."""
    producer = await on_stage(world, each, **settings)
    shrink_limit(world, limit)
    return producer


def shrink_limit(world: World, records: int) -> None:
    """The topic takes smaller batches from now on."""
    limit = {"max.message.bytes": str(BATCH_OVERHEAD + records * ROOM)}
    world.kafka._cluster.topic(TOPIC).configure(limit)


@scenario()
async def test_c05_a_batch_is_too_large(world: World) -> None:
    """Split until its parts fit: in order, under its own range of numbers."""
    each = 2 + world.rng.randrange(6)
    producer = await narrow_stage(world, each, 1 + world.rng.randrange(each - 1))
    for count in (1, 2, 5):
        with case(count):
            first = world.kafka.high_watermark(TOPIC, 0)
            batches = await fly(world, producer, count, each)
            await all_acked(flat(batches))
            offsets = [delivery.result().offset for delivery in flat(batches)]
            assert offsets == list(range(first, first + count * each))
            await all_acked(await send(world, producer, partition=0))
    assert set(epochs(world)) == {0}
    assert runs_on(world)
    assert any(batch.count == each for batch in seen(world)), "the batches were not as large as meant"
    sound(world)


@pytest.mark.parametrize("code", [10, 18])
@scenario()
async def test_c05_one_of_several_batches_is_too_large(world: World, code: int) -> None:
    """Its parts take its place: records behind it wait for them."""
    each = 2 + world.rng.randrange(4)
    producer = await on_stage(world, each)
    for place in PLACES:
        with case(ERRORS[code].name, place):
            say(world, code, place)
            began = world.now
            await all_acked(flat(await fly(world, producer, place.in_flight, each)))
            assert world.now - began < RECOVERY
            assert set(epochs(world)) == {0}
            assert runs_on(world)
    sound(world)


@scenario()
async def test_c05_a_split_keeps_headers_and_timestamps(world: World) -> None:
    """Each record of a split batch keeps the key, the headers and the time of its acceptance."""
    producer = await narrow_stage(world, 6, 2, linger_ms=50, batch_size=10_000)
    deliveries = []
    for number in range(6):
        deliveries += await send(
            world,
            producer,
            partition=0,
            key=b"key %d" % number,
            headers=(("name", b"%d" % number), ("none", None)),
        )
        await asyncio.sleep(0.005)
    await all_acked(deliveries)
    stored = world.kafka.records(TOPIC, 0)[1:]
    assert [record.timestamp for record in stored] == [one.result().timestamp for one in deliveries]
    assert len({record.timestamp for record in stored}) > 1
    assert [record.headers[0] for record in stored] == [("name", b"%d" % number) for number in range(6)]
    assert len(headers(world)) > 2


@scenario()
async def test_c05_a_single_record_is_too_large(world: World) -> None:
    """NOT_WRITTEN, with the limit named; later records are acknowledged in order."""
    producer = await narrow_stage(world, 1, 3)
    for place in PLACES:
        with case(place):
            deliveries = []
            with world.kafka.faults.delay(before=True, topic=TOPIC, partition=0) as held:
                for at in range(place.in_flight):
                    filling = bytes(400) if at == place.at else FILLING
                    deliveries += await send(world, producer, filling=filling, partition=0)
                await all_with_the_leader(world, producer, held, place.in_flight)
            began = world.now
            large = deliveries.pop(place.at)
            assert await large.wait(None) is Outcome.NOT_WRITTEN
            error = large.exception()
            assert error is not None
            assert isinstance(error, RecordTooLargeError)
            await all_acked([*deliveries, *await send(world, producer, 5, partition=0)])
            assert world.now - began < RECOVERY
    assert runs_on(world)
    sound(world)


@pytest.mark.parametrize("before", [True, False])
@scenario()
async def test_c05_too_large_after_an_attempt_without_an_answer(world: World, before: bool) -> None:
    """The limit was lowered meanwhile: it is unknown whether the whole batch is in the log, and no record is there twice."""
    each = 2 + world.rng.randrange(3)
    producer = await on_stage(world, each, delivery_timeout_ms=6_000)
    for partition, count in enumerate((1, 2, 5)):
        with case(count):
            shrink_limit(world, 10)
            cut = world.kafka.faults.cut(before=before, topic=TOPIC, partition=partition)
            deliveries = flat(await fly(world, producer, count, each, partition=partition))
            await cut.reached()
            shrink_limit(world, 1)
            found = await outcomes(deliveries)
            assert Outcome.NOT_WRITTEN not in found, "an attempt was never answered"
            if before:
                assert found == {Outcome.ACKED: count * each}
            await all_acked(await send(world, producer, partition=partition))
    sound(world)


# -- records that are named, and rights


@scenario()
async def test_c06_single_records_are_invalid(world: World) -> None:
    """Named records have their own text, the others of the batch have one that refers to them; all are NOT_WRITTEN."""
    producer = await on_stage(world, 3)
    for place in PLACES:
        with case(place):
            bad = world.rng.randrange(3)
            world.kafka.faults.record_errors(
                {bad: "no key"}, topic=TOPIC, partition=0, skip=place.at, times=1
            )
            batches = await fly(world, producer, place.in_flight, 3)
            for index, delivery in enumerate(batches[place.at]):
                assert await delivery.wait(None) is Outcome.NOT_WRITTEN
                error = delivery.exception()
                assert isinstance(error, BrokerError)
                assert error.code == 87
                assert ("no key" in str(error)) is (index == bad)
                assert ("part of a batch with invalid records" in str(error)) is (index != bad)
                assert error.retriable is (index != bad)
            await all_acked(without(batches, place.at))
    assert runs_on(world)
    sound(world)


@scenario()
async def test_c06_records_without_a_key_in_a_compacted_topic(world: World) -> None:
    """A real refusal by the topic's rules: the error names the keyless record, and records behind it are written."""
    world.kafka.create_topic("compacted", cleanup_policy="compact")
    producer = await on_stage(world, linger_ms=5, batch_size=10_000)
    keys = [b"one", None, b"three"]
    sent = [await world.ledger.send(producer, "compacted", key=key) for key in keys]
    assert await outcomes(sent) == {Outcome.NOT_WRITTEN: 3}
    texts = [str(delivery.exception()) for delivery in sent if delivery is not None]
    assert ["without key" in text for text in texts] == [False, True, False]
    again = [await world.ledger.send(producer, "compacted", key=key) for key in keys if key]
    await all_acked(again)


@scenario()
async def test_c07_not_authorized(world: World) -> None:
    """NOT_WRITTEN at once; later records of the partition are written."""
    await refused(world, [29, 31])


@scenario()
async def test_c07_other_topics_go_on(world: World) -> None:
    """A permanently forbidden topic holds up nothing: each of its records fails at once, the others are written."""
    world.kafka.create_topic("secret", 3)
    producer = await on_stage(world)
    await producer.partitions_for("secret")
    world.kafka.faults.error(29, topic="secret", times=None)
    for _ in range(10):
        began = world.now
        forbidden = [await world.ledger.send(producer, "secret", partition=at) for at in range(3)]
        allowed = [one for at in range(3) for one in await send(world, producer, partition=at)]
        await all_acked(allowed)
        assert await outcomes(forbidden) == {Outcome.NOT_WRITTEN: 3}
        assert world.now - began < AT_ONCE


@scenario()
async def test_c07_no_right_to_a_producer_id(world: World) -> None:
    """The producer has no identity and gets none: records fail, and so does every call from then on."""
    world.kafka.create_topic(TOPIC, 3)
    loading = world.kafka.faults.error(14, api="InitProducerId", times=None)
    producer = world.producer(linger_ms=0)
    await producer.start()
    await producer.partitions_for(TOPIC)
    deliveries = await send(world, producer, 3)
    loading.heal()
    refusal = world.kafka.faults.error(31, api="InitProducerId", times=None)
    began = world.now
    assert await outcomes(deliveries) == {Outcome.NOT_WRITTEN: 3}
    assert world.now - began < 1.0
    refusal.heal()
    for _ in range(3):
        with pytest.raises(AuthorizationError):
            await producer.send(TOPIC, b"v")
        await asyncio.sleep(10.0)


@scenario()
async def test_c08_refused_for_good(world: World) -> None:
    """NOT_WRITTEN after one attempt; later records keep their order, and their numbers are valid."""
    await refused(world, FINAL)


# -- numbers and identities


@scenario()
async def test_c09_it_is_there_already(world: World) -> None:
    """A repetition whose place the broker has forgotten is a success without an offset."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    for place in PLACES:
        with case(place):
            say(world, 46, place, append=True)
            batches = await fly(world, producer, place.in_flight, each)
            await all_acked(flat(batches))
            results = [delivery.result() for delivery in batches[place.at]]
            assert [(one.offset, one.has_offset) for one in results] == [(-1, False)] * each
            assert all(one.result().has_offset for one in without(batches, place.at))
    assert set(epochs(world)) == {0}


@pytest.mark.parametrize("code", [19, 6, 20])
@scenario()
async def test_c10_out_of_order_behind_the_head(world: World, code: int) -> None:
    """The head was not appended, so the broker refuses all batches behind it: they wait for it, and keep their epoch."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    for count in (2, 5):
        for failures in (1, 3):
            with case(count, failures):
                before = len(refusals(world))
                world.kafka.faults.error(code, append=False, topic=TOPIC, partition=0, times=1)
                batches = await fly(world, producer, count, each)
                again = world.kafka.faults.error(
                    code, append=False, topic=TOPIC, partition=0, skip=count - 1, times=failures - 1
                )
                await all_acked(flat(batches))
                again.heal()
                out_of_order = [text for text in refusals(world)[before:] if "OUT_OF_ORDER" in text]
                assert len(out_of_order) == count - 1, "each is refused once, and then waits for the head"
                assert set(epochs(world)) == {0}
    assert runs_on(world)
    sound(world)


def refusals(world: World) -> list[str]:
    """The refusals of brokers by their own rules, without those of a fault."""
    return [text for request in world.kafka.requests for text in request.refusals]


@scenario()
async def test_c11_c12_c13_the_head_is_refused_and_nothing_is_unresolved(world: World) -> None:
    """A new epoch, under which all records are acknowledged in order."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    raised = 0
    for code in (45, 59, 47):
        for place in PLACES:
            with case(ERRORS[code].name, place):
                say(world, code, place)
                began, raised = world.now, raised + 1
                await all_acked(flat(await fly(world, producer, place.in_flight, each)))
                assert world.now - began < RECOVERY
                assert epochs(world)[-1] == raised
                assert runs_on(world)
    assert questions(world, "InitProducerId") == 1
    sound(world)


@scenario()
async def test_c11_the_leader_lost_what_it_had(world: World) -> None:
    """An unclean election lost acknowledged batches: the real refusal leads to a new epoch, not to an error."""
    producer = await on_stage(world)
    world.rules = attrs.evolve(world.rules, loss=True)
    for count in (1, 2, 5):
        with case(count):
            await all_acked(flat(await fly(world, producer, 5)))
            world.kafka.faults.truncate(TOPIC, 0, world.kafka.high_watermark(TOPIC, 0) - 2)
            before = len(refusals(world))
            deliveries = flat(await fly(world, producer, count))
            # The offsets of these records were acknowledged before, for lost records.
            assert await outcomes(deliveries) == {Outcome.ACKED: count}
            assert "OUT_OF_ORDER" in refusals(world)[before]
    assert max(epochs(world)) == 3
    sound(world)


@scenario()
async def test_c11_a_dirty_head_keeps_its_identity(world: World) -> None:
    """Refused after an attempt without an answer: no batch gets a new identity, and the broker recognizes it."""
    each = 1 + world.rng.randrange(3)
    producer = await on_stage(world, each)
    for code in (45, 59, 47):
        for count in (1, 2, 5):
            with case(ERRORS[code].name, count):
                world.kafka.faults.cut(topic=TOPIC, partition=0)
                batches = await fly(world, producer, count, each)
                refusal = world.kafka.faults.error(code, topic=TOPIC, partition=0, times=2)
                await all_acked(flat(batches))
                assert refusal.hits == 2
                assert set(epochs(world)) == {0}
    same_bytes(seen(world))
    sound(world)


@scenario()
async def test_c11_a_clean_head_in_front_of_dirty_batches(world: World) -> None:
    """A temporary refusal does not hold the partition up until the deadline of the records behind it."""
    producer = await on_stage(world)
    for count in (2, 5):
        with case(count):
            say(world, 45, Place(count, 0))
            for at in range(1, count):
                say(world, 7, Place(count, at))
            began = world.now
            await all_acked(flat(await fly(world, producer, count)))
            assert world.now - began < RECOVERY
            await all_acked(await send(world, producer, 3, partition=0))
    assert runs_on(world)
    sound(world)


@pytest.mark.parametrize("appended", [False, True])
@scenario()
async def test_c11_dirty_batches_are_settled_before_the_epoch_is_raised(world: World, appended: bool) -> None:
    """The head is refused until its deadline, and UNKNOWN then; those behind it keep their identity to the end."""
    producer = await on_stage(world, delivery_timeout_ms=6_000)
    port = world.port(leader(world, 0))
    world.network.hold(port, to_broker=not appended)
    began = world.now
    (head,) = await send(world, producer, filling=FILLING, partition=0, timeout=3.0)
    behind = await send(world, producer, 2, filling=FILLING, partition=0)
    await asyncio.sleep(0.1)
    assert in_flight(world, producer, 0) == 3
    world.network.vanish(port)
    world.network.reset(port)
    world.network.release(port)
    code = world.rng.choice((45, 59, 47))
    refusal = world.kafka.faults.error(code, topic=TOPIC, partition=0, times=None)
    await asyncio.sleep(2.5)
    late = await send(world, producer, 2, partition=0)
    assert head.outcome is Outcome.PENDING, "it was cut short"
    assert await head.wait(None) is Outcome.UNKNOWN
    assert 2.9 <= world.now - began <= 3.1
    refusal.heal()
    found = await outcomes(behind)
    assert found == {Outcome.ACKED if appended else Outcome.UNKNOWN: 2}
    assert {batch.producer_epoch for batch in seen(world)} == {0}, "a dirty batch was still there"
    await all_acked(late)
    # If the head is in the log after all, the batches behind it followed from there, and no epoch is used up.
    assert epochs(world)[-1] == (0 if appended else 1)
    sound(world)


@scenario()
async def test_c11_other_partitions_move_lazily(world: World) -> None:
    """A partition with batches in flight continues under the old epoch until all of them are settled."""
    producer = await on_stage(world)
    held = world.kafka.faults.delay(topic=TOPIC, partition=1, times=2)
    under_way = await send(world, producer, filling=FILLING, partition=1)
    await held.reached(1)
    say(world, 45, PLACES[0])
    await all_acked(await send(world, producer, 3, partition=0))
    assert max(epochs(world, 0)) == 1
    under_way += await send(world, producer, 2, filling=FILLING, partition=1)
    held.release()
    await all_acked(under_way)
    assert epochs(world, 1) == [0, 0, 0, 0]
    await all_acked(await send(world, producer, partition=1))
    assert epochs(world, 1) == [0, 0, 0, 0, 1]
    assert runs_on(world, 0)
    assert runs_on(world, 1)


@scenario()
async def test_c12_the_producer_is_forgotten(world: World) -> None:
    """UNKNOWN_PRODUCER_ID is no error for the user, for any start of the log."""
    producer = await on_stage(world)
    raised = 0
    # The start is absent, below the written records, above them.
    for offset in (-1, 0, 1_000_000):
        for place in PLACES:
            with case(place, offset):
                say(world, 59, place)
                start = _log_starts(offset)
                world.kafka.faults.alter(start, topic=TOPIC, partition=0, skip=place.at, times=1)
                await all_acked(flat(await fly(world, producer, place.in_flight)))
                raised += 1
                assert epochs(world)[-1] == raised
    assert runs_on(world)


def _log_starts(offset: int) -> Callable[[Any], Any]:
    def of(topic: Any) -> Any:
        return topic._replace(
            partition_responses=[one._replace(log_start_offset=offset) for one in topic.partition_responses]
        )

    return lambda answer: answer._replace(responses=[of(topic) for topic in answer.responses])


@scenario()
async def test_c12_retention_took_all_that_the_producer_had_written(world: World) -> None:
    """The real form: records and producer state are gone, and the producer continues in order without an error."""
    producer = await on_stage(world)
    world.rules = attrs.evolve(world.rules, loss=True, whole_log=False)
    for count in (1, 2, 5):
        await all_acked(flat(await fly(world, producer, count)))
        world.kafka.faults.delete_records(TOPIC, 0, world.kafka.high_watermark(TOPIC, 0))
        world.kafka.faults.forget_producers(TOPIC, 0)
        await all_acked(flat(await fly(world, producer, count)))
    assert [header.record_count for header in headers(world)] == [1] * 5
    sound(world)


@scenario()
async def test_c13_another_producer_has_a_newer_epoch(world: World) -> None:
    """The real form: the broker knows a higher epoch of this id. The producer raises its epoch until the broker accepts it."""
    producer = await on_stage(world)
    for partition, count in enumerate((1, 2, 5)):
        known = entry(world, producer, partition)
        newest = known.epoch = epochs(world, partition)[-1] + 4 * partition + 2 + world.rng.randrange(2)
        known.batches[-1] = attrs.evolve(known.batches[-1], base_sequence=1_000, last_sequence=1_000)
        before = len(refusals(world))
        deliveries = flat(await fly(world, producer, count, partition=partition))
        await all_acked([*deliveries, *await send(world, producer, 5, partition=partition)])
        assert any("INVALID_PRODUCER_EPOCH" in text for text in refusals(world)[before:])
        assert epochs(world, partition)[-1] > newest
    sound(world)


@scenario()
async def test_c13_fenced_without_a_transaction(world: World) -> None:
    """PRODUCER_FENCED has no meaning for an idempotent producer: its batch is NOT_WRITTEN, and no call hangs."""
    producer = await on_stage(world)
    for place in PLACES:
        with case(place):
            say(world, 90, place)
            began = world.now
            batches = await fly(world, producer, place.in_flight)
            assert await outcomes(batches[place.at]) == {Outcome.NOT_WRITTEN: 1}
            await all_acked([*without(batches, place.at), *await send(world, producer, partition=0)])
            assert world.now - began < RECOVERY
    assert runs_on(world)
    sound(world)


# -- the end of the numbers


def near_the_end(world: World, producer: Producer[Any, Any], left: int) -> None:
    """Producer and broker have counted so far that only this many numbers are left."""
    queue = queue_of(producer)
    known = entry(world, producer)
    queue.next_sequence = SEQUENCE_LIMIT - left
    last = attrs.evolve(known.batches[-1], base_sequence=queue.next_sequence - 1)
    known.batches[-1] = attrs.evolve(last, last_sequence=queue.next_sequence - 1)


def sequences(world: World, partition: int = 0) -> list[tuple[int, int]]:
    """Number and count of each batch in the log except for the first."""
    return [(header.base_sequence, header.record_count) for header in headers(world, partition)[1:]]


def wraps(world: World, left: int) -> bool:
    """Behind the first batch the numbers of the log continue over the end."""
    expected = SEQUENCE_LIMIT - left
    for base, count in sequences(world):
        if base != expected:
            return False
        expected = (base + count) % SEQUENCE_LIMIT
    return expected < SEQUENCE_LIMIT // 2


@pytest.mark.parametrize("trouble", ["none", "refused", "appended", "cut", "split"])
@scenario()
async def test_c14_the_numbers_wrap(world: World, trouble: str) -> None:
    """After 2^31-1 comes 0, even if the batches around it are sent again, recognized, or split."""
    each = 1 + world.rng.randrange(3) + (trouble == "split")
    producer = await on_stage(world, each)
    left = 1 + world.rng.randrange(5 * each - 1)
    near_the_end(world, producer, left)
    place = Place(5, world.rng.randrange(5))
    if trouble in {"refused", "appended"}:
        say(world, 7, place, append=trouble == "appended")
    elif trouble == "cut":
        world.kafka.faults.cut(topic=TOPIC, partition=0, skip=place.at)
    elif trouble == "split":
        shrink_limit(world, 1)
    await all_acked(flat(await fly(world, producer, 5, each)))
    await all_acked(await send(world, producer, 2, partition=0))
    assert set(epochs(world)) == {0}
    assert wraps(world, left)
    assert questions(world, "InitProducerId") == 1
    sound(world)


def at_epoch(world: World, producer: Producer[Any, Any], epoch: int) -> None:
    """Producer and brokers have reached this epoch."""
    engine = producer._engine
    assert engine is not None
    assert engine.sequences.identity is not None
    identity = (engine.sequences.identity[0], epoch)
    engine.sequences.obtained(*identity)
    for queue in engine.accumulator.cluster.topics[TOPIC].in_use:
        entry(world, producer, queue.index).epoch = epoch
        queue.identity = identity


@scenario()
async def test_c14_the_last_epoch(world: World) -> None:
    """Before epoch 32767 is used up a new producer id is requested, even if that takes some attempts."""
    producer = await on_stage(world)
    for place in PLACES:
        with case(place):
            at_epoch(world, producer, 32_766)
            asked = questions(world, "InitProducerId")
            slow = world.kafka.faults.error(14, api="InitProducerId", times=world.rng.randrange(4))
            first = headers(world)[-1].producer_id
            say(world, 45, place)
            began = world.now
            await all_acked(flat(await fly(world, producer, place.in_flight)))
            # One epoch is left, which serves until the new id is there.
            while headers(world)[-1].producer_id == first:
                assert world.now - began < RECOVERY + 2.0
                await all_acked(await send(world, producer, 7, filling=FILLING, partition=0))
                await asyncio.sleep(0.1)
            assert slow.hits == slow.times
            assert questions(world, "InitProducerId") == asked + 1 + slow.hits
            for partition in (1, 2):
                await all_acked(await send(world, producer, 3, filling=FILLING, partition=partition))
                assert headers(world, partition)[-1].producer_id == headers(world)[-1].producer_id
    assert max(epochs(world)) == 32_767
    sound(world)


@scenario()
async def test_c14_the_last_epoch_and_no_right_to_another_id(world: World) -> None:
    """There is no identity any more: remaining records fail at once and do not wait for their deadline."""
    producer = await on_stage(world)
    at_epoch(world, producer, 32_766)
    world.kafka.faults.error(31, api="InitProducerId", times=None)
    world.kafka.faults.error(45, topic=TOPIC, partition=0, times=None)
    began = world.now
    assert Outcome.ACKED not in await outcomes(await send(world, producer, 3, partition=0))
    assert world.now - began < RECOVERY
    with pytest.raises(AuthorizationError):
        await producer.send(TOPIC, b"v")


# -- quotas


@pytest.mark.parametrize("milliseconds", [1, 400, 5_000])
@scenario()
async def test_c15_a_broker_asks_for_a_pause(world: World, milliseconds: int) -> None:
    """No request is sent to it for this time, all of them after that; other brokers are not affected."""
    producer = await on_stage(world)
    for count in (1, 2, 5):
        with case(count):
            pause = {"topic": TOPIC, "partition": 0, "skip": count - 1}
            world.kafka.faults.throttle(milliseconds, mute=False, **pause)  # type: ignore[arg-type]
            began = world.now
            await all_acked(flat(await fly(world, producer, count)))
            assert world.now - began < AT_ONCE
            paused, before = world.now, attempts(world, 0)
            waiting = await send(world, producer, 3, partition=0)
            others = [one for at in (1, 2) for one in await send(world, producer, partition=at)]
            await all_acked(others)
            assert world.now - paused < AT_ONCE
            if milliseconds > 1_000:
                await asyncio.sleep(milliseconds / 1000 - 0.2)
                assert attempts(world, 0) == before
            await all_acked(waiting)
            # The pause counts from the arrival of the answer, a moment before the delivery is resolved.
            assert milliseconds / 1000 - 0.02 <= world.now - paused <= milliseconds / 1000 + AT_ONCE


@scenario()
async def test_c15_half_an_hour(world: World) -> None:
    """The deadline counts during the pause: NOT_WRITTEN then, and no effect on the other brokers."""
    producer = await on_stage(world)
    world.kafka.faults.throttle(1_800_000, mute=False, topic=TOPIC, partition=0)
    await all_acked(await send(world, producer, partition=0))
    before, began = attempts(world, 0), world.now
    waiting = await send(world, producer, 3, partition=0)
    await all_acked(await send(world, producer, partition=1))
    assert await outcomes(waiting) == {Outcome.NOT_WRITTEN: 3}
    assert DT - 0.01 <= world.now - began <= DT + 0.1
    assert attempts(world, 0) == before
    await asyncio.sleep(1_800.0)
    began = world.now
    await all_acked(await send(world, producer, 3, partition=0))
    assert world.now - began < RECOVERY


@scenario()
async def test_c15_the_quota_is_used_up(world: World) -> None:
    """THROTTLING_QUOTA_EXCEEDED is sent again under the same numbers."""
    await retried(world, [89], append=False)


# -- several partitions in one request

OF_ONE_BROKER: Final = (0, 3, 6, 9, 12)


@scenario()
async def test_c16_partitions_of_one_request_are_independent(world: World) -> None:
    """Error, success, error: successful partitions succeed at once, round after round, independent of their neighbours."""
    producer = await on_stage(world, partitions=15)
    world.kafka.faults.error(19, topic=TOPIC, partition=0, times=None)
    world.kafka.forget_requests()
    poisoned = await send(world, producer, partition=0)
    for code in (45, -1, 6, 32, 20):
        with case(code):
            world.kafka.faults.error(code, topic=TOPIC, partition=6)
            began = world.now
            sent = {at: await send(world, producer, partition=at) for at in OF_ONE_BROKER[1:]}
            for at in (3, 9, 12):
                await all_acked(sent[at])
            assert world.now - began < AT_ONCE
            await outcomes(sent[6])
            await all_acked(await send(world, producer, partition=6))
            assert world.now - began < RECOVERY
    together = [request.topics for request in world.kafka.requests if request.api == "Produce"]
    assert any({(TOPIC, at) for at in OF_ONE_BROKER[1:]} <= set(topics) for topics in together)
    assert poisoned[0].outcome is Outcome.PENDING
    world.kafka.faults.heal()
    await all_acked(poisoned)
    sound(world)


@scenario()
async def test_c16_every_other_partition_fails(world: World) -> None:
    """Codes that alternate from answer to answer and from partition to partition: all records are there in the end."""
    producer = await on_stage(world, partitions=15)
    for at in OF_ONE_BROKER[::2]:
        for skip in (0, 2, 4):
            code, append = world.rng.choice([(19, False), (7, True), (7, False), (6, False), (45, False)])
            world.kafka.faults.error(code, append=append, topic=TOPIC, partition=at, skip=skip)
    deliveries = []
    for _ in range(6):
        for at in OF_ONE_BROKER:
            deliveries += await send(world, producer, partition=at)
        await asyncio.sleep(world.rng.choice((0.0, 0.002, 0.2)))
    began = world.now
    await all_acked(deliveries)
    assert world.now - began < RECOVERY
    assert all(runs_on(world, at) for at in OF_ONE_BROKER[1::2])
    sound(world)


# -- all of them together

MAY_HAVE_APPENDED: Final = (7, 20, 13, -1, 56)


@pytest.mark.parametrize("gapless", [False, True])
@scenario()
async def test_c01_to_c16_any_codes_in_any_order(world: World, gapless: bool) -> None:
    """Any code of Kafka, at any place, repeatedly, even after the append, and cuts between them."""
    rng = world.rng
    each = 1 + rng.randrange(3)
    producer = await on_stage(world, each, delivery_timeout_ms=8_000, gapless=gapless)
    for _ in range(12):
        for _ in range(rng.randrange(1, 4)):
            append = rng.random() < 0.4
            code = rng.choice(MAY_HAVE_APPENDED if append else sorted(ERRORS.keys() - {0, 46}))
            place = Place(5, rng.randrange(6))
            say(world, code, place, append=append, partition=rng.randrange(2), times=rng.randrange(1, 3))
        if rng.random() < 0.3:
            world.kafka.faults.cut(before=rng.random() < 0.5, topic=TOPIC, partition=0, skip=rng.randrange(4))
        for _ in range(rng.randrange(1, 8)):
            filling = bytes(rng.choice((0, 42)))
            await world.ledger.send(
                producer, TOPIC, filling, partition=rng.randrange(3) if rng.random() < 0.9 else None
            )
        await asyncio.sleep(rng.choice((0.0, 0.01, 0.3)))
    world.kafka.faults.heal()
    found = await outcomes(one.delivery for one in world.ledger.entries)
    assert found[Outcome.ACKED] > 0
    await producer.flush()
    for partition in range(3):
        began = world.now
        await all_acked(await send(world, producer, partition=partition))
        assert world.now - began < RECOVERY
    sound(world)
    assert produced(world) > 12
