"""For every fault of requests in flight, each record is in the log once, in the order of the calls."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka, Fault
from tests.net.support import (
    Make,
    all_acked,
    in_flight,
    memory_in_use,
    numbers,
    permits_are_all_back,
    send_all,
    until,
    warm,
)

Break = Callable[[EmbeddedKafka, int], Fault]

BREAKS: dict[str, Break] = {
    "refused for now": lambda kafka, skip: kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=skip),
    "appended, then an error": lambda kafka, skip: kafka.faults.error(
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND", skip=skip
    ),
    "timed out after the append": lambda kafka, skip: kafka.faults.error(
        "REQUEST_TIMED_OUT", append=True, skip=skip
    ),
    "timed out before the append": lambda kafka, skip: kafka.faults.error("REQUEST_TIMED_OUT", skip=skip),
    "corrupt on the way": lambda kafka, skip: kafka.faults.error("CORRUPT_MESSAGE", skip=skip),
    "storage error": lambda kafka, skip: kafka.faults.error("KAFKA_STORAGE_ERROR", skip=skip),
    "connection cut before the append": lambda kafka, skip: kafka.faults.cut(before=True, skip=skip),
    "connection cut after the append": lambda kafka, skip: kafka.faults.cut(skip=skip),
    "answer cut in its length": lambda kafka, skip: kafka.faults.cut_answer(3, skip=skip),
    "answer cut in its body": lambda kafka, skip: kafka.faults.cut_answer(20, skip=skip),
    "request cut": lambda kafka, skip: kafka.faults.cut_request(60, skip=skip),
    "wrong correlation id": lambda kafka, skip: kafka.faults.wrong_correlation_id(skip=skip),
    "answered twice": lambda kafka, skip: kafka.faults.answer_twice(skip=skip),
    "negative length": lambda kafka, skip: kafka.faults.wrong_length(-5, skip=skip),
    "length beyond the limit": lambda kafka, skip: kafka.faults.wrong_length(2**31 - 1, skip=skip),
    "garbage": lambda kafka, skip: kafka.faults.garbage(skip=skip),
    "half closed": lambda kafka, skip: kafka.faults.half_close(skip=skip),
    "partition left out": lambda kafka, skip: kafka.faults.alter(
        lambda answer: answer._replace(responses=[]), skip=skip
    ),
}


@pytest.mark.parametrize("skip", [0, 2, 4])
@pytest.mark.parametrize("name", BREAKS)
async def test_one_of_five_in_flight_breaks(
    name: str, skip: int, producer: Producer, kafka: EmbeddedKafka
) -> None:
    """The first, a middle or the last of five requests breaks in some way: all records once, in order."""
    await producer.send_and_wait("one", b"0")
    hold = kafka.faults.delay(before=True, times=None)
    fault = BREAKS[name](kafka, skip)
    deliveries = await send_all(producer, range(1, 20))
    await until(lambda: in_flight(producer) == 5)
    hold.heal()
    assert await all_acked(deliveries)
    assert fault.hits == 1
    assert numbers(kafka) == list(range(20))
    await until(lambda: permits_are_all_back(producer))
    assert memory_in_use(producer) == 0


@pytest.mark.parametrize("name", BREAKS)
async def test_first_request_ever_breaks(name: str, producer: Producer, kafka: EmbeddedKafka) -> None:
    """A leader without knowledge of the producer accepts any sequence: the second batch is not sent before the first answer."""
    fault = BREAKS[name](kafka, 0)
    deliveries = await send_all(producer, range(10))
    assert await all_acked(deliveries)
    assert fault.hits == 1
    assert numbers(kafka) == list(range(10))


@pytest.mark.parametrize("name", BREAKS)
async def test_without_idempotence_one_request_at_a_time(name: str, make: Make, kafka: EmbeddedKafka) -> None:
    """With one request in flight the order holds without idempotence too; a repeat may double a record, no more."""
    producer = await warm(
        make(kafka, batch_size=1, enable_idempotence=False, max_in_flight_requests_per_connection=1),
        "one",
    )
    fault = BREAKS[name](kafka, 2)
    deliveries = await send_all(producer, range(10))
    assert await all_acked(deliveries)
    assert fault.hits == 1
    assert [n for i, n in enumerate(numbers(kafka)) if i == 0 or n != numbers(kafka)[i - 1]] == list(
        range(10)
    )


@pytest.mark.parametrize("seed", range(6))
async def test_many_faults_at_random(seed: int, make: Make, kafka: EmbeddedKafka) -> None:
    """Repeated faults, drawn at random, change nothing but the duration."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    producer = await warm(make(kafka, batch_size=200), "four")
    skip = 0
    for _ in range(12):
        BREAKS[rng.choice(list(BREAKS))](kafka, skip)
        skip += rng.randrange(4)
    deliveries = []
    for number in range(400):
        deliveries += await send_all(producer, [number], "four", partition=number % 4)
    assert await all_acked(deliveries)
    for partition in range(4):
        assert numbers(kafka, "four", partition) == list(range(partition, 400, 4))
    assert [delivery.result().offset for delivery in deliveries[::4]] == list(range(100))
    await until(lambda: permits_are_all_back(producer))
    assert memory_in_use(producer) == 0


