"""The state that a partition keeps of idempotent producers."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest
from aioproducer._wire.messages.produce import PartitionProduceResponse
from aioproducer.testing.broker.logs.records import write_batch
from tests.contract.batches import NOW, records, sequenced
from tests.contract.client import WireClient

LAST = 2**31 - 1


class Producer:
    """Sends batches of one producer id to one partition."""

    def __init__(self, client: WireClient, topic: str, producer_id: int) -> None:
        self.client, self.topic, self.id = client, topic, producer_id

    async def send(self, sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, int]:
        """Error and offset."""
        answer = await self.answer(sequence, count, epoch)
        return answer.error_code, answer.base_offset

    async def answer(self, sequence: int, count: int = 1, epoch: int = 0) -> PartitionProduceResponse:
        """The whole answer."""
        return await self.client.produce(self.topic, sequenced(self.id, sequence, count, epoch))


OUT_OF_ORDER = (int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1)
OLD_EPOCH = (int(ErrorCode.INVALID_PRODUCER_EPOCH), -1)


@pytest.fixture
async def producer(client: WireClient, name: str) -> Producer:
    """A producer with a new id and a new topic."""
    await client.create_topic(name)
    return Producer(client, name, await client.new_producer())


async def test_producer_ids_are_unique_and_begin_with_epoch_0(client: WireClient) -> None:
    """Without a transactional id each request gets another producer id."""
    assert len({await client.new_producer() for _ in range(5)}) == 5


@pytest.mark.parametrize("version", range(6))
async def test_every_version_gives_an_id(client: WireClient, version: int) -> None:
    """InitProducerId answers in all its versions with epoch 0."""
    await client.new_producer()
    response = await client.ask(InitProducerIdRequest(None, 60_000), version)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    assert response.producer_id >= 0


async def test_an_idempotent_producer_does_not_bump_its_epoch_at_the_broker(client: WireClient) -> None:
    """A request with id and epoch but without a transactional id gets a new id with epoch 0."""
    producer_id = await client.new_producer()
    response = await client.ask(InitProducerIdRequest(None, 60_000, producer_id, 3), 5)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    assert response.producer_id > producer_id


@pytest.mark.parametrize(
    "request_", [InitProducerIdRequest(None, 60_000, 5, -1), InitProducerIdRequest("", 60_000)]
)
async def test_half_an_identity_is_refused(client: WireClient, request_: InitProducerIdRequest) -> None:
    """An id without an epoch, or an empty transactional id, is INVALID_REQUEST."""
    response = await client.ask(request_, 5)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (
        ErrorCode.INVALID_REQUEST,
        -1,
        -1,
    )


async def test_batches_in_sequence_are_appended(producer: Producer) -> None:
    """The next batch begins where the last one ended."""
    assert [await producer.send(0, 3), await producer.send(3), await producer.send(4, 2)] == [
        (0, 0),
        (0, 3),
        (0, 4),
    ]


async def test_a_duplicate_gets_the_original_offset(producer: Producer) -> None:
    """Each of the newest five batches is recognised, and nothing is appended."""
    for sequence in range(5):
        await producer.send(sequence)
    assert [await producer.send(sequence) for sequence in range(5)] == [
        (0, sequence) for sequence in range(5)
    ]
    assert await producer.send(5) == (0, 5)


async def test_a_duplicate_gets_the_highest_time_of_the_batch(producer: Producer) -> None:
    """Kafka gives back the batch's max timestamp as append time, also where records keep the time of the client."""
    first, again = await producer.answer(0, 3), await producer.answer(0, 3)
    assert first.log_append_time_ms == -1
    assert again == first._replace(log_append_time_ms=NOW + 2)


async def test_the_sixth_oldest_batch_is_forgotten(producer: Producer) -> None:
    """Outside the window of five a duplicate is out of order."""
    for sequence in range(6):
        await producer.send(sequence)
    assert await producer.send(0) == OUT_OF_ORDER


