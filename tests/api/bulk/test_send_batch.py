"""`send_batch()`: many records in one call, each accepted or refused on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from aioproducer import (
    BatchDelivery,
    BrokerError,
    DeliveryError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    Record,
    RecordError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, started, turns, unknown_topic, until, values, warm


async def test_result(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The call returns a BatchDelivery; awaiting it gives a result with offsets, partitions and counts."""
    delivery = await producer.send_batch("one", [b"0", b"1", b"2"])
    result = await delivery
    assert isinstance(delivery, BatchDelivery)
    assert (list(result.offsets), list(result.partitions)) == ([0, 1, 2], [0, 0, 0])
    assert (result.acked, result.not_written, result.unknown, dict(result.errors)) == (3, 0, 0, {})
    assert values(kafka) == [b"0", b"1", b"2"]
    result.raise_for_errors()


async def test_empty(producer: Producer) -> None:
    """A call without records has an empty result."""
    result = await (await producer.send_batch("one", []))
    assert (list(result.offsets), result.acked) == ([], 0)


async def test_delivery_is_there_from_the_beginning(producer: Producer) -> None:
    """`.delivery` of the returned object is the BatchDelivery before anything is awaited."""
    sending = producer.send_batch("new", [b"v"])
    delivery = sending.delivery
    assert isinstance(delivery, BatchDelivery)
    assert await sending is delivery
    assert (await delivery).acked == 1


async def test_result_can_be_awaited_again(producer: Producer) -> None:
    """Several tasks can await a BatchDelivery, and each can await it again."""
    delivery = await producer.send_batch("one", [b"v"] * 5)

    async def result() -> Any:
        return await delivery

    first, second = await asyncio.gather(result(), result())
    assert list(first.offsets) == list(second.offsets) == list((await delivery).offsets)


async def test_in_a_task(producer: Producer) -> None:
    """The returned object is a coroutine for create_task() and gather()."""
    deliveries = await asyncio.gather(*(producer.send_batch("new", [b"v"] * 3) for _ in range(3)))
    results = [await delivery for delivery in deliveries]
    assert [list(result.offsets) for result in results] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


