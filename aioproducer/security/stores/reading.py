"""Key stores and trust stores: their content decides on their format, as the names of files are often wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from aioproducer.secret import Secret
from aioproducer.security.stores import jks, pem

if TYPE_CHECKING:
    from aioproducer.security.stores.pkcs12 import Pkcs12Store

__all__ = ["LARGEST", "Identity", "identity_in", "pem_identity", "trusted_in"]

LARGEST: Final = 1024 * 1024
_JCEKS = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TO_PEM = "convert it to PEM: openssl pkcs12 -in FILE -out FILE.pem"
_TO_PKCS12 = (
    "convert it: keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS -destkeystore FILE.p12"
)


@attrs.frozen
class Identity:
    """A private key and its certificates, as PEM text; `password` is that of the key, if it is encrypted."""

    certificates: str = attrs.field(repr=False)
    key: Secret
    password: Secret | None = None


def trusted_in(content: bytes, password: Secret | None) -> str:
    """The certificates of a trust store, as PEM text; ValueError if there are none, or it cannot be read."""
    _require_size(content)
    if content.startswith(jks.MAGIC):
        store = jks.read_jks(content, password)
        # Java trusts its own certificates as well.
        trusted = (*store.trusted, *(key.chain[0] for key in store.keys if key.chain))
        certificates = [pem.from_der(pem.CERTIFICATE, der) for der in trusted]
    elif content.startswith(_DER_SEQUENCE):
        certificates = list(_pkcs12_in(content, password).certificates)
    else:
        certificates = [block.text for block in _pem_in(content) if block.label == pem.CERTIFICATE]
        if password is not None:
            raise ValueError("a trust store of PEM text has no password: remove it")
    if not certificates:
        raise ValueError("it has no certificate")
    return "".join(certificates)


def identity_in(content: bytes, password: Secret | None, key_password: Secret | None) -> Identity:
    """The key and certificates of a key store; ValueError if it has none, or cannot be read.

    `key_password` is that of the store by default. The first key is taken.
    """
    _require_size(content)
    if content.startswith(jks.MAGIC):
        return _java_identity(content, password, key_password or password)
    if content.startswith(_DER_SEQUENCE):
        return _pkcs12_identity(content, password or key_password)
    return pem_identity(_pem_in(content), key_password or password)


def pem_identity(blocks: list[pem.Block], password: Secret | None) -> Identity:
    """The key and certificates among these blocks."""
    certificates = [block.text for block in blocks if block.label == pem.CERTIFICATE]
    keys = [block.text for block in blocks if block.is_private_key]
    if not certificates or not keys:
        raise ValueError("it has no certificate" if not certificates else "it has no private key")
    return Identity("".join(certificates), Secret(keys[0]), password)


def _java_identity(content: bytes, password: Secret | None, key_password: Secret | None) -> Identity:
    keys = jks.read_jks(content, password).keys
    if not keys or not keys[0].chain:
        raise ValueError("it has no private key with a certificate")
    if key_password is None:
        raise ValueError("its key is encrypted: set the password")
    certificates = "".join(pem.from_der(pem.CERTIFICATE, der) for der in keys[0].chain)
    return Identity(certificates, Secret(pem.from_der("PRIVATE KEY", keys[0].decrypted(key_password))))


def _pkcs12_identity(content: bytes, password: Secret | None) -> Identity:
    # The format has a password for each key. Its writers use that of the store.
    store = _pkcs12_in(content, password)
    if store.key is None or not store.chain:
        raise ValueError("it has no private key with a certificate")
    return Identity("".join(store.chain), store.key)


def _pkcs12_in(content: bytes, password: Secret | None) -> Pkcs12Store:
    try:
        # Not above: `cryptography` is an extra, and its import takes long.
        from aioproducer.security.stores.pkcs12 import read_pkcs12  # noqa: PLC0415
    except ImportError:
        why = f"a PKCS #12 store requires the extra pkcs12: pip install 'aioproducer[pkcs12]', or {_TO_PEM}"
    else:
        if _is_certificate(content):
            raise ValueError("it is a certificate in DER: openssl x509 -inform DER -in FILE -out FILE.pem")
        return read_pkcs12(content, password)
    raise ValueError(why)


def _is_certificate(content: bytes) -> bool:
    """Whether the first element is a sequence; a PKCS #12 store begins with the number of its version."""
    length = content[1] if len(content) > 1 else 0
    first = 2 + (length & 0x7F if length & 0x80 else 0)
    return content[first : first + 1] == _DER_SEQUENCE


def _require_size(content: bytes) -> None:
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")


def _pem_in(content: bytes) -> list[pem.Block]:
    if content.startswith(_JCEKS):
        raise ValueError(f"a JCEKS key store is not supported; {_TO_PKCS12}")
    if content.startswith(_UTF_16):
        raise ValueError("it is text in UTF-16: save it as UTF-8")
    try:
        return pem.blocks(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        if pem.BEGIN.encode() not in content:
            raise ValueError("it is neither PEM text nor a key store of JKS or PKCS #12") from None
    # The names between the certificates are in any encoding.
    return pem.blocks(content.decode("latin-1"))
