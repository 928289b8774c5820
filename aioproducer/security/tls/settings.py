"""The TLS settings of a producer: trusted certificates, its own certificate, versions and ciphers."""

from __future__ import annotations

import attrs

from aioproducer.secret import Secret

__all__ = ["PemIdentity", "PemText", "StoreFile", "TlsSettings"]


@attrs.frozen
class StoreFile:
    """A file with a store, and the setting that names it."""

    setting: str
    path: str
    password: Secret | None = None


@attrs.frozen
class PemText:
    """Certificates as the text of a setting."""

    setting: str
    text: str = attrs.field(repr=False)


@attrs.frozen
class PemIdentity:
    """A private key and its certificates as the texts of two settings."""

    setting: str
    key: Secret
    certificates: str = attrs.field(repr=False)


@attrs.frozen
class TlsSettings:
    """The settings of a TLS client; `trust` None: the certificates that the system trusts."""

    trust: StoreFile | PemText | None = None
    identity: StoreFile | PemIdentity | None = None
    key_password: Secret | None = None
    checks_host_name: bool = True
    is_without_1_2: bool = False
    is_without_1_3: bool = False
    ciphers: str = ""
