"""Signatures of assertions, by the package `cryptography`: this module is imported only where one is signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from aioproducer.secret import Secret
from aioproducer.security.stores import pem

__all__ = ["Sign", "signer"]

Sign: TypeAlias = Callable[[bytes], bytes]
"""A function that gives the signature of some bytes."""
_P_256_BYTES: Final = 32


def signer(key: Secret, passphrase: Secret | None, algorithm: str) -> Sign:
    """The function that signs with this key (PEM text); ValueError if it cannot be read, or is not for the algorithm."""
    blocks = [block for block in pem.blocks(key.reveal()) if block.is_private_key]
    if not blocks:
        raise ValueError("it has no private key as PEM text")
    make, needed = _ALGORITHMS[algorithm]
    sign = make(_loaded(blocks[0], passphrase))
    if sign is None:
        raise ValueError(f"{algorithm} requires {needed}")
    return sign


def _loaded(block: pem.Block, passphrase: Secret | None) -> PrivateKeyTypes:
    is_encrypted = "ENCRYPTED" in block.label or "Proc-Type: 4,ENCRYPTED" in block.text
    if is_encrypted and passphrase is None:
        raise ValueError(
            "the private key is encrypted: set sasl_oauthbearer_assertion_private_key_passphrase"
        )
    try:
        # A passphrase for a key that is not encrypted is not used. No local variable holds it.
        return load_pem_private_key(
            block.text.encode(), passphrase.reveal().encode() if is_encrypted and passphrase else None
        )
    except Exception:  # noqa: BLE001  # ValueError, TypeError, UnsupportedAlgorithm: their texts may have anything
        why = "the private key cannot be read"
    raise ValueError(f"{why}; its passphrase may be wrong" if is_encrypted else why)


def _rs256(key: PrivateKeyTypes) -> Sign | None:
    if not isinstance(key, rsa.RSAPrivateKey):
        return None
    return lambda content: key.sign(content, padding.PKCS1v15(), SHA256())


def _es256(key: PrivateKeyTypes) -> Sign | None:
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        return None

    def sign(content: bytes) -> bytes:
        # RFC 7518: both numbers, one after the other, in place of DER.
        numbers = decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))
        return b"".join(number.to_bytes(_P_256_BYTES) for number in numbers)

    return sign


_ALGORITHMS: Final[Mapping[str, tuple[Callable[[PrivateKeyTypes], Sign | None], str]]] = {
    "RS256": (_rs256, "an RSA key"),
    "ES256": (_es256, "a key on the curve P-256"),
}
