"""A Produce request that is written around its batches has the bytes that the codec would write."""

from __future__ import annotations

from typing import Final

import pytest

from aioproducer._core import Batch, BatchSettings
from aioproducer._wire.apis import APIS
from aioproducer._wire.codec import encode_request
from aioproducer._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aioproducer._wire.produce import TOPIC_IDS_FROM, ProduceHead, TopicBatches, write_produce

# From this size on the bytes of a batch are a piece of their own.
VIEWED: Final = 8192
VERSIONS: Final = range(APIS[0].min_version, APIS[0].max_version + 1)


def batch_of(partition: int, size: int) -> Batch:
    """A batch with one record, of so many bytes, or one less where a longer value has a longer length."""
    for value_size in range(size, -1, -1):
        batch = Batch("t", partition, 1 << 20, BatchSettings())
        batch.append(None, bytes(value_size), None, 1_000)
        if batch.size <= size:
            return batch
    raise AssertionError(f"no batch has {size} bytes")


def topics_of(*sizes: int) -> list[TopicBatches]:
    """Two topics; the first has a batch of each of these sizes."""
    batches = [batch_of(partition, size) for partition, size in enumerate(sizes)]
    return [
        TopicBatches("ä" * 130, b"\1" * 16, batches),
        TopicBatches("u", b"\2" * 16, [batch_of(2**31 - 1, 100)]),
    ]


def by_the_codec(head: ProduceHead, topics: list[TopicBatches]) -> bytes:
    """The same request, from objects."""
    by_id = head.version >= TOPIC_IDS_FROM
    request = ProduceRequest(
        head.transactional_id,
        head.acks,
        head.timeout_ms,
        [
            TopicProduceData(
                "" if by_id else topic.name,
                topic.topic_id if by_id else bytes(16),
                [PartitionProduceData(batch.partition, bytes(batch)) for batch in topic.batches],
            )
            for topic in topics
        ],
    )
    return encode_request(request, head.version, head.correlation_id, head.client_id)


@pytest.mark.parametrize("transactional_id", [None, "pay"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_has_the_bytes_of_the_codec(version: int, transactional_id: str | None) -> None:
    """Small and large batches, lengths of one, two and three bytes, names that are not ASCII."""
    head = ProduceHead(version, 77, "me", -1, 30_000, transactional_id)
    topics = topics_of(70, 126, 127, 128, 5_000, VIEWED - 1, VIEWED, VIEWED + 1, 70, 20_000, 71)
    assert b"".join(write_produce(head, topics)) == by_the_codec(head, topics)


def test_a_request_of_many_small_batches_is_one_piece() -> None:
    """It holds no view, so that the batches may be changed again; large batches are not copied."""
    head = ProduceHead(VERSIONS[-1], 1, "me", -1, 1)
    assert [type(part) for part in write_produce(head, topics_of(*[1_000] * 200))] == [bytes]
    pieces = write_produce(head, topics_of(1_000, VIEWED, VIEWED, 1_000))
    assert [type(part) for part in pieces] == [bytes, memoryview, bytes, memoryview, bytes]


def test_a_settled_batch_has_no_bytes_to_write() -> None:
    """Reading them would end the process."""
    batch = batch_of(0, 100)
    batch.acknowledge(0)
    with pytest.raises(ValueError, match="settled"):
        write_produce(ProduceHead(VERSIONS[-1], 1, "me", -1, 1), [TopicBatches("t", bytes(16), [batch])])
