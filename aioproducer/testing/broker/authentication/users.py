"""The users of a cluster, with their passwords and the keys that SCRAM keeps in place of a password."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, MutableMapping
from typing import Final

import attrs

ITERATIONS: Final = 4096
"""The least that Kafka allows, and its default."""


class RefusedError(Exception):
    """The credentials of the client are wrong. The text is for the client."""


class UnansweredError(Exception):
    """A message on which Kafka's own code fails, so that the connection ends without an answer."""


@attrs.frozen
class ScramKeys:
    """The keys that a broker stores in place of a password."""

    salt: bytes
    iterations: int
    stored: bytes
    server: bytes


@attrs.define(eq=False)
class Users:
    """Names and passwords, which a test may change at any time, and the wall clock that ends tokens."""

    passwords: MutableMapping[str, str] = attrs.field(repr=False)
    now: Callable[[], float]
    """Seconds since the epoch."""
    _derived: dict[tuple[str, str, str], ScramKeys] = attrs.field(factory=dict, init=False, repr=False)

    def check(self, name: str, password: str) -> None:
        """Refuse a wrong password."""
        known = self.passwords.get(name)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            raise RefusedError("Authentication failed: Invalid username or password")

    def scram_keys(self, name: str, hash_name: str) -> ScramKeys | None:
        """The keys of a user for one hash; None for an unknown user."""
        password = self.passwords.get(name)
        if password is None:
            return None
        key = (name, password, hash_name)
        if key not in self._derived:
            self._derived[key] = _derive(name, password, hash_name)
        return self._derived[key]


def _derive(name: str, password: str, hash_name: str) -> ScramKeys:
    # A salt that follows from the name: a run is replayed byte by byte.
    salt = hashlib.sha256(f"salt of {name}".encode()).digest()[:18]
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored = hashlib.new(hash_name, client_key).digest()
    return ScramKeys(salt, ITERATIONS, stored, hmac.digest(salted, b"Server Key", hash_name))
