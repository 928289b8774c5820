"""A TLS context from the settings; it reads files and takes up to 25 ms, so it is made in a thread."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.stores import pem
from aioproducer.security.stores.reading import LARGEST, Identity, identity_in, pem_identity, trusted_in
from aioproducer.security.tls.settings import PemText, StoreFile

if TYPE_CHECKING:
    from aioproducer.security.tls.settings import PemIdentity, TlsSettings

__all__ = ["make_context", "own_certificates"]

# "NO_CERTIFICATE_ASSIGNED": of keys of another kind than that of the certificate.
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context for the client's side; ConfigurationError names the setting and file that cannot be used."""
    # Not ssl.create_default_context(), which honours SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_name
    context.hostname_checks_common_name = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if settings.is_without_1_2 else ssl.TLSVersion.TLSv1_2
    if settings.is_without_1_3:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    # The same checks on every Python. Java trusts each certificate of its store, also one that is no root; the strict
    # checks, the default from Python 3.13 on, refuse the certificates of many private authorities.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if settings.ciphers:
        context.set_ciphers(settings.ciphers)
    _trust(context, settings)
    if settings.identity is not None:
        _load(settings.identity, partial(_identify, context, settings.identity, settings.key_password))
    return context


def own_certificates(settings: TlsSettings) -> str:
    """The certificates of this client as PEM text; empty where it has none. The same errors as above."""
    source, found = settings.identity, [""]
    if source is not None:
        _load(source, lambda: found.append(_identity(source, settings.key_password).certificates))
    return found[-1]


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    trust = settings.trust
    if trust is None:
        context.load_default_certs()
    else:
        _load(trust, lambda: context.load_verify_locations(cadata=_trusted(trust)))


def _trusted(source: StoreFile | PemText) -> str:
    # No local variable holds the content, which may have a private key as well.
    if isinstance(source, StoreFile):
        return trusted_in(_content(source.path), source.password)
    return trusted_in(source.text.encode(), None)


def _identify(context: ssl.SSLContext, source: StoreFile | PemIdentity, key_password: Secret | None) -> None:
    identity = _identity(source, key_password)
    with path_of(identity.certificates + identity.key.reveal()) as path:
        context.load_cert_chain(path, password=_password(identity.password))


def _identity(source: StoreFile | PemIdentity, key_password: Secret | None) -> Identity:
    if isinstance(source, StoreFile):
        return identity_in(_content(source.path), source.password, key_password)
    blocks = pem.blocks(source.certificates) + pem.blocks(source.key.reveal())
    return pem_identity(blocks, key_password)


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(LARGEST + 1)


def _password(password: Secret | None) -> Callable[[], bytes]:
    """The password of a key for OpenSSL, which would ask at the terminal without a function."""

    def reveal() -> bytes:
        if password is None:
            raise ValueError("the private key is encrypted: set the password")
        return password.reveal().encode()

    return reveal


@contextlib.contextmanager
def path_of(identity: str) -> Iterator[str]:
    """A path that OpenSSL can read a key and its certificates from, in memory: no key is written to a disk (where the system allows it)."""
    descriptor, path = _anonymous_file()
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # of a descriptor
            file.write(identity.encode())
            file.flush()
            yield path
    finally:
        if not path.startswith("/proc/"):
            Path(path).unlink()


def _anonymous_file() -> tuple[int, str]:
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        # The system may refuse it (vm.memfd_noexec, seccomp).
        with contextlib.suppress(OSError):
            descriptor = os.memfd_create("aioproducer")
            return descriptor, f"/proc/self/fd/{descriptor}"
    return tempfile.mkstemp()  # only this user may read it


def _load(source: StoreFile | PemText | PemIdentity, load: Callable[[], None]) -> None:
    """Load this source; an error names the setting and the file."""
    try:
        load()
    except ssl.SSLError as error:  # before OSError and ValueError, which it is
        why = _openssl_says(error)
    except OSError as error:
        why = error.strerror or type(error).__name__
    except UnicodeEncodeError:  # its text would show a part of a password
        why = "it, or its password, has a character that cannot be encoded"
    except ValueError as error:
        why = str(error)
    else:
        return
    # Outside of the handlers: as the context of this error, the former one would keep frames that hold keys.
    place = f"{source.setting}={source.path}" if isinstance(source, StoreFile) else source.setting
    raise ConfigurationError(f"{place}: {why}")


def _openssl_says(error: ssl.SSLError) -> str:
    if error.reason in _MISMATCHES:
        return "the private key and the certificate do not belong together"
    reason = getattr(error, "reason", None)  # None for some faults, which typeshed does not know
    if reason is None or "DECRYPT" in reason or "PASSWORD" in reason:
        return "the private key or a certificate cannot be read; the password may be wrong"
    return f"OpenSSL cannot use it: {error.reason}"