async def test_a_gap_is_out_of_order(producer: Producer) -> None:
    """A batch that leaves out a sequence is refused, and the answer has the start of the log."""
    await producer.send(0)
    answer = await producer.answer(2)
    assert answer == PartitionProduceResponse(
        0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, base_offset=-1, log_start_offset=0
    )


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (0, 4), (1, 2), (2, 2)])
async def test_another_range_is_no_duplicate(producer: Producer, sequence: int, count: int) -> None:
    """A batch that overlaps a known one without being equal to it is out of order."""
    await producer.send(0, 3)
    assert await producer.send(sequence, count) == OUT_OF_ORDER


@pytest.mark.parametrize("sequence", [0, 1, 55, LAST])
async def test_a_partition_without_memory_takes_any_sequence(producer: Producer, sequence: int) -> None:
    """The first batch of a producer may begin anywhere (KIP-360)."""
    assert await producer.send(sequence) == (0, 0)
    assert await producer.send((sequence + 1) % 2**31) == (0, 1)


async def test_the_sequence_wraps_between_batches(producer: Producer) -> None:
    """2^31-1 is followed by 0."""
    await producer.send(LAST - 1, 2)
    assert await producer.send(0) == (0, 2)


async def test_the_sequence_wraps_inside_a_batch(producer: Producer) -> None:
    """A batch may run over the end; it is recognised as a duplicate too."""
    await producer.send(LAST - 1, 4)
    assert [await producer.send(2), await producer.send(LAST - 1, 4)] == [(0, 4), (0, 0)]


async def test_a_new_epoch_begins_with_0(producer: Producer) -> None:
    """Another sequence than 0 under a new epoch is out of order."""
    await producer.send(0)
    assert [await producer.send(1, epoch=1), await producer.send(0, epoch=1)] == [OUT_OF_ORDER, (0, 1)]


async def test_a_lower_epoch_is_refused(producer: Producer) -> None:
    """A batch under an old epoch is INVALID_PRODUCER_EPOCH, even if it was appended before."""
    await producer.send(0)
    await producer.send(0, epoch=1)
    assert [await producer.send(0), await producer.send(1)] == [OLD_EPOCH, OLD_EPOCH]


async def test_a_new_epoch_forgets_the_batches_of_the_old(producer: Producer) -> None:
    """The same sequences under a new epoch are new records."""
    await producer.send(0, 2)
    assert await producer.send(0, 2, epoch=1) == (0, 2)


async def test_partitions_remember_for_themselves(client: WireClient, name: str) -> None:
    """Sequences count per partition."""
    await client.create_topic(name, 2)
    producer_id = await client.new_producer()
    batch = sequenced(producer_id, 0)
    answers = [await client.produce(name, batch, partition=index) for index in (0, 1)]
    assert [answer.base_offset for answer in answers] == [0, 0]


async def test_producers_do_not_disturb_each_other(client: WireClient, producer: Producer) -> None:
    """Each producer has its own sequence in a partition."""
    other = Producer(client, producer.topic, await client.new_producer())
    assert [await producer.send(0), await other.send(0), await producer.send(1)] == [(0, 0), (0, 1), (0, 2)]


async def test_transactional_records_need_a_transactional_id(client: WireClient, name: str) -> None:
    """A transactional batch in a request without the id is refused as not authorized."""
    await client.create_topic(name)
    batch = write_batch(
        records(1), attributes=0x10, producer_id=await client.new_producer(), epoch=0, sequence=0
    )
    answer = await client.produce(name, batch)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_a_recreated_topic_has_forgotten_the_producers(client: WireClient, producer: Producer) -> None:
    """A topic that is deleted and made again starts without memory, and with another id."""
    await producer.send(0)
    await client.delete_topic(producer.topic)
    await client.create_topic(producer.topic)
    assert await producer.send(7) == (0, 0)
