"""The codec is as fast as the design needs, in ratios that do not depend on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from timeit import timeit
from typing import Any

from aioproducer._wire.codec import decode, decode_response, encode, encode_response
from aioproducer._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aioproducer._wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)


def ratio(call: Callable[[], object], reference: Callable[[], object], number: int = 1) -> float:
    """How often the reference could be done in the time of the call."""
    # In turn, and by the time of the processor: others use the machine too, and not always as much.
    pairs = [
        [timeit(each, number=number, timer=time.thread_time) for each in (call, reference)] for _ in range(15)
    ]
    ours, theirs = min(each[0] for each in pairs), min(each[1] for each in pairs)
    return ours / theirs


def metadata(partitions: int) -> MetadataResponse:
    rows = [partition(index) for index in range(partitions)]
    brokers = [MetadataResponseBroker(node, f"broker-{node}", 9092, None) for node in range(3)]
    return MetadataResponse(
        0, brokers, "cluster", 1, [MetadataResponseTopic(0, "topic", bytes(16), False, rows)]
    )


def partition(index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(0, index, index % 3, 5, [0, 1, 2], [0, 1, 2], [])


def read_to_the_end(frame: bytes) -> int:
    decoded = decode(MetadataResponse, 12, frame)
    return sum(len(row.isr_nodes) for topic in decoded.topics for row in topic.partitions)


def test_metadata_of_10000_partitions() -> None:
    """Decoding and visiting 10,000 partitions takes less time than Python needs to make their tuples and lists."""
    frame = encode(metadata(10_000), 12)
    assert ratio(lambda: read_to_the_end(frame), lambda: [partition(index) for index in range(10_000)]) < 1


def test_the_loop_is_not_held() -> None:
    """Decoding 10,000 partitions before any is asked for takes a fraction of visiting them all."""
    frame = encode(metadata(10_000), 12)
    assert ratio(lambda: decode(MetadataResponse, 12, frame), lambda: read_to_the_end(frame)) < 0.4


def test_time_grows_with_the_frame() -> None:
    """A partition costs the same among 40,000 as among 1,000: nothing is searched for twice."""
    few, many = (encode(metadata(count), 12) for count in (1_000, 40_000))
    assert ratio(lambda: read_to_the_end(many), lambda: read_to_the_end(few)) < 3 * 40


def test_rising_indexes_are_not_searched_for() -> None:
    """Visiting by rising index costs about what iterating costs."""
    frame = encode(metadata(20_000), 12)
    rows: Sequence[Any] = decode(MetadataResponse, 12, frame).topics[0].partitions
    assert ratio(lambda: [rows[i] for i in range(20_000)], lambda: list(rows)) < 4


def test_produce_answer_of_one_partition() -> None:
    """An answer for one partition is decoded in less than ten times what one NamedTuple of its parts takes to make."""
    answer = ProduceResponse([TopicProduceResponse("t", bytes(16), [PartitionProduceResponse(1, 0, 123)])])
    frame = encode_response(answer, 13, 5)
    assert (
        ratio(
            lambda: decode_response(ProduceResponse, 13, frame),
            lambda: PartitionProduceResponse(1, 0, 123, -1, -1),
            20_000,
        )
        < 10
    )
