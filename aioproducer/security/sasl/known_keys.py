"""The keys that SCRAM has derived from a password: each further exchange with the same salt needs no derivation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aioproducer.secret import Secret

__all__ = ["Derivation", "KnownKeys"]

# A user has one salt for each mechanism. A broker that sends another salt each time fills no memory.
_MOST = 4


class Derivation(NamedTuple):
    """Everything that a derived key depends on, but the password."""

    hash: str
    salt: bytes
    iterations: int


class KnownKeys:
    """A few keys of one user, each with the password that it belongs to: a secret in a file may change."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Derivation, tuple[Secret, bytes]] = {}

    def find(self, derivation: Derivation, password: Secret) -> bytes | None:
        """The key, if it was derived before from this password."""
        known = self._keys.get(derivation)
        return known[1] if known is not None and known[0] == password else None

    def keep(self, derivation: Derivation, password: Secret, key: bytes) -> None:
        """Keep a key for the next exchanges."""
        self._keys.pop(derivation, None)
        while len(self._keys) >= _MOST:
            del self._keys[next(iter(self._keys))]
        self._keys[derivation] = password, key

    def __repr__(self) -> str:
        return f"<{len(self._keys)} derived keys>"
