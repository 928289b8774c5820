"""Certificates for tests of TLS: an authority, and what it signs, made when they are needed."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from aioproducer._net.tls.context import path_of
from aioproducer.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_LIFETIME: Final = datetime.timedelta(days=9)


@attrs.frozen
class Certificate:
    """A certificate and its key, as PEM text."""

    certificate: str
    key: str = attrs.field(repr=False)

    @property
    def pem(self) -> str:
        """The key and the certificate as one text, as `ssl.keystore.location` takes them in a file."""
        return self.key + self.certificate


@attrs.frozen
class Certificates:
    """An authority of its own. Clients trust it by `authority`, the text for `ssl_truststore_certificates`."""

    authority: str
    _key: Any = attrs.field(repr=False)
    _own: Any = attrs.field(repr=False)

    def issue(
        self,
        name: str = "localhost",
        *,
        hosts: Sequence[str] = ("localhost", "127.0.0.1", "::1"),
        lifetime: datetime.timedelta = _LIFETIME,
    ) -> Certificate:
        """A certificate of this common name for these host names and addresses.

        For a client, `name` is what a broker takes for the user. A negative `lifetime` gives an expired certificate.
        """
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        key = ec.generate_private_key(ec.SECP256R1())
        signed = _signed(name, key, self._own.subject, self._key, hosts=hosts, lifetime=lifetime)
        return Certificate(_pem_of(signed), _pem_of_key(key))

    def broker_context(
        self, certificate: Certificate | None = None, *, mutual: bool = False
    ) -> ssl.SSLContext:
        """The context of a TLS server; with `mutual`, clients need a certificate of this authority."""
        used = self.issue() if certificate is None else certificate
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with path_of(used.pem) as path:
            context.load_cert_chain(path)
        if mutual:
            context.load_verify_locations(cadata=self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def certificates(name: str = "authority for tests") -> Certificates:
    """Create an authority. It needs the package `cryptography`, of the extra `testing`."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "certificates() needs the package cryptography: pip install 'aioproducer[testing]'"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    own = _signed(name, key, None, key, hosts=(), lifetime=_LIFETIME)
    return Certificates(_pem_of(own), key, own)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    hosts: Sequence[str],
    lifetime: datetime.timedelta,
) -> x509.Certificate:
    """A certificate; without an issuer, that of an authority, signed by itself."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    end = datetime.datetime.now(datetime.UTC) + lifetime
    builder = (
        x509.CertificateBuilder(subject_name=subject, issuer_name=subject if issuer is None else issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks differ, and an expired certificate was valid once.
        .not_valid_before(min(end, datetime.datetime.now(datetime.UTC)) - datetime.timedelta(days=1))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        # Python 3.13 and later refuse certificates without these.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .add_extension(_usage(is_authority=issuer is None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False
        )
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _host(name: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem_of(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415

    return key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()).decode()
