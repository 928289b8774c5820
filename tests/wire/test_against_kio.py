"""kio, an independent implementation, and our codec agree on every message of every version."""

from __future__ import annotations

import random

import pytest

from aioproducer._wire.codec import decode, encode
from aioproducer._wire.programs import version_range
from tests.wire.kio_bridge import Bridge, kio_bytes, kio_entity
from tests.wire.random_messages import declared_messages, random_message

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
