"""kio, an independent implementation, and our codec agree on every message of every version."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as OldHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from kio.static.primitive import i16, i32

from aioproducer._wire.codec import decode, encode, encode_request
from aioproducer._wire.messages.metadata import MetadataRequest
from aioproducer._wire.programs import version_range
from tests.wire.messages.kio_bridge import Bridge, kio_bytes, kio_entity
from tests.wire.messages.random_messages import declared_messages, random_message

MESSAGES_PER_VERSION = 8
NAMES = {message.type.__name__: message for message in declared_messages()}


@pytest.mark.parametrize("name", NAMES)
def test_equal_to_kio(name: str, rng: random.Random) -> None:
    """Random messages are written as kio writes them, and each reads what the other wrote."""
    for version in version_range(NAMES[name].versions):
        bridge = Bridge(NAMES[name], version)
        for _ in range(MESSAGES_PER_VERSION):
            _check(bridge, rng, version)


def _check(bridge: Bridge, rng: random.Random, version: int) -> None:
    ours = bridge.tamed(random_message(rng, bridge.message, version))
    written = encode(ours, version)
    assert written == kio_bytes(bridge.to_kio(ours)), ours
    assert decode(bridge.message.type, version, written) == ours
    assert bridge.from_kio(kio_entity(bridge.entity_type, written)) == ours


@pytest.mark.parametrize("client_id", ["client", "", None])
@pytest.mark.parametrize("version", [8, 9])
def test_request_headers_equal_to_kio(version: int, client_id: str | None) -> None:
    """A request is its header, as kio writes it, and its body; version 9 of Metadata is flexible."""
    header_type: Any = OldHeader if version == 8 else FlexibleHeader
    header = header_type(
        request_api_key=i16(3), request_api_version=i16(version), correlation_id=i32(-9), client_id=client_id
    )
    request = MetadataRequest([])
    expected = kio_bytes(header) + encode(request, version)
    assert encode_request(request, version, -9, client_id) == expected
