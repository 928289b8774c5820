"""Java key stores (JKS): their certificates, and their keys, which a password encrypts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import NoReturn

import attrs

from aioproducer.secret import Secret

__all__ = ["MAGIC", "JavaKey", "JavaKeyStore", "read_jks"]

MAGIC = b"\xfe\xed\xfe\xed"
_WITH_TYPES = 2  # since this version, each certificate has a type
_KEY_ENTRY, _TRUSTED_ENTRY = 1, 2
_DIGEST = 20
_WHITENER = b"Mighty Aphrodite"
# 1.3.6.1.4.1.42.2.17.1.1, the only algorithm of the format.
_SUN_KEY_PROTECTOR = bytes.fromhex("2b060104012a02110101")
_SEQUENCE, _OBJECT_ID, _OCTETS = 0x30, 0x06, 0x04


@attrs.frozen
class JavaKey:
    """A private key with its chain of certificates (DER), the own certificate first."""

    encrypted: bytes = attrs.field(repr=False)
    chain: tuple[bytes, ...] = attrs.field(repr=False)

    def decrypted(self, password: Secret) -> bytes:
        """The key in PKCS #8 (DER); ValueError for a wrong password."""
        protected = _protected(self.encrypted)
        salt, body, check = protected[:_DIGEST], protected[_DIGEST:-_DIGEST], protected[-_DIGEST:]
        stream = _stream(password, salt, len(body))
        key = bytes(a ^ b for a, b in zip(body, stream, strict=True))
        if not hmac.compare_digest(hashlib.sha1(_utf16(password) + key).digest(), check):  # noqa: S324  # the format
            raise ValueError("the password of the key is wrong")
        return key


@attrs.frozen
class JavaKeyStore:
    """The entries of a store, in its order."""

    trusted: tuple[bytes, ...]
    keys: tuple[JavaKey, ...]


def read_jks(data: bytes, password: Secret | None) -> JavaKeyStore:
    """The content of a store; ValueError if it is damaged, or the password is wrong.

    Without a password its integrity is not checked, as in Java.
    """
    content, digest = data[:-_DIGEST], data[-_DIGEST:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + content).digest()  # noqa: S324  # the format
        if not hmac.compare_digest(expected, digest):
            raise ValueError("the password of the key store is wrong, or the file is damaged")
    reader = _Reader(content)
    if reader.take(4) != MAGIC:
        _damaged()
    version = reader.number(4)
    entries = [_entry(reader, version) for _ in range(reader.number(4))]
    trusted = tuple(entry for entry in entries if isinstance(entry, bytes))
    return JavaKeyStore(trusted, tuple(entry for entry in entries if isinstance(entry, JavaKey)))


def _entry(reader: _Reader, version: int) -> JavaKey | bytes:
    tag = reader.number(4)
    reader.take(reader.number(2))  # its alias
    reader.take(8)  # its date
    if tag == _TRUSTED_ENTRY:
        return _certificate(reader, version)
    if tag != _KEY_ENTRY:
        _damaged()
    encrypted = reader.take(reader.number(4))
    return JavaKey(encrypted, tuple(_certificate(reader, version) for _ in range(reader.number(4))))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version >= _WITH_TYPES:
        reader.take(reader.number(2))
    return reader.take(reader.number(4))


class _Reader:
    """Takes bytes from the front; every entry takes some, so a count in a damaged file causes no long loop."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            _damaged()
        taken, self.at = self._data[self.at : end], end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))


def _protected(info: bytes) -> bytes:
    """The content of an EncryptedPrivateKeyInfo: salt, encrypted key, check."""
    algorithm, rest = _der(_SEQUENCE, _der(_SEQUENCE, info)[0])
    if _der(_OBJECT_ID, algorithm)[0] != _SUN_KEY_PROTECTOR:
        raise ValueError("the key is encrypted with an algorithm that is not that of JKS")
    protected = _der(_OCTETS, rest)[0]
    if len(protected) <= 2 * _DIGEST:
        _damaged()
    return protected


def _der(tag: int, data: bytes) -> tuple[bytes, bytes]:
    """The content of the first element, which has this tag, and the bytes behind the element."""
    reader = _Reader(data)
    if reader.number(1) != tag:
        _damaged()
    length = reader.number(1)
    if length >= 0x80:  # the length of the length
        length = reader.number(length & 0x7F)
    content = reader.take(length)
    return content, reader.take(len(data) - reader.at)


def _stream(password: Secret, salt: bytes, length: int) -> bytes:
    stream = b"".join(_blocks_of_stream(password, salt, -(-length // _DIGEST)))
    return stream[:length]


def _blocks_of_stream(password: Secret, salt: bytes, count: int) -> Iterator[bytes]:
    block = salt
    for _ in range(count):
        block = hashlib.sha1(_utf16(password) + block).digest()  # noqa: S324  # the format
        yield block


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be", "surrogatepass")


def _damaged() -> NoReturn:
    raise ValueError("the key store is damaged")
