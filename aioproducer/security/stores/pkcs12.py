"""PKCS #12 stores, read by the package `cryptography`: this module is imported only where there is one."""

from __future__ import annotations

from functools import partial

import attrs
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.x509 import Certificate

from aioproducer.secret import Secret

__all__ = ["Pkcs12Store", "read_pkcs12"]

# A word of `cryptography` for bytes that do not have the form of a store.
_MALFORMED = "deserialize"


@attrs.frozen
class Pkcs12Store:
    """The content of a store as PEM text: all certificates, its key (PKCS #8), and the chain of the certificate of the key."""

    certificates: tuple[str, ...] = attrs.field(repr=False)
    key: Secret | None = None
    chain: tuple[str, ...] = attrs.field(default=(), repr=False)


def read_pkcs12(data: bytes, password: Secret | None) -> Pkcs12Store:
    """The content of a store; ValueError if it is damaged, or the password is wrong."""
    store = _loaded(data, password)
    others = [entry.certificate for entry in store.additional_certs]
    own = [] if store.cert is None else [store.cert.certificate]
    certificates = _as_pem([*own, *others])
    if store.key is None:
        return Pkcs12Store(certificates)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pkcs12Store(certificates, Secret(key.decode()), _as_pem(_chain(own, others)))


def _chain(own: list[Certificate], others: list[Certificate]) -> list[Certificate]:
    """The certificate of a key and those of its issuers: a store may have others, which a peer may refuse."""
    chain = list(own)
    while chain and chain[-1].issuer != chain[-1].subject:
        issuers = [other for other in others if other.subject == chain[-1].issuer and other not in chain]
        if not issuers:
            break
        # A renewed issuer has the same name and another key.
        chain.append(next(filter(partial(_has_issued, chain[-1]), issuers), issuers[0]))
    return chain


def _has_issued(certificate: Certificate, issuer: Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # noqa: BLE001  # such as UnsupportedAlgorithm
        return False
    return True


def _as_pem(certificates: list[Certificate]) -> tuple[str, ...]:
    return tuple(each.public_bytes(Encoding.PEM).decode() for each in certificates)


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
