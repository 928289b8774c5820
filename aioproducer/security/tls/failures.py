"""The meaning of TLS failures, by OpenSSL's codes: asyncio and uvloop agree on them, and not on texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer.errors import AuthenticationError, KafkaError, ProtocolError

__all__ = ["tls_failure"]

_LEVEL: Final = ": issue a new one, or set an ssl_context whose ciphers end with @SECLEVEL=1"
# By X509_V_ERR_*, with {name} for the name that was dialed.
_CERTIFICATES: Final[Mapping[int, str]] = {
    9: "the certificate of the broker is not valid yet: check the clocks of both sides",
    10: "the certificate of the broker, or of its authority, has expired: renew it",
    18: "the certificate of the broker signs itself and is not trusted: add it to the trust store",
    19: "the certificate of the broker is issued by an unknown authority: add the authority to the trust store",
    20: "the certificate of the broker is issued by an unknown authority, or the broker does not send the certificates "
    "between: add the authority to the trust store",
    21: "the certificate of the broker cannot be verified: add its authority to the trust store",
    23: "the certificate of the broker is revoked: renew it",
    26: "the certificate of the broker is not for servers: issue one for server authentication",
    66: f"the key of the certificate of the broker is too short{_LEVEL}",
    67: f"the key of the authority of the broker is too short{_LEVEL}",
    68: "the signature of the certificate of the broker, or of its authority, is too weak: issue a new one",
    62: "the certificate of the broker is not for the host name {name}: it needs the name that the broker advertises",
    64: "the certificate of the broker is not for the address {name}: it needs the address that the broker advertises",
}
_REFUSALS_OF_CLIENT: Final = frozenset(
    (
        "ACCESS_DENIED",
        "BAD_CERTIFICATE",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_REQUIRED",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_UNKNOWN",
        "DECRYPT_ERROR",
        "UNKNOWN_CA",
        "UNSUPPORTED_CERTIFICATE",
    )
)
_NOTHING_IN_COMMON: Final = frozenset(
    ("HANDSHAKE_FAILURE", "NO_SHARED_CIPHER", "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL")
)
_NO_TLS: Final = frozenset(("RECORD_LAYER_FAILURE", "WRONG_VERSION_NUMBER"))
_ALERT: Final = "_ALERT_"


def tls_failure(error: BaseException, name: str) -> KafkaError | None:
    """The error to report for a failed handshake with the host `name`; None if TLS is not the cause."""
    verify_code = getattr(error, "verify_code", None)
    if verify_code is not None:
        text = _CERTIFICATES.get(verify_code)
        if text is None:
            why = getattr(error, "verify_message", "no reason")
            text = f"the certificate of the broker cannot be verified: {why} (code {verify_code})"
        return AuthenticationError(text.replace("{name}", name), reason="certificate")
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return _by_reason(reason)
    if isinstance(error, ConnectionResetError) and not error.args:  # closed within the handshake
        return _closed()
    return None


def _by_reason(reason: str) -> KafkaError | None:
    word = reason.rpartition(_ALERT)[2]
    if _ALERT in reason and word in _REFUSALS_OF_CLIENT:
        return AuthenticationError(
            f"the broker refused the certificate of this client ({word}): check the key store, and the trust store of the broker",
            reason="client_certificate",
        )
    if word in _NOTHING_IN_COMMON:
        return ProtocolError(
            f"the broker and this client have no TLS version or cipher in common ({word}), or the broker wants a certificate of "
            "this client"
        )
    if word in _NO_TLS:
        return ProtocolError("the peer does not speak TLS: this may be a plaintext listener")
    if "UNEXPECTED_EOF" in word:
        return _closed()
    return ProtocolError(f"the TLS handshake failed: {word}")


def _closed() -> ProtocolError:
    return ProtocolError(
        "the peer closed the connection in the TLS handshake: this may be a plaintext listener, or a broker that stops or has "
        "too many connections"
    )
