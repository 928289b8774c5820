"""Whatever the bytes are, decoding them succeeds or raises `ProtocolError`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from aioproducer._core import ArrayView
from aioproducer._wire.apis import APIS, api_of
from aioproducer._wire.codec import decode, decode_request, decode_response, encode, encode_request
from aioproducer._wire.messages.declaration import AnyMessage
from aioproducer.errors import ProtocolError
from tests.wire.messages.random_messages import message_versions, random_message

EDGES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


def mutations(rng: random.Random, frame: bytes) -> Iterator[bytes]:
    """The frame with bits flipped, bytes replaced, cut out, doubled, or cut off."""
    for _ in range(4):
        changed = bytearray(frame)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(changed))
            changed[at] = rng.choice((changed[at] ^ (1 << rng.randrange(8)), rng.choice(EDGES)))
        yield bytes(changed)
    low, high = sorted(rng.choices(range(len(frame) + 1), k=2))
    yield frame[:low] + frame[high:]
    yield frame[:high] + frame[low:]
    yield frame[:low]


def survives(kind: type[AnyMessage], version: int, frame: bytes) -> bool:
    """Can the frame be decoded? If so, what came out is whole: it can be read to its end and written again."""
    try:
        message = decode(kind, version, frame)
    except ProtocolError:
        return False
    assert decode(kind, version, encode(message, version)) == plain(message)
    return True


def plain(value: Any) -> Any:
    """A message with lists for its views."""
    if isinstance(value, tuple):
        return type(value)(*map(plain, value))
    if isinstance(value, (list, ArrayView)):
        return [plain(element) for element in value]
    return value


def test_mutated_messages(rng: random.Random) -> None:
    """Damaged messages of every API and version are refused, or read as something that can be written again."""
    outcomes = [
        survives(message.type, version, damaged)
        for message, version in message_versions()
        for frame in [encode(random_message(rng, message, version), version) or b"\0"]
        for damaged in mutations(rng, frame)
    ]
    assert True in outcomes
    assert False in outcomes


def test_random_bytes(rng: random.Random) -> None:
    """Random bytes are refused, or happen to be a message."""
    for message, version in message_versions():
        for _ in range(8):
            size = rng.choice((0, 1, 2, 3, 5, 8, 13, 40, 200))
            survives(
                message.type, version, bytes(rng.choice((rng.randrange(256), *EDGES)) for _ in range(size))
            )


def test_mutated_requests(rng: random.Random) -> None:
    """A server reads any request, damaged in its header or behind it, or refuses it with `ProtocolError`."""
    for message, version in message_versions():
        if message.type is not api_of(message.type).request:
            continue
        whole = encode_request(random_message(rng, message, version), version, rng.getrandbits(31), "client")
        for damaged in mutations(rng, whole):
            try:
                header, request = decode_request(damaged)
            except ProtocolError:
                continue
            assert type(request) is APIS[header.api_key].request


def test_random_responses(rng: random.Random) -> None:
    """A client reads any answer or refuses it with `ProtocolError`."""
    for message, version in message_versions():
        if message.type is not api_of(message.type).response:
            continue
        for size in (0, 3, 4, 5, 60):
            try:
                decode_response(message.type, version, rng.randbytes(size))
            except ProtocolError:
                continue
