"""Stores of certificates and keys: PEM, JKS and PKCS #12, by their content."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.secret import Secret
from aioproducer.security.stores.jks import read_jks
from aioproducer.security.stores.pem import Block, blocks
from aioproducer.security.stores.reading import identity_in, trusted_in
from tests.certificates import Authority, Issued, openssl
from tests.security.stores.java_store import java_store

PASSWORD = "canary-7"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", " "),
        lambda text: text.replace("\n", "\\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f"a comment\n{text}\nanother",
        lambda text: text.replace("\n", "\n  "),
    ],
)
def test_pem_text_is_read_as_kafka_reads_it(
    authority: Authority, client_identity: Issued, change: Callable[[str], str]
) -> None:
    """Newlines may be spaces or a backslash with an n (S52); the resulting blocks are valid for OpenSSL."""
    text = authority.own.certificate.read_text() + client_identity.pem
    found = blocks(change(text))
    assert [block.label for block in found] == ["CERTIFICATE", "PRIVATE KEY", "CERTIFICATE"]
    assert "".join(block.text for block in found) == text


def test_a_key_with_headers_keeps_its_lines() -> None:
    """OpenSSL's former format of encrypted keys is kept line by line."""
    text = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
        "-----END RSA PRIVATE KEY-----\n"
    )
    assert blocks(text) == [Block("RSA PRIVATE KEY", text)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no certificate"),
        (b"hello", "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA", "no end"),
        (b"-----BEGIN CERTIFICATE-----\nA?\n-----END CERTIFICATE-----", "not base64"),
        (b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "not base64"),
        (b"\x30\x82", "damaged"),
        (b"\xce\xce\xce\xce", "keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS"),
        (b"\xff\xfd", "neither PEM text nor"),
        ("-----BEGIN CERTIFICATE-----".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b" " * (1024 * 1024 + 1), "more than 1048576 bytes"),
        (b"\xfe\xed\xfe\xed" + bytes(30), "damaged|no certificate"),
    ],
)
def test_stores_that_cannot_be_read(content: bytes, why: str) -> None:
    """The error has the reason, and an advice, with and without a password."""
    with pytest.raises(ValueError, match=why):
        trusted_in(content, None)
    if content.startswith((b"\xce", b"\xff")):
        with pytest.raises(ValueError, match=why):
            trusted_in(content, Secret(PASSWORD))
    with pytest.raises(ValueError, match=f"{why}|no private key"):
        identity_in(content, None, None)


def test_a_certificate_in_der(client_identity: Issued) -> None:
    """It begins like a PKCS #12 store: the error has the command that makes PEM."""
    with pytest.raises(ValueError, match="a certificate in DER: openssl x509 -inform DER"):
        trusted_in(client_identity.der()[1], None)


@pytest.mark.parametrize(
    "change",
    [
        lambda pem: "# Autoridade Certificação\n".encode("latin-1") + pem,
        lambda pem: pem.replace(b" CERTIFICATE-", b" X509 CERTIFICATE-"),
    ],
    ids=["a name in Latin-1", "the former label"],
)
def test_trust_stores_as_openssl_reads_them(authority: Authority, change: Callable[[bytes], bytes]) -> None:
    """Bundles of operating systems have names between the certificates, and old tools write the former label."""
    text = authority.own.certificate.read_text()
    assert trusted_in(change(text.encode()), None) == text


def test_a_pem_trust_store_has_no_password(authority: Authority) -> None:
    """A password for a PEM trust store is refused, as in Kafka."""
    with pytest.raises(ValueError, match="has no password"):
        trusted_in(authority.own.certificate.read_bytes(), Secret(PASSWORD))


def test_an_identity_needs_both_parts(client_identity: Issued) -> None:
    """A key without a certificate is refused, and a certificate without a key."""
    assert (
        identity_in(client_identity.pem.encode(), None, None).key.reveal() == client_identity.key.read_text()
    )
    with pytest.raises(ValueError, match="no private key"):
        identity_in(client_identity.certificate.read_bytes(), None, None)
    with pytest.raises(ValueError, match="no certificate"):
        identity_in(client_identity.key.read_bytes(), None, None)


@pytest.mark.parametrize("version", [1, 2])
def test_java_key_stores(authority: Authority, client_identity: Issued, version: int) -> None:
    """The certificates and keys are read back unchanged; the name of the file does not matter."""
    (key, certificate), (_, trusted) = client_identity.der(), authority.own.der()
    store = java_store(PASSWORD, trusted=(trusted,), keys=((key, certificate),), version=version)
    # Java trusts its own certificate as well.
    texts = authority.own.certificate.read_text() + client_identity.certificate.read_text()
    assert trusted_in(store, None) == trusted_in(store, Secret(PASSWORD)) == texts
    identity = identity_in(store, Secret(PASSWORD), None)
    assert identity.certificates == client_identity.certificate.read_text()
    assert identity.key.reveal() == client_identity.key.read_text()
    assert PASSWORD not in repr(identity)
    assert "PRIVATE" not in repr(identity)


def test_wrong_passwords_of_java_key_stores(client_identity: Issued) -> None:
    """The errors of the store's password and of the key's differ, and show neither."""
    store = java_store(PASSWORD, keys=(client_identity.der(),))
    with pytest.raises(ValueError, match="of the key store is wrong") as raised:
        identity_in(store, Secret("other"), None)
    assert PASSWORD not in str(raised.value)
    with pytest.raises(ValueError, match="of the key is wrong"):
        identity_in(store, Secret(PASSWORD), Secret("other"))
    with pytest.raises(ValueError, match="set the password"):
        identity_in(store, None, None)


@given(st.data())
def test_damaged_java_key_stores(data: st.DataObject) -> None:
    """Any change and any cut gives a ValueError, or another content, and never a long loop."""
    store = bytearray(java_store(PASSWORD, trusted=(b"trusted",), keys=((b"key" * 9, b"certificate"),)))
    store[data.draw(st.integers(4, len(store) - 1))] = data.draw(st.integers(0, 255))
    del store[data.draw(st.integers(4, len(store))) :]
    with contextlib.suppress(ValueError):
        for key in read_jks(bytes(store), None).keys:
            key.decrypted(Secret(PASSWORD))


@given(st.text())
def test_random_text(text: str) -> None:
    """Any text gives blocks or a ValueError."""
    with contextlib.suppress(ValueError):
        blocks("-----BEGIN " + text)


@pytest.mark.kafka
def test_a_store_of_keytool(tmp_path: Path) -> None:
    """A store written by Java is read like those of the tests."""
    path = tmp_path / "store.jks"
    subprocess.run(
        ["keytool", "-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname", "CN=a", "-storetype", "JKS",
         "-keystore", path, "-storepass", PASSWORD, "-keypass", "another-7"],
        check=True, capture_output=True,
    )  # fmt: skip
    identity = identity_in(path.read_bytes(), Secret(PASSWORD), Secret("another-7"))
    (path.with_suffix(".pem")).write_text(identity.key.reveal() + identity.certificates)
    openssl("pkey", "-in", path.with_suffix(".pem"), "-noout")
