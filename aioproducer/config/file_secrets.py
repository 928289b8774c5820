"""Secrets of properties that are references to files: a configuration can read them at each authentication.

A producer that lives for long then goes on when a file has another password. What providers other than those of files gave is
kept: a call of them may be expensive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs

from aioproducer.config.credentials import with_credentials
from aioproducer.config.producer import SETTINGS
from aioproducer.config.providers import (
    BLANKS,
    ConfigProvider,
    DirectoryProvider,
    FileProvider,
    sole_reference,
)
from aioproducer.config.security.conflicts import PASSWORD_MECHANISMS, jaas_options
from aioproducer.secret import Secret

if TYPE_CHECKING:
    from aioproducer.config.producer import ProducerConfig
    from aioproducer.config.signature import Changes

__all__ = ["FileReference", "reading_files_again"]

_JAAS = "sasl.jaas.config"
# Secrets, and the settings that belong to them: a new secret does not fit a user, a key or certificates that are read once.
_READ_AGAIN: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl_truststore_password": (),
    "ssl_keystore_password": (),
    "ssl_key_password": ("ssl_keystore_key",),
    "sasl_password": ("sasl_username",),
    "sasl_oauthbearer_client_credentials_client_secret": ("sasl_oauthbearer_client_credentials_client_id",),
    "sasl_oauthbearer_assertion_private_key_passphrase": (),
}


@final
@attrs.frozen
class FileReference:
    """A reference to a secret in a file, which is read at each call."""

    provider: FileProvider | DirectoryProvider
    path: str
    key: str
    # As Java does with the value of a property, and with no option of a JAAS string.
    is_trimmed: bool

    def __call__(self) -> str:
        found = self.provider.get(self.path, self.key)
        return found.strip(BLANKS) if self.is_trimmed else found


def reading_files_again(
    config: ProducerConfig, written: Mapping[str, str], providers: Mapping[str, ConfigProvider]
) -> ProducerConfig:
    """The configuration of these properties; a secret whose whole text is a reference to a file is read there again."""
    found: dict[str, Any] = {
        name: _source(_written(name, written).strip(BLANKS), providers, is_trimmed=True)
        for name, others in _READ_AGAIN.items()
        if name in config.given
        and not any(_refers_to_a_file(_written(other, written), providers) for other in others)
    }
    found = {name: source for name, source in found.items() if source is not None}
    if found:
        config = config.evolve(**cast("Changes", found))
    if config.sasl_jaas_config is None or config.sasl_mechanism not in PASSWORD_MECHANISMS:
        return config
    options = _options_of_jaas(written.get(_JAAS, ""))
    password = _source(options.get("password", ""), providers, is_trimmed=False)
    if password is None or _refers_to_a_file(options.get("username", ""), providers):
        return config
    return with_credentials(config, {"sasl_password": password})


def _written(name: str, written: Mapping[str, str]) -> str:
    return written.get(SETTINGS[name].dotted, "")


def _source(text: str, providers: Mapping[str, ConfigProvider], *, is_trimmed: bool) -> FileReference | None:
    name, path, key = sole_reference(text) or ("", "", "")
    provider = providers.get(name)
    if not isinstance(provider, FileProvider | DirectoryProvider):
        return None
    return FileReference(provider, path, key, is_trimmed)


def _refers_to_a_file(text: str, providers: Mapping[str, ConfigProvider]) -> bool:
    return any(
        f"${{{name}:" in text
        for name, provider in providers.items()
        if isinstance(provider, FileProvider | DirectoryProvider)
    )


def _options_of_jaas(text: str) -> Mapping[str, str]:
    try:
        return jaas_options(Secret(text))
    except ValueError:
        # With its references it is no JAAS string: they stand for more than an option.
        return {}
