"""A broker's side of SCRAM, written from RFC 5802 and apart from the client's."""

from __future__ import annotations

import base64
import hashlib
import hmac

import attrs

SALT = b"0123456789abcdef"


@attrs.define
class ScramServer:
    """Knows one user and its password; `first` and `final` are the answers of an honest broker."""

    hash: str
    username: str
    password: str
    iterations: int = 4096
    nonce: str = "3rfcNHYJY1ZVvWVs7j"
    _bare: str = ""
    _first: str = ""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message."""
        header, self._bare = message.decode()[:3], message.decode()[3:]
        assert header == "n,,"
        name, client_nonce, *_ = self._bare.split(",")
        assert name.removeprefix("n=").replace("=2C", ",").replace("=3D", "=") == self.username
        salt = base64.b64encode(SALT).decode()
        self._first = f"{client_nonce}{self.nonce},s={salt},i={self.iterations}"
        return self._first.encode()

    def final(self, message: bytes) -> bytes:
        """The answer to the client's last message, whose proof is checked."""
        without_proof, _, proof = message.decode().rpartition(",p=")
        signed = f"{self._bare},{self._first},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self.hash, self.password.encode(), SALT, self.iterations)
        stored = hashlib.new(self.hash, self._hmac(salted, b"Client Key")).digest()
        client_key = self._xor(base64.b64decode(proof), self._hmac(stored, signed))
        assert hashlib.new(self.hash, client_key).digest() == stored
        signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return b"v=" + base64.b64encode(signature)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.hash).digest()

    @staticmethod
    def _xor(left: bytes, right: bytes) -> bytes:
        return bytes(a ^ b for a, b in zip(left, right, strict=True))
