"""Input of brokers, servers and files is read to its end or refused with one error, soon, and no secret is shown.

Each input is a valid one with a few changes, or random bytes. `AIOPRODUCER_EFFORT=proof` tries ten million.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest

from aioproducer._state.connecting.dialogue import Compute
from aioproducer.config.java_properties import parse_properties
from aioproducer.config.security.jaas import parse_jaas
from aioproducer.errors import AuthenticationError, ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.https import Answer, head_in, size_of_chunk
from aioproducer.security.sasl.credentials import PasswordCredentials, TokenCredentials
from aioproducer.security.sasl.oauthbearer import oauthbearer
from aioproducer.security.sasl.scram import SCRAM_SHA_256
from aioproducer.security.stores.reading import identity_in, trusted_in
from aioproducer.security.tokens.assertions import template_in
from aioproducer.security.tokens.lifetime import token_of
from aioproducer.security.tokens.requests import token_in
from tests.certificates import Authority, Issued
from tests.effort import EFFORT
from tests.security.stores.java_store import java_store
from tests.security.stores.test_pkcs12 import key_store
from tests.seeds import fresh_seed

CANARY: Final = "canary-7"
NONCE: Final = "fyko+d2lbbFgONRv9qkxdawL"
# Ten million in all with `proof`.
INPUTS: Final = {"few": 400, "all": 8_000, "proof": 1_000_000}[EFFORT]
# Of processor time, for one input. A key derivation of a million rounds takes 0.3 s.
LONGEST: Final = 2.0

Read = Callable[[bytes], object]


@attrs.frozen
class Input:
    """One kind of input: valid examples, the function that reads it, and how often a changed one is tried."""

    name: str
    examples: tuple[bytes, ...]
    read: Read
    count: int = INPUTS


def _scram(first: bytes | None) -> Read:
    """The exchange with these bytes as the first message of the broker; None: as its last one."""

    def read(given: bytes) -> None:
        # Each has its own keys: the second exchange would derive none.
        credentials = PasswordCredentials("alice", Secret(CANARY), most_iterations=4096)
        exchange = SCRAM_SHA_256.exchange(credentials, nonce=lambda: NONCE)
        next(exchange)
        step = exchange.send(given if first is None else first)
        assert isinstance(step, Compute)
        exchange.send(step.function())
        exchange.send(given)
        raise AssertionError("an invented signature was accepted")

    return read


def _refused_token(given: bytes) -> None:
    exchange = oauthbearer(TokenCredentials(Secret(CANARY), {}))
    next(exchange)
    exchange.send(given)
    next(exchange)


def _text(read: Callable[[str], object]) -> Read:
    return lambda given: read(given.decode(errors="surrogateescape"))


_FIRST: Final = f"r={NONCE}3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096".encode()
_JAAS: Final = (
    b'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="canary-7";',
    b"a.b.OAuthBearerLoginModule required /* c */ clientId='x' clientSecret=\"canary-7\" scope=s; // e\n",
)
_PROPERTIES: Final = (
    b'security.protocol=SASL_SSL\nsasl.jaas.config=a required \\\n  password="canary-7";\n# c\n! d\nx\\u0041\\:y z',
)
_ANSWERS: Final = (
    b'{"access_token":"canary-7","expires_in":3600,"token_type":"Bearer"}',
    b'{"error":"invalid_client","error_description":"canary-7"}',
)
_JWT: Final = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6MTAwMDAwMDAwMH0."
_TEMPLATE: Final = b'{"header":{"alg":"RS256","kid":"k"},"payload":{"sub":"a","aud":["b"],"x":1}}'
_HEADS: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: application/json\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
)


def _inputs(authority: Authority, identity: Issued) -> Iterator[Input]:
    password = Secret(CANARY)
    key, certificate = identity.der()
    java = java_store(CANARY, trusted=(certificate,), keys=((key, certificate),))
    pem = (identity.pem.encode(), authority.own.certificate.read_bytes())
    yield Input("first message of SCRAM", (_FIRST,), _scram(None), INPUTS // 2)
    yield Input(
        "last message of SCRAM", (b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", b"e=no"), _scram(_FIRST), INPUTS // 4
    )
    yield Input("refusal of a token", (b'{"status":"invalid_token"}', b""), _refused_token)
    yield Input("JAAS", _JAAS, _text(parse_jaas), 2 * INPUTS)
    yield Input("properties", _PROPERTIES, _text(parse_properties))
    yield Input("answer with a token", _ANSWERS, lambda body: token_in(Answer(200, body), 0.0))
    yield Input("answer with an error", _ANSWERS, lambda body: token_in(Answer(400, body), 0.0))
    yield Input("JWT", (_JWT,), _text(token_of))
    yield Input("template of an assertion", (_TEMPLATE,), _text(lambda text: template_in(Secret(text))))
    yield Input("head of an answer", _HEADS, head_in)
    yield Input("size of a chunk", (b"1f;x=y\r\n", b"0\r\n"), size_of_chunk)
    yield Input("PEM certificates", pem, lambda data: trusted_in(data, None), INPUTS // 2)
    yield Input("PEM key store", pem, lambda data: identity_in(data, password, None), INPUTS // 2)
    yield Input("JKS trust store", (java,), lambda data: trusted_in(data, password), INPUTS // 4)
    yield Input("JKS key store", (java,), lambda data: identity_in(data, password, password), INPUTS // 4)
    p12 = key_store(identity)
    yield Input("PKCS #12", (p12,), lambda data: identity_in(data, password, None), INPUTS // 10)


NAMES: Final = (
    "first message of SCRAM", "last message of SCRAM", "refusal of a token", "JAAS", "properties", "answer with a token",
    "answer with an error", "JWT", "template of an assertion", "head of an answer", "size of a chunk", "PEM certificates",
    "PEM key store", "JKS trust store", "JKS key store", "PKCS #12",
)  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Input]:
    """Every kind of input."""
    folder: Path = tmp_path_factory.mktemp("any-input")
    authority = Authority.make(folder)
    return {one.name: one for one in _inputs(authority, authority.issue("client"))}


def test_every_kind_of_input_is_tried(inputs: dict[str, Input]) -> None:
    """The names below are those of the inputs."""
    assert tuple(inputs) == NAMES


@pytest.mark.timeout(20_000)
@pytest.mark.parametrize("name", NAMES)
def test_any_input_is_read_or_refused(inputs: dict[str, Input], name: str) -> None:
    """Nothing but the documented errors; none of them shows the secret; none takes long."""
    one, rng = inputs[name], random.Random(fresh_seed())
    for _ in range(one.count):
        given = _changed(rng, rng.choice(one.examples))
        began = time.thread_time()
        error = _refusal(one, given)
        took = time.thread_time() - began
        assert took < LONGEST, (took, given)
        if error is not None:
            shown = "".join(traceback.TracebackException.from_exception(error).format()) + repr(error)
            assert CANARY not in shown, given


def _refusal(one: Input, given: bytes) -> Exception | None:
    try:
        one.read(given)
    except StopIteration:
        return None
    except (ValueError, ConfigurationError, AuthenticationError) as error:
        return error
    except Exception as error:
        raise AssertionError(f"{one.name}: {given!r}") from error
    return None


def _changed(rng: random.Random, example: bytes) -> bytes:
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(example)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _CHANGES[rng.randrange(len(_CHANGES))](rng, data)
    return bytes(data)


def _flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(
            (0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x22, 0x2C, 0x3D, 0x5C, 0x0A)
        )


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove(rng: random.Random, data: bytearray) -> None:
    begin = rng.randrange(len(data) + 1)
    del data[begin : begin + rng.randrange(1, 20)]


def _repeat(rng: random.Random, data: bytearray) -> None:
    begin = rng.randrange(len(data) + 1)
    part = data[begin : begin + rng.randrange(1, 40)]
    data[begin:begin] = part * rng.choice((1, 2, 50))


def _insert(rng: random.Random, data: bytearray) -> None:
    begin = rng.randrange(len(data) + 1)
    data[begin:begin] = rng.choice((rng.randbytes(rng.randrange(1, 9)), *_WORDS))


_WORDS: Final = (
    b"[" * 3000, b'{"a":' * 500, b"9" * 400, b"1e999", b"-1", b"NaN", b"null", b"\xed\xa0\x80", b"\xff\xff\xff\xff", b"\\u00",
    b"i=2147483647", b",m=x", b"\r\n", b"-----BEGIN CERTIFICATE-----", b"-----END ", b"\x30\x84\x7f\xff\xff\xff", b"${env:X}",
)  # fmt: skip
_CHANGES: Final = (_flip, _flip, _set, _cut, _remove, _repeat, _insert)
