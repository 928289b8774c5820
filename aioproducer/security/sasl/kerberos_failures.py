"""Errors of Kerberos as errors of this package, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from aioproducer.errors import AuthenticationError, printable

if TYPE_CHECKING:
    from aioproducer.security.sasl.credentials import KerberosCredentials

__all__ = ["failure_of"]

# Codes of MIT Kerberos begin here (com_err's table "krb5"); the first 128 are those of RFC 4120.
_BASE: Final = -1_765_328_384
_ROUND: Final = 1 << 32
_LONGEST_DETAIL: Final = 300


@attrs.frozen
class _Meaning:
    reason: str
    text: str
    retriable: bool = False


_UNREACHABLE: Final = _Meaning(
    "token",
    "no KDC of the realm answers: check the realm in krb5.conf (or in DNS), and that its KDCs are reachable on port 88",
    retriable=True,
)
_SKEW: Final = _Meaning(
    "token",
    "the clocks of this machine, the KDC and the broker differ by more than 5 minutes: synchronise them",
    retriable=True,
)
_NO_TICKET: Final = _Meaning(
    "token",
    "there is no ticket: run kinit, or set sasl_kerberos_keytab, with which tickets are got and renewed without kinit",
    retriable=True,
)
_NO_KEY: Final = _Meaning(
    "token",
    "the key table cannot be read, or has no key of the principal: check sasl_kerberos_keytab and "
    "sasl_kerberos_principal with klist -k",
    retriable=True,
)
_OTHER_KEY: Final = _Meaning(
    "credentials",
    "the key of this client is not the one of the KDC: make the key table again with its present key",
    retriable=True,
)
_WRONG_KEY: Final = 31
_OTHER: Final = _Meaning("token", "Kerberos failed", retriable=True)
_MEANINGS: Final[Mapping[int, _Meaning]] = MappingProxyType(
    {
        1: _Meaning("credentials", "the principal has expired in the KDC", retriable=True),
        6: _Meaning(
            "credentials", "the KDC does not know the principal of this client: check sasl_kerberos_principal"
        ),
        7: _Meaning(
            "server",
            "the KDC does not know the service of the broker: check sasl_kerberos_service_name, and that the advertised "
            "host is in the name of its principal",
        ),
        18: _Meaning(
            "credentials",
            "the KDC has locked the principal of this client, or it has expired",
            retriable=True,
        ),
        24: _OTHER_KEY,
        _WRONG_KEY: _Meaning("server", "the proof of the broker is not made with the key of its service"),
        32: _Meaning(
            "token",
            "the ticket has expired: run kinit, or set sasl_kerberos_keytab, with which tickets are renewed without kinit",
            retriable=True,
        ),
        37: _SKEW,
        141: _NO_TICKET,  # the cache has no credentials
        149: _NO_KEY,  # the file cannot be read
        154: _UNREACHABLE,  # the realm has no KDC
        156: _UNREACHABLE,
        181: _NO_KEY,  # the file has no such key
        195: _NO_TICKET,  # the file does not exist
    }
)
_HOW_GSSAPI_SAYS_IT: Final = (
    # Where no krb5 code is given: the major status, in its bits 16 to 23.
    (7, _NO_TICKET),
    (11, _MEANINGS[32]),
    (12, _MEANINGS[32]),
    (9, _Meaning("server", "a token of the broker is malformed")),
    (6, _Meaning("server", "a message of the broker has a wrong signature")),
)


def failure_of(error: Exception, credentials: KerberosCredentials, *, of_broker: bool) -> AuthenticationError:
    """The meaning of an error of the package gssapi. `of_broker`: it is about a message of the broker.

    The text names principals and files, never a ticket or key.
    """
    meaning = _meaning_of(error, credentials, of_broker=of_broker)
    where = f"principal {credentials.principal or 'by default'}, service {credentials.service_at_host}"
    text = f"{meaning.text} ({printable(where)}; Kerberos says: {_detail(error)})"
    return AuthenticationError(text, reason=meaning.reason, mechanism="GSSAPI", retriable=meaning.retriable)


def _meaning_of(error: Exception, credentials: KerberosCredentials, *, of_broker: bool) -> _Meaning:
    minor = getattr(error, "min_code", None)
    if isinstance(minor, int):
        code = minor % _ROUND - _BASE % _ROUND
        if code == _WRONG_KEY and not of_broker:
            return _OTHER_KEY
        if code in _MEANINGS:
            return _of_keytab(_MEANINGS[code], credentials)
    major = getattr(error, "maj_code", None)
    if isinstance(major, int):
        kind = major >> 16 & 0xFF
        for known, meaning in _HOW_GSSAPI_SAYS_IT:
            if kind == known:
                return _of_keytab(meaning, credentials)
    return _OTHER


def _of_keytab(meaning: _Meaning, credentials: KerberosCredentials) -> _Meaning:
    # The library looks into its cache of tickets last, and reports that.
    return _NO_KEY if meaning is _NO_TICKET and credentials.keytab is not None else meaning


def _detail(error: Exception) -> str:
    # Another exception may hold anything.
    text = str(error) if getattr(error, "maj_code", None) is not None else type(error).__name__
    return printable(text, _LONGEST_DETAIL)
