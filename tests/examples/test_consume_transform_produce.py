"""The copier that writes each invoice once: killed at every step, refused, fenced, and given what it cannot handle."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka, Fault
from examples.consume_transform_produce import GROUP, rewind
from tests.examples.programs import ended, example, started

COPIER = example("consume_transform_produce.py")
PARTITIONS = 2
# For what hangs: a copier starts in a second, and in nine on a machine with twenty other programs that compute.
LIMIT = 60.0
# Where the program is killed: at a request of this kind, before the broker has carried it out or after.
MOMENTS = {
    1: ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"],
    2: ["InitProducerId", "TxnOffsetCommit"],
}

ON_ONE_LEVEL = pytest.mark.parametrize("kafka", [2], ids=["level2"], indirect=True)


@pytest.fixture(params=[1, 2], ids=["level1", "level2"])
async def kafka(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedKafka]:
    """A cluster with transactions of either version, orders in two partitions, and invoices in three."""
    async with EmbeddedKafka(transaction_version=request.param) as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic("invoices", 3)
        yield kafka


async def place_orders(kafka: EmbeddedKafka, numbers: range) -> None:
    """Orders of so many apples each, with their number as the key."""
    async with Producer(kafka.bootstrap_servers, linger_ms=0) as producer:
        for number in numbers:
            await producer.send("orders", b"%d apples" % number, key=b"%d" % number)


def invoices(kafka: EmbeddedKafka) -> list[tuple[int, bytes]]:
    """The committed records of the topic, by number."""
    return sorted((int(each.key or b""), each.value or b"") for each in kafka.records("invoices"))


def one_each(numbers: range) -> list[tuple[int, bytes]]:
    """An invoice for each of these orders."""
    return [(number, b"%d pence for apples" % (20 * number)) for number in numbers]


def consumed(kafka: EmbeddedKafka) -> int:
    """How many orders are marked as done."""
    return sum(kafka.committed_offset("invoices", "orders", each) or 0 for each in range(PARTITIONS))


async def finished(kafka: EmbeddedKafka) -> None:
    """Wait until all orders are marked as done."""
    total = len(kafka.records("orders"))
    async with asyncio.timeout(LIMIT):
        while consumed(kafka) < total:  # noqa: ASYNC110  # another process does it
            await asyncio.sleep(0.01)


async def test_killed_anywhere(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> None:
    """Whatever request a SIGKILL comes at, and whether it was carried out or not, each order has one invoice in the end (E08)."""
    moments = [(api, False) for api in MOMENTS[request.node.callspec.params["kafka"]]]
    moments += [(api, before) for api in ("Produce", "EndTxn") for before in (True, False)]
    placed = 0
    for api, before in moments:
        await place_orders(kafka, range(placed, placed + 10))
        placed += 10
        held = kafka.faults.delay(api=api, before=before)
        async with started(kafka, COPIER, "0", "1"):
            async with asyncio.timeout(LIMIT):
                await held.reached()
        held.release()
        found = invoices(kafka)
        assert (len(set(found)), len(found)) == (consumed(kafka), consumed(kafka))
    # Something is always left to do: a program that has done it has come as far as to heed Ctrl-C.
    await place_orders(kafka, range(placed, placed + 10))
    placed += 10
    async with started(kafka, COPIER, "0", "1") as copier:
        await finished(kafka)
        copier.send_signal(signal.SIGINT)
        last = await ended(copier)
    assert (last.code, last.output, last.errors) == (0, "", "")
    assert invoices(kafka) == one_each(range(placed))


async def test_an_abort_rewinds(kafka: EmbeddedKafka) -> None:
    """After a refusal that aborts the transaction, the same orders are read and written again, and count once."""
    await place_orders(kafka, range(20))
    kafka.faults.error("UNKNOWN_PRODUCER_ID", api="Produce", topic="invoices", times=2)
    async with started(kafka, COPIER, "0", "1") as copier:
        await finished(kafka)
        await place_orders(kafka, range(20, 30))
        await finished(kafka)
        copier.send_signal(signal.SIGINT)
        last = await ended(copier)
    assert (last.code, last.output) == (0, "")
    assert "repeating" in last.errors
    assert invoices(kafka) == one_each(range(30))


async def test_the_second_one_takes_over(kafka: EmbeddedKafka) -> None:
    """The first one ends as fenced, also in the middle of a transaction, and each order has one invoice."""
    await place_orders(kafka, range(10))
    held = kafka.faults.delay(api="TxnOffsetCommit", before=True)
    async with started(kafka, COPIER, "0", "1") as first:
        async with asyncio.timeout(LIMIT):
            await held.reached()
        async with started(kafka, COPIER, "0", "1"):
            await finished(kafka)
            held.release()
            outdone = await ended(first)
    assert outdone.code == 1
    assert "ProducerFencedError" in outdone.errors
    assert invoices(kafka) == one_each(range(10))


class LateConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """A consumer that receives the end of the log in answer to a question for the beginning."""

    def __init__(self, held: Fault, servers: str) -> None:
        super().__init__(bootstrap_servers=servers)
        self._held = held

    async def seek_to_beginning(self, *places: TopicPartition) -> bool:
        """Let the answer come, and ask."""
        self._held.release()
        return bool(await super().seek_to_beginning(*places))

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Let the answer come, and ask."""
        self._held.release()
        return dict(await super().beginning_offsets(places))


@ON_ONE_LEVEL
async def test_a_late_answer_passes_over_no_order(kafka: EmbeddedKafka) -> None:
    """A consumer begins with the first order, also if the offset of the last one arrives meanwhile."""
    await place_orders(kafka, range(10))
    places = [TopicPartition("orders", partition) for partition in range(PARTITIONS)]
    held = kafka.faults.delay(api="ListOffsets")
    async with (
        LateConsumer(held, kafka.bootstrap_servers) as consumer,
        Producer(kafka.bootstrap_servers, transactional_id="one") as producer,
    ):
        consumer.assign(places)
        async with asyncio.timeout(LIMIT):
            await held.reached()
            await rewind(consumer, producer, places)
            assert [await consumer.position(place) for place in places] == [0, 0]


@ON_ONE_LEVEL
async def test_orders_that_are_gone_end_it(kafka: EmbeddedKafka) -> None:
    """Where the next order should be is nothing: that is an error, and not a reason to go on with later orders."""
    await place_orders(kafka, range(10))
    producer = Producer(kafka.bootstrap_servers, transactional_id="one")
    async with producer, producer.transaction() as tx:
        tx.send_offsets({("orders", 1): 1_000}, GROUP)
    async with started(kafka, COPIER, "1") as copier, asyncio.timeout(LIMIT):
        last = await ended(copier)
    assert last.code == 1
    assert "OffsetOutOfRangeError" in last.errors
    assert invoices(kafka) == []


async def test_what_it_cannot_handle_ends_it(kafka: EmbeddedKafka) -> None:
    """Nothing of the transaction is left, and the order is not passed over."""
    await place_orders(kafka, range(5))
    async with Producer(kafka.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"some apples", partition=1)
    async with started(kafka, COPIER, "1") as copier:
        last = await ended(copier)
    assert last.code == 1
    assert "ValueError" in last.errors
    assert (invoices(kafka), kafka.committed_offset("invoices", "orders", 1)) == ([], None)
