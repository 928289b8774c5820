"""TLS contexts from files and texts, checked by a handshake with a broker's context in memory."""

from __future__ import annotations

import errno
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from aioproducer._net.tls.context import make_context
from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.tls.settings import PemIdentity, PemText, StoreFile, TlsSettings
from tests.certificates import Authority, Issued, openssl
from tests.reports import kept, report
from tests.security.stores.java_store import java_store

PASSWORD = Secret("canary-7")
TRUST, KEYS = "ssl_truststore_location", "ssl_keystore_location"


def shake_hands(client: ssl.SSLContext, broker: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """The broker's side of a handshake; raises what either side raises."""
    to_client, to_broker = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_broker, server_hostname=name)
    theirs = broker.wrap_bio(to_broker, to_client, server_side=True)
    for _ in range(5):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return theirs


def descriptors() -> int:
    """The number of open descriptors."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def trusting(authority: Authority, **settings: Any) -> TlsSettings:
    """Settings that trust this authority."""
    return TlsSettings(trust=StoreFile(TRUST, str(authority.own.certificate)), **settings)


def test_the_checks_of_a_context(authority: Authority) -> None:
    """The certificate and the host name are checked, a common name is no host name, and TLS is 1.2 or 1.3 (S01-S03, S53)."""
    context = make_context(trusting(authority))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.hostname_checks_common_name
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.MAXIMUM_SUPPORTED
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.keylog_filename is None


def test_versions_and_ciphers_of_the_settings(authority: Authority) -> None:
    """Each version can be left out; the ciphers are those of TLS 1.2."""
    newer = make_context(trusting(authority, is_without_1_2=True))
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3
    older = make_context(trusting(authority, is_without_1_3=True, ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"))
    assert older.maximum_version is ssl.TLSVersion.TLSv1_2
    names = [cipher["name"] for cipher in older.get_ciphers()]
    assert [name for name in names if not name.startswith("TLS_")] == ["ECDHE-ECDSA-AES256-GCM-SHA384"]


def test_without_the_check_of_the_host_name(authority: Authority, broker_identity: Issued) -> None:
    """The certificate is still verified (S02)."""
    context = make_context(trusting(authority, checks_host_name=False))
    assert context.verify_mode is ssl.CERT_REQUIRED
    shake_hands(context, broker_identity.context_of_broker(), "elsewhere")


def test_without_a_trust_store_the_system_decides() -> None:
    """The authorities of the system are loaded; none of a test is among them."""
    context = make_context(TlsSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED


def of_pem_text(authority: Authority, client: Issued, folder: Path) -> dict[str, Any]:
    """Texts, with an encrypted key, whose newlines are spaces."""
    key = Secret(client.encrypted_key(PASSWORD.reveal()).replace("\n", " "))
    return {
        "trust": PemText("ssl_truststore_certificates", authority.own.certificate.read_text()),
        "identity": PemIdentity("ssl_keystore_key", key, client.certificate.read_text()),
        "key_password": PASSWORD,
    }


def of_pem_files(authority: Authority, client: Issued, folder: Path) -> dict[str, Any]:
    """Files."""
    path = folder / "store.pem"
    path.write_text(client.pem)
    return {
        "trust": StoreFile(TRUST, str(authority.own.certificate)),
        "identity": StoreFile(KEYS, str(path)),
    }


def of_java_files(authority: Authority, client: Issued, folder: Path) -> dict[str, Any]:
    """Java key stores, with misleading file names."""
    keys, trust = folder / "keys.p12", folder / "trust.pem"
    keys.write_bytes(java_store(PASSWORD.reveal(), keys=(client.der(),)))
    trust.write_bytes(java_store("other", trusted=(authority.own.der()[1],)))
    return {
        "trust": StoreFile(TRUST, str(trust), Secret("other")),
        "identity": StoreFile(KEYS, str(keys), PASSWORD),
    }


def of_pkcs12_files(authority: Authority, client: Issued, folder: Path) -> dict[str, Any]:
    """PKCS #12 stores, with the names that keytool gives them."""
    keys, trust, password = folder / "keys.jks", folder / "trust.jks", f"pass:{PASSWORD.reveal()}"
    export = ("pkcs12", "-export", "-passout", password)
    openssl(*export, "-inkey", client.key, "-in", client.certificate, "-out", keys)
    openssl(*export, "-nokeys", "-in", authority.own.certificate, "-out", trust)
    return {
        "trust": StoreFile(TRUST, str(trust), PASSWORD),
        "identity": StoreFile(KEYS, str(keys), PASSWORD),
    }


