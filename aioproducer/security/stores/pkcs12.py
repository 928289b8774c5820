"""PKCS #12 stores, read by the package `cryptography`: this module is imported only where there is one."""

from __future__ import annotations

import attrs
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from aioproducer.secret import Secret

__all__ = ["Pkcs12Store", "read_pkcs12"]

# A word of `cryptography` for bytes that do not have the form of a store.
_MALFORMED = "deserialize"


@attrs.frozen
class Pkcs12Store:
    """The content of a store as PEM text: its certificates, that of the key first, and its key (PKCS #8)."""

    certificates: tuple[str, ...] = attrs.field(repr=False)
    key: Secret | None


def read_pkcs12(data: bytes, password: Secret | None) -> Pkcs12Store:
    """The content of a store; ValueError if it is damaged, or the password is wrong."""
    store = _loaded(data, password)
    entries = (store.cert, *store.additional_certs)
    certificates = tuple(
        entry.certificate.public_bytes(Encoding.PEM).decode() for entry in entries if entry is not None
    )
    if store.key is None:
        return Pkcs12Store(certificates, None)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pkcs12Store(certificates, Secret(key.decode()))


def _loaded(data: bytes, password: Secret | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.reveal().encode())
    except UnicodeEncodeError:  # its text would show a part of the password
        why = "the password has a character that cannot be encoded"
    except Exception as error:  # noqa: BLE001  # such as UnsupportedAlgorithm
        why = _meaning(error, password)
    raise ValueError(why)


def _meaning(error: Exception, password: Secret | None) -> str:
    if not isinstance(error, ValueError):
        return f"it cannot be read ({type(error).__name__})"
    if _MALFORMED in str(error):
        return "the key store is damaged"
    if password is None:
        return "its content is encrypted: set the password"
    return "the password of the key store is wrong, or the file is damaged"
