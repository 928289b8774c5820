"""Requests and responses behind their headers."""

from __future__ import annotations

import pytest

from aioproducer._wire.apis import APIS
from aioproducer._wire.codec import (
    RequestHeader,
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aioproducer._wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest
from aioproducer.errors import ProtocolError


def test_old_request_header() -> None:
    """Before flexible versions the header is key, version, correlation id and client id."""
    frame = encode_request(MetadataRequest([]), 1, 0x01020304, "me")
    assert frame == b"\0\x03\0\x01\x01\x02\x03\x04\0\x02me" + b"\0\0\0\0"


def test_flexible_request_header() -> None:
    """In flexible versions tags follow, but the client id keeps its old two-byte length."""
    frame = encode_request(ApiVersionsRequest("a", "1"), 3, 5, "me")
    assert frame == b"\0\x12\0\x03\0\0\0\x05\0\x02me\0" + b"\x02a\x021\0"


def test_no_client_id() -> None:
    """The client id may be null."""
    frame = encode_request(SaslHandshakeRequest("PLAIN"), 1, 5, None)
    assert frame == b"\0\x11\0\x01\0\0\0\x05\xff\xff" + b"\0\x05PLAIN"
    assert decode_request(frame) == (RequestHeader(17, 1, 5, None), ("PLAIN",))


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_request_there_and_back(version: int) -> None:
    """A server reads the header and the request that a client wrote."""
    request = MetadataRequest([MetadataRequestTopic(name="topic")])
    header, got = decode_request(encode_request(request, version, -7, "client"))
    assert header == RequestHeader(api_key=3, api_version=version, correlation_id=-7, client_id="client")
    assert got == request


def test_what_is_decoded_has_the_hash_of_what_it_equals() -> None:
    """Its tuples are made without the constructor, and each keeps its hash from Python 3.14 on."""
    made = [decode_request(encode_request(MetadataRequest([]), 1, each, "client"))[0] for each in (5, 6)]
    plain = [RequestHeader(*header) for header in made]
    assert made == plain
    assert [hash(header) for header in made] == [hash(header) for header in plain]
    assert len(set(made)) == 2


@pytest.mark.parametrize(("version", "header"), [(8, b"\0\0\0\x09"), (9, b"\0\0\0\x09\0")])
def test_response_there_and_back(version: int, header: bytes) -> None:
    """A client reads the correlation id and the response that a server wrote; flexible headers have tags."""
    part = PartitionProduceResponse(3, 0, 77, record_errors=[])
    response = ProduceResponse([TopicProduceResponse("t", partition_responses=[part])], node_endpoints=[])
    frame = encode_response(response, version, 9)
    assert frame == header + encode(response, version)
    assert decode_response(ProduceResponse, version, frame) == (9, response)
    assert decode_response(ProduceResponse, version, memoryview(bytearray(frame))) == (9, response)


def test_tags_in_headers_are_skipped() -> None:
    """Tags that a later Kafka adds to headers do not disturb."""
    body = encode(MetadataResponse(), 9)
    assert decode_response(MetadataResponse, 9, b"\0\0\0\x01\x01\x05\x03abc" + body)[0] == 1
    frame = b"\0\x12\0\x03\0\0\0\x05\0\x02me\x01\0\x02ab" + b"\x02a\x021\0"
    assert decode_request(frame)[1] == ApiVersionsRequest("a", "1")


@pytest.mark.parametrize("version", range(5))
def test_api_versions_answers_have_the_oldest_header(version: int) -> None:
    """An ApiVersions answer has a header without tags in every version (KIP-511)."""
    response = ApiVersionsResponse(0, [ApiVersion(3, 0, 13)], supported_features=[], finalized_features=[])
    frame = encode_response(response, version, 5)
    assert frame == b"\0\0\0\x05" + encode(response, version)
    assert decode_response(ApiVersionsResponse, version, frame) == (5, response)


def test_api_versions_refused() -> None:
    """UNSUPPORTED_VERSION is answered in version 0, and a client that asked in a later version reads it (KIP-511)."""
    refusal = ApiVersionsResponse(35, [ApiVersion(18, 0, 2)])
    frame = encode_response(refusal, 0, 5)
    correlation_id, answer = decode_response(ApiVersionsResponse, 4, frame)
    assert correlation_id == 5
    assert answer.error_code == 35
    assert answer.api_keys == [ApiVersion(18, 0, 2)]


def test_api_versions_of_the_future() -> None:
    """ApiVersions in an unknown version still gives its header, so that it can be answered."""
    frame = b"\0\x12\0\x63\0\0\0\x05\0\x02me\0" + b"what version 99 may bring"
    assert decode_request(frame) == (RequestHeader(18, 99, 5, "me"), ApiVersionsRequest())


@pytest.mark.parametrize(
    ("key", "version", "text"),
    [
        (0, 2, "Produce version 2"),
        (0, 14, "Produce version 14"),
        (3, -1, "Metadata version -1"),
        (22, 6, "InitProducerId version 6"),
        (4, 0, "API key 4"),
        (-1, 0, "API key -1"),
    ],
)
def test_requests_that_are_not_spoken(key: int, version: int, text: str) -> None:
    """An unknown API, and an unknown or unstable version of a known one, is a ProtocolError that says which."""
    head = key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True)
    with pytest.raises(ProtocolError, match=f"a request for {text} came"):
        decode_request(head + b"\0\0\0\x05\0\0")


@pytest.mark.parametrize("version", [-1, 2, 14, 99])
def test_versions_that_do_not_exist(version: int) -> None:
    """Asking for a version that Kafka does not define is the caller's mistake."""
    with pytest.raises(ValueError, match=f"ProduceRequest has no version {version}"):
        encode(ProduceRequest(), version)
    with pytest.raises(ValueError, match=f"ProduceResponse has no version {version}"):
        decode(ProduceResponse, version, b"")


def test_which_apis() -> None:
    """The APIs of client and embedded broker are there, with the stable versions of Kafka 4.3."""
    assert set(APIS) == {
        0,
        1,
        2,
        3,
        *range(8, 15),
        *range(17, 21),
        22,
        24,
        25,
        26,
        28,
        32,
        36,
        37,
        55,
        60,
        65,
        66,
        71,
        72,
    }
    assert APIS[0][:2] == (0, "Produce")
    assert (APIS[0].request, APIS[0].response) == (ProduceRequest, ProduceResponse)
    ranges = {api.name: (api.min_version, api.max_version) for api in APIS.values()}
    assert ranges["Produce"] == (3, 13)
    assert ranges["Metadata"] == (0, 13)
    assert ranges["ApiVersions"] == (0, 4)
    assert ranges["InitProducerId"] == (0, 5)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_bytes_behind_the_last_field_of_a_response(version: int) -> None:
    """Some brokers write them: they are ignored, and their number is reported. A short answer stays an error (B05)."""
    response = ProduceResponse([], 7, node_endpoints=[])
    frame = encode_response(response, version, 9)
    seen: list[int] = []
    assert decode_response(ProduceResponse, version, frame, seen.append) == (9, response)
    assert seen == []
    assert decode_response(ProduceResponse, version, frame + b"\xff\0", seen.append) == (9, response)
    assert seen == [2]
    with pytest.raises(ProtocolError):
        decode_response(ProduceResponse, version, frame[:-1])


def test_bytes_behind_the_last_field_of_a_request() -> None:
    """The embedded Kafka refuses them: a request of this library has none."""
    frame = encode_request(MetadataRequest(), 12, 3, "c")
    decode_request(frame)
    with pytest.raises(ProtocolError, match="1 bytes too many at the end"):
        decode_request(frame + b"\0")
