"""A writer of Java key stores, by the description of the format."""

from __future__ import annotations

import hashlib
import struct

MAGIC = 0xFEEDFEED
SALT = bytes(range(20))
ALGORITHM = bytes.fromhex("300e060a2b060104012a021101010500")


def java_store(
    password: str,
    *,
    trusted: tuple[bytes, ...] = (),
    keys: tuple[tuple[bytes, bytes], ...] = (),
    version: int = 2,
) -> bytes:
    """A store of these certificates, and of these keys (PKCS #8) with their certificates, encrypted by the same password."""
    written = struct.pack(">III", MAGIC, version, len(trusted) + len(keys))
    for key, certificate in keys:
        encrypted = _encrypted(key, password)
        written += _entry(1, "mykey") + struct.pack(">I", len(encrypted)) + encrypted + struct.pack(">I", 1)
        written += _certificate(certificate, version)
    for certificate in trusted:
        written += _entry(2, "ca") + _certificate(certificate, version)
    digest = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + written)
    return written + digest.digest()


def _entry(tag: int, alias: str) -> bytes:
    return struct.pack(">IH", tag, len(alias)) + alias.encode() + bytes(8)


def _certificate(der: bytes, version: int) -> bytes:
    kind = struct.pack(">H", 5) + b"X.509" if version == 2 else b""
    return kind + struct.pack(">I", len(der)) + der


def _encrypted(key: bytes, password: str) -> bytes:
    secret = password.encode("utf-16-be")
    stream, block = b"", SALT
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    body = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    protected = SALT + body + hashlib.sha1(secret + key).digest()
    return _der(0x30, ALGORITHM + _der(0x04, protected))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x82" + struct.pack(">H", size)
    return bytes([tag]) + length + content
