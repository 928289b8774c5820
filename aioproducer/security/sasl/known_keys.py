"""The keys that SCRAM has derived from a password: each further exchange with the same salt needs no derivation."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from aioproducer.secret import Secret

__all__ = ["Derivation", "DerivedKey", "KnownKeys"]

# A user has one salt for each mechanism. A broker that sends another salt each time fills no memory.
_MOST = 4


class Derivation(NamedTuple):
    """Everything that a derived key depends on, but the password."""

    hash: str
    salt: bytes
    iterations: int


@attrs.frozen
class DerivedKey:
    """The key that follows from the password and the salt; its repr does not show it."""

    hash: str
    _salted: bytes = attrs.field(repr=False)

    def proof(self, signed: bytes) -> bytes:
        """The proof that the client knows the password."""
        client_key = hmac.digest(self._salted, b"Client Key", self.hash)
        signature = hmac.digest(hashlib.new(self.hash, client_key).digest(), signed, self.hash)
        proof = int.from_bytes(client_key) ^ int.from_bytes(signature)
        return base64.b64encode(proof.to_bytes(len(client_key)))

    def is_signature(self, signature: bytes, signed: bytes) -> bool:
        """Whether the broker knows the password."""
        server_key = hmac.digest(self._salted, b"Server Key", self.hash)
        return hmac.compare_digest(signature, hmac.digest(server_key, signed, self.hash))


class KnownKeys:
    """A few keys of one user, each with the password that it belongs to: a secret in a file may change."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Derivation, tuple[Secret, DerivedKey]] = {}

    def find(self, derivation: Derivation, password: Secret) -> DerivedKey | None:
        """The key, if it was derived before from this password."""
        known = self._keys.get(derivation)
        return known[1] if known is not None and known[0] == password else None

    def keep(self, derivation: Derivation, password: Secret, key: DerivedKey) -> None:
        """Keep a key for the next exchanges."""
        self._keys.pop(derivation, None)
        while len(self._keys) >= _MOST:
            del self._keys[next(iter(self._keys))]
        self._keys[derivation] = password, key

    def __repr__(self) -> str:
        return f"<{len(self._keys)} derived keys>"
