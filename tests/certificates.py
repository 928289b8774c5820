"""Certificates for tests, made by the command `openssl` when they are needed."""

from __future__ import annotations

import itertools
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments: str | Path) -> None:
    """Run openssl."""
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@attrs.frozen
class Issued:
    """A certificate and its private key."""

    certificate: Path
    key: Path

    def context_of_broker(self, clients_of: Path | None = None) -> ssl.SSLContext:
        """The context of a broker; with `clients_of`, clients need a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if clients_of is not None:
            context.load_verify_locations(clients_of)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @property
    def pem(self) -> str:
        """The key and the certificate as one text."""
        return self.key.read_text() + self.certificate.read_text()

    def encrypted_key(self, password: str) -> str:
        """The key, encrypted."""
        path = self.key.with_suffix(".encrypted")
        openssl("pkcs8", "-topk8", "-in", self.key, "-out", path, "-passout", f"pass:{password}")
        return path.read_text()

    def der(self) -> tuple[bytes, bytes]:
        """The key (PKCS #8) and the certificate in DER."""
        key, certificate = self.key.with_suffix(".der"), self.certificate.with_suffix(".crt")
        openssl("pkcs8", "-topk8", "-nocrypt", "-in", self.key, "-outform", "DER", "-out", key)
        openssl("x509", "-in", self.certificate, "-outform", "DER", "-out", certificate)
        return key.read_bytes(), certificate.read_bytes()


@attrs.frozen
class Authority:
    """An authority with a folder for its certificates."""

    folder: Path
    own: Issued
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """Create an authority."""
        folder.mkdir(parents=True, exist_ok=True)
        own = Issued(folder / "ca.pem", folder / "ca.key")
        openssl(
            "req",
            "-x509",
            *_EC,
            "-keyout",
            own.key,
            "-out",
            own.certificate,
            "-days",
            "9",
            "-subj",
            "/CN=authority",
        )
        return cls(folder, own)

    def issue(self, name: str, *extensions: str, subject: str = "/CN=test", days: int = 9) -> Issued:
        """A certificate, for localhost unless there are other extensions."""
        # Tests share an authority: the same name again is another certificate.
        stem = self.folder / f"{name}-{next(self._numbers)}"
        made = Issued(stem.with_suffix(".pem"), stem.with_suffix(".key"))
        request, settings = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        settings.write_text("\n".join(extensions or ("subjectAltName=DNS:localhost,IP:127.0.0.1",)))
        openssl("req", "-new", *_EC, "-keyout", made.key, "-out", request, "-subj", subject)
        openssl(
            "x509", "-req", "-in", request, "-CA", self.own.certificate, "-CAkey", self.own.key, "-CAcreateserial",
            "-extfile", settings, "-days", str(days), "-out", made.certificate,
        )  # fmt: skip
        return made