@pytest.mark.parametrize("of", [of_pem_text, of_pem_files, of_java_files, of_pkcs12_files])
def test_a_client_with_a_certificate(
    of: Any, authority: Authority, broker_identity: Issued, client_identity: Issued, tmp_path: Path
) -> None:
    """Both sides accept each other, from stores of all kinds; no descriptor is left open."""
    before = descriptors()
    context = make_context(TlsSettings(**of(authority, client_identity, tmp_path)))
    assert descriptors() == before
    seen = shake_hands(context, broker_identity.context_of_broker(authority.own.certificate)).getpeercert()
    assert seen is not None
    assert seen["subject"] == ((("commonName", "alice"),),)


def test_no_key_reaches_a_disk(
    authority: Authority, client_identity: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system has no files in memory, a private file is gone when the call returns (S28)."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delattr(os, "memfd_create")
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def noted(self: ssl.SSLContext, path: str, **options: Any) -> None:
        modes.append(Path(path).stat().st_mode & 0o777)
        load(self, path, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted)
    make_context(TlsSettings(**of_pem_text(authority, client_identity, tmp_path)))
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def failing(settings: TlsSettings, *secrets: str) -> str:
    """The text of the error; no secret is in it, nor in a frame."""
    with pytest.raises(ConfigurationError) as raised:
        make_context(settings)
    assert list(kept(raised.value)) == [raised.value]
    shown = report(raised.value)
    assert [one for one in (PASSWORD.reveal(), "PRIVATE", *secrets) if one in shown] == []
    return str(raised.value)


def test_what_cannot_be_used(
    authority: Authority, broker_identity: Issued, client_identity: Issued, tmp_path: Path
) -> None:
    """The error names the setting, the file and the fault; OpenSSL does not ask for a password (S05)."""
    missing = failing(TlsSettings(trust=StoreFile(TRUST, str(tmp_path / "none"))))
    assert f"{TRUST}={tmp_path / 'none'}: No such file" in missing
    encrypted, certificate = (
        client_identity.encrypted_key(PASSWORD.reveal()),
        client_identity.certificate.read_text(),
    )

    def identity(key: str, chain: str = certificate, password: Secret | None = None) -> str:
        own = PemIdentity("ssl_keystore_key", Secret(key), chain)
        return failing(trusting(authority, identity=own, key_password=password))

    assert "the private key is encrypted: set the password" in identity(encrypted)
    assert "the password may be wrong" in identity(encrypted, password=Secret("other"))
    assert "do not belong together" in identity(
        client_identity.key.read_text(), broker_identity.certificate.read_text()
    )
    assert "a certificate cannot be read" in identity(
        client_identity.key.read_text(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    )


def damaged(text: str) -> list[str]:
    """The text without its end, and with a character that no block may have."""
    return [text.partition("-----END")[0], text.replace("\n-----END", "?\n-----END")]


def test_no_error_keeps_a_damaged_key(authority: Authority, client_identity: Issued, tmp_path: Path) -> None:
    """The reader of the key has it in its frames; no error keeps those (S05)."""
    certificate = client_identity.certificate.read_text()
    for key in damaged(client_identity.key.read_text()):
        content = key.splitlines()[1]
        text = PemIdentity("ssl_keystore_key", Secret(key), certificate)
        path = tmp_path / "damaged.pem"
        path.write_text(key + certificate)
        for identity in (text, StoreFile(KEYS, str(path))):
            assert "a PEM block" in failing(trusting(authority, identity=identity), content)


def test_no_error_keeps_what_a_pkcs12_store_was_read_with(
    authority: Authority, client_identity: Issued, tmp_path: Path
) -> None:
    """Neither the store nor a password; a missing password and a wrong one have words of their own (S05, S17)."""
    found = of_pkcs12_files(authority, client_identity, tmp_path)
    for which, setting in (("identity", KEYS), ("trust", TRUST)):
        path = found[which].path
        for password, why in (
            (None, "set the password"),
            (Secret("other-8"), "is wrong, or the file is damaged"),
        ):
            store = StoreFile(setting, path, password)
            settings = TlsSettings(trust=store) if which == "trust" else trusting(authority, identity=store)
            text = failing(settings, "other-8")
            assert text.startswith(f"{setting}={path}: ")
            assert why in text


def test_no_error_keeps_what_a_java_store_was_read_with(
    authority: Authority, client_identity: Issued, tmp_path: Path
) -> None:
    """Neither the store nor a password, where one of them is wrong (S05)."""
    path = tmp_path / "keys.jks"
    path.write_bytes(java_store(PASSWORD.reveal(), keys=(client_identity.der(),)))
    for password, own in ((Secret("other-8"), None), (PASSWORD, Secret("other-8"))):
        store = StoreFile(KEYS, str(path), password)
        text = failing(trusting(authority, identity=store, key_password=own), "other-8")
        assert "is wrong" in text


def test_no_frame_of_an_error_holds_a_key_that_is_in_the_trust_store(
    client_identity: Issued, tmp_path: Path
) -> None:
    """Some users have one file for everything: its content is in no variable that an error report shows."""
    both = tmp_path / "both.pem"
    both.write_text(
        client_identity.key.read_text() + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    )
    assert f"{TRUST}={both}" in failing(TlsSettings(trust=StoreFile(TRUST, str(both))))


def test_a_certificate_with_characters_that_are_not_ascii(tmp_path: Path) -> None:
    """OpenSSL's function refuses such text: the error names the file, as for any other damage (S48)."""
    odd = tmp_path / "odd.pem"
    odd.write_text("-----BEGIN CERTIFICATE-----\nName: \u00e9\n-----END CERTIFICATE-----\n", encoding="utf-8")
    assert f"{TRUST}={odd}: a PEM block" in failing(TlsSettings(trust=StoreFile(TRUST, str(odd))))


def test_a_password_that_cannot_be_encoded_is_not_shown(authority: Authority, tmp_path: Path) -> None:
    """The error of the codec has a character of the password."""
    identity = authority.issue("surrogate")
    store = tmp_path / "client.pem"
    store.write_text(identity.encrypted_key("canary-7") + identity.certificate.read_text())
    settings = trusting(authority, identity=StoreFile(KEYS, str(store)), key_password=Secret("canary\udc99"))
    with pytest.raises(ConfigurationError, match="cannot be encoded") as raised:
        make_context(settings)
    assert "udc99" not in report(raised.value)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSYS])
def test_a_system_that_refuses_files_in_memory(
    authority: Authority, client_identity: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The key is in a file of the user for a moment (S28)."""

    def refuse(_name: str) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    identity = PemIdentity(
        "ssl_keystore_key", Secret(client_identity.key.read_text()), client_identity.certificate.read_text()
    )
    make_context(trusting(authority, identity=identity))
    assert list(tmp_path.iterdir()) == []


def test_a_key_of_another_kind_than_its_certificate(authority: Authority, tmp_path: Path) -> None:
    """Elliptic curves and RSA."""
    key = tmp_path / "rsa.pem"
    openssl("genrsa", "-out", key, "2048")
    identity = PemIdentity("ssl_keystore_key", Secret(key.read_text()), authority.own.certificate.read_text())
    assert "do not belong together" in failing(trusting(authority, identity=identity))
