"""Certificates are read as OpenSSL shows them, and bytes that are none give nothing."""

from __future__ import annotations

import datetime
import random
import ssl
from pathlib import Path

import pytest

from aioproducer.security.tls.certificate import read_certificate
from aioproducer.testing import certificates
from tests.certificates import Authority, openssl
from tests.seeds import fresh_seed


def der_of(path: Path) -> bytes:
    """The bytes of a certificate in a file."""
    return ssl.PEM_cert_to_DER_cert(path.read_text())


def test_names_and_times(authority: Authority) -> None:
    """The names of all kinds that brokers have; the times are those that OpenSSL reads."""
    extensions = (
        "subjectAltName=DNS:kafka.example,DNS:*.kafka.example,IP:192.0.2.1,IP:2001:db8::1,email:a@b.example"
    )
    issued = authority.issue("names", extensions, subject="/C=CH/O=Example/OU=Data/CN=kafka", days=30)
    found = read_certificate(der_of(issued.certificate))
    assert found is not None
    assert found.subject == "C=CH, O=Example, OU=Data, CN=kafka"
    assert found.issuer == "CN=authority"
    assert found.names == ("kafka.example", "*.kafka.example", "192.0.2.1", "2001:db8::1")
    shown = ssl.create_default_context(cafile=str(authority.own.certificate)).get_ca_certs()[0]
    own = read_certificate(der_of(authority.own.certificate))
    assert own is not None
    assert own.not_after == ssl.cert_time_to_seconds(str(shown["notAfter"]))
    assert own.not_before == ssl.cert_time_to_seconds(str(shown["notBefore"]))


def test_a_certificate_of_the_next_half_of_the_century() -> None:
    """From 2050 on, times have four digits of the year."""
    made = certificates()
    issued = made.issue(lifetime=datetime.timedelta(days=365 * 40))
    found = read_certificate(ssl.PEM_cert_to_DER_cert(issued.certificate))
    assert found is not None
    assert datetime.datetime.fromtimestamp(found.not_after, datetime.UTC).year >= 2060


def test_a_certificate_without_names(tmp_path: Path) -> None:
    """Of version 1, as tools made them for decades: it has no extensions."""
    key, certificate, request = (tmp_path / name for name in ("key.pem", "old.pem", "request.pem"))
    openssl(
        "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=old"
    )
    openssl("x509", "-req", "-in", request, "-signkey", key, "-days", "3", "-out", certificate)
    found = read_certificate(der_of(certificate))
    assert found is not None
    assert (found.subject, found.names) == ("CN=old", ())


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x84\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n"])
def test_no_certificate(data: bytes) -> None:
    """Nothing is read, and nothing raised."""
    assert read_certificate(data) is None


def test_damaged_certificates(authority: Authority) -> None:
    """Any damage gives a certificate or none, never an error."""
    rng = random.Random(fresh_seed())
    whole = der_of(authority.own.certificate)
    for _ in range(2000):
        damaged = bytearray(whole[: rng.randrange(len(whole) + 1)])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        read_certificate(bytes(damaged))
