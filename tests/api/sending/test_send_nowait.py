"""`send_nowait()` never waits; a record for an unknown topic is queued and its delivery has the outcome."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aioproducer import (
    BufferFullError,
    Delivery,
    DeliveryError,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    RecordError,
    StateError,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import held_requests, started, turns, unknown_topic, values, warm


async def test_gives_a_delivery_at_once(producer: Producer) -> None:
    """It returns the delivery itself, without an await."""
    delivery = producer.send_nowait("one", b"v")
    assert isinstance(delivery, Delivery)
    assert (await delivery).offset == 0


async def test_from_a_callback_of_the_loop(producer: Producer) -> None:
    """It may be called from a callback, where no await is possible."""
    made: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: made.set_result(producer.send_nowait("one", b"v")))
    assert (await (await made)).offset == 0


async def test_takes_all_parameters(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Key, partition, timestamp, headers and timeout are as for send()."""
    delivery = producer.send_nowait(
        "four", b"v", key=b"k", partition=2, timestamp=1_700_000_000_000, headers={"h": b"1"}, timeout=5
    )
    metadata = await delivery
    (record,) = kafka.records("four", 2)
    assert (metadata.partition, metadata.timestamp) == (2, 1_700_000_000_000)
    assert (record.key, record.headers) == (b"k", (("h", b"1"),))


async def test_unknown_topic_is_queued(producer: Producer, kafka: EmbeddedKafka) -> None:
    """On a topic that is not known the delivery is pending, without a partition, and then written."""
    hold = unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v")
    before = (delivery.topic, delivery.partition, delivery.outcome, delivery.done())
    hold.release()
    metadata = await delivery
    assert before == ("new", None, Outcome.PENDING, False)
    assert (metadata.topic, metadata.partition, metadata.offset) == ("new", 0, 0)
    assert delivery.partition == 0
    assert metadata.serialized_value_size == 1


async def test_it_asks_for_the_metadata_itself(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A queued record asks for the metadata of its topic by itself."""
    await asyncio.wait([producer.send_nowait("new", b"v")], timeout=5)  # type: ignore[type-var]
    assert values(kafka, "new") == [b"v"]


async def test_order_of_queued_and_later_sends(producer: Producer, kafka: EmbeddedKafka) -> None:
    """Queued records come before later ones, for every kind of call."""
    hold = unknown_topic(kafka)
    queued = [producer.send_nowait("new", b"%d" % i) for i in range(3)]
    task = started(producer.send("new", b"3"))
    await turns(1)
    queued.append(producer.send_nowait("new", b"4"))
    hold.release()
    await task
    await producer.send("new", b"5")
    await producer.flush()
    assert values(kafka, "new") == [b"%d" % i for i in range(6)]
    assert [delivery.result().offset for delivery in queued] == [0, 1, 2, 4]


async def test_queued_record_is_sent_though_its_delivery_is_dropped(
    producer: Producer, kafka: EmbeddedKafka
) -> None:
    """A queued record is sent without a reference to its delivery."""
    hold = unknown_topic(kafka)
    producer.send_nowait("new", b"v")
    gc.collect()
    hold.release()
    await producer.flush()
    assert values(kafka, "new") == [b"v"]


async def test_flush_waits_for_queued_records(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A queued record was accepted before the flush, and so the flush covers it."""
    hold = unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v")
    task = started(producer.flush())
    await hold.reached()
    assert not task.done()
    hold.release()
    assert (await task).acked == 1
    assert delivery.outcome is Outcome.ACKED


async def test_topic_that_never_comes(make: Make, kafka: EmbeddedKafka) -> None:
    """A queued record whose topic does not become known in its time has timed out and is NOT_WRITTEN."""
    producer = await warm(make())
    unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v", timeout=0.02)
    with pytest.raises(DeliveryTimeoutError, match="new") as caught:
        await delivery
    assert caught.value.outcome is delivery.outcome is Outcome.NOT_WRITTEN
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value.cause, MetadataTimeoutError)


