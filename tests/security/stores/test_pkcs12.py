"""PKCS #12 stores, made by openssl and by Java's keytool."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._net.tls.context import make_context
from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.stores.reading import identity_in, trusted_in
from aioproducer.security.tls.settings import StoreFile, TlsSettings
from tests.certificates import Authority, Issued, openssl
from tests.reports import report

PASSWORD = "canary-7"
# keytool protects neither the certificates nor the whole, so that a trust store needs no password.
OPEN = ("-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE", "-J-Dkeystore.pkcs12.macAlgorithm=NONE")


def key_store(issued: Issued, *options: str | Path, password: str = PASSWORD) -> bytes:
    """A store with a key and its certificate."""
    path = issued.key.with_suffix(".p12")
    openssl("pkcs12", "-export", "-inkey", issued.key, "-in", issued.certificate, "-out", path,
            "-passout", f"pass:{password}", *options)  # fmt: skip
    return path.read_bytes()


def trust_store(authority: Authority) -> bytes:
    """A store with a certificate."""
    path = authority.own.certificate.with_suffix(".p12")
    openssl("pkcs12", "-export", "-nokeys", "-in", authority.own.certificate, "-out", path,
            "-passout", f"pass:{PASSWORD}")  # fmt: skip
    return path.read_bytes()


def keytool(*arguments: str | Path) -> None:
    """Run keytool on stores in its default format, PKCS #12."""
    subprocess.run(["keytool", *arguments, "-storepass", PASSWORD], check=True, capture_output=True)


def test_a_trust_store_of_openssl(authority: Authority) -> None:
    """Its certificate is read back unchanged."""
    assert trusted_in(trust_store(authority), Secret(PASSWORD)) == authority.own.certificate.read_text()


@pytest.mark.parametrize("options", [(), ("-legacy",), ("-keypbe", "NONE", "-certpbe", "NONE")])
def test_a_key_store_of_openssl(client_identity: Issued, options: tuple[str, ...]) -> None:
    """Its key is read back, with present, former and no encryption; what it is read into shows neither key nor password."""
    identity = identity_in(key_store(client_identity, *options), Secret(PASSWORD), None)
    assert identity.certificates == client_identity.certificate.read_text()
    assert identity.key.reveal() == client_identity.key.read_text()
    assert identity.password is None
    assert [one for one in (PASSWORD, "PRIVATE") if one in repr(identity)] == []


def test_the_certificate_of_the_key_comes_first(authority: Authority, client_identity: Issued) -> None:
    """OpenSSL takes the first certificate for that of the key; the chain follows it."""
    store = key_store(client_identity, "-certfile", authority.own.certificate)
    chain = client_identity.certificate.read_text() + authority.own.certificate.read_text()
    assert identity_in(store, Secret(PASSWORD), None).certificates == chain


def test_other_certificates_of_a_key_store_are_not_sent(
    authority: Authority, client_identity: Issued, tmp_path: Path
) -> None:
    """A store of a key and of trusted authorities, in any order: the chain is that of the key, and all are trusted."""
    others = [Authority.make(tmp_path / name).own.certificate for name in ("one", "two")]
    for path in others:
        path.parent.mkdir(exist_ok=True)
    more = tmp_path / "more.pem"
    ordered = [others[0], authority.own.certificate, others[1]]
    more.write_text("".join(path.read_text() for path in ordered))
    content = key_store(client_identity, "-certfile", more)
    chain = identity_in(content, Secret(PASSWORD), None).certificates
    assert chain.count("BEGIN") == 2
    assert chain.split() == (client_identity.certificate.read_text() + ordered[1].read_text()).split()
    assert str(trusted_in(content, Secret(PASSWORD))).count("BEGIN CERTIFICATE") == 4


def test_the_password_of_the_key_takes_the_place_of_that_of_the_store(client_identity: Issued) -> None:
    """`ssl_key_password` alone is enough: both are the same in this format."""
    identity = identity_in(key_store(client_identity), None, Secret(PASSWORD))
    assert identity.key.reveal() == client_identity.key.read_text()


