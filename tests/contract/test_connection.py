"""The behaviour of a broker on a connection: versions, frames, order."""

from __future__ import annotations

import pytest

from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, FinalizedFeatureKey
from aioproducer._wire.messages.metadata import MetadataRequest
from aioproducer.testing.broker.handlers import HANDLERS
from tests.contract.client import WireClient

API_VERSIONS_OF_THE_FUTURE = bytes.fromhex("0012 007f 00000007 ffff 00")
UNSUPPORTED_VERSION = 35
TELEMETRY = {71, 72}


@pytest.mark.parametrize("version", range(5))
async def test_the_ranges_of_all_apis_are_those_of_kafka(client: WireClient, version: int) -> None:
    """Every API that the embedded Kafka handles is announced with the range Kafka 4.3 announces, Produce from 0."""
    response = await client.ask(
        ApiVersionsRequest("contract", "1") if version >= 3 else ApiVersionsRequest(), version
    )
    announced = {api.api_key: api for api in response.api_keys}
    # Where a cluster takes no metrics of clients.
    assert not announced.keys() & TELEMETRY
    for handler in (handler for key, handler in HANDLERS.items() if key not in TELEMETRY):
        low = 0 if handler.key == 0 else handler.min_version
        assert announced[handler.key] == ApiVersion(handler.key, low, handler.max_version)


async def test_transaction_version_two_is_finalized(client: WireClient) -> None:
    """ApiVersions v3 and later tell the finalized level of transaction.version."""
    response = await client.ask(ApiVersionsRequest("contract", "1"), 4)
    assert FinalizedFeatureKey("transaction.version", 2, 2) in response.finalized_features


async def test_api_versions_of_the_future_is_answered_in_version_0(client: WireClient) -> None:
    """An unknown version of ApiVersions gets UNSUPPORTED_VERSION and the range of ApiVersions alone (KIP-511)."""
    client.send_frame(API_VERSIONS_OF_THE_FUTURE)
    assert await client.receive_frame() == bytes.fromhex("00000007 0023 00000001 0012 0000 0004")


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(bytes.fromhex("03e7 0000 00000001 ffff"), id="unknown API"),
        pytest.param(bytes.fromhex("0000 0063 00000001 ffff"), id="unknown version"),
        pytest.param(bytes.fromhex("0000 0002 00000001 ffff"), id="version that is announced but gone"),
        pytest.param(bytes.fromhex("0003 000d 00000001 ffff 0055"), id="garbage"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_what_cannot_be_parsed_ends_the_connection(client: WireClient, frame: bytes) -> None:
    """A request that the broker does not understand is answered by closing the connection."""
    client.send_frame(frame)
    assert await client.rest() == b""


async def test_bytes_after_a_request_are_ignored(client: WireClient) -> None:
    """A frame may be longer than its request; librdkafka's question for all topics is."""
    client.send_frame(client.frame(MetadataRequest(None, False), 13)[4:] + b"\x01\x00\x00")
    correlation_id, response = await client.receive(MetadataRequest(), 13)
    assert (correlation_id, len(response.brokers)) == (1, 1)


@pytest.mark.parametrize("length", [-1, 2**31 - 1, int.from_bytes(b"GET ", "big")])
async def test_an_impossible_length_ends_the_connection(client: WireClient, length: int) -> None:
    """A frame that claims a negative or huge length is not waited for."""
    client.send_bytes(length.to_bytes(4, "big", signed=True))
    assert await client.rest() == b""


async def test_answers_come_in_the_order_of_the_requests(client: WireClient) -> None:
    """Requests that are written together are answered one after the other, each under its correlation id."""
    request = MetadataRequest([])
    sent = [client.send(request, 13, correlation_id=number) for number in (5, 3, 2**31 - 1, -2)]
    assert [(await client.receive(request, 13))[0] for _ in sent] == sent
