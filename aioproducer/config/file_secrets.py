"""Secrets of properties that are references to files: a configuration can read them at each authentication.

A producer that lives for long then goes on when a file has another password. What providers other than those of files gave is
kept: a call of them may be expensive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, final

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
from aioproducer.config.security.kinds import SecretText
from aioproducer.secret import Secret

if TYPE_CHECKING:
    from aioproducer.config.producer import ProducerConfig
    from aioproducer.config.signature import Changes

__all__ = ["FileReference", "reading_files_again"]

_JAAS = "sasl.jaas.config"
# Without a private key: its certificates are a text that is kept, and both belong together.
_READ_AGAIN = [
    row
    for row in SETTINGS.values()
    if isinstance(row.own_kind, SecretText) and row.name != "ssl_keystore_key"
]


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
        row.name: _source(written.get(row.dotted, "").strip(BLANKS), providers, is_trimmed=True)
        for row in _READ_AGAIN
        if row.name in config.given
    }
    found = {name: source for name, source in found.items() if source is not None}
    if found:
        config = config.evolve(**cast("Changes", found))
    if config.sasl_jaas_config is None or config.sasl_mechanism not in PASSWORD_MECHANISMS:
        return config
    password = _source(_password_of_jaas(written.get(_JAAS, "")), providers, is_trimmed=False)
    return config if password is None else with_credentials(config, {"sasl_password": password})


def _source(text: str, providers: Mapping[str, ConfigProvider], *, is_trimmed: bool) -> FileReference | None:
    name, path, key = sole_reference(text) or ("", "", "")
    provider = providers.get(name)
    if not isinstance(provider, FileProvider | DirectoryProvider):
        return None
    return FileReference(provider, path, key, is_trimmed)


def _password_of_jaas(text: str) -> str:
    try:
        return jaas_options(Secret(text)).get("password", "")
    except ValueError:
        # With its references it is no JAAS string: they stand for more than an option.
        return ""