async def test_repeat_of_a_written_batch_has_its_first_offset(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """A batch whose answer was lost is acknowledged with its first offset."""
    await producer.send_and_wait("one", b"0")
    kafka.faults.cut()
    metadata = await producer.send_and_wait("one", b"1")
    assert (metadata.offset, numbers(kafka)) == (1, [0, 1])


async def test_duplicate_sequence_is_success(producer: Producer, kafka: EmbeddedKafka) -> None:
    """DUPLICATE_SEQUENCE_NUMBER means that the batch is in the log, at a place that the broker has forgotten."""
    kafka.faults.error("DUPLICATE_SEQUENCE_NUMBER", append=True)
    metadata = await producer.send_and_wait("one", b"0")
    assert (metadata.offset, metadata.has_offset, numbers(kafka)) == (-1, False, [0])


async def test_bytes_of_a_repeat_are_the_same(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A batch that is sent again under its identity has the same checksum: the same bytes as before."""
    kafka.faults.error("NOT_ENOUGH_REPLICAS_AFTER_APPEND", times=2)
    await producer.send_and_wait("one", b"0")
    sent = [
        (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.crc)
        for request in kafka.requests
        for batch in request.batches
    ]
    assert len(sent) == 3
    assert len(set(sent)) == 1


async def test_pause_between_attempts_grows(make: Make, kafka: EmbeddedKafka) -> None:
    """Attempts are spaced by the retry backoff, doubled up to its limit (KIP-580)."""
    producer = await warm(make(kafka, retry_backoff_ms=20, retry_backoff_max_ms=80), "one")
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=4)
    delivery = await producer.send("one", b"0")
    await delivery
    timings = delivery.timings
    assert timings is not None
    assert timings.answered is not None
    assert timings.drained is not None
    elapsed = timings.answered - timings.drained
    # 20 + 40 + 80 + 80 ms, each up to 20 % shorter.
    assert 0.8 * 0.220 <= elapsed < 3


async def test_retries_used_up(make: Make, kafka: EmbeddedKafka) -> None:
    """With `retries` used up a record fails, with the last error as the cause; others are written."""
    producer = await warm(make(kafka, batch_size=1, retries=2), "one")
    fault = kafka.faults.error("NOT_ENOUGH_REPLICAS", times=3)
    first, *others = await send_all(producer, range(5))
    outcome = await first.wait(5)
    error = first.exception()
    assert (outcome.name, fault.hits) == ("NOT_WRITTEN", 3)
    assert error is not None
    assert "NOT_ENOUGH_REPLICAS" in str(error.__cause__)
    assert await all_acked(others)
    assert numbers(kafka) == [1, 2, 3, 4]