async def test_on_an_unknown_topic(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The call waits for its topic and keeps its place in the order."""
    hold = unknown_topic(kafka)
    first = started(producer.send("new", b"0"))
    many = started(producer.send_batch("new", [b"1", b"2"]))
    last = started(producer.send("new", b"3"))
    await hold.reached()
    hold.release()
    await asyncio.gather(first, many, last)
    await producer.flush()
    assert values(kafka, "new") == [b"0", b"1", b"2", b"3"]


async def test_topic_that_does_not_come(make: Make, kafka: EmbeddedKafka) -> None:
    """When the topic does not become known, every record is an entry of errors."""
    producer = await warm(make(max_block_ms=300))
    unknown_topic(kafka)
    result = await (await producer.send_batch("new", [b"0", b"1"]))
    assert (result.acked, result.not_written, sorted(result.errors)) == (0, 2, [0, 1])
    assert isinstance(result.errors[1], MetadataTimeoutError)


async def test_bad_records_are_sparse_errors(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """A record that cannot be accepted does not stop the others: it is an entry of errors, by index."""
    given = [b"0", "text", b"2", bytes(2_000_000), b"4", 7]
    result = await (await producer.send_batch("one", given))
    assert values(kafka) == [b"0", b"2", b"4"]
    assert sorted(result.errors) == [1, 3, 5]
    assert [type(result.errors[at]) for at in (1, 3, 5)] == [
        SerializationError,
        RecordTooLargeError,
        SerializationError,
    ]
    assert list(result.offsets) == [0, -1, 1, -1, 2, -1]
    assert (result.acked, result.not_written) == (3, 3)
    assert {error.outcome for error in result.errors.values()} == {Outcome.NOT_WRITTEN}


async def test_raise_for_errors(producer: Producer[Any, Any]) -> None:
    """A result with errors raises only in raise_for_errors(), with the first error as cause."""
    result = await (await producer.send_batch("one", [b"0", "text"]))
    with pytest.raises(DeliveryError) as caught:
        result.raise_for_errors()
    assert caught.value.cause is result.errors[1]


async def test_refused_by_the_broker(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Records that the broker refuses are entries of errors, with counts."""
    kafka.faults.error("INVALID_REQUIRED_ACKS", topic="four", partition=1)
    result = await (await producer.send_batch("four", [b"v"] * 4, partition=[0, 1, 2, 3]))
    assert sorted(result.errors) == [1]
    assert isinstance(result.errors[1], BrokerError)
    assert (result.acked, result.not_written, list(result.partitions)) == (3, 1, [0, 1, 2, 3])


async def test_unknown_outcomes_are_counted(make: Make, kafka: EmbeddedKafka) -> None:
    """Records whose answer never came are counted as unknown."""
    producer = await warm(make(linger_ms=0))
    kafka.faults.drop_answer(times=None)
    delivery = await producer.send_batch("one", [b"v"] * 3)
    await until(lambda: len(kafka.records("one")) == 3)
    await producer.close(timeout=0)
    result = await delivery
    assert (result.acked, result.not_written, result.unknown) == (0, 0, 3)


@pytest.mark.parametrize("column", ["keys", "timestamps"])
async def test_lengths_must_agree(producer: Producer, column: str) -> None:
    """A column of another length is a RecordError that names it, and nothing is sent."""
    arguments: dict[str, Any] = {column: [b"k"]}
    with pytest.raises(RecordError, match=column):
        await producer.send_batch("one", [b"0", b"1"], **arguments)
    assert producer.stats().records_accepted == 0


@pytest.mark.parametrize(("column", "given"), [("partition", [0]), ("headers", [[("a", b"b")]])])
async def test_lengths_of_sequences_must_agree(producer: Producer, column: str, given: Any) -> None:
    """So is a sequence of partitions, or of header sets, of another length."""
    arguments: dict[str, Any] = {column: given}
    with pytest.raises(RecordError, match=column):
        await producer.send_batch("one", [b"0", b"1"], **arguments)


@pytest.mark.parametrize("given", [b"bytes", "text", None, 7, {"a": b"b"}])
async def test_values_must_be_a_sequence(producer: Producer, given: Any) -> None:
    """A single value, or something that is no sequence, is a RecordError."""
    with pytest.raises(RecordError, match="values"):
        await producer.send_batch("one", given)


@pytest.mark.parametrize("topic", [None, "", "a/b", 7])
async def test_topic_is_checked(producer: Producer, topic: Any) -> None:
    """A bad topic is a RecordError from the call or the await."""
    with pytest.raises(RecordError, match="topic"):
        await producer.send_batch(topic, [b"v"])


@pytest.mark.parametrize("arguments", [{"partition": True}, {"headers": 7}, {"timeout": -1}])
async def test_arguments_for_all_records_are_checked(producer: Producer, arguments: dict[str, Any]) -> None:
    """A bad argument that is meant for all records is a RecordError."""
    with pytest.raises(RecordError, match=next(iter(arguments))[:6]):
        await producer.send_batch("one", [b"v"], **arguments)


async def test_serializers(make: Make, kafka: EmbeddedKafka) -> None:
    """Serializers are applied to every key and value, and their failures are entries of errors."""
    producer = await warm(make(value_serializer=str.encode, key_serializer=lambda key: b"k%d" % key))
    result = await (await producer.send_batch("one", ["a", 7, "c"], keys=[1, 2, 3]))
    assert [(record.key, record.value) for record in kafka.records("one")] == [(b"k1", b"a"), (b"k3", b"c")]
    assert isinstance(result.errors[1], SerializationError)


async def test_coroutine_serializers(make: Make, kafka: EmbeddedKafka) -> None:
    """Coroutine functions as serializers work as well, in order with other calls."""

    async def slowly(value: str) -> bytes:
        await turns(3)
        return value.encode()

    producer = await warm(make(value_serializer=slowly))
    many = started(producer.send_batch("one", ["a", "b"]))
    await turns(1)
    await producer.send_and_wait("one", "c")
    await many
    assert values(kafka) == [b"a", b"b", b"c"]


async def test_interceptors(make: Make, kafka: EmbeddedKafka) -> None:
    """Interceptors see every record before it is serialized, and every outcome."""
    acknowledgements: list[tuple[object, object]] = []

    class Upper:
        """Changes values and collects outcomes."""

        def on_send(self, record: Record[Any, Any]) -> Record[Any, Any]:
            return attrs.evolve(record, value=(record.value or b"").upper())

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            acknowledgements.append((metadata and metadata.offset, error))

        def close(self) -> None:
            """Nothing to do."""

    producer = await warm(make(interceptors=[Upper()]))
    await (await producer.send_batch("one", [b"a", b"b"]))
    await producer.flush()
    assert values(kafka) == [b"A", b"B"]
    assert acknowledgements == [(0, None), (1, None)]


async def test_custom_partitioner(make: Make, kafka: EmbeddedKafka) -> None:
    """A partitioner of the user chooses for each record without a partition."""

    def by_value(
        topic: str, key: object, value: bytes, partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        return value[0] % len(partitions)

    producer = await warm(make(partitioner=by_value))
    result = await (await producer.send_batch("four", [b"\0", b"\1", b"\2", b"\3"]))
    assert list(result.partitions) == [0, 1, 2, 3]


async def test_awaited_bulk_does_not_linger(make: Make) -> None:
    """Waiting for the result of a bulk send does not wait for linger_ms."""
    producer = await warm(make(linger_ms=60_000))
    result = await asyncio.wait_for(
        await producer.send_batch("four", [b"v"] * 8, partition=[0, 1, 2, 3] * 2), 5
    )
    assert result.acked == 8


async def test_unawaited_bulk_still_sends(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A bulk send without an await warns when it is dropped; its records are sent."""
    with pytest.warns(RuntimeWarning, match="never awaited"):
        producer.send_batch("new", [b"0", b"1"])
    await producer.send_and_wait("new", b"2")
    assert values(kafka, "new") == [b"0", b"1", b"2"]


async def test_flush_covers_it(producer: Producer, kafka: EmbeddedKafka) -> None:
    """flush() resolves and counts the records of a bulk send."""
    await producer.send_batch("one", [b"v"] * 100)
    assert (await producer.flush()).acked == 100


async def test_done_and_accepted(producer: Producer, kafka: EmbeddedKafka) -> None:
    """The delivery counts accepted records, and is done when all are done."""
    hold = held_requests(kafka)
    delivery = await producer.send_batch("one", [b"v"] * 3)
    before = (delivery.accepted, delivery.done())
    hold.heal()
    await delivery
    assert (before, delivery.done()) == ((3, False), True)


async def test_a_refused_record_stays_refused_in_gapless_mode(kafka: EmbeddedKafka, make: Make) -> None:
    """Another record is lost while the call waits for its topic: its records are appended one by one, without the refused one."""
    missing = unknown_topic(kafka)
    producer = await warm(make(gapless=True, retry_backoff_ms=5))
    sending = started(producer.send_batch("new", [b"1", "text", b"3"]))
    await missing.reached()
    kafka.faults.error("INVALID_RECORD", topic="one")
    assert await (await producer.send("one", b"lost")).wait() is Outcome.NOT_WRITTEN
    missing.heal()
    result = await (await sending)
    assert (list(result.errors), result.acked) == ([1], 2)
    assert values(kafka, "new") == [b"1", b"3"]