async def test_queued_record_that_is_refused(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A queued record that is refused before its time is over did not time out; its error has the cause."""
    unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v")
    await producer.close(timeout=0)
    error = delivery.exception()
    assert isinstance(error, DeliveryError)
    assert not isinstance(error, TimeoutError)
    assert isinstance(error.cause, StateError)
    assert (error.topic, error.outcome) == ("new", Outcome.NOT_WRITTEN)


async def test_queued_records_take_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """Queued records count within buffer_memory: beyond it send_nowait is refused, and nothing is lost."""
    producer = await warm(make(buffer_memory=3000))
    hold = unknown_topic(kafka)
    delivery = producer.send_nowait("new", bytes(2000))
    with pytest.raises(BufferFullError, match="new"):
        producer.send_nowait("new", bytes(2000))
    hold.release()
    await delivery
    await producer.send_nowait("new", bytes(2000))


async def test_many_queued_records_within_the_memory_all_arrive(make: Make, kafka: EmbeddedKafka) -> None:
    """Records that were queued while there was room are written, though the memory is nearly full."""
    producer = await warm(make(buffer_memory=20_000))
    hold = unknown_topic(kafka)
    queued = []
    with pytest.raises(BufferFullError):
        while True:
            queued.append(producer.send_nowait("new", bytes(500)))
    hold.release()
    await producer.flush()
    assert {delivery.outcome for delivery in queued} == {Outcome.ACKED}
    assert len(values(kafka, "new")) == len(queued) > 20


async def test_no_room_is_refused(make: Make, kafka: EmbeddedKafka) -> None:
    """With the memory full it raises BufferFullError at once, with NOT_WRITTEN."""
    producer = await warm(make(buffer_memory=3000))
    held_requests(kafka)
    producer.send_nowait("one", bytes(2000))
    with pytest.raises(BufferFullError) as caught:
        producer.send_nowait("one", bytes(2000))
    assert caught.value.outcome is Outcome.NOT_WRITTEN


async def test_not_before_others_that_wait_for_memory(make: Make, kafka: EmbeddedKafka) -> None:
    """A small record that would fit is refused while a larger one waits before it."""
    producer = await warm(make(buffer_memory=3000))
    hold = held_requests(kafka)
    producer.send_nowait("one", bytes(2000))
    waiting = started(producer.send("one", bytes(2500)))
    await hold.reached()
    with pytest.raises(BufferFullError):
        producer.send_nowait("one", b"small")
    hold.heal()
    await waiting


async def test_not_before_others_whose_serializer_or_partition_waits(producer: Producer) -> None:
    """On a known topic with waiting calls it is refused rather than queued or let past."""
    waiting = started(producer.send("one", b"v", partition=3, max_block=0.05))
    await turns()
    with pytest.raises(BufferFullError, match="one"):
        producer.send_nowait("one", b"v")
    with pytest.raises(MetadataTimeoutError):
        await waiting
    await producer.send_nowait("one", b"v")


async def test_missing_partition_of_a_known_topic(producer: Producer) -> None:
    """A record for an unknown partition is queued like one for an unknown topic."""
    delivery = producer.send_nowait("one", b"v", partition=5, timeout=0.05)
    with pytest.raises(DeliveryTimeoutError, match="partition 5") as caught:
        await delivery
    assert caught.value.partition == 5


async def test_refused_with_coroutine_serializers(make: Make) -> None:
    """With a coroutine function as serializer it is a StateError that names the right call."""

    async def serializer(value: bytes) -> bytes:
        return value

    producer = await warm(make(value_serializer=serializer))
    with pytest.raises(StateError, match=r"send\(\)"):
        producer.send_nowait("one", b"v")


async def test_with_plain_serializers(make: Make, kafka: EmbeddedKafka) -> None:
    """Plain serializers work."""
    producer = await warm(make(value_serializer=str.encode))
    await producer.send_nowait("one", "text")
    assert values(kafka) == [b"text"]


async def test_bad_record_raises_from_the_call(producer: Producer) -> None:
    """An invalid record raises from the call itself."""
    with pytest.raises(RecordError):
        producer.send_nowait("one", 7)  # type: ignore[arg-type]


async def test_try_cancel_of_a_queued_record(producer: Producer, kafka: EmbeddedKafka) -> None:
    """A queued record can be withdrawn: no part of it was drained."""
    hold = unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v")
    assert delivery.try_cancel()
    assert delivery.outcome is Outcome.NOT_WRITTEN
    hold.release()
    await producer.send_and_wait("new", b"next")
    assert values(kafka, "new") == [b"next"]


async def test_purge_withdraws_queued_records(producer: Producer, kafka: EmbeddedKafka) -> None:
    """purge() covers records that are queued for their topic."""
    hold = unknown_topic(kafka)
    delivery = producer.send_nowait("new", b"v")
    assert producer.purge() == 1
    hold.release()
    assert await delivery.wait(5) is Outcome.NOT_WRITTEN
