"""The server's side of SASL mechanisms: generators that take messages of the client and give the answers.

A generator is sent each message. It yields a challenge, and returns the `Proven` client, or raises `RefusedError`, or
`UnansweredError`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from aioproducer.testing.broker.authentication.users import RefusedError, UnansweredError, Users

_INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_SEPARATOR: Final = "\x01"
_BEARER: Final = re.compile(r"auth=Bearer ([A-Za-z0-9\-._~+/]+=*)")


@attrs.frozen
class Proven:
    """The user of a connection; the last message to the client; the end of the credentials, by the wall clock."""

    user: str
    answer: bytes = b""
    ends_at: float | None = None


Exchange: TypeAlias = Generator[bytes, bytes, Proven]
Mechanism: TypeAlias = Callable[[Users, bytes], Exchange]


def _plain(users: Users, first: bytes) -> Exchange:
    """One message is enough."""
    yield from ()
    parts = _text(first).split("\0")
    if len(parts) != 3 or not parts[1] or not parts[2]:
        raise RefusedError("Invalid SASL/PLAIN response: expected 3 tokens")
    authorization, user, password = parts
    users.check(user, password)
    if authorization not in ("", user):
        text = "Authentication failed: Client requested an authorization id that is different from username"
        raise RefusedError(text)
    return Proven(user)


def _scram(name: str, hash_name: str, users: Users, first: bytes) -> Exchange:
    def refused() -> RefusedError:
        return RefusedError(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {name}"
        )

    found = re.fullmatch(r"n,,(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+))(,.*)?", _text(first))
    if found is None:
        raise RefusedError(f"{name}: the first message is not one of SCRAM")
    user = found[2].replace("=2C", ",").replace("=3D", "=")
    bare = found[1] + (found[4] or "")
    keys = users.scram_keys(user, hash_name)
    if keys is None:
        raise refused()
    nonce = found[3] + secrets.token_urlsafe(18)
    salt = base64.b64encode(keys.salt).decode()
    challenge = f"r={nonce},s={salt},i={keys.iterations}"
    final = _text((yield challenge.encode()))
    without_proof, _, proof = final.rpartition(",p=")
    if without_proof != f"c=biws,r={nonce}":
        raise RefusedError(f"{name}: the last message does not continue the first")
    signed = f"{bare},{challenge},{without_proof}".encode()
    signature = hmac.digest(keys.stored, signed, hash_name)
    given = _base64(proof)
    if len(given) != len(signature):
        raise UnansweredError("Kafka cannot combine a proof and a signature of different lengths")
    client_key = bytes(a ^ b for a, b in zip(given, signature, strict=True))
    if not hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), keys.stored):
        raise refused()
    proof_of_server = base64.b64encode(hmac.digest(keys.server, signed, hash_name))
    return Proven(user, b"v=" + proof_of_server)


def _oauthbearer(users: Users, first: bytes) -> Exchange:
    """Unsecured tokens (RFC 7515, alg "none"), as Kafka takes them where no validator is configured."""
    try:
        proven = _bearer(users, _text(first))
    except RefusedError:
        # RFC 7628: the client acknowledges the refusal, and gets an error then.
        yield _INVALID_TOKEN
        raise
    return proven


def _bearer(users: Users, message: str) -> Proven:
    head, *fields = message.split(_SEPARATOR)
    found = _BEARER.fullmatch(fields[0]) if fields else None
    if not head.startswith("n,") or fields[-2:] != ["", ""] or found is None:
        raise RefusedError("OAUTHBEARER: the message is not one of RFC 7628")
    claims = _claims(found[1])
    subject, ends_at = claims.get("sub"), claims.get("exp")
    if not isinstance(subject, str) or not isinstance(ends_at, int | float):
        raise RefusedError("OAUTHBEARER: the token has no sub or no exp")
    if ends_at <= users.now():
        raise RefusedError("OAUTHBEARER: the token has expired")
    return Proven(subject, ends_at=ends_at)


def _claims(token: str) -> dict[str, Any]:
    header, _, rest = token.partition(".")
    body, _, signature = rest.partition(".")
    try:
        given = [json.loads(_base64(f"{part}{'=' * (-len(part) % 4)}", b"-_")) for part in (header, body)]
    except ValueError as error:
        raise RefusedError("OAUTHBEARER: the token is not a JWT") from error
    if not all(isinstance(one, dict) for one in given):
        raise RefusedError("OAUTHBEARER: the token is not a JWT")
    if "alg" not in given[0]:
        raise UnansweredError("Kafka takes the algorithm of a token for granted")
    if given[0]["alg"] != "none" or signature:
        raise RefusedError("OAUTHBEARER: the token is not an unsecured JWT")
    claims: dict[str, Any] = given[1]
    return claims


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise RefusedError("the message is not UTF-8") from error


def _base64(text: str, others: bytes | None = None) -> bytes:
    try:
        return base64.b64decode(text, others, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedError("a part of the message is not base64") from error


MECHANISMS: Final[Mapping[str, Mechanism]] = MappingProxyType(
    {
        "PLAIN": _plain,
        "SCRAM-SHA-256": partial(_scram, "SCRAM-SHA-256", "sha256"),
        "SCRAM-SHA-512": partial(_scram, "SCRAM-SHA-512", "sha512"),
        "OAUTHBEARER": _oauthbearer,
    }
)
