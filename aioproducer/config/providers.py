"""References in properties, `${provider:path:key}`, and the providers that replace them with values from elsewhere.

A file of properties cannot choose a provider: the caller passes them, each with the places that it may read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, final

import attrs

from aioproducer.config.java_properties import CUT, parse_properties
from aioproducer.errors import ConfigurationError, printable
from aioproducer.secret import shown_fields

__all__ = [
    "BLANKS",
    "KAFKAS",
    "ConfigProvider",
    "DirectoryProvider",
    "EnvProvider",
    "FileProvider",
    "UnresolvedError",
    "checked_providers",
    "replaced",
    "sole_reference",
]

# As Kafka's ConfigTransformer.
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_LARGEST: Final = 1024 * 1024
# As String.trim() of Java.
BLANKS: Final = "".join(map(chr, range(0x21)))
KAFKAS: Final = ("file", "dir", "directory", "env", "secretManager", "secretsmanager", "vault")
"""The names that Kafka's documentation and common providers give to providers."""


class ConfigProvider(Protocol):
    """Replaces references of one name."""

    def get(self, path: str, key: str, /) -> str:
        """The value that `${name:path:key}` stands for; `path` is empty in `${name:key}`."""


class UnresolvedError(ValueError):
    """A reference that has no value. The text names no value."""


def _folders(paths: Any) -> tuple[str, ...]:
    found = (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)
    folders = tuple(os.fsdecode(path) for path in found)
    if not folders or not all(Path(folder).is_absolute() for folder in folders):
        raise ConfigurationError(
            "a provider of files takes the absolute paths of the folders that it may read"
        )
    return folders


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, TypeError):
        raise ConfigurationError("EnvProvider takes a regular expression, such as 'KAFKA_.*'") from None


@final
@attrs.frozen
class FileProvider:
    """A property of another properties file: `${file:/run/secrets/kafka.properties:password}`.

    Only files below the allowed folders are read. Links are followed first.
    """

    allowed: tuple[str, ...] = attrs.field(converter=_folders)

    def __repr__(self) -> str:
        return shown_fields(self, "allowed")

    def get(self, path: str, key: str, /) -> str:
        """The property `key` of the file."""
        # No local variable holds the other properties.
        try:
            line = parse_properties(_text(_allowed(path, self.allowed)))[key]
            if not line.is_cut:
                return line.value
            why = f"{printable(path)}: {printable(key)}: {CUT}"
        except KeyError:
            why = f"{printable(path)} has no property {printable(key)}"
        except UnresolvedError:
            raise
        except ValueError as error:
            why = f"{printable(path)}: {error}"
        raise UnresolvedError(why)


@final
@attrs.frozen
class DirectoryProvider:
    """The content of a file in a folder, such as a mounted secret: `${dir:/run/secrets/kafka:password}`.

    Only files below the allowed folders are read. Links are followed first. A line end at the end is left out.
    """

    allowed: tuple[str, ...] = attrs.field(converter=_folders)

    def __repr__(self) -> str:
        return shown_fields(self, "allowed")

    def get(self, path: str, key: str, /) -> str:
        """The content of the file `key` in the folder `path`."""
        if key in {"", ".", ".."} or Path(key).name != key:
            raise UnresolvedError(f"{printable(key)} is no name of a file")
        return _text(_allowed(f"{path}/{key}", self.allowed)).removesuffix("\n").removesuffix("\r")


@final
@attrs.frozen
class EnvProvider:
    """An environment variable whose whole name matches this regular expression: `${env:KAFKA_PASSWORD}`."""

    pattern: re.Pattern[str] = attrs.field(converter=_pattern)

    def __repr__(self) -> str:
        return shown_fields(self, "pattern")

    def get(self, path: str, key: str, /) -> str:
        """The variable `key`."""
        if path:
            raise UnresolvedError("an environment variable has no path: write ${name:VARIABLE}")
        if not self.pattern.fullmatch(key):
            raise UnresolvedError(f"the variable {printable(key)} is not allowed by the provider")
        if key not in os.environ:
            raise UnresolvedError(f"the environment variable {printable(key)} is not set")
        return os.environ[key]


def _allowed(path: str, folders: Iterable[str]) -> Path:
    """The file that a path leads to, if it is below one of these folders."""
    try:
        found = Path(path).resolve(strict=True) if Path(path).is_absolute() else None
        is_below = found is not None and any(
            found.is_relative_to(Path(folder).resolve()) for folder in folders
        )
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # ValueError: a null byte in it; RuntimeError: a loop of links
        found, is_below = None, any(Path(path).is_relative_to(folder) for folder in folders)
    if not is_below:
        raise UnresolvedError(f"{printable(path)} is not below a folder that the provider allows")
    if found is None or not found.is_file():
        raise UnresolvedError(f"{printable(path)} is no file that can be read")
    return found


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.read(_LARGEST)
    except OSError as error:
        why = error.strerror or type(error).__name__
    except ValueError:
        why = "it is not UTF-8 text"
    raise UnresolvedError(f"{printable(str(path))}: {why}")


def checked_providers(providers: object) -> Mapping[str, ConfigProvider]:
    """The providers that were passed; ConfigurationError if they are none."""
    if providers is None:
        return {}
    if not isinstance(providers, Mapping) or not all(
        isinstance(name, str) and not isinstance(provider, type) and callable(getattr(provider, "get", None))
        for name, provider in providers.items()
    ):
        # No frame of a traceback keeps the objects of the user.
        del providers
        raise ConfigurationError(
            "providers: must be a mapping of names to providers: {'file': FileProvider([…])}"
        )
    return providers


def replaced(text: str, providers: Mapping[str, ConfigProvider]) -> str:
    """The text with the values that its references stand for. They are not searched for references again."""
    return _REFERENCE.sub(lambda match: _value(match[1], match[2] or "", match[3], providers), text)


def sole_reference(text: str) -> tuple[str, str, str] | None:
    """The name of the provider, the path and the key of a text that is one reference, and nothing else."""
    match = _REFERENCE.fullmatch(text)
    return None if match is None else (match[1], match[2] or "", match[3])


def _value(name: str, path: str, key: str, providers: Mapping[str, ConfigProvider]) -> str:
    try:
        provider = providers[name]
    except KeyError:
        # A name that is none of Kafka's may be a part of a password.
        shown = name if name in KAFKAS else "…"
        raise UnresolvedError(
            f"${{{shown}:…}} is replaced only by a provider that the application passes: "
            f"from_properties(…, providers={{'{shown}': …}})"
        ) from None
    try:
        value: object = provider.get(path, key)
    except UnresolvedError:
        raise
    except Exception as error:  # noqa: BLE001  # of an object of the user: its text may have a secret
        why = f"raised {type(error).__name__}"
    else:
        if isinstance(value, str):
            return value
        why = f"gave {type(value).__name__} in place of str"
    raise UnresolvedError(f"the provider {printable(name)!r} {why}")