def test_an_empty_password(client_identity: Issued) -> None:
    """A store that was made without a password is read without one, and with an empty one."""
    store = key_store(client_identity, password="")
    for password in (None, Secret("")):
        assert identity_in(store, password, None).key.reveal() == client_identity.key.read_text()


def test_passwords_and_damage_are_told_apart(client_identity: Issued) -> None:
    """Missing, wrong, impossible, and a damaged file: each has its own words, and none shows the password."""
    store = key_store(client_identity)
    for password, content, why in (
        (None, store, "encrypted: set the password"),
        (Secret("other-8"), store, "the password of the key store is wrong"),
        (Secret("other-8\udc99"), store, "a character that cannot be encoded"),
        (Secret(PASSWORD), store[:-9], "the key store is damaged"),
    ):
        with pytest.raises(ValueError, match=why) as raised:
            identity_in(content, password, None)
        assert [one for one in ("other-8", PASSWORD, "udc99") if one in report(raised.value)] == []


def test_stores_that_lack_a_part(authority: Authority, client_identity: Issued) -> None:
    """A trust store is no key store, and a key without a certificate is neither."""
    with pytest.raises(ValueError, match="no private key with a certificate"):
        identity_in(trust_store(authority), Secret(PASSWORD), None)
    bare = key_store(client_identity, "-nocerts")
    with pytest.raises(ValueError, match="no private key with a certificate"):
        identity_in(bare, Secret(PASSWORD), None)
    with pytest.raises(ValueError, match="it has no certificate"):
        trusted_in(bare, Secret(PASSWORD))


def test_without_the_extra(client_identity: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting, the extra, and a command that makes a PEM file, which is then accepted."""
    path = tmp_path / "keys.jks"
    path.write_bytes(key_store(client_identity))
    monkeypatch.setitem(sys.modules, "aioproducer.security.stores.pkcs12", None)
    settings = TlsSettings(identity=StoreFile("ssl_keystore_location", str(path), Secret(PASSWORD)))
    with pytest.raises(ConfigurationError) as raised:
        make_context(settings)
    text = str(raised.value)
    assert f"ssl_keystore_location={path}: " in text
    assert "pip install 'aioproducer[pkcs12]'" in text
    command = text.partition(": openssl ")[2].replace("FILE", str(path)).split()
    openssl(*command, "-passin", f"pass:{PASSWORD}", "-passout", f"pass:{PASSWORD}")
    pem = StoreFile("ssl_keystore_location", f"{path}.pem", Secret(PASSWORD))
    make_context(TlsSettings(identity=pem))


@pytest.fixture(scope="module")
def whole(client_identity: Issued) -> bytes:
    """A store that is not damaged."""
    return key_store(client_identity)


@given(data=st.data())
def test_damaged_stores(whole: bytes, data: st.DataObject) -> None:
    """Any change and any cut gives a ValueError, or another content."""
    store = bytearray(whole)
    store[data.draw(st.integers(1, len(store) - 1))] = data.draw(st.integers(0, 255))
    del store[data.draw(st.integers(2, len(store))) :]
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `cryptography`, about BER
        identity_in(bytes(store), Secret(PASSWORD), None)


@pytest.mark.kafka
def test_stores_of_keytool(authority: Authority, client_identity: Issued, tmp_path: Path) -> None:
    """Key and trust stores that Java has made, with and without a password."""
    made = tmp_path / "keys.jks"
    keytool("-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname", "CN=a", "-keystore", made)
    identity = identity_in(made.read_bytes(), Secret(PASSWORD), None)
    text = tmp_path / "keys.pem"
    text.write_text(identity.key.reveal() + identity.certificates)
    openssl("pkey", "-in", text, "-noout")
    certificate = authority.own.certificate
    for name, options, password in (("closed", (), Secret(PASSWORD)), ("open", OPEN, None)):
        trust = tmp_path / f"{name}.jks"
        keytool(
            "-importcert", "-noprompt", "-alias", "ca", "-file", certificate, "-keystore", trust, *options
        )
        assert trusted_in(trust.read_bytes(), password) == certificate.read_text()
