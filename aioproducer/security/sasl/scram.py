"""SASL SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, and neither sends it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import attrs

from aioproducer._state.connecting.dialogue import Compute
from aioproducer.errors import AuthenticationError, printable
from aioproducer.security.sasl.known_keys import Derivation, DerivedKey

if TYPE_CHECKING:
    from aioproducer._state.connecting.authentication import SaslExchange
    from aioproducer.security.sasl.credentials import PasswordCredentials

__all__ = ["SCRAM_SHA_256", "SCRAM_SHA_512", "Scram"]

_LEAST_ITERATIONS = 4096
_NONCE_BYTES = 24
_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
# "n,,": no channel binding. "biws" is its base64.
_HEADER = "n,,"
_BINDING = "c=biws"
_PROOF_OF_SERVER = "v="


def fresh_nonce() -> str:
    """A random text of 192 bits, in characters that need no quoting."""
    return secrets.token_urlsafe(_NONCE_BYTES)


@attrs.frozen
class _Challenge:
    """The first message of the broker."""

    nonce: str
    salt: bytes
    iterations: int


@attrs.frozen
class Scram:
    """SCRAM with one hash."""

    name: str
    hash: str

    def exchange(
        self,
        credentials: PasswordCredentials,
        *,
        nonce: Callable[[], str] = fresh_nonce,
    ) -> SaslExchange:
        """The exchange: the broker sends a salt, then proves that it knows the password."""
        own_nonce = nonce()
        first_bare = f"n={_escaped(credentials.username)},r={own_nonce}"
        if credentials.is_token:
            first_bare += ",tokenauth=true"
        server_first: bytes = yield (_HEADER + first_bare).encode()
        challenge = self._challenge(server_first, own_nonce, credentials.most_iterations)
        derivation = Derivation(self.hash, challenge.salt, challenge.iterations)
        key = credentials.keys.find(derivation, credentials.password)
        if key is None:
            key = yield from _derived(credentials, derivation)
            credentials.keys.keep(derivation, credentials.password, key)
        without_proof = f"{_BINDING},r={challenge.nonce}".encode()
        signed = b",".join((first_bare.encode(), server_first, without_proof))
        server_final: bytes = yield without_proof + b",p=" + key.proof(signed)
        if not key.is_signature(self._signature_in(server_final), signed):
            self._fail("its signature is wrong")

    def _challenge(self, message: bytes, own_nonce: str, most_iterations: int) -> _Challenge:
        try:
            fields = message.decode().split(",")
        except UnicodeDecodeError:
            self._fail("its first message is not UTF-8")
        keys = [field[:2] for field in fields]
        # Extensions may follow. "m=" is one that must be understood, and so ends the exchange (RFC 5802, 5.1).
        if keys[:3] != ["r=", "s=", "i="] or len(set(keys)) < len(keys) or "m=" in keys:
            self._fail("its first message is not one of SCRAM")
        nonce, salt, iterations = (field[2:] for field in fields[:3])
        if not nonce.startswith(own_nonce) or len(nonce) == len(own_nonce):
            self._fail("its nonce does not continue the nonce of this client")
        if not _NUMBER.fullmatch(iterations) or not _LEAST_ITERATIONS <= int(iterations) <= most_iterations:
            self._fail(
                f"it asks for a number of iterations that is not {_LEAST_ITERATIONS} to {most_iterations}"
            )
        return _Challenge(nonce, self._decoded(salt) or self._fail("its salt is empty"), int(iterations))

    def _signature_in(self, message: bytes) -> bytes:
        text = message.decode(errors="replace")
        if text.startswith("e="):
            self._fail(f"it answered {printable(text[2:])}")
        if not text.startswith(_PROOF_OF_SERVER):
            self._fail("its last message has no signature")
        return self._decoded(text.removeprefix(_PROOF_OF_SERVER).partition(",")[0])

    def _decoded(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self._fail("its message has a part that is not base64")

    def _fail(self, why: str) -> NoReturn:
        text = f"the broker did not prove that it knows the password: {why}"
        raise AuthenticationError(text, reason="server", mechanism=self.name)


def _derived(credentials: PasswordCredentials, derivation: Derivation) -> Compute[DerivedKey]:
    def derive() -> DerivedKey:
        # No local variable holds the password, or the key: some error reports show those of each frame.
        return DerivedKey(
            derivation.hash,
            hashlib.pbkdf2_hmac(
                derivation.hash,
                credentials.password.reveal().encode(),
                derivation.salt,
                derivation.iterations,
            ),
        )

    return Compute("key derivation", derive)


SCRAM_SHA_256 = Scram("SCRAM-SHA-256", "sha256")
SCRAM_SHA_512 = Scram("SCRAM-SHA-512", "sha512")


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")
