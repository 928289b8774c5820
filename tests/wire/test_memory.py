"""Decoding takes at most four times the frame and 64 KiB, whatever the peer sends."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import pytest

from aioproducer._core import ArrayView
from aioproducer._wire.codec import decode, encode
from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aioproducer._wire.messages.declaration import AnyMessage
from aioproducer._wire.messages.describe_transactions import DescribeTransactionsRequest
from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from aioproducer._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aioproducer._wire.messages.produce import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.wire.messages.random_messages import message_versions, random_message

ROCKET = "\U0001f680"
WIDEST_TEXT = "x" * 32763 + ROCKET  # one character of four bytes makes CPython store all with four

Make = Callable[[int], AnyMessage]

HOSTILE: dict[str, tuple[int, Make]] = {
    "strings of no length": (0, lambda n: DescribeTransactionsRequest([""] * n)),
    "short strings": (0, lambda n: DescribeTransactionsRequest(["ab"] * n)),
    "short wide strings": (0, lambda n: DescribeTransactionsRequest([ROCKET] * n)),
    "long wide strings": (0, lambda n: DescribeTransactionsRequest(["x" * 90 + ROCKET] * n)),
    "small structs": (3, lambda n: ApiVersionsResponse(0, [ApiVersion(999, 999, 999)] * n)),
    "empty topics": (12, lambda n: MetadataResponse(topics=[MetadataResponseTopic()] * n)),
    "empty topics of old": (0, lambda n: MetadataResponse(topics=[MetadataResponseTopic()] * n)),
    "partitions of one topic": (12, lambda n: MetadataResponse(topics=[_topic(n)])),
    "topics of ten partitions": (12, lambda n: MetadataResponse(topics=[_topic(10)] * (n // 10))),
    "produce answers": (13, lambda n: ProduceResponse([_produced(n)], 0, [NodeEndpoint(999, "h", 999)] * n)),
    "produce answers of old": (8, lambda n: ProduceResponse([_produced(n)])),
    "two arrays": (12, lambda n: FetchRequest(topics=[_fetched(n)], forgotten_topics_data=[_forgotten(n)])),
    "bytes": (2, lambda n: SaslAuthenticateRequest(bytes(n))),
    "widest texts": (3, lambda _: ApiVersionsRequest(WIDEST_TEXT, WIDEST_TEXT)),
}


def _topic(partitions: int) -> MetadataResponseTopic:
    row = [
        MetadataResponsePartition(0, i + 999, 999, 999, [1, 2, 3], [1, 2, 3], []) for i in range(partitions)
    ]
    return MetadataResponseTopic(0, "topic", bytes(16), False, row)


def _produced(partitions: int) -> TopicProduceResponse:
    return TopicProduceResponse("t", bytes(16), [PartitionProduceResponse(999, 0, 1 << 62)] * partitions)


def _fetched(partitions: int) -> FetchTopic:
    return FetchTopic("t", bytes(16), [FetchPartition(999, 999, 1 << 62)] * partitions)


def _forgotten(partitions: int) -> ForgottenTopic:
    return ForgottenTopic("t", bytes(16), [999] * partitions)


def peak_of_decoding(kind: type[AnyMessage], version: int, frame: bytes | bytearray) -> int:
    decode(kind, version, frame)
    tracemalloc.start()
    try:
        message = decode(kind, version, frame)
        peak = tracemalloc.get_traced_memory()[1]
        del message
    finally:
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize("size", [1, 100, 700, 3000, 30_000])
@pytest.mark.parametrize("name", HOSTILE)
def test_memory_is_bounded(name: str, size: int) -> None:
    """Messages made to be small as bytes and large as objects stay within the bound."""
    version, make = HOSTILE[name]
    frame = encode(make(size), version)
    peak = peak_of_decoding(type(make(1)), version, frame)
    assert peak <= 4 * len(frame) + 64 * 1024


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "widest texts"])
def test_the_copy_of_a_buffer_counts(name: str) -> None:
    """A frame in a receive buffer is copied, and the bound includes the copy."""
    version, make = HOSTILE[name]
    frame = bytearray(encode(make(30_000), version))
    assert peak_of_decoding(type(make(1)), version, frame) <= 4 * len(frame) + 64 * 1024


def test_memory_of_random_messages(rng: random.Random) -> None:
    """Random messages of every API and version stay within the bound too."""
    for message, version in message_versions():
        frame = encode(random_message(rng, message, version), version)
        assert peak_of_decoding(message.type, version, frame) <= 4 * len(frame) + 64 * 1024


def test_usual_messages_hold_lists() -> None:
    """A message of usual size has lists; only what would be too large has views."""
    broker = MetadataResponseBroker(1, "localhost", 9092, None)
    small = decode(MetadataResponse, 12, encode(MetadataResponse(0, [broker], "c", 1, [_topic(50)]), 12))
    assert type(small.topics) is list
    assert type(small.topics[0].partitions) is list
    large = decode(MetadataResponse, 12, encode(MetadataResponse(0, [broker], "c", 1, [_topic(5000)]), 12))
    assert type(large.brokers) is list
    assert isinstance(large.topics, ArrayView)
    assert isinstance(large.topics[0].partitions, ArrayView)
    assert type(large.topics[0].partitions[4000].replica_nodes) is list


def test_a_view_outlives_the_receive_buffer() -> None:
    """A view reads the received bytes, even if the buffer has been reused since."""
    frame = bytearray(encode(MetadataResponse(topics=[_topic(5000)]), 12))
    decoded = decode(MetadataResponse, 12, frame)
    frame[:] = b"\xff" * len(frame)
    assert decoded.topics == [_topic(5000)]
