"""Certificates of brokers, good and faulty, each with the host that a client dials and the failure that must follow."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

_DAY: Final = datetime.timedelta(days=1)
_NAMES: Final = ("DNS:localhost", "IP:127.0.0.1")
_SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
_CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH


@attrs.frozen
class Signed:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        """The key, unencrypted (PKCS #8)."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def sign(
    name: str,
    issuer: Signed | None,
    *,
    names: Sequence[str] = (),
    days: tuple[float, float] = (-1, 9),
    is_authority: bool = False,
    usage: x509.ObjectIdentifier | None = None,
) -> Signed:
    """A certificate that is valid between these days from now; without an issuer it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    signing = key if issuer is None else issuer.key
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder(
            subject_name=subject, issuer_name=subject if issuer is None else issuer.certificate.subject
        )
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        # Python 3.13 and later want these of an authority that the client trusts.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
    )
    if names:
        hosts = [_general_name(one) for one in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return Signed(builder.sign(signing, hashes.SHA256()), key)


def _general_name(text: str) -> x509.GeneralName:
    kind, _, value = text.partition(":")
    return x509.IPAddress(ipaddress.ip_address(value)) if kind == "IP" else x509.DNSName(value)


@attrs.frozen
class Case:
    """A broker's store, the certificates that the client trusts, the dialed host, and the words of the failure."""

    store: str = attrs.field(repr=False)
    trusted: str = attrs.field(repr=False)
    host: str
    refusal: str
    """A part of the error; empty where the client accepts the broker."""


@attrs.frozen
class Maker:
    """Makes the certificates of a case; `refusal` may have {host}."""

    refusal: str = ""
    host: str = "localhost"
    names: tuple[str, ...] = _NAMES
    days: tuple[float, float] = (-1, 9)
    usage: x509.ObjectIdentifier | None = _SERVER
    authority_days: tuple[float, float] = (-2, 10)
    is_issued_between: bool = False
    """By an authority between the trusted one and the broker."""
    is_between_authority: bool = True
    """That one is an authority; otherwise it is only another certificate of the trusted one."""
    sends_between: bool = True
    trusts: str = "authority"
    """Or "other": an authority that issued nothing here; "leaf": the broker's own certificate."""
    signs_itself: bool = False

    def make(self) -> Case:
        """Sign everything."""
        authority = sign("authority", None, is_authority=True, days=self.authority_days)
        issuer, between = authority, ""
        if self.is_issued_between:
            issuer = sign("between", authority, is_authority=self.is_between_authority)
            between = issuer.pem if self.sends_between else ""
        leaf = sign(
            "localhost",
            None if self.signs_itself else issuer,
            names=self.names,
            days=self.days,
            usage=self.usage,
        )
        trusted = {
            "authority": authority.pem,
            "other": sign("other", None, is_authority=True).pem if self.trusts == "other" else "",
            "leaf": leaf.pem,
        }[self.trusts]
        return Case(leaf.key_pem + leaf.pem + between, trusted, self.host, self.refusal)


_NOT_THE_HOST: Final = "is not for the host name"
CASES: Final = {
    "good": Maker(),
    "without a usage": Maker(usage=None),
    "chain": Maker(is_issued_between=True),
    "no intermediate": Maker("does not send the certificates between", is_issued_between=True, sends_between=False),
    "issued by no authority": Maker("cannot be verified", is_issued_between=True, is_between_authority=False),
    "expired": Maker("has expired", days=(-3, -1)),
    "expired authority": Maker("or of its authority, has expired", authority_days=(-3, -1)),
    "future": Maker("is not valid yet", days=(1, 3)),
    "wrong host": Maker(f"{_NOT_THE_HOST} localhost", names=("DNS:elsewhere.test",)),
    "common name only": Maker(f"{_NOT_THE_HOST} localhost", names=()),
    "self-signed": Maker("signs itself", signs_itself=True),
    "other authority": Maker("unknown authority", trusts="other"),
    "for clients": Maker("is not for servers", usage=_CLIENT),
    "address": Maker(host="127.0.0.1", names=("IP:127.0.0.1",)),
    "no address": Maker("is not for the address 127.0.0.1", host="127.0.0.1", names=("DNS:localhost",)),
    "address as a name": Maker("is not for the address 127.0.0.1", host="127.0.0.1", names=("DNS:127.0.0.1",)),
    "wildcard": Maker(host="a.brokers.test", names=("DNS:*.brokers.test",)),
    "wildcard of two levels": Maker(_NOT_THE_HOST, host="a.b.brokers.test", names=("DNS:*.brokers.test",)),
    "wildcard of no level": Maker(_NOT_THE_HOST, host="brokers.test", names=("DNS:*.brokers.test",)),
    "wildcard in a label": Maker(_NOT_THE_HOST, host="broker1.brokers.test", names=("DNS:broker*.brokers.test",)),
    "trailing dot": Maker(host="localhost."),
    "upper case of the client": Maker(host="LocalHost"),
    "upper case of the certificate": Maker(names=("DNS:LOCALHOST",)),
    "leaf as anchor": Maker(trusts="leaf"),
    "self-signed as anchor": Maker(trusts="leaf", signs_itself=True),
    "other name as anchor": Maker(_NOT_THE_HOST, trusts="leaf", names=("DNS:elsewhere.test",)),
}  # fmt: skip
